"""What does a person have to repair, one card for each thing, and which nodes does it concern?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from preflight.judge.ledger.findings import SEVERITY, Verdict, Where
from preflight.reach.hosts import fold
from preflight.report.columns import counted
from preflight.report.document import RunReport
from preflight.report.groups import Group, Order, groups
from preflight.report.printable import printable
from preflight.said import joined, said

RACKS = 3  # that are named; more are no place
RACKS_WIDTH = 40
ROOTS = 3  # causes that a sentence names
NODES_WIDTH = 60
BAD = (Verdict.FAIL, Verdict.ERROR)


@dataclass(frozen=True)
class Cause:
    """One check that does not hold with all its messages, or many checks with the same words."""

    verdict: Verdict
    checks: tuple[str, ...]
    nodes: tuple[str, ...]
    parts: tuple[Group, ...]

    @property
    def title(self) -> str:
        """The check's id, or how many there are."""
        return self.checks[0] if len(self.checks) == 1 else said("{checks} checks", len(self.checks))

    @property
    def is_consequence(self) -> bool:
        """Whether another check is the cause."""
        return self.parts[0].is_consequence

    @property
    def is_shared(self) -> bool:
        """Whether there is nothing of one check's own to repair: a consequence, or the words of many checks."""
        return self.is_consequence or len(self.parts[0].checks) > 1

    @property
    def is_waived(self) -> bool:
        """Whether someone decided to live with it."""
        return all(part.is_waived for part in self.parts)

    @property
    def fixes(self) -> tuple[str, ...]:
        """What to do, each once."""
        return tuple(dict.fromkeys(part.fix for part in self.parts if part.fix))

    @property
    def where(self) -> tuple[Where, ...]:
        """The lines of the user's files, each once."""
        return tuple(
            dict.fromkeys(where for part in self.parts for finding in part.findings for where in finding.where)
        )


def causes(report: RunReport, verdict: Verdict) -> tuple[Cause, ...]:
    """The causes of one verdict, consequences of others last."""
    order = Order(report)
    by_title: dict[tuple[str, bool], list[Group]] = {}
    for group in groups(report, verdict):
        is_shared = group.is_consequence or len(group.checks) > 1
        by_title.setdefault((group.message if is_shared else group.checks[0], is_shared), []).append(group)
    return tuple(
        Cause(
            verdict,
            tuple(dict.fromkeys(check for part in parts for check in part.checks)),
            order.of(node for part in parts for node in part.nodes),
            tuple(parts),
        )
        for parts in by_title.values()
    )


def aftermath(report: RunReport) -> str:
    """What was not measured because of other checks, as one sentence that names them; "" where nothing was blocked."""
    errors = (finding for finding in report.findings if finding.counted is Verdict.ERROR)
    blocked: dict[str, dict[str, None]] = {}
    for finding in errors:
        if finding.blocked_by:
            blocked.setdefault(finding.check, {})[finding.blocked_by] = None
    if not blocked:
        return ""
    first = list(dict.fromkeys(root for check in blocked for root in _roots(check, blocked)))
    named = [_with_nodes(report, check) for check in first[:ROOTS]]
    if first[ROOTS:]:
        named.append(said("{count} more check{s}", len(first) - ROOTS, "s" * (len(first) > ROOTS + 1)))
    return said("{checks} not measured because of {causes}", counted(len(blocked), "check"), joined(named, ", "))


def _roots(check: str, blocked: Mapping[str, Iterable[str]]) -> list[str]:
    """The checks at the heads of the chains that end in this one."""
    found: dict[str, None] = {}
    waiting = [check]
    for one in waiting:  # grows while it is walked
        if one not in blocked:
            found[one] = None
        waiting += [cause for cause in blocked.get(one, ()) if cause not in waiting]
    return list(found)


def _with_nodes(report: RunReport, check: str) -> str:
    """A check with the nodes that it does not hold on, where they are not all."""
    bad = [finding for finding in report.findings if finding.check == check and finding.counted in BAD]
    nodes = list(dict.fromkeys(node for finding in bad if not finding.blocked_by for node in finding.nodes))
    if not nodes:
        return printable(check)
    return said("{check} on {nodes}", printable(check), nodes_text(report, Order(report).of(nodes), most=NODES_WIDTH))


def nodes_text(report: RunReport, names: Iterable[str], *, most: int) -> str:
    """The names folded and harmless, cut to about `most` letters with their number."""
    named = list(dict.fromkeys(names))
    if not named:
        return "no node"
    if len(named) > 2 and len(named) == len(report.nodes):
        return said("all {named} nodes", len(named))
    folded = printable(fold(named))
    where = _racks_text(report, named)
    if where and len(folded) + len(where) <= most + RACKS_WIDTH:
        return f"{folded} ({where})"
    if where and len(folded) > most:
        return where
    return folded if len(folded) <= most else f"{_at_a_comma(folded[: max(most - 18, 8)])}... ({len(named)} nodes)"


def _at_a_comma(text: str) -> str:
    """The text up to its last comma, so that no number is cut in two; all of it where there is none."""
    begin, comma, _ = text.rpartition(",")
    return f"{begin}{comma}" if comma else text


def _racks_text(report: RunReport, names: list[str]) -> str:
    """The racks that the names are most of: "switch s7: 16 of 16 nodes"; "" where they are not just that."""
    racks = {name: report.nodes[name].rack for name in names if name in report.nodes}
    held = Counter(rack for rack in racks.values() if rack)
    if len(names) < 2 or sum(held.values()) < len(names) or len(held) > RACKS:
        return ""
    total = Counter(info.rack for info in report.nodes.values())
    if len(held) == len(total) or any(2 * count <= total[rack] for rack, count in held.items()):
        return ""
    return printable(
        joined(
            [said("{rack}: {count} of {total} nodes", rack, count, total[rack]) for rack, count in held.items()], ", "
        )
    )


def worst_of_nodes(report: RunReport) -> dict[str, Verdict]:
    """The worst verdict of each node, by itself: what only follows from another check is left out.

    A node without any verdict of its own reads as skip; in a run that was cut short, as error.
    """
    is_whole = report.finished and report.ledger.judged == report.ledger.expected
    start = Verdict.SKIP if is_whole else Verdict.ERROR
    worst = dict.fromkeys(report.nodes, start)
    for verdict in Verdict:  # from the best to the worst
        for group in groups(report, verdict) if SEVERITY[verdict] >= SEVERITY[start] else ():
            if not (group.is_consequence and verdict is Verdict.ERROR):
                worst.update(dict.fromkeys(group.nodes, verdict))
    return {node: worst[node] for node in report.nodes}


def counts_of_nodes(report: RunReport) -> dict[str, dict[Verdict, int]]:
    """How many checks gave each node which verdict."""
    # A counter a verdict: adding up whole findings, not their cells one by one, is ten times as fast.
    checks = {verdict: Counter[str]() for verdict in Verdict}
    for finding in report.findings:
        checks[finding.counted].update(finding.nodes)
    return {node: {verdict: count[node] for verdict, count in checks.items()} for node in report.nodes}
