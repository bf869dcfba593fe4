"""Does the command for a name write what the peers use, and nothing else?"""

from __future__ import annotations

import subprocess

import pytest

from preflight.testing import healthy
from tests.checks.samples import debian_name, resolves
from tests.judge.commands.typed import as_root, typed

DEBIAN = "127.0.0.1\tlocalhost\n127.0.1.1\tnode3.lan node3\n# 127.0.1.1 was here\n10.0.0.1 node1\n"


def test_the_own_line_of_hosts_gets_the_address_of_the_peers(tmp_path):
    """The command is run on a file as Debian's installer leaves it."""
    (command,) = typed(debian_name(as_root(healthy()), "node3"), "names.own_hostname_is_not_loopback").values()
    file = tmp_path / "hosts"
    file.write_text(DEBIAN)
    subprocess.run(["sh", "-c", command.replace("/etc/hosts", str(file))], check=True)
    assert file.read_text() == DEBIAN.replace("127.0.1.1\tnode3.lan", "10.0.0.3\tnode3.lan")


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
    file = tmp_path / "hosts"
    subprocess.run(["sh", "-c", command.replace("/etc/hosts", str(file))], check=True)
    assert file.read_text() == "10.0.0.2 node2\n10.0.0.3 node3\n"
