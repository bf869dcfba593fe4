"""Is the rank that computes, keeps or learns something else named with its node?"""

from __future__ import annotations

import pytest

from preflight.facts.results import Drill, JobFailure
from preflight.judge.ledger.findings import Verdict
from preflight.testing import healthy, roce
from tests.checks.samples import Broken, judge

BROKEN = (
    Broken(
        "training.every_rank_joined_where_planned",
        healthy().rank_has(2, node="node1"),
        ("node1", "node3"),
        "rank 2 joined on node1; wanted once on node3",
    ),
    Broken(
        "training.every_rank_joined_where_planned",
        healthy().rank_has(2, rank=1),
        ("node2", "node3"),
        "rank 2 never joined; wanted once on node3",
    ),
    Broken(
        "training.first_step_gradients_are_right",
        healthy().rank_has(2, gradient_error=0.8),
        ("node3",),
        "the gradient of rank 2 on node3 before the all-reduce is off by 0.8 (relative); wanted at most 0.001",
    ),
    Broken(
        "training.parameters_are_the_same_on_every_rank",
        healthy().rank_has(2, parameters_digest="d1", parameters_error=0.5),
        ("node3",),
        "the parameters of rank 2 on node3 differ from those of the other ranks",
    ),
    Broken(
        "training.parameters_are_the_same_on_every_rank",
        healthy(2).rank_has(1, parameters_digest="d1", parameters_error=0.5),
        ("node2",),
        "rank 1 on node2",
    ),
    Broken(
        "training.parameters_are_the_same_on_every_rank",
        healthy(2).rank_has(1, parameters_digest="d1"),
        ("node1", "node2"),
        "rank 0 on node1; rank 1 on node2",
    ),
    Broken(
        "training.ddp_equals_one_process",
        healthy().rank_has(0, parameters_error=0.2).rank_has(1, parameters_error=0.2).rank_has(2, parameters_error=0.2),
        ("node1", "node2", "node3"),
        "0.2 (relative) from those of one process on the whole batch",
    ),
    Broken(
        "training.the_loss_falls",
        healthy().training_has(losses=(5.5, 5.5, 5.4)),
        ("node1", "node2", "node3"),
        "loss: 5.5 at the first step, 5.4 at step 3; wanted at most 5.225",
    ),
    Broken(
        "training.every_rank_joined_where_planned",
        healthy().training_has(
            ranks=(),
            failure=JobFailure(
                nodes=("node3",), is_proven=True, message="rank 2 on node3 stopped", cause="killed", fix="look"
            ),
        ),
        ("node3",),
        "rank 2 on node3 stopped; likely cause: killed",
    ),
    Broken(
        "training.every_rank_joined_where_planned",
        roce(2).rank_has(3, device="cuda:2"),
        ("node1",),
        "rank 3 on node1 ran on cuda:2; wanted cuda:3",
    ),
    Broken(
        "training.data_shards_are_disjoint_and_complete",
        healthy()
        .rank_has(2, samples_right=False, samples_shared=48)
        .rank_has(0, samples_shared=48)
        .training_has(samples_missing=48),
        ("node3",),
        "rank 2 on node3: samples that are not theirs; 48 are used by another rank too, 48 by none",
    ),
    Broken(
        "training.gradients_are_finite",
        healthy().rank_has(1, finite=False),
        ("node2",),
        "rank 1 on node2: NaN or infinite values, first seen there",
    ),
    Broken(
        "training.optimizer_state_is_the_same_on_every_rank",
        healthy().rank_has(1, optimizer_digest="o1"),
        ("node2",),
        "the optimizer state of rank 1 on node2 differs",
    ),
    Broken(
        "training.the_same_seed_gives_the_same_losses_again",
        healthy().rank_has(1, replay_error=0.01),
        ("node2",),
        "trained again, the losses of rank 1 on node2 differ by 0.01",
    ),
    Broken(
        "training.accumulation_equals_the_large_batch",
        healthy().rank_has(0, accumulation_error=0.5),
        ("node1",),
        "the accumulated gradient of rank 0 on node1 differs by 0.5",
    ),
    Broken(
        "training.checkpoint_is_read_by_every_rank",
        healthy().rank_has(2, checkpoint_error="/shared/x.pt: No such file or directory"),
        ("node3",),
        "rank 2 on node3: checkpoint not read: /shared/x.pt: No such file or directory",
    ),
    Broken(
        "training.training_resumes_to_the_same_losses",
        healthy().rank_has(2, resume_error=0.2),
        ("node3",),
        "resumed from the checkpoint, the losses of rank 2 on node3 differ by 0.2",
    ),
    Broken(
        "training.a_killed_rank_is_noticed_and_named",
        healthy().training_has(
            drill=Drill(rank=2, node="node3", named=("node1",), seconds_to_end=5.0, limit_seconds=44.0)
        ),
        ("node3",),
        "rank 2 on node3 was killed; blamed: node1",
    ),
    Broken(
        "training.a_killed_rank_is_noticed_and_named",
        healthy().training_has(
            drill=Drill(rank=2, node="node3", named=("node3",), seconds_to_end=90.0, limit_seconds=44.0)
        ),
        ("node1", "node2", "node3"),
        "the others ended after 90 s; wanted at most 44 s",
    ),
    Broken(
        "training.torchrun_restarts_from_the_checkpoint",
        healthy().training_has(
            drill=Drill(
                rank=2,
                node="node3",
                named=("node3",),
                seconds_to_end=5.0,
                limit_seconds=44.0,
                restarted_losses=(4.0,),
                wanted_losses=(3.0,),
            )
        ),
        ("node1", "node2", "node3"),
        "losses after the restart: (4.0,); wanted (3.0,)",
    ),
    Broken(
        "training.no_rank_straggles",
        healthy().rank_has(1, compute_seconds_mean=0.18),
        ("node2",),
        "rank 1 on node2: 0.18 s for a step without communication; the median is 0.1 s, wanted at most 1.5 x that",
    ),
    Broken(
        "training.no_rank_straggles",
        healthy().rank_has(1, quota_periods=9, quota_periods_stopped=8),
        ("node2",),
        "the quota of CPU stopped it in 8 of 9 periods while it trained, wanted fewer than 50% of them",
    ),
    Broken(
        "training.no_rank_halves_the_speed",
        healthy().rank_has(1, compute_seconds_mean=0.3),
        ("node2",),
        "rank 1 on node2: 0.3 s for a step without communication; the median is 0.1 s, wanted at most 2 x that",
    ),
    Broken(
        "training.ddp_equals_one_process",
        healthy(2)
        .training_has(precision="bf16")
        .rank_has(0, parameters_error=0.06, gradient_error=0.02)
        .rank_has(1, parameters_error=0.06, gradient_error=0.02),
        ("node1", "node2"),
        "0.06 (relative) from those of one process on the whole batch; wanted at most 0.05",
    ),
)


