"""Is a jump host that accepts and says nothing named, and a silent node behind a good one not taken for it?"""

from __future__ import annotations

import socket
import subprocess

import pytest

from preflight.reach.hosts import parse_hosts
from preflight.reach.transport import Reach
from preflight.reach.transport.ssh import Ssh
from preflight.run.jumps import explained

SILENT = "sshd accepts but does not answer (ssh: banner exchange); restart sshd on "
HOSTS = parse_hosts("node[1-3]")


def ask_of(*behind):
    """An ssh in whose configuration these nodes are behind a gate."""
    return lambda words: "proxyjump me@gate:22\n" if words[-1] in behind else "proxyjump none\n"


def test_a_silent_jump_host_is_named_for_all_nodes_behind_it():
    """In the same words of each, so that it is one finding."""
    lost = {host.name: f"{SILENT}{host.name}" for host in HOSTS[:2]} | {"node3": "login refused"}
    told = explained(HOSTS, lost, Reach(), ask_of("node1", "node2"))
    assert told["node1"] == told["node2"]
    assert told["node1"].startswith("the jump host me@gate:22: sshd accepts but does not answer")
    assert told["node3"] == "login refused"


@pytest.mark.parametrize(
    ("lost", "behind"),
    [
        (("node1",), ("node1",)),  # one alone may be silent itself
        (("node1", "node2"), ("node1", "node2", "node3")),  # the third answered through the same gate
        (("node1", "node2"), ()),
    ],
)
def test_a_silent_node_is_the_nodes_own(lost, behind):
    """Where nothing shows that it is the way to it."""
    failures = {name: f"{SILENT}{name}" for name in lost}
    assert explained(HOSTS, failures, Reach(), ask_of(*behind)) == failures


@pytest.mark.process
def test_the_real_ssh_waits_for_the_banner_and_tells_its_jump_host():
    """A socket that accepts and says nothing, for two nodes behind it."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        jump = f"127.0.0.1:{silent.getsockname()[1]}"
        reach = Reach(ssh_options=("-F/dev/null", f"-J{jump}"), connect_seconds=1)
        argv = Ssh().argv(HOSTS[0], reach)
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=False)
        reason = Ssh().explain("node1", done.returncode, done.stderr)
        told = explained(HOSTS, {host.name: reason for host in HOSTS}, reach)
    assert {text.partition("]:")[0] + "]" for text in told.values()} == {"the jump host [127.0.0.1]"}
