"""Does each measurement get the plot that suits it?"""

from __future__ import annotations

from xml.etree import ElementTree as ET

import msgspec

from preflight.report.html import figures


def test_several_sizes_are_a_curve_and_one_is_a_bar(bench):
    """With the expected bandwidth in both."""
    curve = ET.fromstring(str(figures.bandwidth(bench)))
    assert [text.text for text in curve.iter("text") if text.get("text-anchor") == "middle"][:2] == ["1 MiB", "64 MiB"]
    assert curve.find("path[@class='expected']") is not None
    single = msgspec.structs.replace(bench, results=bench.results[:1])
    bar = ET.fromstring(str(figures.bandwidth(single)))
    whole = bar.find("rect[@class='column whole']")
    trough = bar.find("rect[@class='trough']")
    assert 0.9 < float(whole.get("width")) / float(trough.get("width")) < 1
    assert bar.find("path[@class='expected']") is not None


def test_a_bar_without_anything_expected_or_measured_is_drawn(bench):
    """Nothing over nothing is no error."""
    zero = msgspec.structs.replace(
        bench.results[0], busbw_gbytes_per_s=0.0, busbw_low_gbytes_per_s=0.0, busbw_high_gbytes_per_s=0.0
    )
    assert "<svg" in str(figures.bandwidth(msgspec.structs.replace(bench, results=(zero,), expected=None)))


def test_each_collective_and_type_has_its_own_curve(bench):
    """Two element types of one collective are not joined."""
    half = tuple(msgspec.structs.replace(result, dtype="float16") for result in bench.results)
    svg = ET.fromstring(str(figures.bandwidth(msgspec.structs.replace(bench, results=(*bench.results, *half)))))
    assert svg.find("path[@class='curve c1']") is not None


def test_loss_and_step_times_are_told_in_words_too(training):
    """For whoever cannot see the plot."""
    assert "from 4.170 to 2.310" in ET.fromstring(str(figures.loss(training))).get("aria-label")
    steps = ET.fromstring(str(figures.steps(training)))
    assert "median 100.0 ms" in steps.get("aria-label")
    assert "rank 2 on node3: 200.0 ms" in [title.text for title in steps.iter("title")][2]


def test_stages_are_as_wide_as_they_are_long(planted):
    """And nothing is drawn where no time was taken."""
    first, second = ET.fromstring(str(figures.time_bar(planted))).findall("rect")
    assert float(first.get("width")) > 3.9 * float(second.get("width"))
    assert figures.time_bar(msgspec.structs.replace(planted, stages={})) == ""
