"""Is a figure one row: named, rounded and with its unit the same wherever it is shown?"""

from __future__ import annotations

import msgspec
import pytest

from preflight.facts.results import Result
from preflight.report import columns
from preflight.report.columns import BASE_UNITS, DEVICES, RANKS, RESULTS, Column, Metric, columns_of
from preflight.report.formats.markdown import markdown_text
from preflight.report.formats.metrics import metrics_text
from preflight.report.formats.table import bench_table
from preflight.report.formats.text import summary
from preflight.report.html.page import html_text
from preflight.report.material import Material
from tests.report.readers import Page, prometheus

replace = msgspec.structs.replace
TABLES = {"results": RESULTS, "devices": DEVICES, "ranks": RANKS}


def column(title):
    """A row of RESULTS by its title."""
    return next(one for one in RESULTS if one.title == title)


@pytest.mark.parametrize("rows", TABLES.values(), ids=TABLES)
def test_columns_have_titles_of_their_own_and_units_that_prometheus_can_scale(rows):
    """Two columns of one name could not be told apart; a unit without a base unit would be scaled wrongly."""
    titles = [one.title for one in rows]
    assert len(set(titles)) == len(titles)
    assert {one.unit for one in rows} <= set(BASE_UNITS)
    metrics = [one.metric.name for one in rows if one.metric]
    assert len(set(metrics)) == len(metrics)


def test_a_figure_reads_the_same_in_every_place(make_report, bench):
    """Terminal, nccl-tests' table, Markdown, page and Prometheus agree on 0.1194 GB/s."""
    report = make_report(bench=bench)
    material = Material(report)
    page = Page(html_text(material)).text()
    for text in (summary(report), markdown_text(material), page):
        assert all(word in text for word in ("busbw", "GB/s", "0.1194", "of expected"))
    assert "busbw 0.1194 GB/s" in bench_table(bench)
    families = prometheus(metrics_text(material))
    assert set(families["preflight_busbw_bytes_per_second"].values()) == {0.1194e9}
    assert set(families["preflight_collective_seconds"].values()) == {0.5}
    (ratio,) = set(families["preflight_busbw_expected_ratio"].values())
    assert ratio == pytest.approx(0.1194 / 0.1196)


def test_a_column_without_a_figure_in_any_row_is_not_shown(bench):
    """No expected bandwidth, no column of shares: an empty column reads as a zero."""
    unknown = replace(bench, expected=None)
    shown = [one.title for one in columns_of(RESULTS, "summary", unknown.results, unknown)]
    assert "busbw" in shown
    assert "of expected" not in shown
    assert column("of expected").phrase(unknown.results[0], unknown) == ""
    assert column("of expected").sample(unknown.results[0], unknown) is None


@pytest.mark.parametrize(("op", "text"), [("all_reduce", "100"), ("reduce_scatter", "")])
def test_only_collectives_bound_by_the_links_have_a_share_of_what_the_links_carry(bench, op, text):
    """On Gloo a reduce_scatter has a ceiling of its own: 38 % of the links' rate would read as a fault."""
    assert column("of expected").text(replace(bench.results[0], op=op), bench) == text


def test_a_range_has_both_ends_and_no_sample():
    """Prometheus has no type for an interval."""
    both: Column[tuple[float, float], str] = Column(
        title="t", unit="ms", value=lambda row, _: row, digits=".1f", metric=Metric("t_seconds", "A time.")
    )
    assert both.phrase((1.0, 2.25), "") == "t 1.0 to 2.2 ms"
    assert both.sample((1.0, 2.0), "") is None


def test_sizes_and_rates_have_units_that_people_use():
    """Binary for sizes, both for rates."""
    assert [columns.size_text(size) for size in (512, 1 << 20, 3 << 29)] == ["512 B", "1 MiB", "1.5 GiB"]
    assert columns.rate_text(0.125) == "0.125 GB/s (1 Gbit/s)"


def test_every_figure_of_a_result_stands_in_a_column(bench):
    """A field that no column reads would be measured and never shown."""
    result = bench.results[0]
    before = [one.value(result, bench) for one in RESULTS]
    unread = set()
    for name in Result.__struct_fields__:
        value = getattr(result, name)
        other = f"{value}x" if isinstance(value, str) else not value if isinstance(value, bool) else value
        other = value * 2 + 1 if isinstance(value, (int, float)) and not isinstance(value, bool) else other
        after = [one.value(replace(result, **{name: other}), bench) for one in RESULTS]
        if after == before:
            unread.add(name)
    # seconds_low and _high are the interval of busbw again; the ranks of a group stand in its name.
    assert unread == {"seconds_first", "seconds_low", "seconds_high", "wrong_ranks", "ranks"}
