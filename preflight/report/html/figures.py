"""Which curves, columns and bars do bandwidth, training and time give?"""

from __future__ import annotations

import math
import statistics

from markupsafe import Markup

from preflight.report.columns import size_text
from preflight.report.document import RunReport
from preflight.report.html.plots import Column, Point, Series, column_plot, line_plot, number, text
from preflight.results import Bench, Result, Training

GAUGE_WIDTH, GAUGE_HEIGHT, GAUGE_LEFT = 640, 34, 132
CURVES = 12  # collectives and element types in one plot


def bandwidth(bench: Bench) -> Markup:
    """Bus bandwidth over size where there are several sizes, else a bar for each collective."""
    expected = ("expected", bench.expected.busbw_gbytes_per_s) if bench.expected else None
    by_name: dict[str, list[Result]] = {}
    for result in bench.results:
        name = f"{result.title}{'' if result.dtype == 'float32' else f' {result.dtype}'}"
        by_name.setdefault(f"{name}{'' if result.in_place else ' (out of place)'}", []).append(result)
    sizes = sorted({result.bytes for result in bench.results})
    if len(sizes) < 2:
        return _gauges(by_name, expected[1] if expected else 0.0)
    series = [
        Series(
            name,
            tuple(
                Point(
                    math.log2(max(r.bytes, 1)),
                    r.busbw_gbytes_per_s,
                    r.busbw_low_gbytes_per_s,
                    r.busbw_high_gbytes_per_s,
                )
                for r in sorted(results, key=lambda result: result.bytes)
            ),
        )
        for name, results in list(by_name.items())[:CURVES]
    ]
    every = math.ceil(len(sizes) / 10)
    return line_plot(
        series,
        title="Bus bandwidth over message size, with the expected bandwidth as a dashed line",
        x_label="message size",
        y_label="busbw (GB/s)",
        x_ticks=[(math.log2(max(size, 1)), size_text(size)) for size in sizes[::every]],
        reference=expected,
    )


def _gauges(by_name: dict[str, list[Result]], expected: float) -> Markup:
    """Measured against expected, one bar a collective."""
    results = [(name, each[0]) for name, each in list(by_name.items())[:CURVES]]
    full = max([expected, *(result.busbw_high_gbytes_per_s for _, result in results)]) * 1.02 or 1.0
    scale = (GAUGE_WIDTH - GAUGE_LEFT) / full
    parts = []
    for place, (name, result) in enumerate(results):
        top = place * GAUGE_HEIGHT + 8
        parts.append(Markup('<text class="tick" x="0" y="{}">{}</text>').format(top + 14, text(name[:18])))
        parts.append(
            Markup('<rect class="trough" x="{}" y="{}" width="{}" height="18" rx="3"/>').format(
                GAUGE_LEFT, top, GAUGE_WIDTH - GAUGE_LEFT
            )
        )
        parts.append(
            Markup('<rect class="column whole" x="{}" y="{}" width="{}" height="18" rx="3"/>').format(
                GAUGE_LEFT, top, number(result.busbw_gbytes_per_s * scale)
            )
        )
        low, high = (
            number(GAUGE_LEFT + figure * scale)
            for figure in (result.busbw_low_gbytes_per_s, result.busbw_high_gbytes_per_s)
        )
        parts.append(Markup('<path class="interval" d="M{} {}H{}"/>').format(low, top + 9, high))
        if expected:
            mark = number(GAUGE_LEFT + expected * scale)
            parts.append(Markup('<path class="expected" d="M{} {}v26"/>').format(mark, top - 4))
    return Markup('<svg class="plot" role="img" aria-label="{}" viewBox="0 0 {} {}">{}</svg>').format(
        "Measured bus bandwidth as bars, the expected one as a dashed line",
        GAUGE_WIDTH,
        len(results) * GAUGE_HEIGHT + 8,
        Markup("").join(parts),
    )


def loss(training: Training) -> Markup:
    """The mean loss of every step."""
    count = len(training.losses)
    every = max(1, math.ceil(count / 12))
    return line_plot(
        [Series("loss", tuple(Point(float(step), value) for step, value in enumerate(training.losses, 1)))],
        title=f"Loss over {count} steps, from {training.losses[0]:.3f} to {training.losses[-1]:.3f}",
        x_label="step",
        y_label="mean loss",
        x_ticks=[(float(step), str(step)) for step in range(1, count + 1, every)],
        from_zero=False,
    )


def steps(training: Training) -> Markup:
    """The step time of every rank: median, the communication in it, and the 95th percentile."""
    columns = [
        Column(
            str(rank.rank),
            rank.step_seconds_median * 1e3,
            min(rank.communication_seconds_median, rank.step_seconds_median) * 1e3,
            rank.step_seconds_p95 * 1e3,
            f"rank {rank.rank} on {rank.node}: {rank.step_seconds_median * 1e3:.1f} ms,"
            f" of it {rank.communication_seconds_median * 1e3:.1f} ms communication;"
            f" 95 % within {rank.step_seconds_p95 * 1e3:.1f} ms",
        )
        for rank in sorted(training.ranks, key=lambda rank: rank.rank)
    ]
    typical = statistics.median(column.value for column in columns)
    return column_plot(
        columns,
        title=f"Step time of {len(columns)} ranks, median {typical:.1f} ms",
        x_label="rank",
        y_label="ms a step",
    )


def time_bar(report: RunReport) -> Markup:
    """The stages side by side, as long as they took."""
    whole = sum(report.stages.values())
    if not whole:
        return Markup("")
    parts, left = [], 0.0
    for place, (name, spent) in enumerate(report.stages.items()):
        wide = GAUGE_WIDTH * spent / whole
        parts.append(
            Markup('<rect class="stage s{}" x="{}" y="0" width="{}" height="22"><title>{}</title></rect>').format(
                place % 6, number(left), number(max(wide - 1.5, 0.5)), text(f"{name}: {spent:.1f} s")
            )
        )
        left += wide
    return Markup('<svg class="plot" role="img" aria-label="Time by stage" viewBox="0 0 {} 22">{}</svg>').format(
        GAUGE_WIDTH, Markup("").join(parts)
    )
