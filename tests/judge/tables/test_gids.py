"""Which GID index is told for which node?"""

from __future__ import annotations

import msgspec
import pytest

from preflight.facts import fabric
from preflight.facts.subjects.rdma import Gid
from preflight.judge.tables import gids
from preflight.testing import infiniband, roce
from tests.checks.samples import with_netdevs, without_gid

SECOND = "0000:0000:0000:0000:0000:ffff:0a01:0002"


def shifted(run, index):
    """The routable row of the second node's first port stands at another index."""
    return run.broken_rdma_port("node2", gids=(Gid(index, SECOND, "RoCE v2", "rdma0"),)).with_variables(
        NCCL_IB_HCA="=mlx5_0"
    )


def test_the_right_index_is_the_routable_row_of_each_port():
    """Of the four rows of a port the last is RoCE v2 with an IPv4 address."""
    node = roce().cluster["node1"]
    assert gids.right_indices(node) == {f"mlx5_{index}:1": 3 for index in range(8)}


def test_one_index_for_all_is_told_once():
    """Where the tables agree, one line for all nodes."""
    wrong = roce().with_variables(NCCL_IB_GID_INDEX="2").cluster
    assert gids.advice(wrong).startswith("set NCCL_IB_GID_INDEX=3 on node[1-4]; or unset it")


def test_nodes_that_have_the_right_index_are_left_alone():
    """Only what is to be changed is told, not what is set so already."""
    odd = roce().with_variables("node3", NCCL_IB_GID_INDEX="2").cluster
    assert gids.advice(odd).startswith("set NCCL_IB_GID_INDEX=3 on node3; or unset it")


def test_a_port_without_a_routable_row_needs_an_address_and_no_variable():
    """No index is right there, and NCCL finds none by itself either."""
    told = gids.advice(without_gid(roce(), "node3", 3).cluster)
    assert told.startswith("give mlx5_0:1 of node3 an address")
    assert "set " not in told


def test_tables_that_differ_get_a_line_each():
    """Which value on which node, and where to write it."""
    told = gids.advice(shifted(roce(), 7).with_variables(NCCL_IB_GID_INDEX="2").cluster)
    assert told.startswith("set NCCL_IB_GID_INDEX=3 on node[1,3-4], 7 on node2 (a line of /etc/nccl.conf there")


def test_ports_of_one_node_that_differ_are_told_by_name():
    """No single index fits such a node."""
    run = (
        roce()
        .broken_rdma_port("node2", gids=(Gid(7, SECOND, "RoCE v2", "rdma0"),))
        .with_variables(NCCL_IB_HCA="mlx5_0,mlx5_1")
    )
    assert "mlx5_0:1 7/mlx5_1:1 3 on node2" in gids.advice(run.cluster)


def test_infiniband_has_no_index_to_set():
    """NCCL does not ask for it there."""
    assert gids.right_indices(infiniband().cluster["node1"]) == {}
    assert gids.advice(infiniband().cluster).startswith("give the ports their addresses first")


def test_alike_tables_mislead_nobody():
    """Every node's row 3 is of the same subnet, rail by rail."""
    assert gids.misled(with_netdevs(roce()).cluster) == []


V1, V2 = "IB/RoCE v1", "RoCE v2"
LOCAL, SIX = "fe80:0000:0000:0000:0000:0000:0000:0001", "fd00:0000:0000:0000:0000:0000:0000:0001"
FOUR, AUTO = "0000:0000:0000:0000:0000:ffff:0a01:0001", "0000:0000:0000:0000:0000:ffff:a9fe:0001"


@pytest.mark.parametrize(
    ("rows", "family", "index"),
    [
        ([(LOCAL, V1), (LOCAL, V2), (FOUR, V1), (FOUR, V2)], "AF_INET", 3),
        ([(LOCAL, V1), (LOCAL, V2), (SIX, V1), (SIX, V2)], "AF_INET", 0),
        ([(LOCAL, V1), (LOCAL, V2), (SIX, V1), (SIX, V2)], "AF_INET6", 3),
        ([(FOUR, V1), (FOUR, V2)], "AF_INET", 1),
        ([(LOCAL, V1), (AUTO, V1), (AUTO, V2), (FOUR, V1), (FOUR, V2)], "AF_INET", 2),
        ([], "AF_INET", 0),
    ],
)
def test_nccl_takes_a_row_by_its_own_rules(rows, family, index):
    """IPv4 before all, then RoCE v2; without IPv4 it stays where it began, and 169.254 is an address as any other."""
    port = roce().cluster["node1"].rdma.devices[0].ports[0]
    table = tuple(Gid(place, gid, kind, "rdma0") for place, (gid, kind) in enumerate(rows))
    assert fabric.gid_of_nccl(msgspec.structs.replace(port, gids=table), family=family).index == index


def test_a_link_local_row_that_nccl_takes_on_one_node_reaches_nobody():
    """On all nodes alike it does, as on a cable between two: there the others have nothing to compare."""
    run = with_netdevs(roce()).with_variables(NCCL_IB_GID_INDEX="")
    assert gids.misled(run.cluster) == []
    rows = tuple(Gid(place, gid, V2, "rdma0") for place, gid in enumerate((LOCAL, AUTO, FOUR)))
    (blame,) = gids.misled(run.broken_rdma_port("node2", gids=rows).cluster)
    assert blame.nodes == ("node2",)
    assert "NCCL takes row 1 of mlx5_0:1 (RoCE v2 link-local 169.254.0.1), which does not reach" in str(blame)
    for name in run.names:
        run = run.broken_rdma_port(name, gids=rows)
    assert gids.misled(run.cluster) == []


OTHER = "0000:0000:0000:0000:0000:ffff:0a02:0001"


@pytest.mark.parametrize(
    ("wanted", "index"),
    [("10.2.0.0/16", 2), ("10.1.0.0/16", 1), ("", 1), ("10.2.0.0", 1), ("fd00::/8", 1), ("nonsense/8", 1)],
)
def test_an_address_range_leaves_the_rows_within_it(wanted, index):
    """Where it has a mask and is of the family."""
    port = roce().cluster["node1"].rdma.devices[0].ports[0]
    rows = ((LOCAL, V2), (FOUR, V2), (OTHER, V2))
    table = tuple(Gid(place, gid, kind, "rdma0") for place, (gid, kind) in enumerate(rows))
    changed = msgspec.structs.replace(port, gids=table)
    assert fabric.gid_of_nccl(changed, address_range=wanted).index == index


def test_nobody_is_told_to_unset_what_nccl_would_get_wrong():
    """On a fabric without IPv4 NCCL stays at the link-local row."""
    table = tuple(Gid(place, gid, kind, "rdma0") for place, (gid, kind) in enumerate([(LOCAL, V1), (SIX, V2)]))
    run = roce()
    for name in run.names:
        for device in range(8):
            run = run.broken_rdma_port(name, device, gids=table)
    assert gids.advice(run.cluster) == "set NCCL_IB_GID_INDEX=1 on node[1-4]"
    left = run.with_variables(NCCL_IB_GID_INDEX="").cluster["node1"]
    assert gids.wrong_choice(left).startswith("NCCL takes row 0 of mlx5_0:1 (RoCE v1 link-local")
    assert gids.wrong_choice(roce().with_variables(NCCL_IB_GID_INDEX="").cluster["node1"]) == ""
