"""Does the view of the training name the nodes that a rank's figure speaks of?"""

from __future__ import annotations

import pytest

from preflight.facts.results import JobFailure
from preflight.judge.settings import TrainingSettings
from preflight.judge.views.training import TrainingView
from preflight.said.errors import BlockedBy, NotApplicable, NotMeasured
from preflight.testing import healthy, roce


def _training(run, planned=()):
    return TrainingView(run.measured_training, run.cluster, planned)


def test_ranks_are_told_with_their_nodes():
    """Ranks of one node are told together."""
    view = _training(roce(2))
    assert view.ranks_text(view.ranks()[6:9]) == "rank 6, 7 on node1; rank 8 on node2"


def test_without_a_plan_every_rank_must_join_once():
    """Where the launcher places ranks, only a rank that is missing or double is wrong."""
    assert _training(healthy().rank_has(2, node="node1")).misplaced() == []
    (blame,) = _training(healthy().training_has(world_size=4)).misplaced()
    assert blame.message == "rank 3 never joined; wanted each of 4 ranks once"


def test_too_few_steps_have_no_trend():
    """One loss does not fall."""
    with pytest.raises(NotMeasured, match="at least 2"):
        _training(healthy().training_has(losses=(5.0,))).losses()


def test_two_ranks_of_one_node_have_no_straggler():
    """They share its cores, and one of two is always the slower one; of two nodes that is worth knowing."""
    with pytest.raises(NotApplicable, match="2 ranks on one node"):
        _training(healthy(2).rank_has(1, node="node1")).stragglers(above=1.5, min_seconds=0.01)
    (slow,) = _training(healthy(2).rank_has(1, compute_seconds_mean=0.3)).stragglers(above=1.5, min_seconds=0.01)
    assert slow.node == "node2"
    assert _training(healthy(2).rank_has(1, compute_seconds_mean=0.3)).stragglers(above=1.5, min_seconds=0.5) == ()


def test_steps_without_a_time_of_their_own_have_no_straggler():
    """What an earlier version stored did not measure it: that is said, not taken for even ranks."""
    with pytest.raises(NotMeasured, match="no time for a step without communication"):
        _training(healthy().rank_has(1, compute_seconds_mean=0.0)).stragglers(above=1.5, min_seconds=0.01)


def test_half_of_the_ranks_may_be_slow():
    """The slow node's own ranks do not make it the measure."""
    run = roce(2)
    for rank in range(8, 16):
        run = run.rank_has(rank, compute_seconds_mean=0.5)
    assert {rank.node for rank in _training(run).stragglers(above=2.0, min_seconds=0.01)} == {"node2"}


def test_bf16_is_judged_by_its_own_rounding():
    """fp32 keeps its two tolerances; bf16 has one for both."""
    settings = TrainingSettings(gradient_tolerance=0.5, parameters_tolerance=0.25, bf16_tolerance=0.125)
    assert _training(healthy()).limits(settings) == settings
    limits = _training(healthy().training_has(precision="bf16")).limits(settings)
    assert (limits.gradient_tolerance, limits.parameters_tolerance) == (0.125, 0.125)


def test_a_rank_on_another_device_than_its_place_is_misplaced():
    """The second rank of a node belongs on its second GPU."""
    run = roce(1).rank_has(1, device="cuda:0")
    (blame,) = _training(run, ("node1",) * 8).misplaced()
    assert blame.message == "rank 1 on node1 ran on cuda:0; wanted cuda:1"


def test_nobody_is_blamed_for_a_job_without_proof():
    """A deadline alone names no node."""
    failure = JobFailure(nodes=("node3",), is_proven=False, message="time limit")
    view = _training(healthy().training_has(ranks=(), not_measured="time limit", failure=failure))
    with pytest.raises(NotMeasured, match="time limit"):
        view.misplaced()


def test_a_rank_that_is_to_blame_blocks_what_asks_for_ranks():
    """In HOSTS order, whatever order the failure has."""
    failure = JobFailure(nodes=("node3", "node1"), is_proven=True, message="gone")
    view = _training(healthy().training_has(ranks=(), failure=failure))
    with pytest.raises(BlockedBy, match="on node1,node3"):
        view.ranks()


def test_an_error_that_one_rank_did_not_tell_is_not_judged_by_the_others():
    """None is unknown."""
    view = _training(healthy().rank_has(0, resume_error=None))
    with pytest.raises(NotMeasured, match="1 of 3 ranks"):
        view.beyond(lambda rank: rank.resume_error, tolerance=1.0)


@pytest.mark.parametrize(
    ("run", "precision", "tolerance"),
    [(healthy(2), "fp32", 1e-5), (healthy(2), "bf16", 1e-5), (roce(2), "fp32", 1e-3), (roce(2), "bf16", 2e-2)],
)
def test_gpus_repeat_a_loss_less_exactly(run, precision, tolerance):
    """A CPU repeats it to the bit; kernels of a GPU add in any order, and bf16 keeps eight bits of that."""
    limits = _training(run.training_has(precision=precision)).limits(TrainingSettings())
    assert limits.replay_tolerance == tolerance
