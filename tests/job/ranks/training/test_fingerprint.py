"""Is a difference told from rounding?"""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from preflight.job.ranks.training.fingerprint import PROJECTIONS, SPOILT, difference, digest, distance, fingerprint

numbers = st.floats(-1e3, 1e3).filter(lambda value: abs(value) > 1e-3)
fingerprints = st.lists(numbers, min_size=8, max_size=8)


@given(fingerprints, st.floats(1e-3, 10))
def test_distance_is_relative_to_the_reference(reference, share):
    """A gradient of which every part is larger by a share is that share away, whatever its scale."""
    assert distance([value * (1 + share) for value in reference], reference) <= share * 1.0001
    assert distance([value * (1 + share) for value in reference], reference) >= share * 0.9999 / 100
    assert distance(reference, reference) == 0


def test_one_parameter_of_many_is_not_lost_in_the_whole():
    """A small parameter spoilt by half is seen as half, one that is noise beside the whole is not."""
    whole = [100.0] * PROJECTIONS + [5.0] * PROJECTIONS + [1e-7] * PROJECTIONS
    small = [100.0] * PROJECTIONS + [7.5] * PROJECTIONS + [1e-7] * PROJECTIONS
    noise = [100.0] * PROJECTIONS + [5.0] * PROJECTIONS + [9e-7] * PROJECTIONS
    assert distance(small, whole) == pytest.approx(0.5)
    assert distance(noise, whole) < 1e-6


@pytest.mark.parametrize("spoilt", [math.nan, math.inf, 1e300])
def test_a_distance_is_always_a_number(spoilt):
    """What is infinite or no number is as far away as can be, in either place: JSON has no NaN."""
    assert distance([spoilt] * 4, [1.0] * 4) == SPOILT
    assert distance([spoilt] * 4, [0.0] * 4) == SPOILT
    assert math.isfinite(distance([1.0] * 4, [spoilt] * 4))


def test_one_bit_is_another_digest():
    """And one element another fingerprint; the same values give the same on every call."""
    before = torch.arange(100, dtype=torch.float32)
    after = before.clone()
    after[7] = torch.nextafter(after[7], torch.tensor(99.0))
    assert digest([before], moved=list) == digest([before.clone()], moved=list) != digest([after], moved=list)
    assert (
        fingerprint([before], seed=1, moved=list)
        == fingerprint([before], seed=1, moved=list)
        != fingerprint([after], seed=1, moved=list)
    )
    assert len(fingerprint([before, after], seed=1, moved=list)) == 2 * PROJECTIONS


def test_what_is_no_number_differs_from_a_number_only():
    """A loss of infinity that was there before is no difference."""
    assert difference(math.inf, math.nan) == 0
    assert difference(math.inf, 1.0) == difference(1.0, math.nan) == SPOILT
    assert difference(1.5, 1.0) == pytest.approx(0.5)
