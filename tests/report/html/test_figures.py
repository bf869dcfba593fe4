"""Does each measurement get the plot that suits it?"""

from __future__ import annotations

from xml.etree import ElementTree as ET

import msgspec

from preflight.report.html import figures


def drawn(bench):
    """The title, the picture and the words of the legend of each figure."""
    return [
        (one.title, ET.fromstring(str(one.plot)), [words for _, words in one.keys]) for one in figures.bandwidth(bench)
    ]


def texts(svg):
    return [text.text for text in svg.iter("text")]


def test_several_sizes_are_a_curve_and_one_is_a_bar(bench):
    """With the expected bandwidth, axes and their unit in both."""
    ((title, curve, keys),) = drawn(bench)
    assert (title, keys[0]) == ("all_reduce", "float32 (in place)")
    assert keys[-1].startswith("expected: ")
    assert keys[-1].endswith("Gbit/s)")
    assert [text.text for text in curve.iter("text") if text.get("text-anchor") == "middle"][:2] == ["1 MiB", "64 MiB"]
    assert {"busbw (GB/s)", "message size"} <= set(texts(curve))
    assert curve.find("path[@class='expected']") is not None
    ((title, bar, _),) = drawn(msgspec.structs.replace(bench, results=bench.results[:1]))
    assert title == "Messages of 1 MiB"
    assert "busbw (GB/s)" in texts(bar)
    assert bar.find("path[@class='expected']") is not None
    assert any(words.startswith("all_reduce, float32, in place: ") for words in texts(bar))


def test_a_bar_without_anything_expected_or_measured_is_drawn(bench):
    """Nothing over nothing is no error."""
    zero = msgspec.structs.replace(
        bench.results[0], busbw_gbytes_per_s=0.0, busbw_low_gbytes_per_s=0.0, busbw_high_gbytes_per_s=0.0
    )
    assert drawn(msgspec.structs.replace(bench, results=(zero,), expected=None))[0][2] == ["measured", "95 % interval"]


def test_each_collective_has_its_own_plot_and_expectation(bench):
    """That of another says nothing of it; two element types of one are two curves with their names."""
    half = tuple(msgspec.structs.replace(result, dtype="float16") for result in bench.results)
    others = tuple(msgspec.structs.replace(result, op="reduce_scatter") for result in bench.results)
    lower = msgspec.structs.replace(bench.expected, busbw_gbytes_per_s=0.05)
    found = drawn(
        msgspec.structs.replace(
            bench,
            backend="nccl",
            results=(*bench.results, *half, *others),
            expected_of={"all_reduce": bench.expected, "reduce_scatter": lower},
        )
    )
    assert [title for title, _, _ in found] == ["all_reduce", "reduce_scatter"]
    assert [words.partition(" ")[0] for words in found[0][2][:2]] == ["float32", "float16"]
    assert found[0][1].find("path[@class='curve c1']") is not None
    assert found[1][2][-1] == "expected: 0.05 GB/s (0.4 Gbit/s)"
    (unknown,) = drawn(msgspec.structs.replace(bench, results=others))
    assert unknown[0] == "reduce_scatter (no expectation: not bound by the links)"
    assert unknown[1].find("path[@class='expected']") is None


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
