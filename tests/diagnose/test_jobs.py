"""Do real jobs that were made to fail lead to what was done to them? More of them: ``python -m tests.bench.diagnose_jobs``."""

from __future__ import annotations

import pytest

from tests.bench.diagnose import mutate
from tests.bench.diagnose_jobs import FAULTS, is_right, run


@pytest.mark.process
@pytest.mark.parametrize("name", ["killed", "interface"])
def test_a_job_that_was_made_to_fail_is_diagnosed(name, tmp_path):
    """By what torchrun and its ranks printed, whatever else they say."""
    diagnosis = run(FAULTS[name], tmp_path)
    assert is_right(FAULTS[name], diagnosis), [one.cause.name for one in diagnosis.causes]


def test_spoiled_logs_break_nothing():
    """Lines cut, mixed, repeated and filled with what no log should hold."""
    mutate(150)
