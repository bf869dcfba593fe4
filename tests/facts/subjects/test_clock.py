"""Is the offset of a clock read as a number of seconds, and as nothing else?"""

from __future__ import annotations

import pytest

from preflight.facts.subjects.clock import Clock
from preflight.said.errors import FactMissing
from tests.facts.answers import decoded, wire

LATE = Clock(offset_seconds=-0.25, uncertainty_seconds=0.001)


def test_a_clock_may_be_ahead_or_behind():
    """The sign says which; whole seconds are as good as fractions."""
    assert decoded("clock", wire(LATE)) == LATE
    assert decoded("clock", {"offset_seconds": 3, "uncertainty_seconds": 0}) == Clock(
        offset_seconds=3.0, uncertainty_seconds=0.0
    )


@pytest.mark.parametrize("offset", ["0.5", None, True, [0.5], {"missing": "no clock"}])
def test_an_offset_that_is_no_number_is_malformed(offset):
    """The controller measures it itself, so there is no reason that could stand in its place."""
    with pytest.raises(FactMissing, match=r"malformed: .*offset_seconds"):
        decoded("clock", wire(LATE, offset_seconds=offset))


def test_an_offset_without_its_uncertainty_is_malformed():
    """Without it nobody knows whether two clocks differ or the network was slow."""
    with pytest.raises(FactMissing, match="uncertainty_seconds"):
        decoded("clock", {"offset_seconds": 0.5})
