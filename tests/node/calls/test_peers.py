"""Tests of preflight.node.calls.peers."""

import json
import os
import socket
import subprocess
import sys

import msgspec
import pytest

from preflight.facts.subjects.peers import Peers
from preflight.facts.value import Missing
from preflight.node.agent import netlink
from preflight.node.calls import peers

LISTENER = """
import socket, sys
with socket.create_server(("0.0.0.0", 0)) as server:
    print(server.getsockname()[1], flush=True)
    sys.stdin.read()
"""


def peer(**changes):
    return {"name": "node2", "address": "127.0.0.1", "hostname": "127.0.0.1", "fqdn": "127.0.0.1", **changes}


def run(*others, master="", bind=None):
    facts = peers.run({"peers": list(others), "master_address": master, "bind": bind})
    return msgspec.convert(facts, type=Peers, strict=True)


def test_a_route_names_the_interface_and_the_source():
    """The kernel says where packets to a peer leave; its names are resolved here."""
    (route,) = run(peer()).routes
    assert (route.interface, route.source) == ("lo", "127.0.0.1")
    assert route.resolved == route.resolved_fqdn == ("127.0.0.1",)


def test_a_route_tells_the_size_of_its_packets_and_what_keeps_them():
    """An MTU of loopback; an address that the kernel has refused is no missing interface alone."""
    sized, refused = run(peer(), peer(address="240.0.0.1")).routes
    with open("/sys/class/net/lo/mtu", encoding="ascii") as file:
        assert sized.mtu in (int(file.read()), 65535)
    assert (sized.refused, refused.refused) in (("", word) for word in ("", *netlink.NO_ROUTE.values()))


def test_the_card_of_a_neighbour_is_read(tmp_path):
    """Entries without an answer are none; one of InfiniBand is as long as the kernel shows it."""
    table = tmp_path / "arp"
    table.write_text(
        "IP address       HW type     Flags       HW address            Mask     Device\n"
        "10.0.0.2         0x1         0x2         02:00:00:00:00:AA     *        eno1\n"
        "10.0.0.2         0x1         0x2         02:00:00:00:00:CC     *        docker0\n"
        "10.0.0.3         0x1         0x6         02:00:00:00:00:bb     *        eno1\n"
        "10.0.0.4         0x1         0x0         00:00:00:00:00:00     *        eno1\n"
    )
    assert peers.neighbours(str(table)) == {
        "10.0.0.2 docker0": {"card": "02:00:00:00:00:cc", "is_written": False},
        "10.0.0.2 eno1": {"card": "02:00:00:00:00:aa", "is_written": False},
        "10.0.0.3 eno1": {"card": "02:00:00:00:00:bb", "is_written": True},
    }
    assert peers.neighbours(str(tmp_path / "none")) == {}


def test_ipv6_peers_have_routes_too():
    """An IPv6 address is routed as such."""
    if not os.path.exists("/proc/net/if_inet6"):
        pytest.skip("this machine has no IPv6")
    (route,) = run(peer(address="::1")).routes
    assert (route.interface, route.source) == ("lo", "::1")


def test_a_peer_that_cannot_be_reached_is_a_missing_route():
    """An address that is none, and names that do not resolve, are told for this peer only."""
    first, second = run(peer(address="not an address", hostname="no such.invalid", fqdn=""), peer()).routes
    assert isinstance(first.interface, Missing)
    assert "no route to not an address" in first.interface.missing
    assert first.resolved == first.resolved_fqdn == ()
    assert second.interface == "lo"


IN_A_NETWORK_OF_ITS_OWN = """
import json, subprocess, sys
from preflight.node.calls import peers
for line in sys.argv[1].split(";"):
    subprocess.run(["ip", *line.split()], check=True)
asked = [{"name": "node2", "address": "10.0.0.2", "hostname": "", "fqdn": ""}]
print(json.dumps(peers.run({"peers": asked, "master_address": "", "bind": None})["routes"][0]["interface"]))
"""
TWO_LINKS = "".join(f"link add eth{n} type veth peer name far{n};link set far{n} up;" for n in (0, 1))
TWO_LINKS += "addr add {} dev eth0;link set eth0 up;link set eth1 up;"


