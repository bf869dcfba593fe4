"""Are failed connections laid on the nodes that the mesh blames?"""

from __future__ import annotations

import pytest

from preflight.ledger.findings import Verdict
from preflight.testing import healthy, roce
from tests.checks.samples import Broken, judge

BROKEN = (
    Broken(
        "mesh.every_node_reaches_every_other_on_random_ports",
        healthy().mesh_fails(("node1", "node3"), ("node2", "node3"), blamed=(("node3",),)),
        ("node3",),
        "2 to node3 (peers node[1-2]): no answer (filtered); one of them: node1 to node3 port 40001",
    ),
    Broken(
        "mesh.every_node_reaches_every_other_on_random_ports",
        healthy().mesh_fails(("node3", "node1"), ("node3", "node2"), blamed=(("node3",),)),
        ("node3",),
        "2 from node3 (peers node[1-2])",
    ),
    Broken(
        "mesh.every_node_reaches_every_other_on_random_ports",
        healthy().mesh_fails(("node1", "node2"), blamed=(("node1", "node2"),)),
        ("node1", "node2"),
        "1 to node[1-2]",
    ),
    Broken(
        "mesh.every_node_reaches_every_other_on_random_ports",
        healthy().mesh_fails(("node1", "node2"), blamed=()),
        ("node1", "node2"),
        "node1 to node2 port 40001",
    ),
)


@pytest.mark.parametrize("broken", BROKEN, ids=str)
def test_the_broken_nodes_are_named(broken):
    """Each row: the check names exactly the broken nodes, says what is wrong, and how to fix it."""
    broken.assert_named()


def test_a_node_without_training_interface_takes_no_part():
    """Its cell is an error blocked by the cause; the others attest each other."""
    run = roce().with_variables("node3", NCCL_SOCKET_IFNAME="=ib0")
    findings = {f.nodes: f for f in judge("mesh.every_node_reaches_every_other_on_random_ports", run)}
    assert findings["node3",].message.startswith("blocked by network.training_interface_exists")
    assert findings["node1", "node2", "node4"].verdict is Verdict.PASS
