"""Tests of preflight.node.agent.netlink."""

import errno
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from preflight.node.agent import netlink

ROOT = Path(__file__).resolve().parents[3]
V4, V6 = socket.AF_INET, socket.AF_INET6


def attribute(kind, value):
    data = struct.pack("=HH", 4 + len(value), kind) + value
    return data + b"\0" * (-len(data) % 4)


def number(kind, value):
    return attribute(kind, struct.pack("=I", value))


def route(*attributes, family=V4, length=0, table=netlink.RT_TABLE_MAIN, kind=netlink.RTN_UNICAST, flags=0):
    return struct.pack("=BBBBBBBBI", family, length, 0, 0, table, 0, 0, kind, flags) + b"".join(attributes)


def gateway(text, index, metric=0, **header):
    family = header.get("family", V4)
    packed = attribute(netlink.RTA_GATEWAY, socket.inet_pton(family, text))
    return route(packed, number(netlink.RTA_OIF, index), number(netlink.RTA_PRIORITY, metric), **header)


def hop(text, index):
    inner = attribute(netlink.RTA_GATEWAY, socket.inet_aton(text))
    return struct.pack("=HBBi", 8 + len(inner), 0, 0, index) + inner


def test_the_gateway_with_the_lowest_metric_comes_first():
    """The preferred default route is the first, whatever the order of the dump."""
    bodies = [gateway("10.0.0.1", 2, metric=200), gateway("10.1.0.1", 3, metric=100)]
    assert netlink.pick_gateways(bodies, family=V4) == [(3, "10.1.0.1"), (2, "10.0.0.1")]


def test_only_default_routes_of_the_main_table_count():
    """Policy tables, networks, blackholes, cached routes and the other family are no default gateways."""
    bodies = [
        gateway("10.0.0.1", 2, table=77),
        gateway("10.0.0.2", 2, length=24),
        gateway("10.0.0.3", 2, kind=6),
        gateway("10.0.0.4", 2, flags=netlink.RTM_F_CLONED),
        gateway("fd00::1", 2, family=V6),
        route(number(netlink.RTA_OIF, 2)),
    ]
    assert netlink.pick_gateways(bodies, family=V4) == []
    assert netlink.pick_gateways(bodies, family=V6) == [(2, "fd00::1")]


def test_the_hops_of_a_multipath_route_count_if_nothing_else_does():
    """A default route over several links gives each of its gateways; a plain one beside it wins."""
    several = route(attribute(netlink.RTA_MULTIPATH, hop("10.0.0.1", 2) + hop("10.1.0.1", 3)))
    assert netlink.pick_gateways([several], family=V4) == [(2, "10.0.0.1"), (3, "10.1.0.1")]
    plain = gateway("10.2.0.1", 4, metric=9)
    assert netlink.pick_gateways([several, plain], family=V4) == [(4, "10.2.0.1")]


def test_a_gateway_of_the_other_family_is_told():
    """IPv4 over an IPv6 next hop, as routed fabrics have it, is a default gateway too."""
    via = attribute(netlink.RTA_VIA, struct.pack("=H", V6) + socket.inet_pton(V6, "fe80::1"))
    assert netlink.pick_gateways([route(via, number(netlink.RTA_OIF, 2))], family=V4) == [(2, "fe80::1")]


def test_a_broken_attribute_ends_the_chain():
    """A length that cannot be does not loop for ever."""
    assert list(netlink.attributes(number(4, 7) + struct.pack("=HH", 0, 5))) == [(4, struct.pack("=I", 7))]
    assert list(netlink.hops(b"\0" * 16, family=V4)) == []


def test_loopback_is_among_the_addresses():
    """The dump of the machine at hand has 127.0.0.1/8 on interface 1."""
    assert (1, "inet", "127.0.0.1", 8) in netlink.addresses()


