"""Is a data interface that neither RDMA nor the training tells of compared over the nodes?"""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from preflight.facts.subjects.network import Address
from preflight.judge.ledger.findings import Verdict
from preflight.testing import healthy
from preflight.testing.hardware import eth0
from tests.checks.samples import judge

CHECK = "network.data_interfaces_are_alike"


def with_rails(count=3, *, stem="hsn", rails=4, mtu=9000, speed=200000):
    """Nodes with several data interfaces, each rail in a subnet of its own, beside the training interface."""
    run = healthy(count)
    for number, name in enumerate(run.names, 1):
        network = run.subjects[name]["network"]
        more = [
            msgspec.structs.replace(
                eth0(f"10.{10 + rail}.0.{number}", 24),
                name=f"{stem}{rail}",
                index=10 + rail,
                mtu=mtu,
                speed_mbps=speed,
            )
            for rail in range(1, rails + 1)
        ]
        run = run.broken(name, "network", interfaces=(*network.interfaces, *more))
    return run


def without(run, node, interface):
    """The interface is not there on one node."""
    network = run.subjects[node]["network"]
    return run.broken(node, "network", interfaces=tuple(one for one in network.interfaces if one.name != interface))


def told(run):
    """(nodes, message) of every warning."""
    return [(one.nodes, one.message) for one in judge(CHECK, run) if one.verdict is Verdict.WARN]


def of(subnet, number):
    """The addresses of an interface in another subnet."""
    return (Address(f"10.{subnet}.0.{number}", 24, "inet"),)


def test_rails_that_are_alike_are_silent():
    """Whatever they are called, and where their rate is not told."""
    for run in (with_rails(), with_rails(2), with_rails(stem="eth", rails=8, speed=0), with_rails(stem="enp", rails=2)):
        assert {one.verdict for one in judge(CHECK, run)} == {Verdict.PASS}


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"is_up": False}, "hsn2 has no link; it is in use on node1"),
        ({"addresses": ()}, "hsn2 has no address; it is in use on node1"),
        ({"addresses": (Address("fe80::1", 64, "inet6"),)}, "hsn2 has no address"),
        (None, "hsn2 is not there; it is in use on node1"),
    ],
)
def test_a_rail_that_one_node_lacks_is_named(count, fields, words):
    """Down, without an address, or gone: this node alone, also where there are two."""
    run = with_rails(count)
    run = without(run, "node2", "hsn2") if fields is None else run.broken_interface("node2", "hsn2", **fields)
    if count > 2:
        words = words.replace("on node1", "on node[1,3" if count == 3 else "on node[1,3-4")
    ((nodes, message),) = told(run)
    assert nodes == ("node2",)
    assert words in message


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"mtu": 1500}, "hsn2: MTU 1500; on node[1,3] MTU 9000"),
        ({"speed_mbps": 100000}, "hsn2: 100000 Mbit/s; on node[1,3] 200000 Mbit/s"),
        ({"addresses": of(13, 2)}, "hsn2 is in 10.13.0.0/24, the subnet of hsn3 elsewhere"),
    ],
)
def test_a_rail_with_other_values_is_named(fields, words):
    """MTU, rate, and a rail that is another one's."""
    assert told(with_rails().broken_interface("node2", "hsn2", **fields)) == [(("node2",), words)]


def test_of_two_that_differ_both_are_named():
    """Without a majority nobody knows which is meant."""
    ((nodes, message),) = told(with_rails(2).broken_interface("node2", "hsn2", mtu=1500))
    assert nodes == ("node1", "node2")
    assert "MTU" in message


def test_a_rail_that_one_node_has_more_is_named():
    """An interface that no peer has an answer for."""
    run = with_rails()
    network = run.subjects["node2"]["network"]
    more = msgspec.structs.replace(eth0("10.99.0.2", 24), name="hsn9", index=99)
    run = run.broken("node2", "network", interfaces=(*network.interfaces, more))
    assert told(run) == [(("node2",), "hsn9 is in use; on node[1,3] it is not")]


def test_a_rail_by_which_the_others_train_is_named_where_it_is_down():
    """hsn0 down on one node: that one trains on hsn1, and says nothing."""
    run = with_rails().with_variables(NCCL_SOCKET_IFNAME="hsn")
    run = run.broken_interface("node2", "hsn1", is_up=False)
    assert told(run) == [(("node2",), "hsn1 has no link; it is in use on node[1,3]")]


def test_a_single_interface_of_management_is_nobodys_rail():
    """A second card of another name, down on one node, and one that nobody uses."""
    run = with_rails(rails=2)
    for number, name in enumerate(run.names, 1):
        network = run.subjects[name]["network"]
        bmc = msgspec.structs.replace(eth0(f"192.168.7.{number}", 24), name="usb0", index=50, is_up=number != 2)
        spare = msgspec.structs.replace(eth0("10.1.1.1", 24), name="eno2", index=51, is_up=False, addresses=())
        run = run.broken(name, "network", interfaces=(*network.interfaces, bmc, spare))
    assert told(run) == []


def test_a_node_of_another_kind_lacks_no_rail():
    """Of one without any interface of that kind nothing is said here."""
    run = with_rails(3, rails=2)
    for name in ("hsn1", "hsn2"):
        run = without(run, "node3", name)
    assert told(run) == []


def test_memory_must_be_locked_for_slingshot_too():
    """libfabric registers memory with cxi as verbs do."""
    run = with_rails()
    for name in run.names:
        run = run.broken(name, "limits", memlock_soft_bytes=65536)
    found = judge("limits.memlock_is_enough_for_rdma", replace(run, backend="nccl"))
    assert {one.verdict for one in found} == {Verdict.FAIL}


def test_names_of_each_node_s_own_are_no_rails():
    """enp1s0 here and enp2s0 there, one on each node."""
    run = with_rails(3, rails=1, stem="enp")
    for number, name in enumerate(run.names, 1):
        run = run.broken_interface(name, "enp1", name=f"enp{number}s0")
        run = run.broken_interface(name, "eth0", name=f"eno{number}")
    assert told(run) == []
