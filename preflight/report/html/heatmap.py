"""Which pair of nodes is slow or cut off: the streams and the failed connections as a square of cells."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from preflight.facts.results import Bench, Edge, Mesh
from preflight.report.html.plots import number, text
from preflight.said import said

SIDE = 460  # pixels of the square, less for few nodes
WIDEST = 64  # pixels of a cell
NAMED = 32  # nodes up to which rows, columns and cells carry their names
TICKS = 10  # names beside a larger square, at most
LETTER = 7.0  # pixels of a letter
LONGEST = 300  # pixels of a name
UNMEASURED = "h0"
VALUED = 8  # nodes up to which a cell shows its figure
# Share of the usual stream below which a cell has that class; the last is for all the others.
SHARES = ((0.5, "h1"), (0.8, "h2"), (0.9, "h3"), (0.95, "h4"), (float("inf"), "h5"))
STANDING_OUT = ("hx", "h1", "h2")
SMALLEST = 3.0  # pixels of a cell that stands out
FINEST = 2.0  # pixels of a cell; of more nodes than that leaves room for, neighbours share one
LEGEND = (
    ("hx", "no connection"), ("h1", "below 50 %"), ("h2", "50 to 80 %"), ("h3", "80 to 90 %"), ("h4", "90 to 95 %"),
    ("h5", "95 % of the usual stream and more"),
)  # fmt: skip


@dataclass(frozen=True)
class Pair:
    """One ordered pair: the median of its streams, or why there is no connection."""

    source: str
    target: str
    gbytes_per_s: float
    reason: str
    kind: str


def pairs(bench: Bench | None, mesh: Mesh | None) -> tuple[Pair, ...]:
    """Every pair that was measured or failed, the worst first."""
    measured: dict[tuple[str, str], list[float]] = {}
    for stream in bench.streams if bench else ():
        measured.setdefault((stream.source, stream.target), []).append(stream.gbytes_per_s)
    failed: dict[tuple[str, str], Edge] = {(edge.source, edge.target): edge for edge in (mesh.failed if mesh else ())}
    medians = {pair: statistics.median(each) for pair, each in measured.items()}
    middle = _usual(medians)
    made = [Pair(*pair, 0.0, edge.reason, "hx") for pair, edge in failed.items()]
    for pair, figure in sorted(medians.items(), key=lambda item: item[1]):
        if pair not in failed:
            share = figure / middle if middle > 0 else 1.0
            kind = next(kind for limit, kind in SHARES if share < limit)
            made.append(Pair(*pair, figure, "", kind))
    return tuple(made)


def _usual(medians: dict[tuple[str, str], float]) -> float:
    """The median of each node's best stream: a node that is slow both ways spoils most pairs of a small cluster."""
    best: dict[str, float] = {}
    for pair, figure in medians.items():
        for node in pair:
            best[node] = max(best.get(node, 0.0), figure)
    return statistics.median(best.values()) if best else 0.0


def usual(found: Sequence[Pair]) -> float:
    """What a stream between good nodes shows, in GB/s; 0 where none was measured."""
    return _usual({(pair.source, pair.target): pair.gbytes_per_s for pair in found if not pair.reason})


def legend(nodes: Sequence[str], found: Sequence[Pair]) -> tuple[tuple[str, str], ...]:
    """The classes of cells in words, and that of pairs that nobody measured where there is one."""
    if len(found) < len(nodes) * (len(nodes) - 1):
        return (*LEGEND, (UNMEASURED, "not measured"))
    return LEGEND


def shared(nodes: Sequence[str]) -> int:
    """How many neighbouring nodes one row or column stands for."""
    return math.ceil(len(nodes) * FINEST / SIDE)


def shared_text(nodes: Sequence[str]) -> str:
    """What a cell stands for where it is not one pair; "" where it is."""
    count = shared(nodes)
    return (
        said("A cell represents {count} by {count} nodes and shows the worst of their pairs.", count)
        if count > 1
        else ""
    )


