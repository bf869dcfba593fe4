"""Does the command for a name write what the peers use, and nothing else?"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from preflight.testing import healthy
from tests.checks.samples import debian_name, looks_up, resolves
from tests.judge.commands.typed import as_root, typed


def written(command: str, file: Path, text: str) -> str:
    """What a file holds after the command, which changes nothing more when it is typed again."""
    file.write_text(text)
    for _ in range(2):
        subprocess.run(["sh", "-c", command.replace("/etc/hosts", str(file))], check=True)
        once, text = text, file.read_text()
    assert once == text
    return text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "127.0.0.1\tlocalhost\n127.0.1.1\tnode3.lan node3\n# 127.0.1.1 was here\n10.0.0.1 node1\n",
            "10.0.0.3 node3.lan node3\n127.0.0.1\tlocalhost\n# 127.0.1.1 was here\n10.0.0.1 node1\n",
        ),
        ("127.0.0.1 localhost node3\n", "10.0.0.3 node3.lan node3\n127.0.0.1 localhost\n"),
        ("127.0.1.1 NODE3 node3 node3-ib node3x\n", "10.0.0.3 node3.lan node3\n127.0.1.1 node3-ib node3x\n"),
        ("# of node3\n10.0.0.3 node3\n", "10.0.0.3 node3.lan node3\n# of node3\n"),
    ],
)
def test_the_own_names_lead_to_the_address_of_the_peers_and_nowhere_else(tmp_path, before, after):
    """Whatever line has them; what else stands there, and comments, stay."""
    run = debian_name(as_root(healthy()), "node3").broken("node3", "identity", fqdn="node3.lan")
    (command,) = typed(run, "names.own_hostname_is_not_loopback").values()
    assert written(command, tmp_path / "hosts", before) == after


def test_a_second_address_of_a_peer_is_taken_out(tmp_path):
    """Added above it, a right line would leave both, in an order that the resolver chooses."""
    run = resolves(as_root(healthy()), "node3", "node1", "10.0.0.2", "10.0.0.1")
    (command,) = typed(run, "names.peers_are_taken_for_themselves").values()
    before = "10.0.0.1 node1\n10.0.0.2 node1\n10.0.0.2 node2\n"
    assert written(command, tmp_path / "hosts", before) == "10.0.0.1 node1\n10.0.0.2 node2\n"


@pytest.mark.parametrize("name", ["node3$(reboot)", "localhost", "node3' x"])
def test_a_name_that_is_none_gives_no_command(name):
    """It is no word for a line of /etc/hosts, and none for sed."""
    run = debian_name(as_root(healthy()), "node3").broken("node3", "identity", hostname=name)
    assert "node3" not in typed(run, "names.own_hostname_is_not_loopback")


def test_nodes_that_share_a_hostname_get_the_names_of_hosts():
    """The names by which they were reached; an address is none."""
    run = as_root(healthy()).broken(["node2", "node3"], "identity", hostname="debian")
    assert typed(run, "names.hostnames_are_unique") == {
        "node2": "hostnamectl set-hostname node2",
        "node3": "hostnamectl set-hostname node3",
    }


def test_peers_that_cannot_be_resolved_get_a_line_each(tmp_path):
    """With the address that the job uses."""
    run = resolves(resolves(as_root(healthy()), "node1", "node2"), "node1", "node3")
    (command,) = typed(run, "names.peers_can_be_resolved").values()
    assert written(command, tmp_path / "hosts", "::1 ip6-localhost\n") == (
        "10.0.0.2 node2\n10.0.0.3 node3\n::1 ip6-localhost\n"
    )


def test_an_address_as_a_store_sees_it_gets_a_line_under_a_name_of_its_own(tmp_path):
    """Behind that of the peer, for the resolver takes the first line that fits either form."""
    run = looks_up(as_root(healthy()), "node1", "node2", accepted_seconds=5.0)
    (command,) = typed(run, "names.look_ups_are_fast").values()
    assert written(command, tmp_path / "hosts", "127.0.0.1 localhost\n10.0.0.2 node2\n") == (
        "10.0.0.2 node2\n127.0.0.1 localhost\n::ffff:10.0.0.2 node2-mapped\n"
    )
