"""Which nodes does a job of N take, and why does it leave each other one out?"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from preflight.judge.ledger.findings import SEVERITY, Finding, Verdict
from preflight.said import said

BAD = (Verdict.FAIL, Verdict.ERROR)
SPARE = "spare"
UNFINISHED = "the run did not measure it to the end"


@dataclass(frozen=True)
class Choice:
    """The nodes for a job that needs so many, in HOSTS order, and why each of the others is left out."""

    need: int
    nodes: tuple[str, ...]
    left_out: Mapping[str, str]

    @property
    def is_complete(self) -> bool:
        """Whether there are as many as the job needs."""
        return len(self.nodes) == self.need


def concerning(findings: Iterable[Finding], chosen: AbstractSet[str]) -> Iterator[Finding]:
    """Those that speak of one of the nodes chosen, or of no node at all; all of them where none was chosen."""
    return (found for found in findings if not chosen or not found.nodes or not chosen.isdisjoint(found.nodes))


def blameless(findings: Iterable[Finding], names: Iterable[str]) -> tuple[str, ...]:
    """The names on which nothing fails or stayed unmeasured by their own doing; only of findings that are complete."""
    bad = {
        node
        for found in findings
        if found.counted in BAD and not (found.blocked_by and found.counted is Verdict.ERROR)
        for node in found.nodes
    }
    return tuple(name for name in names if name not in bad)


def best_nodes(
    findings: Iterable[Finding],
    names: Collection[str],
    need: int,
    *,
    good: Collection[str] = (),
    first: Collection[str] = (),
    groups: Mapping[str, str] | None = None,
) -> Choice:
    """The `need` best of these nodes, in the order of `names`, or fewer where fewer are good.

    `good` are the nodes that may be taken at all. Of them those that a job was measured on (`first`) are taken before
    others, then those with the fewest warnings of their own, then those whose group, a rack or a switch, lets the job
    span few; equal ones in the order of `names`.
    """
    warnings: dict[str, list[str]] = {}
    wrong: dict[str, str] = {}
    for finding in sorted(findings, key=lambda found: -SEVERITY[found.counted]):
        for node in () if finding.blocked_by else finding.nodes:
            if finding.counted in BAD:
                wrong.setdefault(node, f"{finding.counted} {finding.check}: {finding.message}")
            # what all have sets none apart
            elif finding.counted is Verdict.WARN and len(finding.nodes) < len(names):
                warnings.setdefault(node, []).append(finding.check)
    left = [name for name in names if name in good]
    best = frozenset(_taken(left, need, first, {name: len(held) for name, held in warnings.items()}, groups or {}))
    reasons = {}
    for node in names:
        if node not in good:
            reasons[node] = wrong.get(node, UNFINISHED)
        elif node not in best:
            reasons[node] = (
                said("{SPARE}, with warnings: {warnings}", SPARE, ", ".join(warnings[node]))
                if node in warnings
                else SPARE
            )
    return Choice(need, tuple(node for node in names if node in best), reasons)


def _taken(
    names: list[str], need: int, first: Collection[str], warnings: Mapping[str, int], groups: Mapping[str, str]
) -> list[str]:
    """So many of the names, the best before the others; of equal ones those of the groups that hold most of them."""
    ranks: dict[tuple[bool, int], list[str]] = {}
    for name in names:
        ranks.setdefault((name not in first, warnings.get(name, 0)), []).append(name)
    taken: list[str] = []
    for _, equal in sorted(ranks.items()):
        used = dict.fromkeys(
            groups[name] for name in taken if name in groups
        )  # in order, for the choice to be the same
        taken += _of_few_groups(equal, need - len(taken), used, groups)
    return taken


def _of_few_groups(names: list[str], need: int, used: Iterable[str], groups: Mapping[str, str]) -> list[str]:
    """`need` of the names: out of groups in use, then of the smallest that holds the rest, else of the largest."""
    if need >= len(names):
        return names
    held: dict[str, list[str]] = {}
    for name in names:
        held.setdefault(groups.get(name, ""), []).append(name)
    taken = [name for group in used if group in held for name in held.pop(group)][: max(0, need)]
    while held and len(taken) < need:
        rest = need - len(taken)
        fits = [group for group, members in held.items() if len(members) >= rest]
        chosen = (
            min(fits, key=lambda group: len(held[group])) if fits else max(held, key=lambda group: len(held[group]))
        )
        taken += held.pop(chosen)[:rest]
    return taken
