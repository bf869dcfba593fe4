"""Does a step learn, and do parts of a batch add up to the whole?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from preflight.job.ranks.training.model import build_model
from preflight.job.ranks.training.trainee import Trainee


def test_steps_on_one_batch_lower_its_loss(data):
    """The copy learns, what it was made from stays."""
    start = build_model(data.shape)
    before = [parameter.clone() for parameter in start.parameters()]
    trainee = Trainee(start, settings=data.settings, place=data.place)
    losses = [trainee.timed_step(data.batch(0, 0)).loss for _ in range(4)]
    assert losses == sorted(losses, reverse=True)
    assert all(then.equal(now) for then, now in zip(before, start.parameters(), strict=True))


def test_parts_of_a_batch_train_as_the_whole(data):
    """Within rounding."""
    start, batch = build_model(data.shape), data.batch(0, 0)
    ends = []
    for accumulate in (1, 2):
        trainee = Trainee(start, settings=replace(data.settings, accumulate=accumulate), place=data.place)
        loss = float(trainee.step(batch))
        ends.append((loss, [value for state in trainee.optimizer_state() for value in state.flatten()[:3].tolist()]))
    assert ends[0][0] == pytest.approx(ends[1][0], rel=1e-5)
    assert ends[0][1] == pytest.approx(ends[1][1], rel=1e-3, abs=1e-7)