@pytest.mark.parametrize(
    ("address", "route", "interface"),
    [
        ("10.0.0.3/24", "", "eth0"),
        ("10.0.0.3/24", "route add 10.0.0.2/32 dev eth1 src 10.0.0.3", "eth1"),
        ("10.0.0.3/32", "route add 10.0.0.2/32 dev eth1 src 10.0.0.3", "eth0"),  # of the node, whatever leads to it
        ("10.0.0.3/24", "route add unreachable 10.0.0.2/32", "absent"),
        ("10.0.0.3/24", "route add blackhole 10.0.0.2/32", "absent"),
        ("10.9.0.3/24", "", "absent"),
    ],
)
def test_the_interface_is_the_one_that_packets_leave_by(address, route, interface):
    """Which the source address alone does not tell; that there is no route is known, too."""
    script = (TWO_LINKS.format(address) + route).rstrip(";")
    argv = ["unshare", "--net", "--map-root-user", sys.executable, "-c", IN_A_NETWORK_OF_ITS_OWN, script]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        pytest.skip(f"no network namespace here: {done.stderr.strip()[-200:]}")
    found = json.loads(done.stdout)
    assert (found if isinstance(found, str) else found["kind"]) == interface


def test_an_unset_master_address_is_absent():
    """Without MASTER_ADDR there is nothing to resolve; with one every address is told."""
    assert run().master_addresses == Missing("MASTER_ADDR is not set", "absent")
    assert run(master="127.0.0.1").master_addresses == ("127.0.0.1",)


def test_a_resolver_that_fails_is_not_a_name_unknown():
    """A resolver out of order is a missing fact; a name it does not know is an empty answer."""
    broken = {"head": OSError("the resolver gave no answer within 5 s"), "other": []}
    assert peers.master_addresses("head", broken)["kind"] == "failed"
    assert peers.master_addresses("other", broken) == []


def test_a_free_port_binds_and_is_let_go():
    """The test of a port leaves it free."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    for _ in range(2):
        facts = run(bind={"address": "127.0.0.1", "port": port})
        assert (facts.master_port_error, facts.master_port_holder) == ("", "")


def test_the_holder_of_a_taken_port_is_named():
    """A port that another program listens on gives the error and that program with its pid."""
    command = [sys.executable, "-c", LISTENER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        port = int(process.stdout.readline())
        facts = run(bind={"address": "127.0.0.1", "port": port})
        process.stdin.close()
    assert facts.master_port_error == "Address already in use"
    assert facts.master_port_holder.endswith(f"(pid {process.pid})")


def test_a_port_taken_on_one_address_is_taken():
    """The store of torch listens on every address, so a listener on loopback alone is in its way."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        facts = run(bind={"address": "127.0.0.1", "port": server.getsockname()[1]})
    assert facts.master_port_error == "Address already in use"


def test_the_way_back_from_an_address_to_its_name_is_timed():
    """As c10d asks at every connection: the name, what it leads to, and how long the resolver took."""
    (route,) = run(peer()).routes
    assert isinstance(route.reverse, str)
    assert "127.0.0.1" in route.reverse_addresses
    assert 0 <= route.reverse_seconds < 5


def test_where_rank_0_runs_an_address_is_asked_for_as_its_store_sees_it():
    """In the form of IPv6; of no other node, and of no address that is one of IPv6 already."""
    asked = {"peers": [peer(), peer(name="six", address="::1")], "master_address": "", "bind": None}
    first, six = peers.run({**asked, "accepts": True})["routes"]
    assert isinstance(first["accepted_seconds"], float) is peers.has_ipv6()
    assert "accepted_seconds" not in six
    assert [route for route in peers.run({**asked, "accepts": False})["routes"] if "accepted_seconds" in route] == []


def test_a_resolver_that_says_nothing_of_such_an_address_has_taken_the_whole_limit():
    """A refusal of another kind took no time that could be told."""
    assert peers.accepted(TimeoutError("the resolver gave no answer within 5 s")) == {"accepted_seconds": 5.0}
    assert peers.accepted(OSError(5, "Input/output error"))["accepted_seconds"]["kind"] == "failed"
    assert peers.accepted(None) == {}


def test_an_address_without_a_name_is_absent_and_a_silent_resolver_has_failed():
    """Silence takes the whole limit; a refusal takes no time that could be told."""
    assert peers.reverse(("", [], 0.01))["reverse"]["kind"] == "absent"
    silent = peers.reverse(TimeoutError("the resolver gave no answer within 5 s"))
    assert (silent["reverse"]["kind"], silent["reverse_seconds"]) == ("failed", 5.0)
    assert peers.reverse(OSError(-3, "Temporary failure"))["reverse_seconds"]["kind"] == "failed"


def test_a_large_cluster_is_asked_for_a_few_names():
    """The first peers, rank 0's node among them: a thousand nodes must not ask a thousand times each."""
    others = [peer(name=f"node{number}", address=f"127.0.0.{number}") for number in range(1, 13)]
    asked = [route.name for route in run(*others).routes if route.reverse != Missing("not asked", "absent")]
    assert asked == [f"node{number}" for number in range(1, 9)]
