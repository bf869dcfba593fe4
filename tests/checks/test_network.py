"""Is the node whose interface does not fit the others' named?"""

from __future__ import annotations

import pytest

from preflight.facts.values import Address
from preflight.findings import Verdict
from tests.checks.cluster import Broken, ethernet, judge, leaves_by, roce

BROKEN = (
    Broken(
        "network.interface_variables_match_an_interface",
        ethernet().environment("node3", NCCL_SOCKET_IFNAME="=ib0"),
        ("node3",),
        "NCCL_SOCKET_IFNAME==ib0 matches no interface",
    ),
    Broken(
        "network.interface_variables_match_an_interface",
        ethernet().environment("node3", GLOO_SOCKET_IFNAME="eth"),
        ("node3",),
        "GLOO_SOCKET_IFNAME=eth matches no interface",
    ),
    Broken(
        "network.training_interface_exists",
        roce().environment("node2", NCCL_SOCKET_IFNAME="").interface("node2", is_up=False),
        ("node2",),
        "the training interface is lo",
    ),
    Broken(
        "network.mtu_is_the_same_on_every_node",
        ethernet().interface("node3", mtu=1400),
        ("node3",),
        "9000 on node[1-2], 1400 on node3",
    ),
    Broken(
        "network.mtu_is_the_same_on_every_node",
        ethernet(2).interface("node2", mtu=1400),
        ("node1", "node2"),
        "9000 on node1",
    ),
    Broken(
        "network.training_addresses_share_a_subnet",
        ethernet().interface("node2", addresses=(Address("10.5.0.2", 24, "inet"),)),
        ("node2",),
        "10.0.0.0/24 on node[1,3], 10.5.0.0/24 on node2",
    ),
    Broken(
        "network.training_interfaces_have_the_same_rate",
        ethernet().interface("node1", speed_mbps=1000),
        ("node1",),
        "1000 Mbit/s on node1",
    ),
    Broken(
        "network.routes_to_peers_leave_by_the_training_interface",
        leaves_by(ethernet(), "node2", "node3", "wlan0"),
        ("node2",),
        "packets to node3 leave by wlan0",
    ),
)


@pytest.mark.parametrize("broken", BROKEN, ids=str)
def test_the_broken_nodes_are_named(broken):
    """Each row: the check names exactly the broken nodes, says what is wrong, and how to mend it."""
    broken.assert_named()


def test_a_prefix_is_enough_for_nccl():
    """NCCL takes `eth` for eth0, as its own sources do."""
    run = ethernet().environment(NCCL_SOCKET_IFNAME="eth")
    assert {f.verdict for f in judge("network.interface_variables_match_an_interface", run)} == {Verdict.PASS}


def test_a_node_without_its_interface_blocks_what_is_asked_of_it():
    """The MTU of an interface that is not there is an error of that node, and the others are judged."""
    run = roce().environment("node3", NCCL_SOCKET_IFNAME="=ib0")
    verdicts = {f.nodes: (f.verdict, f.message) for f in judge("network.mtu_is_the_same_on_every_node", run)}
    assert verdicts["node3",][0] is Verdict.ERROR
    assert verdicts["node3",][1].startswith("blocked by network.training_interface_exists")
    assert verdicts["node1", "node2", "node4"][0] is Verdict.PASS


def test_clouds_that_give_every_node_a_host_route_are_not_judged_by_subnet():
    """With /32 addresses every node is a subnet of its own, and all is well."""
    run = ethernet()
    for number, name in enumerate(run.names, 1):
        run.interface(name, addresses=(Address(f"10.0.0.{number}", 32, "inet"),))
    assert {f.verdict for f in judge("network.training_addresses_share_a_subnet", run)} == {Verdict.SKIP}