@pytest.mark.parametrize("broken", BROKEN, ids=str)
def test_the_broken_nodes_are_named(broken):
    """Each row: the check names exactly the broken nodes, says what is wrong, and how to fix it."""
    broken.assert_named()


@pytest.mark.parametrize("name", ["training.ddp_equals_one_process", "training.the_loss_falls"])
def test_a_wrong_gradient_is_told_once(name):
    """A gradient that was wrong before the all-reduce spoils all that follows: blocked by the cause."""
    run = healthy().rank_has(2, gradient_error=0.8).training_has(losses=(5.5, 5.9))
    for rank in range(3):
        run = run.rank_has(rank, parameters_error=0.4)
    (finding,) = judge(name, run)
    assert finding.verdict is Verdict.ERROR
    assert finding.message.startswith("blocked by training.first_step_gradients_are_right on node3")


@pytest.mark.parametrize("name", ["training.ddp_equals_one_process", "training.the_loss_falls"])
def test_different_parameters_are_told_once(name):
    """A rank that drifted away is named by the comparison of ranks alone."""
    run = healthy().rank_has(2, parameters_digest="d1", parameters_error=0.5)
    (finding,) = judge(name, run)
    assert finding.message.startswith("blocked by training.parameters_are_the_same_on_every_rank on node3")


def test_a_rank_its_peers_disagree_about_is_named_only_if_no_other_explains_it():
    """A peer that computes wrongly also computes its peers' references wrongly."""
    run = healthy().rank_has(2, gradient_error=0.8).rank_has(0, gradient_error=0.8, reference_agreed=False)
    failed = [f for f in judge("training.first_step_gradients_are_right", run) if f.verdict is Verdict.FAIL]
    assert [finding.nodes for finding in failed] == [("node3",)]


