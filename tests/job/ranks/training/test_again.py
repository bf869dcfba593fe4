"""Does the same come out again, and what does not show?"""

from __future__ import annotations

from preflight.job.ranks.training.again import check_again, time_alone
from preflight.job.ranks.training.model import build_model
from preflight.job.ranks.training.trainee import Trainee


def test_the_same_seed_gives_the_same_losses_again(data):
    """To the bit on a processor; a loss that was another is a difference."""
    start, batches = build_model(data.shape), data.load()[0]
    trainee = Trainee(start, settings=data.settings, place=data.place)
    steps = [trainee.timed_step(batch) for batch in batches]
    found = check_again(start, batches, steps, data=data)
    assert found["replay_error"] == 0
    assert found["accumulation_error"] < 1e-4
    assert check_again(start, [*reversed(batches)], steps, data=data)["replay_error"] > 0


def test_one_node_is_not_timed_by_itself(data):
    """It is by itself anyway."""
    assert time_alone(build_model(data.shape), data.load()[0], data=data) is None
