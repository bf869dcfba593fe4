"""Are the figures of many operations what statistics say?"""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preflight.job.ranks.bench.figures import is_settled, median_interval, quantile


@given(st.lists(st.floats(1e-6, 10), min_size=1, max_size=60))
def test_the_interval_holds_the_median_of_what_was_seen(values):
    """The interval of the median is made of values seen and has their median in it."""
    low, high = median_interval(values)
    assert {low, high} <= set(values)
    assert low <= statistics.median(values) <= high


@pytest.mark.parametrize("count", range(6, 61))
def test_the_interval_covers_95_percent_and_no_narrower_one_does(count):
    """Coverage computed from the binomial distribution is at least 0.95, and would not be one value further in."""
    low, high = median_interval([float(value) for value in range(count)])
    cut = int(low)
    assert high == count - 1 - cut
    assert coverage(count, cut) >= 0.95
    assert coverage(count, cut + 1) < 0.95


def coverage(count, cut):
    """The chance that the median lies between the values that `cut` others lie outside of on either side."""
    return sum(math.comb(count, heads) for heads in range(cut + 1, count - cut)) / 2**count


@given(st.lists(st.floats(0.1, 10), min_size=2, max_size=40), st.floats(0, 1))
def test_a_quantile_lies_among_the_values_and_agrees_with_the_median(values, share):
    """Quantiles stay within the values seen, and the one in the middle is the median."""
    assert min(values) <= quantile(values, share) <= max(values)
    assert quantile(values, 0.5) == pytest.approx(statistics.median(values))


def test_few_iterations_never_settle_however_equal_they_are():
    """Five equal values give no 95 % interval, six do; scattered ones do not settle."""
    assert not is_settled([1.0] * 5, ci=0.01)
    assert is_settled([1.0] * 6, ci=0.01)
    assert not is_settled([1.0, 1.5, 2.0] * 3, ci=0.01)
