"""Is the rank that computes, keeps or learns something else named with its node?"""

from __future__ import annotations

import pytest

from preflight.findings import Verdict
from tests.checks.cluster import Broken, ethernet, judge

BROKEN = (
    Broken(
        "training.every_rank_joined_where_planned",
        ethernet().rank(2, node="node1"),
        ("node1", "node3"),
        "rank 2 joined on node1; wanted once on node3",
    ),
    Broken(
        "training.every_rank_joined_where_planned",
        ethernet().rank(2, rank=1),
        ("node2", "node3"),
        "rank 2 never joined; wanted once on node3",
    ),
    Broken(
        "training.first_step_gradients_are_right",
        ethernet().rank(2, gradient_error=0.8),
        ("node3",),
        "the gradient of rank 2 on node3 before the all-reduce is off by 0.8 (relative); wanted at most 0.001",
    ),
    Broken(
        "training.parameters_are_the_same_on_every_rank",
        ethernet().rank(2, parameters_digest="d1", parameters_error=0.5),
        ("node3",),
        "the parameters of rank 2 on node3 differ from those of the other ranks",
    ),
    Broken(
        "training.parameters_are_the_same_on_every_rank",
        ethernet(2).rank(1, parameters_digest="d1", parameters_error=0.5),
        ("node2",),
        "rank 1 on node2",
    ),
    Broken(
        "training.parameters_are_the_same_on_every_rank",
        ethernet(2).rank(1, parameters_digest="d1"),
        ("node1", "node2"),
        "rank 0 on node1; rank 1 on node2",
    ),
    Broken(
        "training.ddp_equals_one_process",
        ethernet().rank(0, parameters_error=0.2).rank(1, parameters_error=0.2).rank(2, parameters_error=0.2),
        ("node1", "node2", "node3"),
        "0.2 (relative) from one process on the whole batch",
    ),
    Broken(
        "training.the_loss_falls",
        ethernet().training_has(losses=(5.5, 5.5, 5.4)),
        ("node1", "node2", "node3"),
        "loss: 5.5 at the first step, 5.4 at step 3; wanted at most 5.225",
    ),
    Broken(
        "training.no_rank_straggles",
        ethernet().rank(1, step_seconds_median=0.3),
        ("node2",),
        "rank 1 on node2: 0.3 s for a step without communication; the median is 0.1 s",
    ),
)


@pytest.mark.parametrize("broken", BROKEN, ids=str)
def test_the_broken_nodes_are_named(broken):
    """Each row: the check names exactly the broken nodes, says what is wrong, and how to mend it."""
    broken.assert_named()


@pytest.mark.parametrize("name", ["training.ddp_equals_one_process", "training.the_loss_falls"])
def test_a_wrong_gradient_is_told_once(name):
    """A gradient that was wrong before the all-reduce spoils all that follows: blocked by the cause."""
    run = ethernet().rank(2, gradient_error=0.8).training_has(losses=(5.5, 5.9))
    for rank in range(3):
        run.rank(rank, parameters_error=0.4)
    (finding,) = judge(name, run)
    assert finding.verdict is Verdict.ERROR
    assert finding.message.startswith("blocked by training.first_step_gradients_are_right on node3")


@pytest.mark.parametrize("name", ["training.ddp_equals_one_process", "training.the_loss_falls"])
def test_different_parameters_are_told_once(name):
    """A rank that drifted away is named by the comparison of ranks alone."""
    run = ethernet().rank(2, parameters_digest="d1", parameters_error=0.5)
    (finding,) = judge(name, run)
    assert finding.message.startswith("blocked by training.parameters_are_the_same_on_every_rank on node3")


def test_a_rank_its_peers_disagree_about_is_named_only_if_no_other_explains_it():
    """A peer that computes wrongly also computes its peers' references wrongly."""
    run = ethernet().rank(2, gradient_error=0.8).rank(0, gradient_error=0.8, reference_agreed=False)
    failed = [f for f in judge("training.first_step_gradients_are_right", run) if f.verdict is Verdict.FAIL]
    assert [finding.nodes for finding in failed] == [("node3",)]


def test_waiting_for_a_straggler_is_not_straggling():
    """Every rank of DDP takes the same time for a step: what it waits for its peers is not its own."""
    run = ethernet()
    for rank, waiting in ((0, 0.25), (1, 0.0), (2, 0.25)):
        run.rank(rank, step_seconds_median=0.3, communication_seconds_median=waiting)
    slow = [f for f in judge("training.no_rank_straggles", run) if f.verdict is Verdict.WARN]
    assert [finding.nodes for finding in slow] == [("node2",)]


def test_a_training_that_gave_nothing_passes_nothing():
    """Without ranks every check of the training is unmeasured, with the reason."""
    run = ethernet().training_has(ranks=(), losses=(), not_measured="rank 2 on node3 stopped at stage rendezvous")
    for name in ("every_rank_joined_where_planned", "parameters_are_the_same_on_every_rank", "the_loss_falls"):
        (finding,) = judge(f"training.{name}", run)
        assert finding.verdict is Verdict.ERROR
        assert "rank 2 on node3" in finding.message
