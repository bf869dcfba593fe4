"""Is a job that went well never blamed, and is a failure in its log found all the same?"""

from __future__ import annotations

import pytest

from preflight.diagnose import diagnose
from tests.diagnose.healthy import FAILURES, logs
from tests.diagnose.test_logs import DRESSES
from tests.shares import some_first

HEALTHY = dict(logs())


def test_there_are_enough_of_them():
    """Of all stacks that people use."""
    assert len(HEALTHY) >= 100


@pytest.mark.parametrize("dress", some_first(DRESSES, 2))
def test_a_job_that_went_well_is_not_blamed(dress):
    """For nothing that it survived, said of others, or was told as it ended, however its lines are prefixed."""
    blamed = {}
    for name, lines in HEALTHY.items():
        found = diagnose(DRESSES[dress](tuple(lines)))
        if found.has_failed:
            blamed[name] = [one.cause.name for one in (*found.causes, *found.consequences)]
    assert blamed == {}


@pytest.mark.parametrize("dress", some_first(DRESSES))
@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_at_the_end_of_it_is_found(failure, dress):
    """Whatever stood there before."""
    missed = {}
    for name, lines in HEALTHY.items():
        causes = [one.cause.name for one in diagnose(DRESSES[dress]((*lines, *FAILURES[failure]()))).causes]
        if causes[:1] != [failure]:
            missed[name] = causes
    assert missed == {}
