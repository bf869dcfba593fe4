"""Which findings does a reader take for one thing, and in which order?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from preflight.judge.ledger.findings import Finding, Verdict
from preflight.judge.unreached import without_name
from preflight.report.document import RunReport
from preflight.said import said


@dataclass(frozen=True)
class Group:
    """Findings with the same verdict, words and fix: of one check, or of many not measured for the same reason."""

    verdict: Verdict
    checks: tuple[str, ...]
    nodes: tuple[str, ...]
    message: str
    fix: str
    findings: tuple[Finding, ...]

    @property
    def is_consequence(self) -> bool:
        """Whether another check is the cause, so that there is nothing to repair here."""
        return all(finding.blocked_by for finding in self.findings)

    @property
    def is_waived(self) -> bool:
        """Whether someone decided to live with it."""
        return all(finding.waived for finding in self.findings)


def groups(report: RunReport, verdict: Verdict) -> tuple[Group, ...]:
    """The findings of one verdict, causes before consequences, else in the order they were made."""
    of_key: dict[tuple[str, str, str, bool, bool], list[Finding]] = {}
    shown: dict[tuple[str, str, str, bool, bool], str] = {}
    for finding in report.findings:
        if finding.counted is verdict:
            # What is broken keeps its check's name; what was not measured, or skipped, has a reason in common.
            check = finding.check if verdict in (Verdict.FAIL, Verdict.WARN) else ""
            message = _without_own_name(finding)
            key = check, message, finding.fix, finding.waived, bool(finding.blocked_by)
            of_key.setdefault(key, []).append(finding)
            shown[key] = message if len(of_key[key]) > 1 else finding.message
    order = Order(report)
    made = [
        Group(
            verdict,
            tuple(dict.fromkeys(finding.check for finding in findings)),
            order.of(findings[0].nodes if len(findings) == 1 else chain.from_iterable(f.nodes for f in findings)),
            shown[key],
            key[2],
            tuple(findings),
        )
        for key, findings in of_key.items()
    ]
    return tuple(sorted(made, key=lambda group: group.is_consequence))


def _without_own_name(finding: Finding) -> str:
    """The message; of one node, as it may be said of others too, so that what differs in the name alone is one."""
    if len(finding.nodes) != 1 or finding.nodes[0] not in finding.message:
        return finding.message
    return without_name(finding.message, finding.nodes[0])


def checks_by_verdict(report: RunReport) -> dict[Verdict, tuple[str, ...]]:
    """Every check under the worst verdict it gave; every verdict is a key."""
    order = list(Verdict)
    worst: dict[str, Verdict] = {}
    for finding in report.findings:
        shown = finding.counted
        worst[finding.check] = max(shown, worst.get(finding.check, shown), key=order.index)
    return {verdict: tuple(check for check, its in worst.items() if its is verdict) for verdict in Verdict}


def not_asked_text(report: RunReport) -> str:
    """How many checks were left out, and by what: "95 checks not asked for (-k)"; "" where none was."""
    count = report.ledger.not_asked
    if not count:
        return ""
    reasons = sorted(report.not_asked.items(), key=lambda item: -len(item[1]))
    if len(reasons) == 1:
        why = f" ({reasons[0][0]})"
    else:
        why = f" ({', '.join(f'{len(checks)}: {reason}' for reason, checks in reasons)})" if reasons else ""
    return said("{count} check{s} not asked for{why}", count, "s" * (count != 1), why)


def unjudged_text(report: RunReport) -> str:
    """How much of what had to be judged got no verdict; "" where all of it did."""
    lacking = report.ledger.expected - report.ledger.judged
    return (
        said("no verdict for {lacking} of {expected} pairs of check and node", lacking, report.ledger.expected)
        if lacking > 0
        else ""
    )


class Order:
    """The HOSTS order of a run, for any number of sets of its nodes."""

    def __init__(self, report: RunReport) -> None:
        self._every = tuple(report.nodes)
        self._places = {name: place for place, name in enumerate(self._every)}

    def of(self, names: Iterable[str]) -> tuple[str, ...]:
        """Names once each, in HOSTS order; a name that is no node of the run comes last."""
        if names == self._every:  # as of most findings
            return self._every
        wanted = dict.fromkeys(names)
        if len(wanted) < 2:  # thousands of nodes may each have words of their own
            return tuple(wanted)
        return tuple(sorted(wanted, key=lambda name: self._places.get(name, len(self._every))))
