"""Is a job that went well never blamed, and is a failure in its log found all the same?"""

from __future__ import annotations

import pytest

from preflight.diagnose import diagnose
from tests.diagnose.healthy import FAILURES, logs

HEALTHY = dict(logs())


def test_there_are_enough_of_them():
    """Of all stacks that people use."""
    assert len(HEALTHY) >= 40


@pytest.mark.parametrize("name", HEALTHY)
def test_a_job_that_went_well_is_not_blamed(name):
    """For nothing that it survived, said of others, or was told as it ended."""
    found = diagnose(HEALTHY[name])
    assert [one.cause.name for one in (*found.causes, *found.consequences)] == []


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_at_the_end_of_it_is_found(failure):
    """Whatever stood there before."""
    missed = {}
    for name, lines in HEALTHY.items():
        causes = [one.cause.name for one in diagnose([*lines, *FAILURES[failure]()]).causes]
        if causes[:1] != [failure]:
            missed[name] = causes
    assert missed == {}
