"""Are failed connections blamed on the nodes that they speak of?"""

from __future__ import annotations

from preflight.judge.views.mesh import MeshView
from preflight.testing import healthy


def test_edges_that_the_mesh_blames_on_nobody_are_blamed_on_both_ends():
    """No failed connection goes without a Blame."""
    run = healthy().mesh_fails(("node1", "node3"), ("node2", "node1"), blamed=(("node3",),))
    blames = MeshView(run.measured_mesh, run.cluster).blames()
    assert [blame.nodes for blame in blames] == [("node3",), ("node1", "node2")]
