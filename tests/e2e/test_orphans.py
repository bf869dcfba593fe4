"""Whoever ends while a job runs, in whichever moment, nothing of the job outlives it on a host."""

from __future__ import annotations

import pytest

from tests.lab.lab import Lab
from tests.lab.orphans import KINDS, Trial

HOSTS, ROUNDS = 10, 3


@pytest.fixture(scope="module")
def lab(lab_is_possible):
    with Lab.create(HOSTS, rate=None) as made:
        yield made


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_outlives_who_ran_the_job(lab, kind):
    """30 jobs that are deaf to TERM, each with a daemon: 15 s after the end no process, listener or file is left."""
    trial = Trial(lab, kind, seed=0)
    assert [trial.round().left for _ in range(ROUNDS)] == [{}] * ROUNDS