def heat_map(nodes: Sequence[str], found: Sequence[Pair]) -> Markup:
    """Rows send, columns receive. One path a class, so that 512 nodes weigh no more than their cells."""
    index = {node: place for place, node in enumerate(nodes)}
    shown = [pair for pair in found if pair.source in index and pair.target in index]
    every = 1 if len(nodes) <= NAMED else math.ceil(len(nodes) / TICKS)
    names = {node: place for node, place in index.items() if place % every == 0}
    short = _short(nodes)
    margin = min(round(max(len(short[node]) for node in names) * LETTER), LONGEST) + 30
    side = min(SIDE, WIDEST * len(nodes))
    together = shared(nodes)
    cell = side / len(nodes)
    gap = 2.0 if cell > 10 else 0.0
    parts = []
    if len(nodes) > NAMED:
        parts.append(Markup('<path class="{}" d="M{m} {m}h{s}v{s}h-{s}z"/>').format(UNMEASURED, m=margin, s=side))
    else:
        measured = {(pair.source, pair.target) for pair in shown}
        blank = [(a, b) for a in nodes for b in nodes if a != b and (a, b) not in measured]
        boxes = _boxes([(index[a], index[b]) for a, b in blank], cell, margin, cell - gap)
        parts += [Markup('<path class="{}" d="{}"/>').format(UNMEASURED, boxes)] if boxes else []
    kinds: dict[tuple[int, int], str] = {}
    for pair in shown:  # the worst first, and of those that share a cell only that one
        kinds.setdefault((index[pair.source] // together, index[pair.target] // together), pair.kind)
    box = cell * together
    for kind, _ in reversed(LEGEND):  # the worst on top
        # A slow pair among thousands is drawn larger than it is, or it would not be seen.
        wide = max(box - gap, SMALLEST) if kind in STANDING_OUT else box - gap
        places = [place for place, worst in kinds.items() if worst == kind]
        if places:
            parts.append(Markup('<path class="{}" d="{}"/>').format(kind, _boxes(places, box, margin, wide)))
    parts += [_name(short[node], place, cell, margin) for node, place in names.items()]
    has_figure = len(nodes) <= VALUED
    if len(nodes) <= NAMED:
        parts += [_cell(pair, index, cell, margin, gap, has_figure=has_figure) for pair in shown]
    parts.append(_label("receives (GB/s)" if has_figure else "receives", margin + side / 2, 12, turned=False))
    parts.append(_label("sends", 12, margin + side / 2, turned=True))
    total = number(margin + side + 6)
    words = said(
        "Streams between {nodes} nodes: rows send, columns receive. The slowest pairs stand in the table.", len(nodes)
    )
    return Markup('<svg class="heat" role="img" aria-label="{}" width="{}" viewBox="0 0 {} {}">{}</svg>').format(
        words, total, total, total, Markup("").join(parts)
    )


def _boxes(places: Iterable[tuple[int, int]], cell: float, margin: int, wide: float) -> str:
    """A square for each row and column."""
    shape = f"h{number(wide)}v{number(wide)}h-{number(wide)}z"
    return "".join(f"M{number(margin + column * cell)} {number(margin + row * cell)}{shape}" for row, column in places)


def _short(nodes: Sequence[str]) -> dict[str, str]:
    """Names whole where they are short; long ones without the domain and the words that all of them begin with."""
    if max(map(len, nodes)) * LETTER <= LONGEST or len(nodes) < 2:
        return {node: node for node in nodes}
    front, back = _shared(nodes), _shared([node[::-1] for node in nodes])
    return {node: f"{'…' * bool(front)}{node[front : len(node) - back] or node}{'…' * bool(back)}" for node in nodes}


def _shared(names: Sequence[str]) -> int:
    """How many letters all names begin with, to the end of a word."""
    first, last = min(names), max(names)  # in this order the two that have the least in common
    count = next((place for place, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    return len(re.sub(r"[^-._]*$", "", first[:count]))


def _name(node: str, place: int, cell: float, margin: int) -> Markup:
    middle = number(margin + (place + 0.5) * cell)
    return Markup(
        '<text class="tick" x="{left}" y="{middle}" text-anchor="end" dominant-baseline="middle">{name}</text>'
        '<text class="tick" transform="translate({middle} {left}) rotate(-90)" dominant-baseline="middle">{name}</text>'
    ).format(left=margin - 6, middle=middle, name=text(node))


def _cell(pair: Pair, index: dict[str, int], cell: float, margin: int, gap: float, *, has_figure: bool) -> Markup:
    x, y = margin + index[pair.target] * cell, margin + index[pair.source] * cell
    figure = pair.reason or f"{pair.gbytes_per_s:.4g}"
    words = said("{source} to {target}: {reason}", pair.source, pair.target, pair.reason or f"{figure} GB/s")
    touch = Markup('<rect class="touch" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>').format(
        number(x), number(y), number(cell - gap), number(cell - gap), text(words)
    )
    if not has_figure:
        return touch
    return touch + Markup('<text class="figure {}" x="{}" y="{}" text-anchor="middle">{}</text>').format(
        pair.kind, number(x + (cell - gap) / 2), number(y + (cell - gap) / 2 + 4), text(figure)
    )


def _label(words: str, x: float, y: float, *, turned: bool) -> Markup:
    turn = Markup(" rotate(-90)") if turned else ""
    return Markup('<text class="label" transform="translate({} {}){}" text-anchor="middle">{}</text>').format(
        number(x), number(y), turn, words
    )
