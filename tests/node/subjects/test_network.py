"""Tests of preflight.node.subjects.network."""

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from preflight.facts.subjects.network import Network
from preflight.facts.value import Missing
from preflight.node.subjects import network

ROOT = Path(__file__).resolve().parents[3]
COLLECT = """
import json, sys
root, answers = sys.argv[1:]
if answers == "kernel":
    sys.modules["psutil"] = sys.modules["netifaces"] = None
sys.path.insert(0, root)
from preflight.node.subjects import network
def refuse(_):
    raise PermissionError(1, "Operation not permitted")
if answers == "psutil":
    network.links_by_kernel = refuse
if answers == "netifaces":
    network.netlink.default_gateways = refuse
print(json.dumps(network.collect({"sysfs": "/sys", "proc": "/proc"})))
"""
# No search for duplicates of link-local addresses: it ends within two seconds of its own, and changes what we look at.
SETTLED = "for name in all default; do echo 0 > /proc/sys/net/ipv6/conf/$name/accept_dad; done"
# Two addresses and a label on one link, a bridge that is down, policy routing and two defaults with metrics.
MANY_NICS = """
set -e
ip link set lo up
ip link add left0 type veth peer name left1; ip link set left0 up mtu 1400; ip link set left1 up
ip link add right0 type veth peer name right1; ip link set right0 up; ip link set right1 up
ip link add bridge0 type bridge
ip addr add 10.1.0.2/24 dev left0
ip addr add 10.1.0.3/24 dev left0 label left0:1
ip addr add 10.1.0.4/16 dev left0
ip addr add fd01::2/64 dev left0 nodad
ip addr add 10.2.0.2/24 dev right0
ip route add default via 10.1.0.1 table 77
ip route add default via 10.1.0.1 metric 200
ip route add default via 10.2.0.1 metric 100
ip -6 route add default via fd01::1 metric 50
"""
PLAIN = """
ip route add default via 10.2.0.1
ip -6 route add default via fd01::1
"""
MULTIPATH = """
set -e
ip link set lo up
ip link add left0 type veth peer name left1; ip link set left0 up; ip link set left1 up
ip addr add 10.1.0.2/24 dev left0
ip addr add 10.2.0.2/24 dev left0
ip route add default nexthop via 10.1.0.1 dev left0 nexthop via 10.2.0.1 dev left0
ip route add default via 10.1.0.9 table 5
"""


def collect(answers, *prefix):
    command = [*prefix, sys.executable, "-I", "-c", COLLECT, os.fspath(ROOT), answers]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def in_a_namespace(commands, answers):
    tried = subprocess.run(["unshare", "-n", "sh", "-c", "ip link add a0 type veth"], capture_output=True, check=False)
    if tried.returncode and os.environ.get("PREFLIGHT_LAB") != "required":
        pytest.skip("needs root and network namespaces")
    facts = collect(answers, "unshare", "-n", "sh", "-c", f'{SETTLED}{commands}\nexec "$@"', "sh")
    for interface in facts["interfaces"]:  # link-local addresses come from random hardware addresses
        interface["addresses"] = [held for held in interface["addresses"] if not held["address"].startswith("fe80:")]
        interface["is_physical"] = None  # the sysfs here belongs to the namespace outside
    return facts


def test_facts_are_equal_whoever_answers():
    """The kernel alone, netifaces or psutil in its place: a node says the same, so any two can be compared."""
    facts = collect("kernel")
    assert facts == collect("psutil")
    decoded = msgspec.convert(facts, type=Network, strict=True)
    loopback = decoded.interface("lo")
    assert loopback.is_loopback
    assert loopback.is_up
    assert loopback.mtu > 0
    assert decoded.ephemeral_ports[0] < decoded.ephemeral_ports[1]


def test_reserved_ports_of_the_range_are_counted(tmp_path):
    """Single ports and ranges, those outside of the range left aside; an old kernel has no such file."""
    place = tmp_path / "sys" / "net" / "ipv4"
    place.mkdir(parents=True)
    assert network.reserved_ports(os.fspath(tmp_path), 32768, 60999)["kind"] == "absent"
    for text, count in (("\n", 0), ("8080,30000-32767\n", 0), ("32000-32770,50000\n", 4), ("1-65535\n", 28232)):
        (place / "ip_local_reserved_ports").write_text(text)
        assert network.reserved_ports(os.fspath(tmp_path), 32768, 60999) == count


