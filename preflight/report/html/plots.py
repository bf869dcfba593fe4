"""How are a curve and a row of columns drawn as SVG inside a page, without a library?"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup, escape

from preflight.report.printable import printable

WIDTH, HEIGHT = 480, 230  # small, so that its words can be read on a phone
LEFT, RIGHT, TOP, BOTTOM = 66, 18, 18, 44
TITLED_COLUMNS = 128  # above it, columns are one path and have no text of their own
TICK_LETTER = 8.5  # pixels of a letter of a tick
DOTS = 64  # above it, a curve has no dot at every point


@dataclass(frozen=True)
class Point:
    """A measured value, with its interval where there is one."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Series:
    """One curve."""

    name: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Column:
    """One column: its height, the part of it at the foot, a mark above it, and its words."""

    label: str
    value: float
    foot: float
    mark: float
    words: str


@dataclass(frozen=True)
class _Frame:
    """Data -> pixels."""

    x_low: float
    x_high: float
    y_high: float
    y_low: float = 0.0

    def x(self, value: float) -> float:
        span = self.x_high - self.x_low
        share = (value - self.x_low) / span if span else 0.5
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        share = (value - self.y_low) / (self.y_high - self.y_low)
        return HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)


def text(content: str) -> Markup:
    """Any text as harmless as in the rest of the page."""
    return escape(printable(content))


def number(value: float) -> str:
    """A coordinate with one decimal at most."""
    return f"{value:.1f}".rstrip("0").rstrip(".")


def line_plot(
    series: Sequence[Series],
    *,
    title: str,
    x_label: str,
    y_label: str,
    x_ticks: Sequence[tuple[float, str]],
    reference: float | None = None,
    from_zero: bool = True,
) -> Markup:
    """Curves with their 95 % intervals, and a dashed line at `reference`; their names stand in a legend beside it."""
    points = [point for one in series for point in one.points]
    tops = [point.high or point.y for point in points] + ([reference] if reference else [])
    bottoms = [point.low or point.y for point in points] + ([reference] if reference else [])
    low = min(0.0, *bottoms) if from_zero else min(bottoms)
    ticks = rounded(low, max(tops))
    xs = [point.x for point in points]
    frame = _Frame(min(xs), max(xs), ticks[-1], ticks[0])
    parts = [_axes(frame, ticks, x_ticks, x_label, y_label)]
    if reference:
        y = number(frame.y(reference))
        parts.append(Markup('<path class="expected" d="M{} {}H{}"/>').format(LEFT, y, WIDTH - RIGHT))
    for place, one in enumerate(series):
        parts.append(_curve(frame, one, place % 6))
    return _svg(title, parts)


def _curve(frame: _Frame, one: Series, place: int) -> Markup:
    spots = [(frame.x(point.x), frame.y(point.y)) for point in one.points]
    way = "L".join(f"{number(x)} {number(y)}" for x, y in spots)
    parts = [Markup('<path class="curve c{}" d="M{}"/>').format(place, way)]
    spread = "".join(
        f"M{number(frame.x(point.x))} {number(frame.y(point.low))}V{number(frame.y(point.high))}"
        for point in one.points
        if point.low is not None and point.high is not None
    )
    if spread:
        parts.append(Markup('<path class="spread c{}" d="{}"/>').format(place, spread))
    if len(spots) <= DOTS:
        for (x, y), point in zip(spots, one.points, strict=True):
            parts.append(
                Markup('<circle class="dot c{}" cx="{}" cy="{}" r="3.5"><title>{}: {}</title></circle>').format(
                    place, number(x), number(y), text(one.name), f"{point.y:.4g}"
                )
            )
    return Markup("").join(parts)


