"""How are the verdicts of one check on many nodes drawn in one narrow band?"""

from __future__ import annotations

from markupsafe import Markup

from preflight.judge.ledger.findings import Verdict
from preflight.report.matrix import LETTERS, Row
from preflight.report.printable import printable

HEIGHT = 10
# Top and height of each verdict: a fail stands out by its shape too, not by colour alone.
SHAPES: dict[Verdict | None, tuple[float, float]] = {
    Verdict.PASS: (3, 4),
    Verdict.SKIP: (4.5, 1),
    Verdict.WARN: (1.5, 7),
    Verdict.ERROR: (1, 8),
    Verdict.FAIL: (0, 10),
}
STANDING_OUT = (Verdict.WARN, Verdict.ERROR, Verdict.FAIL)
FINEST = 2000  # of the band's width: a gap that no screen shows
LABELS = 8  # names of racks above a band
RACK_LETTERS = 8
NARROWEST = 125  # of the band's width: one node among thousands is still seen


def strip(row: Row) -> Markup:
    """One path a verdict, drawn in order of severity, so that a lonely fail lies on top."""
    count = max(len(row.cells), 1)
    finest = count / FINEST
    runs = row.runs()
    parts = []
    for verdict, (top, height) in SHAPES.items():
        spans: list[tuple[float, float]] = []
        for found, start, length in runs:
            if found is verdict:
                left, wide = _wide_enough(start, length, count) if verdict in STANDING_OUT else (start, length)
                if spans and left - spans[-1][1] < finest:  # nobody would see the gap
                    left, wide = spans[-1][0], left + wide - spans.pop()[0]
                spans.append((left, left + wide))
        boxes = "".join(
            f"M{left:.5g} {top:g}h{right - left:.4g}v{height:g}h-{right - left:.4g}z" for left, right in spans
        )
        parts.append(Markup('<path class="{}" d="{}"/>').format(LETTERS[verdict], boxes))
    return Markup(
        '<svg class="strip" aria-hidden="true" viewBox="0 0 {} {}" preserveAspectRatio="none">{}</svg>'
    ).format(count, HEIGHT, Markup("").join(parts))


def rack_head(racks: tuple[tuple[str, int], ...]) -> Markup:
    """The racks above the bands: a line where each begins, and as many names as there is room for."""
    total = sum(count for _, count in racks)
    step = -(-len(racks) // LABELS)
    parts = []
    start = 0
    for place, (rack, count) in enumerate(racks):
        left = f"{100 * start / total:.4g}%"
        parts.append(Markup('<line x1="{}" x2="{}" y1="0" y2="16"/>').format(left, left))
        if place % step == 0:
            parts.append(Markup('<text x="{}" dx="3" y="12">{}</text>').format(left, printable(rack)[:RACK_LETTERS]))
        start += count
    return Markup('<svg class="racks" aria-hidden="true">{}</svg>').format(Markup("").join(parts))


def _wide_enough(start: int, length: int, count: int) -> tuple[float, float]:
    least = count / NARROWEST
    if length >= least:
        return start, length
    return min(max(start - (least - length) / 2, 0.0), count - least), least
