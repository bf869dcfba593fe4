"""Which figure got worse, with which run, and is noise, or another measurement, taken for it?"""

from __future__ import annotations

import re

import pytest

from preflight.report.html.trend import trend_html
from preflight.report.language import Language
from preflight.report.trend import trend, trend_lines
from preflight.testing import healthy, roce


def of(runs):
    """Their trend."""
    return trend(runs, [run.report.run.id for run in runs])


def test_a_fall_is_told_with_its_first_run(series):
    """The level before, what it is since, and how many runs stayed there."""
    found = of(series([12.0, 12.1, 11.9, 6.0, 6.1, 6.0]))
    (line,) = [line for line in trend_lines(found) if line.startswith("worse")]
    assert "on node[1-3]: 12 -> 6 GB/s (-50%), first in run r3 of 2030-01-04 04:00; 2 runs after it too" in line
    assert trend_lines(found)[0].startswith("6 runs, 0 of them not good")


def test_a_fall_that_was_mended_says_so(series):
    """With the run that was good again; the next fall is one of its own."""
    falls = of(series([12.0, 12.0, 6.0, 12.0, 5.0])).falls
    assert [(fall.first, fall.recovered, fall.later) for fall in falls] == [(2, 3, 0), (4, None, 0)]


@pytest.mark.parametrize(
    ("values", "more"),
    [
        ([12.0, 11.5, 12.4, 11.1, 11.6], {}),  # noise
        ([12.0, 13.5, 15.0], {}),  # better
        ([12.0, 6.0], {"sizes": [1 << 26, 1 << 20]}),  # another size
        ([12.0, 6.0], {"proved": {1}}),  # taken over from an earlier run
        ([12.0], {}),
    ],
)
def test_noise_and_other_measurements_are_no_fall(series, values, more):
    """Only what was measured in the same way, in a run of its own, is compared."""
    assert of(series(values, **more)).falls == ()


def test_a_step_that_takes_longer_is_worse(series):
    """For seconds more is worse; one node set is not compared with another."""
    (fall,) = of(series([12.0] * 4, step=[0.1, 0.1, 0.3, 0.3])).falls
    assert (fall.measure.unit, fall.first, fall.later) == ("s", 2, 1)
    assert fall.share == pytest.approx(2.0)
    assert of(series([12.0, 6.0], run=None)[:1] + series([6.0] * 2, run=roce(3))[1:]).falls[:0] == ()


def test_facts_that_moved_are_told_with_the_run(series):
    """Against the run before of the same nodes."""
    runs = [*series([12.0]), *series([12.0] * 2, run=healthy(3).broken_interface("node2", mtu=1400))[1:]]
    found = of(runs)
    assert [(moved.place, moved.fact, moved.nodes) for moved in found.moved] == [(1, "its MTU", ("node2",))]
    assert any(line.startswith("fact      its MTU on node2: ") for line in trend_lines(found))


def test_the_trend_is_told_in_chinese(series):
    """Lines and page: nothing of our own words stays English; names, figures and runs are as they were."""
    moved = series([12.0] * 2, run=healthy(3).broken_interface("node2", mtu=1400))[1:]
    found = of([*series([12.0, 12.1, 11.9, 6.0, 6.1]), *moved])
    chinese = Language("zh")
    lines = trend_lines(found, chinese)
    assert lines[0].startswith("6 次运行")
    (worse,) = [line for line in lines if line.startswith("变差")]
    assert "node[1-3]" in worse
    assert "12 -> 6 GB/s (-50%)" in worse
    assert any("node2" in line and "MTU" in line for line in lines[2:])
    page = trend_html(found, chinese)
    assert '<html lang="zh">' in page
    text = re.sub(r"<style>.*?</style>|<[^>]+>", " ", page, flags=re.DOTALL)
    assert re.findall(r"\b(?:runs?|nodes|worse|first|moved|figures?|after|took|started)\b", text) == []
