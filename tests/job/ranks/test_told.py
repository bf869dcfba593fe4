"""Do ranks record what tests/data/said/ranks.txt lists of whole jobs? ``python -m tests.job.ranks.told`` writes it."""

from __future__ import annotations

import pytest

from tests.job.ranks import told


@pytest.mark.parametrize("name", told.listed())
def test_ranks_record_what_is_listed(name, forked_scenarios, tmp_path):
    """On the processor and on GPUs: stages, figures, what was wrong, and how each rank ended."""
    program, scenario = told.jobs(str(tmp_path))[name]
    played = forked_scenarios(program, {name: scenario})[name]
    assert list(told.lines_of(played, str(tmp_path))) == told.listed()[name]


def test_every_job_is_listed():
    """And none that is played no more."""
    assert list(told.listed()) == list(told.jobs("/tmp"))
