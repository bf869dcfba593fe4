"""Do the views of mesh, bench and training name the nodes that a figure speaks of?"""

from __future__ import annotations

import pytest

from preflight.errors import BlockedBy, NotApplicable, NotMeasured
from preflight.facts.training import TrainingView
from preflight.facts.views import BenchView, MeshView
from tests.checks.cluster import busbw, ethernet, roce


def _bench(run):
    return BenchView(run.measured_bench, run.cluster)


def _training(run, planned=()):
    return TrainingView(run.measured_training, run.cluster, planned)


def test_edges_that_the_mesh_blames_on_nobody_are_blamed_on_both_ends():
    """No failed connection goes without a Blame."""
    run = ethernet().mesh_fails(("node1", "node3"), ("node2", "node1"), blamed=(("node3",),))
    blames = MeshView(run.measured_mesh, run.cluster).blames()
    assert [blame.nodes for blame in blames] == [("node3",), ("node1", "node2")]


def test_ranks_lie_on_the_nodes_that_reported_them():
    """Ranks 0, 1 and 9 of eight a node are on the first two nodes; ranks nobody knows may be anywhere."""
    view = _bench(roce(2))
    assert view.nodes_of([0, 1, 9]) == ("node1", "node2")
    assert view.nodes_of([8]) == ("node2",)
    assert view.nodes_of([99]) == ("node1", "node2")


def test_one_node_has_no_links():
    """On one node there is nothing to expect of a link."""
    with pytest.raises(NotApplicable, match="no link measured"):
        _bench(ethernet(1)).expected()


def test_a_wrong_sum_says_nothing_about_bandwidth():
    """How fast wrong results came does not matter."""
    run = busbw(2.0).all_reduce_has(wrong=1, wrong_ranks=(2,))
    with pytest.raises(BlockedBy, match="all_reduce_is_correct on node3"):
        _bench(run).shortfall(share=0.9, impossible_above=1.02, needs_certainty=True)


def test_the_interval_is_judged_and_not_the_median():
    """Wholly above the gate is well, wholly below is a shortfall, across it is neither."""
    gate = {"share": 0.9, "impossible_above": 1.02}
    assert _bench(busbw(2.76)).shortfall(**gate, needs_certainty=True) == ""
    assert "wanted at least 2.745 GB/s" in _bench(busbw(2.73)).shortfall(**gate, needs_certainty=True)
    assert _bench(busbw(2.74, spread=0.1)).shortfall(**gate, needs_certainty=False) == ""
    with pytest.raises(NotMeasured, match="straddles"):
        _bench(busbw(2.74, spread=0.1)).shortfall(**gate, needs_certainty=True)


def test_ranks_are_told_with_their_nodes():
    """Ranks of one node are told together."""
    view = _training(roce(2))
    assert view.told(view.ranks()[6:9]) == "rank 6, 7 on node1; rank 8 on node2"


def test_without_a_plan_every_rank_must_join_once():
    """Where the launcher places ranks, only a rank that is missing or double is wrong."""
    assert _training(ethernet().rank(2, node="node1")).misplaced() == []
    (blame,) = _training(ethernet().training_has(world_size=4)).misplaced()
    assert blame.message == "rank 3 never joined; wanted each of 4 ranks once"


def test_too_few_steps_have_no_trend():
    """One loss does not fall."""
    with pytest.raises(NotMeasured, match="at least 2"):
        _training(ethernet().training_has(losses=(5.0,))).losses()


def test_no_straggler_without_a_median():
    """Of two ranks, one is always the slower one."""
    with pytest.raises(NotApplicable, match="2 ranks"):
        _training(ethernet(2)).stragglers(factor=1.5)
