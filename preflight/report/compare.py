"""How does a run differ from an earlier one, cell by cell, fact by fact, size by size?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from preflight.facts.results import Result, same_measurement
from preflight.judge.ledger.findings import SEVERITY, Finding, Verdict
from preflight.report.changes import Changes, Drift, FactChange, FindingChange
from preflight.report.document import RunReport
from preflight.report.groups import Order

BAD = (Verdict.WARN, Verdict.ERROR, Verdict.FAIL)
Cells = dict[tuple[str, str], Finding]


@dataclass(frozen=True)
class Snapshot:
    """A run as others are compared with it: its report, and node -> fact -> value of what should last."""

    report: RunReport
    facts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def results(self) -> tuple[Result, ...]:
        """The bandwidths it measured."""
        return self.report.bench.results if self.report.bench is not None else ()


def changes(before: Snapshot, now: Snapshot) -> Changes:
    """Everything that is not as it was."""
    kinds: dict[str, list[FindingChange]] = {"new": [], "fixed": [], "standing": [], "not_judged": []}
    for kind, change in _finding_changes(before.report, now.report):
        kinds[kind].append(change)
    return Changes(
        run=before.report.run.id,
        started=before.report.run.started,
        verdict=before.report.verdict,
        **{kind: tuple(sorted(found, key=_urgent_first)) for kind, found in kinds.items()},
        facts=_fact_changes(before, now),
        bandwidth=tuple(_drift(then, result) for then, result in same_measurement(before.results, now.results)),
        nodes_added=tuple(name for name in now.report.nodes if name not in before.report.nodes),
        nodes_removed=tuple(name for name in before.report.nodes if name not in now.report.nodes),
    )


def _finding_changes(before: RunReport, now: RunReport) -> list[tuple[str, FindingChange]]:
    """Cells that went the same way, with the same words, are one change."""
    then, later = _cells(before), _cells(now)
    same: dict[tuple[str, Verdict | None, Verdict | None, str, str, str], list[tuple[str, str]]] = {}
    for cell in dict.fromkeys((*later, *then)):
        old, new = then.get(cell), later.get(cell)
        was, is_now = (finding.counted if finding else None for finding in (old, new))
        kind = _kind(was, is_now)
        finding = old if kind in {"fixed", "not_judged"} else new
        if kind and finding is not None and cell[1] in now.nodes:
            check = "" if finding.verdict is Verdict.ERROR else cell[0]
            same.setdefault((kind, was, is_now, check, finding.message, finding.blocked_by), []).append(cell)
    order = Order(now)
    return [
        (
            kind,
            FindingChange(
                tuple(dict.fromkeys(check for check, _ in cells)),
                order.of(node for _, node in cells),
                was,
                is_now,
                message,
                blocked_by,
            ),
        )
        for (kind, was, is_now, _, message, blocked_by), cells in same.items()
    ]


def _kind(was: Verdict | None, is_now: Verdict | None) -> str:
    if is_now in BAD:
        return "standing" if was in BAD and SEVERITY[was] >= SEVERITY[is_now] else "new"
    if was in BAD:
        return "fixed" if is_now is Verdict.PASS else "not_judged"
    return ""


def _cells(report: RunReport) -> Cells:
    return {(finding.check, node): finding for finding in report.findings for node in finding.nodes}


def _urgent_first(change: FindingChange) -> tuple[bool, int]:
    worst = max((verdict for verdict in (change.verdict, change.before) if verdict), key=SEVERITY.__getitem__)
    return bool(change.blocked_by), -SEVERITY[worst]


def _fact_changes(before: Snapshot, now: Snapshot) -> tuple[FactChange, ...]:
    same: dict[tuple[str, str, str], list[str]] = {}
    for node in now.report.nodes:
        if node not in before.facts or node not in now.facts:
            continue
        then, later = before.facts[node], now.facts[node]
        for fact in dict.fromkeys((*then, *later)):
            pair = then.get(fact, "none"), later.get(fact, "none")
            if pair[0] != pair[1]:
                same.setdefault((fact, *pair), []).append(node)
    return tuple(FactChange(fact, tuple(nodes), was, is_now) for (fact, was, is_now), nodes in same.items())


def _drift(then: Result, now: Result) -> Drift:
    return Drift(
        now.op, now.bytes, now.dtype, now.mode, now.in_place,
        then.busbw_gbytes_per_s, then.busbw_low_gbytes_per_s, then.busbw_high_gbytes_per_s,
        now.busbw_gbytes_per_s, now.busbw_low_gbytes_per_s, now.busbw_high_gbytes_per_s,
    )  # fmt: skip