def column_plot(columns: Sequence[Column], *, title: str, x_label: str, y_label: str) -> Markup:
    """One column a rank: the whole, the part at its foot in another colour, and a tick for the slowest steps."""
    ticks = rounded(0.0, max(max(column.value, column.mark) for column in columns))
    # No more columns than pixels: neighbours share one, which is the slowest of them.
    together = math.ceil(len(columns) / (WIDTH - LEFT - RIGHT))
    columns = [
        replace(max(some, key=lambda column: column.value), label=some[0].label)
        for some in (columns[start : start + together] for start in range(0, len(columns), together))
    ]
    frame = _Frame(-0.5, len(columns) - 0.5, ticks[-1])
    slot = (WIDTH - LEFT - RIGHT) / len(columns)
    wide = max(min(slot * 0.7, 36.0), slot * 0.9 if slot < 3 else 1.0)
    every = max(1, math.ceil(len(columns) / 12))
    labels = [(float(place), columns[place].label) for place in range(0, len(columns), every)]
    parts = [_axes(frame, ticks, labels, x_label, y_label)]
    for kind, spans in (
        ("whole", [(column.foot, column.value) for column in columns]),
        ("foot", [(0.0, column.foot) for column in columns]),
    ):
        boxes = "".join(
            f"M{number(frame.x(place) - wide / 2)} {number(frame.y(bottom))}h{number(wide)}"
            f"V{number(frame.y(top))}h-{number(wide)}z"
            for place, (bottom, top) in enumerate(spans)
        )
        parts.append(Markup('<path class="column {}" d="{}"/>').format(kind, boxes))
    marks = "".join(
        f"M{number(frame.x(place) - wide / 2)} {number(frame.y(column.mark))}h{number(wide)}"
        for place, column in enumerate(columns)
    )
    parts.append(Markup('<path class="mark" d="{}"/>').format(marks))
    if len(columns) <= TITLED_COLUMNS:
        for place, column in enumerate(columns):
            box = (number(frame.x(place) - slot / 2), TOP, number(slot), HEIGHT - TOP - BOTTOM)
            parts.append(
                Markup('<rect class="touch" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>').format(
                    *box, text(column.words)
                )
            )
    return _svg(title, parts)


def _axes(
    frame: _Frame, ticks: Sequence[float], x_ticks: Sequence[tuple[float, str]], x_label: str, y_label: str
) -> Markup:
    parts = []
    for tick in ticks:
        y = frame.y(tick)
        parts.append(Markup('<path class="grid" d="M{} {}H{}"/>').format(LEFT, number(y), WIDTH - RIGHT))
        parts.append(
            Markup('<text class="tick" x="{}" y="{}" text-anchor="end">{}</text>').format(
                LEFT - 8, number(y + 4), f"{tick:.6g}"
            )
        )
    for place, label in x_ticks:
        # The words of a tick stand below it, and end where the picture ends.
        middle = min(frame.x(place), WIDTH - TICK_LETTER * len(label) / 2)
        parts.append(
            Markup('<text class="tick" x="{}" y="{}" text-anchor="middle">{}</text>').format(
                number(middle), HEIGHT - BOTTOM + 17, text(label)
            )
        )
    parts.append(
        Markup('<text class="label" x="{}" y="{}" text-anchor="middle">{}</text>').format(
            (LEFT + WIDTH - RIGHT) // 2, HEIGHT - 6, text(x_label)
        )
    )
    parts.append(
        Markup('<text class="label" transform="translate(14 {}) rotate(-90)" text-anchor="middle">{}</text>').format(
            (TOP + HEIGHT - BOTTOM) // 2, text(y_label)
        )
    )
    return Markup("").join(parts)


def _svg(title: str, parts: Iterable[Markup]) -> Markup:
    return Markup('<svg class="plot" role="img" aria-label="{}" viewBox="0 0 {} {}">{}</svg>').format(
        text(title), WIDTH, HEIGHT, Markup("").join(parts)
    )


def rounded(low: float, high: float) -> list[float]:
    """Round numbers from below `low` to above `high`, four to seven of them."""
    span = high - low
    if not span > 0:
        span = abs(high) or 1.0
    rough = span / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [place * step for place in range(first, max(last, first + 1) + 1)]
