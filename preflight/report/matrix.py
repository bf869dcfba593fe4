"""Which verdict did every check give every node?"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from preflight.judge.ledger.findings import SEVERITY, Finding, Verdict
from preflight.report.document import RunReport

LETTERS = {
    None: "n", Verdict.SKIP: "s", Verdict.PASS: "p", Verdict.WARN: "w", Verdict.ERROR: "e", Verdict.FAIL: "f",
}  # fmt: skip


MOST_RACKS = 64  # that have room for their names above a band


@dataclass(frozen=True)
class Row:
    """One check: its worst verdict, one cell a node in HOSTS order (None: not judged), and its findings."""

    check: str
    verdict: Verdict
    cells: tuple[Verdict | None, ...]
    findings: tuple[Finding, ...]

    @property
    def follows(self) -> bool:
        """Whether all that is wrong here follows from another check, so that there is nothing to repair."""
        wrong = [finding for finding in self.findings if finding.counted not in (Verdict.PASS, Verdict.SKIP)]
        return bool(wrong) and all(finding.blocked_by for finding in wrong)

    def runs(self) -> list[tuple[Verdict | None, int, int]]:
        """Neighbouring cells of one verdict as (verdict, first index, how many)."""
        runs = []
        start = 0
        for verdict, same in itertools.groupby(self.cells):
            length = len(list(same))
            runs.append((verdict, start, length))
            start += length
        return runs


def rows(report: RunReport) -> tuple[Row, ...]:
    """Every check once, the worst first, else in the order they were judged."""
    index = {node: place for place, node in enumerate(report.nodes)}
    by_check: dict[str, list[Finding]] = {}
    for finding in report.findings:
        by_check.setdefault(finding.check, []).append(finding)
    made = [_row(check, findings, index) for check, findings in by_check.items()]
    return tuple(sorted(made, key=lambda row: -SEVERITY[row.verdict]))


def racks_in_order(report: RunReport) -> tuple[tuple[str, int], ...]:
    """The racks along a row with the number of their nodes; none where one is not known, or does not lie together."""
    places = [(rack, len(list(same))) for rack, same in itertools.groupby(info.rack for info in report.nodes.values())]
    names = [rack for rack, _ in places]
    is_drawn = 1 < len(places) <= MOST_RACKS and all(names) and len(set(names)) == len(names)
    return tuple(places) if is_drawn else ()


def _row(check: str, findings: list[Finding], index: dict[str, int]) -> Row:
    cells: list[Verdict | None] = [None] * len(index)
    for finding in findings:
        shown = finding.counted
        for node in finding.nodes:
            if node in index:
                cells[index[node]] = shown
    worst = max((finding.counted for finding in findings), key=SEVERITY.__getitem__)
    findings.sort(key=lambda finding: -SEVERITY[finding.counted])
    return Row(check, worst, tuple(cells), tuple(findings))


def packed(cells: tuple[Verdict | None, ...]) -> str:
    """The cells as letters with run lengths, ``510pf1p`` without the ones: what the page's script reads."""
    parts = []
    for verdict, same in itertools.groupby(cells):
        length = len(list(same))
        parts.append(f"{length if length > 1 else ''}{LETTERS[verdict]}")
    return "".join(parts)
