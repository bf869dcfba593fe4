"""Which nodes in several InfiniBand subnets are told to be out of NCCL's reach?"""

from __future__ import annotations

import pytest

from preflight.facts.subjects.rdma import Gid
from preflight.facts.value import Missing
from preflight.judge.ledger.findings import Verdict
from preflight.judge.tables.rdma.subnets import row_of_nccl
from preflight.testing import infiniband
from tests.checks.samples import judge

CHECK = "rdma.gid_index_leads_to_one_network"
ABSENT = Missing("no interface", "absent")


def row(index, prefix, node="node1", device=0):
    """A row of a GID table, as sysfs writes it."""
    return Gid(index, f"{prefix}:a088:c203:00ad:{int(node[-1]):02x}{device:02x}", "IB/RoCE v1", ABSENT)


def with_prefixes(**prefixes):
    """Four nodes, some of whose ports all have these prefixes in their rows."""
    run = infiniband()
    for node, held in prefixes.items():
        for device in range(8):
            rows = tuple(row(index, prefix, node, device) for index, prefix in enumerate(held))
            run = run.broken_rdma_port(node, device, gids=rows)
    return run


def said(run):
    """What the check blames, by nodes."""
    return {finding.nodes: finding.message for finding in judge(CHECK, run) if finding.verdict is Verdict.FAIL}


HOME, AWAY = "fe80:0000:0000:0000", "fec0:0000:0000:0005"
ROUTED, ROUTED_HOME = "fec0:0000:0012:0005", "fec0:0000:0007:0000"


def test_a_node_in_another_subnet_without_a_flid_is_named():
    """NCCL would try its LID, which is another port's in the subnet of the others."""
    assert said(with_prefixes(node3=[AWAY])) == {
        ("node3",): "InfiniBand subnets, without a FLID that leads from one to another: "
        "subnet 0x0000 on node[1-2,4], subnet 0x0005 on node3"
    }


def test_flids_on_both_sides_lead_from_one_subnet_to_the_other():
    """Each node has a second row, as where the fabric routes."""
    both = {name: [HOME, ROUTED_HOME] for name in ("node1", "node2")}
    assert said(with_prefixes(**both, node3=[AWAY, ROUTED], node4=[AWAY, ROUTED])) == {}


def test_the_nodes_without_a_flid_are_named_where_others_have_one():
    """They are what the other side cannot reach."""
    found = said(with_prefixes(node3=[AWAY, ROUTED], node4=[AWAY, ROUTED]))
    assert found == {("node1", "node2"): "no FLID in its GIDs, and only subnet 0x0000 of InfiniBand"}


@pytest.mark.parametrize("prefixes", [[HOME], [HOME, "0000:0000:0000:0000"], ["fec0:0000:0000:0000"]])
def test_subnets_are_compared_as_nccl_does(prefixes):
    """By the last 16 bits: what a site calls its only subnet says nothing."""
    assert said(with_prefixes(node3=prefixes)) == {}


def test_one_port_in_a_subnet_of_its_own_is_not_out_of_reach():
    """Its node is reached by the others: where the port is, another check tells."""
    assert said(infiniband().broken_rdma_port("node3", 2, gids=(row(0, AWAY, "node3"),))) == {}


def test_an_old_nccl_knows_no_flid():
    """Up to 2.21 it sends to the LID alone; the variable turns a newer one to the row without."""
    run = with_prefixes(**{f"node{n}": [HOME, ROUTED_HOME] if n < 4 else [AWAY, ROUTED] for n in (1, 2, 3, 4)})
    assert said(run) == {}
    old = run
    for name in run.names:
        old = old.broken(name, "software", nccl="2.21.5")
    assert list(said(old)) == [("node4",)]
    assert list(said(run.with_variables(NCCL_IB_ROUTABLE_FLID_GID_INDEX="0"))) == [("node4",)]


@pytest.mark.parametrize(
    ("rows", "routed", "taken"),
    [
        ([HOME], 1, 0),
        ([HOME, ROUTED], 1, 1),
        ([HOME, AWAY], 1, 0),
        ([HOME, HOME, ROUTED], 2, 2),
        ([HOME, ROUTED], 0, 0),
    ],
)
def test_the_row_is_the_routed_one_where_it_has_a_flid(rows, routed, taken):
    """ncclIbGetGidIndex, with the row that the variable names."""
    run = with_prefixes(node1=rows)
    (port,) = run.cluster["node1"].rdma.devices[0].ports
    assert row_of_nccl(port, routed=routed) == taken
