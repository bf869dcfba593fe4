"""Is what a rank reports free of its first step, and JSON whatever became of the loss?"""

from __future__ import annotations

import json
import math

import pytest

from preflight.job.ranks.training.figures import report_job, report_rank
from preflight.job.ranks.training.trainee import Step


class Kept:
    """Records that stay here; they must be JSON."""

    def __init__(self):
        self.all = []

    def send(self, record):
        self.all.append(json.loads(json.dumps(record, allow_nan=False)))


def test_the_first_step_does_not_count(data):
    """It sets up connections and buckets."""
    kept = Kept()
    steps = [Step(5.0, 9.0, 1.0, True), Step(4.0, 0.2, 0.1, True), Step(3.0, 0.4, 0.1, True)]
    report_rank(steps, {"replay_error": 0.0}, data=data, records=kept)
    (told,) = kept.all
    assert told["step_seconds_median"] == pytest.approx(0.3)
    assert told["step_seconds_p95"] == pytest.approx(0.4)
    assert told["finite"]
    assert told["memory_peak_bytes"] > 1 << 20


def test_the_rate_of_the_job_is_that_of_its_slowest_ranks_without_the_first_step(data):
    """Which would be a hundredth of it."""
    kept = Kept()
    report_job([Step(5.0, 90.0, 1.0, True), Step(4.0, 0.2, 0.1, True)], begin=0, data=data, records=kept, figures={})
    assert kept.all[0]["tokens_per_s"] == pytest.approx(data.shape.batch * data.shape.length / 0.2)


def test_losses_end_where_they_are_no_numbers(data):
    """The rank that began it is told by itself; the curve holds what came before."""
    kept = Kept()
    steps = [Step(5.0, 0.2, 0.1, True), Step(math.nan, 0.2, 0.1, False)]
    report_rank(steps, {}, data=data, records=kept)
    report_job(steps, begin=0, data=data, records=kept, figures={})
    assert not kept.all[0]["finite"]
    assert kept.all[1]["losses"] == [5.0]
    assert kept.all[1]["tokens_per_s"] == pytest.approx(data.shape.batch * data.shape.length / 0.2)
