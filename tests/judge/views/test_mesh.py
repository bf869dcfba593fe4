"""Are failed connections blamed on the nodes that they speak of?"""

from __future__ import annotations

from preflight.judge.views.mesh import MeshView
from preflight.testing import healthy


def test_edges_that_the_mesh_blames_on_nobody_are_blamed_on_both_ends():
    """No failed connection goes without a Blame."""
    run = healthy().mesh_fails(("node1", "node3"), ("node2", "node1"), blamed=(("node3",),))
    blames = MeshView(run.measured_mesh, run.cluster).blames()
    assert [blame.nodes for blame in blames] == [("node3",), ("node1", "node2")]


def test_two_sides_that_do_not_reach_each_other_are_told_as_such():
    """Not each node as one that cannot connect to itself."""
    names = ("node1", "node2", "node3", "node4")
    edges = [(one, other) for one in names[:2] for other in names[2:]]
    run = healthy(4).mesh_fails(*edges, *((other, one) for one, other in edges), blamed=(names,))
    (blame,) = MeshView(run.measured_mesh, run.cluster).blames()
    assert blame.nodes == names
    assert "node[1-2] and node[3-4] cannot connect to each other" in blame.message


def test_where_all_nodes_filter_it_is_said_once():
    """One closed security group is one sentence about all nodes, and not a list of each node's peers."""
    names = ("node1", "node2", "node3", "node4")
    edges = [(one, other) for one in names for other in names if one != other]
    run = healthy(4).mesh_fails(*edges, blamed=(names,))
    (blame,) = MeshView(run.measured_mesh, run.cluster).blames()
    assert blame.nodes == names
    assert "peers" not in blame.message
    assert len(blame.message) < 120, blame.message