QUEUES = """
import socket, sys
sys.path.insert(0, sys.argv[1])
from preflight.node.agent import netlink
with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, netlink.NETLINK_ROUTE) as kernel:
    print(netlink.queue_of(kernel, 1), repr(netlink.queue_of(kernel, 4711)))
"""
WAYS = """
import sys
sys.path.insert(0, sys.argv[1])
from preflight.node.agent import netlink
print(netlink.way_to("10.1.0.9"), netlink.way_to("10.1.0.8")[1] == "", netlink.way_to("fd01::9")[1])
print(netlink.way_to("10.1.0.8", source="10.1.0.3")[1], netlink.way_to("fd01::8", source="fd01::2")[1] == "")
print({address: held for (_, address), held in netlink.hardware_of().items() if address == "10.1.0.8"})
try:
    netlink.way_to("10.9.0.1")
except OSError as error:
    print(error.strerror)
"""
NEAR = """
ip link add left0 type veth peer name left1; ip link set left0 up; ip link set left1 up
ip addr add 10.1.0.2/24 dev left0; ip addr add fd01::2/64 dev left0 nodad
ip route add 10.1.0.9/32 via 10.1.0.77; ip -6 route add fd01::9/128 via fd01::77
ip addr add 10.1.0.3/24 dev left0; ip rule add from 10.1.0.3 lookup 9
ip route add 10.1.0.0/24 via 10.1.0.66 dev left0 table 9
ip neigh add 10.1.0.8 lladdr 02:00:00:00:00:99 nud permanent dev left0
ip link show left0 | head -1 | cut -d: -f1
"""


def test_the_way_to_a_neighbour_and_its_hardware_address_are_the_kernels():
    """The router of a host route, and of a rule's; the entry that somebody fixed, and no route at all."""
    if subprocess.run(["unshare", "-n", "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs root and network namespaces")
    run = ["unshare", "-n", "sh", "-c", f'{NEAR}\nexec "$@"', "sh", sys.executable, "-I", "-c", WAYS, os.fspath(ROOT)]
    text = subprocess.run(run, check=True, capture_output=True, text=True).stdout.splitlines()
    index, *told = text
    assert told == [
        f"({index}, '10.1.0.77') True fd01::77",
        "10.1.0.66 True",
        "{'10.1.0.8': ('02:00:00:00:00:99', 'permanent')}",
        "Network is unreachable",
    ]


def test_the_queue_of_an_interface_is_the_kernels():
    """What somebody has put there with tc; of an interface that is not there nothing."""
    if subprocess.run(["unshare", "-n", "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs root and network namespaces")
    shaped = 'tc qdisc add dev lo root tbf rate 1gbit burst 256k latency 50ms\nexec "$@"'
    run = ["unshare", "-n", "sh", "-c", shaped, "sh", sys.executable, "-I", "-c", QUEUES, os.fspath(ROOT)]
    assert subprocess.run(run, check=True, capture_output=True, text=True).stdout == "tbf ''\n"


def message(kind, body, *, flags=0):
    length = 16 + len(body)
    return struct.pack("=IHHII", length, kind, flags, 1, 0) + body + b"\0" * (-length % 4)


def dumped(*datagrams):
    """What is read of a dump that the kernel gives in these datagrams."""
    ours, kernel = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, kernel:
        for datagram in datagrams:
            kernel.send(datagram)
        return netlink.read_dump(ours)


DONE = message(netlink.NLMSG_DONE, b"\0" * 4)
INTERRUPTED = netlink.NLM_F_DUMP_INTR | 2  # NLM_F_MULTI


@pytest.mark.parametrize(
    ("datagrams", "is_whole"),
    [
        ([message(20, b"abcd") + message(20, b"efgh"), DONE], True),
        ([message(20, b"abcd", flags=INTERRUPTED), message(20, b"efgh"), DONE], False),
        ([message(20, b"abcd") + message(20, b"efgh", flags=INTERRUPTED) + DONE], False),
        ([message(20, b"abcd"), message(20, b"efgh"), message(netlink.NLMSG_DONE, b"", flags=INTERRUPTED)], False),
    ],
    ids=["quiet", "first", "middle", "end"],
)
def test_a_dump_during_which_the_list_changed_is_none(datagrams, is_whole):
    """Whichever of its messages says so."""
    assert dumped(*datagrams) == ([b"abcd", b"efgh"], is_whole)


def test_the_kernels_refusal_is_an_error():
    """By its number, as a sandbox gives it."""
    with pytest.raises(PermissionError):
        dumped(message(netlink.NLMSG_ERROR, struct.pack("=i", -errno.EPERM)))


def test_an_interrupted_dump_is_asked_for_again_and_not_without_end():
    """Of addresses that come and go; a list that never holds still is no list."""
    given = iter([([b"twice", b"twice"], False), ([], False), ([b"once"], True)])
    assert netlink.until_whole(lambda: next(given)) == [b"once"]
    asked = []
    with pytest.raises(OSError, match="changed each of the 10 times"):
        netlink.until_whole(lambda: (asked, bool(asked.append(1))))
    assert len(asked) == netlink.ASKED_AT_MOST
