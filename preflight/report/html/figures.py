"""Which curves, columns and bars do bandwidth, training and time give?"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from preflight.facts.results import Bench, Result, Training
from preflight.report.columns import counted, expected_by_links, rate_text, size_text
from preflight.report.document import RunReport
from preflight.report.html.plots import Column, Point, Series, column_plot, line_plot, number, rounded, text
from preflight.said import said

WIDTH = 480
BAR_HEIGHT, BAR_TOP = 42, 8  # a line of words and a bar below it
BARS = 24
CURVES = 6  # element types and buffers in one plot: as many as there are colours


@dataclass(frozen=True)
class Figure:
    """A plot, its title, and its legend: the class of a line and what it means."""

    title: str
    plot: Markup
    keys: tuple[tuple[str, str], ...]


def bandwidth(bench: Bench) -> tuple[Figure, ...]:
    """Bus bandwidth over size, one plot a collective with its own expectation; of one size alone, bars."""
    by_title: dict[str, list[Result]] = {}
    for result in bench.results:
        by_title.setdefault(result.title, []).append(result)
    if len({result.bytes for result in bench.results}) < 2:
        return (_bars(bench),) if bench.results else ()
    return tuple(_curves(bench, title, results) for title, results in by_title.items())


def _curves(bench: Bench, title: str, results: list[Result]) -> Figure:
    by_name: dict[str, list[Result]] = {}
    for result in sorted(results, key=lambda result: result.bytes):
        by_name.setdefault(f"{result.dtype} ({_buffers(result)})", []).append(result)
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
                for r in each
            ),
        )
        for name, each in list(by_name.items())[:CURVES]
    ]
    sizes = sorted({result.bytes for result in results})
    every = math.ceil(len(sizes) / 7)
    expected = expected_by_links(results[0], bench)
    keys = [(said("curve c{place}", place), one.name) for place, one in enumerate(series)]
    if expected is not None:
        keys.append(("expected", said("expected: {rate_text}", rate_text(expected.busbw_gbytes_per_s))))
    plot = line_plot(
        series,
        title=said(
            "Bus bandwidth of {title} over message size{expected}",
            title,
            ", the expected one dashed" if expected else "",
        ),
        x_label="message size",
        y_label="busbw (GB/s)",
        x_ticks=[(math.log2(max(size, 1)), size_text(size)) for size in sizes[::every]],
        reference=expected.busbw_gbytes_per_s if expected is not None else None,
    )
    return Figure(
        title if expected else said("{title} (no expectation: not bound by the links)", title), plot, tuple(keys)
    )


def _buffers(result: Result) -> str:
    return "in place" if result.in_place else "out of place"


def _bars(bench: Bench) -> Figure:
    """Measured beside expected, one bar a collective, type and buffers, over one axis."""
    results = bench.results[:BARS]
    expected = [each.busbw_gbytes_per_s if (each := expected_by_links(result, bench)) else 0.0 for result in results]
    ticks = rounded(0.0, max([*expected, *(result.busbw_high_gbytes_per_s for result in results)]))
    scale = (WIDTH - 36) / ticks[-1]
    foot = BAR_TOP + len(results) * BAR_HEIGHT
    parts = list(_axis(ticks, scale, foot))
    for place, (result, wanted) in enumerate(zip(results, expected, strict=True)):
        parts += _bar(result, wanted, BAR_TOP + place * BAR_HEIGHT, scale)
    plot = Markup('<svg class="plot" role="img" aria-label="{}" viewBox="0 0 {} {}">{}</svg>').format(
        "Measured bus bandwidth as bars, the expected one of each as a dashed line",
        WIDTH,
        foot + 40,
        Markup("").join(parts),
    )
    keys = [
        ("swatch", "measured"),
        ("interval", "95 % interval"),
        *([("expected", "expected")] if any(expected) else []),
    ]
    sizes = ", ".join(dict.fromkeys(size_text(result.bytes) for result in results))
    return Figure(said("Messages of {sizes}", sizes), plot, tuple(keys))


def _axis(ticks: Sequence[float], scale: float, foot: int) -> Iterator[Markup]:
    """The lines of the grid, the figures below them, and what they count; `scale` is pixels a GB/s."""
    tick_text = Markup('<text class="tick" x="{}" y="{}" text-anchor="middle">{}</text>')
    for tick in ticks:
        x = number(8 + tick * scale)
        yield Markup('<path class="grid" d="M{} {}V{}"/>').format(x, BAR_TOP, foot)
        yield tick_text.format(x, foot + 15, f"{tick:.6g}")
    label = Markup('<text class="label" x="{}" y="{}" text-anchor="middle">busbw (GB/s)</text>')
    yield label.format(WIDTH // 2, foot + 32)


def _bar(result: Result, wanted: float, top: int, scale: float) -> Iterator[Markup]:
    """One bar below its name, with its interval, and a line at what was expected where that is known."""
    name = f"{result.title}, {result.dtype}, {_buffers(result)}"
    value = f"{result.busbw_gbytes_per_s:.4g}"
    label = text(
        said("{name}: {value} ({percent:.0f} % of expected)", name, value, 100 * result.busbw_gbytes_per_s / wanted)
        if wanted
        else said("{name}: {value}", name, value)
    )
    yield Markup('<text class="tick" x="8" y="{}">{}</text>').format(top + 11, label)
    column = Markup('<rect class="column whole" x="8" y="{}" width="{}" height="16" rx="3"/>')
    yield column.format(top + 19, number(result.busbw_gbytes_per_s * scale))
    low = number(8 + result.busbw_low_gbytes_per_s * scale)
    high = number(8 + result.busbw_high_gbytes_per_s * scale)
    yield Markup('<path class="interval" d="M{} {}H{}"/>').format(low, top + 27, high)
    if wanted:
        yield Markup('<path class="expected" d="M{} {}v20"/>').format(number(8 + wanted * scale), top + 17)


def loss(training: Training) -> Markup:
    """The mean loss of every step."""
    count = len(training.losses)
    every = max(1, math.ceil(count / 12))
    return line_plot(
        [Series("loss", tuple(Point(float(step), value) for step, value in enumerate(training.losses, 1)))],
        title=said(
            "Loss over {counted}, from {losses:.3f} to {losses2:.3f}",
            counted(count, "step"),
            training.losses[0],
            training.losses[-1],
        ),
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
            said(
                "rank {rank} on {node}: {step_seconds_median:.1f} ms, of which "
                "{communication_seconds_median:.1f} ms communication; 95 % within {step_seconds_p95:.1f} ms",
                rank.rank,
                rank.node,
                rank.step_seconds_median * 1000.0,
                rank.communication_seconds_median * 1000.0,
                rank.step_seconds_p95 * 1000.0,
            ),
        )
        for rank in sorted(training.ranks, key=lambda rank: rank.rank)
    ]
    typical = statistics.median(column.value for column in columns)
    return column_plot(
        columns,
        title=said("Step time of {counted}, median {typical:.1f} ms", counted(len(columns), "rank"), typical),
        x_label="rank",
        y_label="ms a step",
    )


def time_bar(report: RunReport, called: Callable[[str], str] = str) -> Markup:
    """The stages side by side, as long as they took; `called` names them."""
    whole = sum(report.stages.values())
    if not whole:
        return Markup("")
    parts, left = [], 0.0
    for place, (name, spent) in enumerate(report.stages.items()):
        wide = WIDTH * spent / whole
        parts.append(
            Markup('<rect class="stage s{}" x="{}" y="0" width="{}" height="22"><title>{}</title></rect>').format(
                place % 6, number(left), number(max(wide - 1.5, 0.5)), text(f"{called(name)}: {spent:.1f} s")
            )
        )
        left += wide
    return Markup('<svg class="plot" role="img" aria-label="Time by stage" viewBox="0 0 {} 22">{}</svg>').format(
        WIDTH, Markup("").join(parts)
    )