def test_waiting_for_a_straggler_is_not_straggling():
    """Every rank of DDP takes the same time for a step: what it waits for its peers is not its own."""
    run = healthy()
    for rank, own in ((0, 0.05), (1, 0.3), (2, 0.05)):
        run = run.rank_has(rank, step_seconds_median=0.3, compute_seconds_mean=own)
    slow = [f for f in judge("training.no_rank_halves_the_speed", run) if f.verdict is Verdict.FAIL]
    assert [finding.nodes for finding in slow] == [("node2",)]
    assert all(f.verdict is Verdict.PASS for f in judge("training.no_rank_straggles", run))  # told once


def test_a_quota_that_stops_a_rank_once_or_twice_is_no_word_worth():
    """A burst as a library is loaded ends in one period; nor is one that stops it seldom."""
    for stopped, every in ((2, 2), (4, 20), (0, 0)):
        run = healthy().rank_has(1, quota_periods=every, quota_periods_stopped=stopped)
        assert all(f.verdict is Verdict.PASS for f in judge("training.no_rank_straggles", run))


def test_a_training_that_gave_nothing_passes_nothing():
    """Without ranks every check of the training is unmeasured, with the reason."""
    run = healthy().training_has(ranks=(), losses=(), not_measured="rank 2 on node3 stopped at stage rendezvous")
    for name in ("every_rank_joined_where_planned", "parameters_are_the_same_on_every_rank", "the_loss_falls"):
        (finding,) = judge(f"training.{name}", run)
        assert finding.verdict is Verdict.ERROR
        assert "rank 2 on node3" in finding.message


def test_what_follows_from_a_rank_that_died_is_blocked_by_it():
    """One fail on its node; every other check of the training says where to look."""
    failure = JobFailure(nodes=("node3",), is_proven=True, message="rank 2 on node3 stopped")
    run = healthy().training_has(ranks=(), losses=(), not_measured="rank 2 on node3 stopped", failure=failure)
    for name in ("gradients_are_finite", "parameters_are_the_same_on_every_rank", "the_loss_falls"):
        (finding,) = judge(f"training.{name}", run)
        assert finding.verdict is Verdict.ERROR
        assert finding.message.startswith("blocked by training.every_rank_joined_where_planned on node3")


def test_a_job_that_nobody_is_to_blame_for_is_not_measured():
    """A deadline that all ranks ran into says nothing about any node."""
    failure = JobFailure(nodes=("node1", "node2", "node3"), is_proven=False, message="time limit")
    run = healthy().training_has(ranks=(), losses=(), not_measured="time limit", failure=failure)
    (finding,) = judge("training.every_rank_joined_where_planned", run)
    assert finding.verdict is Verdict.ERROR
    assert "time limit" in finding.message


@pytest.mark.parametrize(
    "fault", [{"samples_right": False, "samples_shared": 3}, {"finite": False}], ids=["samples", "infinite"]
)
def test_what_spoils_gradients_is_told_before_them(fault):
    """A gradient of the wrong samples, or of no numbers, is no second cause."""
    run = healthy().rank_has(2, gradient_error=0.8, parameters_error=0.8, **fault)
    for name in ("first_step_gradients_are_right", "ddp_equals_one_process", "the_loss_falls"):
        (finding,) = judge(f"training.{name}", run)
        assert finding.verdict is Verdict.ERROR
        assert finding.message.startswith("blocked by training.")


@pytest.mark.parametrize("strategy", ["fsdp", "zero2"])
def test_shards_show_no_ranks_own_gradient(strategy):
    """What nobody can see is not asked."""
    run = healthy().training_has(strategy=strategy)
    for name in ("first_step_gradients_are_right", "no_rank_straggles", "no_rank_halves_the_speed"):
        (finding,) = judge(f"training.{name}", run)
        assert finding.verdict is Verdict.SKIP


def test_a_second_computation_that_was_not_made_passes_nothing():
    """None is no error of 0."""
    (finding,) = judge("training.the_same_seed_gives_the_same_losses_again", healthy().rank_has(1, replay_error=None))
    assert finding.verdict is Verdict.ERROR