def test_labels_and_policy_routing_mislead_nobody():
    """A labelled address stays with its interface in the kernel's order; only the main table's defaults count."""
    facts = in_a_namespace(MANY_NICS, "kernel")
    decoded = msgspec.convert(
        {**facts, "interfaces": [{**item, "is_physical": False} for item in facts["interfaces"]]},
        type=Network,
        strict=True,
    )
    left = decoded.interface("left0")
    assert [(held.address, held.prefix_length) for held in left.addresses] == [
        ("10.1.0.2", 24),
        ("10.1.0.4", 16),
        ("10.1.0.3", 24),
        ("fd01::2", 64),
    ]
    assert left.mtu == 1400
    assert left.is_up
    assert not decoded.interface("bridge0").is_up
    assert [(gateway.interface, gateway.address) for gateway in decoded.gateways] == [
        ("right0", "10.2.0.1"),
        ("left0", "10.1.0.1"),
        ("left0", "fd01::1"),
    ]


def test_a_multipath_default_route_is_told():
    """The gateways of a default route over several hops are found, which netifaces alone does not."""
    facts = in_a_namespace(MULTIPATH, "kernel")
    assert [gateway["address"] for gateway in facts["gateways"]] == ["10.1.0.1", "10.2.0.1"]


def test_psutil_is_not_believed_where_labels_mislead_it():
    """psutil takes a labelled address for an interface of its own: the node then tells nothing rather than that."""
    with pytest.raises(subprocess.CalledProcessError) as refused:
        in_a_namespace(MANY_NICS, "psutil")
    assert "left0:1" in refused.value.stderr


def test_one_plain_gateway_is_the_same_from_netifaces():
    """Where rtnetlink is closed, the usual routes of a node are told all the same, of both families."""
    plain = MANY_NICS.partition("ip route add")[0] + PLAIN
    facts = in_a_namespace(plain, "netifaces")
    assert [gateway["address"] for gateway in facts["gateways"]] == ["10.2.0.1", "fd01::1"]
    assert facts == in_a_namespace(plain, "kernel")


@pytest.mark.parametrize("commands", [MANY_NICS, MULTIPATH], ids=["policy", "multipath"])
def test_netifaces_is_not_believed_where_routes_mislead_it(commands):
    """It mixes tables and loses hops: the node then tells the refusal rather than a wrong gateway."""
    with pytest.raises(subprocess.CalledProcessError) as refused:
        in_a_namespace(commands, "netifaces")
    assert "not permitted" in refused.value.stderr


def test_without_the_kernels_answer_and_psutil_the_refusal_is_told(monkeypatch):
    """Where neither answers, the reason is the kernel's, not the absent library's."""

    def refuse(names):
        raise PermissionError(1, "Operation not permitted", min(names.values()))

    monkeypatch.setattr(network, "links_by_kernel", refuse)
    monkeypatch.setitem(sys.modules, "psutil", None)
    with pytest.raises(PermissionError):
        network.interfaces({1: "lo"}, sysfs="/sys")


def test_a_foreign_sysfs_is_not_believed(tmp_path):
    """The device of an interface is unknown where sysfs shows another namespace's interface of that name."""
    folder = tmp_path / "class/net/eth0"
    (folder / "device").mkdir(parents=True)
    (folder / "ifindex").write_text("7\n")
    sysfs = os.fspath(tmp_path)
    assert network.of_sysfs("eth0", index=7, sysfs=sysfs)["is_physical"] is True
    for index, name in ((8, "eth0"), (7, "eth1")):
        told = msgspec.convert(
            network.of_sysfs(name, index=index, sysfs=sysfs)["is_physical"], type=Missing, strict=True
        )
        assert told == Missing("sysfs of another network namespace", "failed")
    (folder / "device").rmdir()
    assert network.of_sysfs("eth0", index=7, sysfs=sysfs)["is_physical"] is False


def test_an_empty_netifaces_is_not_used(monkeypatch, tmp_path):
    """The empty folder left by an uninstalled netifaces imports well and has no functions: the kernel is asked."""
    (tmp_path / "netifaces").mkdir()
    monkeypatch.setattr(sys, "path", [os.fspath(tmp_path)])
    monkeypatch.setitem(sys.modules, "netifaces", None)  # so that its entry is as it was when this test is over
    del sys.modules["netifaces"]
    assert network.gateways_by_netifaces() == {}
