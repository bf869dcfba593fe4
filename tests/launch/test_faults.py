"""Are single faults in right launch files told, and do harmless changes alter nothing?"""

from __future__ import annotations

import pytest

from tests.bench.launch_faults import GOAL, changed, named
from tests.launch import truth
from tests.launch.faults import FAULTS, broken
from tests.shares import shares

CASES = truth.cases()
GOOD = [case for case in CASES if not case.musts]
SAMPLE = 7  # of so many cases one


def test_there_are_enough_kinds_and_each_is_made():
    """At least forty, with names of their own, and each of them is possible in some right file."""
    names = [fault.name for fault in FAULTS]
    assert len(names) == len(set(names)) >= 40
    assert [fault.name for fault in FAULTS if not any(list(broken(case, fault)) for case in GOOD)] == []


@pytest.mark.parametrize("share", shares(3))
def test_faults_in_right_files_are_told(share):
    """Of a sample nine in ten."""
    made, seen, _ = named(share.of(GOOD[::SAMPLE]))
    assert sum(made.values()) > 60
    assert sum(seen.values()) >= GOAL * sum(made.values())


@pytest.mark.parametrize("share", shares(3))
def test_harmless_changes_alter_no_finding(share):
    """Comments, quotes, line breaks, a variable for a literal, a function around all: in right and wrong files."""
    count, found = changed(share.of(CASES[::SAMPLE]))
    assert len(count) > 3
    assert found == []


@pytest.mark.parametrize("share", shares(6))
@pytest.mark.parametrize("kind", ["port over the range", "#SBATCh", "no backslash"])
def test_a_kind_that_is_always_told_stays_so(kind, share):
    """In every right file that can have it, but for what a here-document writes."""
    made, seen, _ = named(share.of(GOOD), [fault for fault in FAULTS if fault.name == kind])
    assert made[kind] - seen[kind] <= 1
