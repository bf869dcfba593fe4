"""Is the node named whose RDMA port, rate or GID does not fit?"""

from __future__ import annotations

import pytest

from preflight.facts.values import Gid
from preflight.findings import Verdict
from tests.checks.cluster import Broken, ethernet, judge, renamed, roce, without_gid

BROKEN = (
    Broken(
        "rdma.nccl_ib_hca_matches_a_port",
        roce().environment("node2", NCCL_IB_HCA="mlx5_0,mlx5_9"),
        ("node2",),
        "mlx5_9 matches no port of the node",
    ),
    Broken(
        "rdma.nccl_ib_hca_matches_a_port",
        roce().environment("node2", NCCL_IB_HCA="^mlx5"),
        ("node2",),
        "NCCL_IB_HCA=^mlx5 leaves no port",
    ),
    Broken(
        "rdma.nccl_ib_hca_takes_no_more_than_it_names",
        renamed(roce().environment(NCCL_IB_HCA="mlx5_1"), "node2", 0, "mlx5_10"),
        ("node2",),
        "mlx5_1 takes mlx5_10 too",
    ),
    Broken(
        "rdma.port_count_is_the_same_on_every_node",
        roce().change("node2", "rdma", devices=()),
        ("node2",),
        "number of RDMA ports: 8 on node[1,3-4], 0 on node2",
    ),
    Broken(
        "rdma.ports_are_active",
        roce().rdma_port("node2", state="DOWN", physical_state="Polling"),
        ("node2",),
        "mlx5_0:1 is DOWN (Polling); wanted ACTIVE",
    ),
    Broken(
        "rdma.ports_have_the_same_rate",
        roce().rdma_port("node2", rate_gbps=200.0),
        ("node2",),
        "rate of mlx5_0:1: 400 Gbit/s Ethernet on node[1,3-4], 200 Gbit/s Ethernet on node2",
    ),
    Broken(
        "rdma.gid_index_exists_on_every_node",
        without_gid(roce(), "node3", 3),
        ("node3",),
        "GID index 3 (NCCL_IB_GID_INDEX) is not in the table of mlx5_0:1",
    ),
    Broken(
        "rdma.gid_index_is_routable_roce_v2",
        roce().environment("node3", NCCL_IB_GID_INDEX="2"),
        ("node3",),
        "GID index 2: mlx5_0:1 has RoCE v1 ipv4 10.1.0.3",
    ),
    Broken(
        "rdma.gid_index_is_routable_roce_v2",
        roce().environment("node3", NCCL_IB_GID_INDEX="1"),
        ("node3",),
        "link-local",
    ),
    Broken(
        "rdma.gid_index_means_the_same_on_every_node",
        roce().rdma_port("node3", gids=(Gid(3, "2001:0db8:0000:0000:0000:0000:0000:0003", "RoCE v2", "rdma0"),)),
        ("node3",),
        "ipv4 on node[1-2,4], ipv4, ipv6 on node3",
    ),
)


@pytest.mark.parametrize("broken", BROKEN, ids=str)
def test_the_broken_nodes_are_named(broken):
    """Each row: the check names exactly the broken nodes, says what is wrong, and how to mend it."""
    broken.assert_named()


@pytest.mark.parametrize("name", ["rdma.gid_index_is_routable_roce_v2", "rdma.gid_index_means_the_same_on_every_node"])
def test_a_missing_gid_is_told_once(name):
    """What a GID is cannot be asked where it is missing: blocked, not a second fail."""
    findings = {f.nodes: f for f in judge(name, without_gid(roce(), "node3", 3))}
    assert findings["node3",].verdict is Verdict.ERROR
    assert findings["node3",].message.startswith("blocked by rdma.gid_index_exists_on_every_node")
    assert findings["node1", "node2", "node4"].verdict is Verdict.PASS


def test_infiniband_does_not_ask_for_the_gid_index():
    """NCCL reads NCCL_IB_GID_INDEX for Ethernet links only."""
    run = roce()
    for node in run.names:
        for device in range(8):
            run.rdma_port(node, device, link_layer="InfiniBand", gids=())
    assert {f.verdict for f in judge("rdma.gid_index_exists_on_every_node", run)} == {Verdict.SKIP}


def test_a_port_that_is_down_everywhere_is_not_in_use():
    """A port nobody plugged in is no fault, unless NCCL_IB_HCA names it."""
    run = roce().environment(NCCL_IB_HCA="")
    for node in run.names:
        run.rdma_port(node, 7, state="DOWN")
    assert {f.verdict for f in judge("rdma.ports_are_active", run)} == {Verdict.PASS}
    named = judge("rdma.ports_are_active", run.environment(NCCL_IB_HCA="mlx5_7"))
    assert {f.verdict for f in named} == {Verdict.FAIL}


def test_a_port_that_is_down_does_not_count_as_slow():
    """The rates of active ports are compared; a port that is down has its own check."""
    run = roce().rdma_port("node2", state="DOWN", rate_gbps=10.0)
    assert {f.verdict for f in judge("rdma.ports_have_the_same_rate", run)} == {Verdict.PASS}


def test_plain_clusters_are_not_asked():
    """Without RDMA anywhere, a variable for it is nobody's fault."""
    run = ethernet().environment(NCCL_IB_HCA="mlx5")
    assert {f.verdict for f in judge("rdma.nccl_ib_hca_matches_a_port", run)} == {Verdict.SKIP}
