"""Which cells must get a verdict, and which got one?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from preflight.judge.ledger.choice import concerning
from preflight.judge.ledger.findings import EXIT_CODES, SEVERITY, Finding, Verdict, worst
from preflight.said import said
from preflight.said.redact import without_secrets


class Cell(NamedTuple):
    """One question for one node: the unit that must get exactly one verdict."""

    check: str
    node: str


@dataclass(slots=True)
class Ledger:
    """Every cell that must be judged, written before anything runs, and what was judged.

    A cell may be judged once; the cells left over at the end are errors. Nothing but this decides the exit code.
    Cells are held by check, and most checks are expected of the same nodes: there may be 600,000 cells.
    """

    expected: dict[str, frozenset[str]] = field(default_factory=dict)  # check -> nodes
    not_asked: dict[str, str] = field(default_factory=dict)  # check -> what left it out: "-k", "profile quick"
    site_checks: set[str] = field(default_factory=set)  # those from the user's own files
    chosen: frozenset[str] = frozenset()  # the nodes that the verdict is of; all of them where it is empty
    waive: Callable[[Finding], tuple[Finding, ...]] = lambda finding: (finding,)
    _open: dict[str, set[str]] = field(default_factory=dict)  # of the checks with a verdict: nodes without one
    _recorded: list[Finding] = field(default_factory=list)

    @property
    def findings(self) -> list[Finding]:
        """What was recorded, in that order; a copy, for verdicts change by `record` alone."""
        return list(self._recorded)

    def expect(self, check: str, nodes: Iterable[str]) -> None:
        """Write down that `check` must judge each of `nodes`."""
        before = self.expected.get(check, frozenset())
        wanted = before.union(nodes)
        if check in self._open:
            self._open[check] |= wanted - before
        self.expected[check] = next((held for held in self.expected.values() if held == wanted), wanted)

    @property
    def cells(self) -> int:
        """How many cells must be judged."""
        return sum(map(len, self.expected.values()))

    def leave_out(self, check: str, reason: str) -> None:
        """Write down that `check` is not part of this run; the first reason stands."""
        self.not_asked.setdefault(check, reason)

    def left_out(self) -> dict[str, tuple[str, ...]]:
        """Reason -> the checks that it left out."""
        checks: dict[str, tuple[str, ...]] = {}
        for check, reason in self.not_asked.items():
            checks[reason] = (*checks.get(reason, ()), check)
        return checks

    def record(self, finding: Finding) -> tuple[Finding, ...]:
        """Take a verdict in, whole or not at all; gives it as it counts, its waived nodes apart, and shows no secret.

        A cell that is not expected, one that already has a verdict, and a pass or skip of no node are bugs of ours.
        """
        if not isinstance(finding.verdict, Verdict):
            raise TypeError(said("{check}: {verdict!r} is not a Verdict", finding.check, finding.verdict))
        if not finding.nodes and finding.verdict in (Verdict.PASS, Verdict.SKIP):
            raise ValueError(said("{check}: {verdict} of no node", finding.check, finding.verdict))
        if len(set(finding.nodes)) != len(finding.nodes):
            raise ValueError(said("{check} names a node twice: {nodes}", finding.check, finding.nodes))
        expected, left = self.expected.get(finding.check, frozenset()), self._left(finding.check)
        for node in finding.nodes:
            if node not in expected:
                raise ValueError(said("{check} is not expected of {node}", finding.check, node))
            if node not in left:
                raise ValueError(said("{check} judged {node} twice", finding.check, node))
        counting = self.waive(_without_secrets(finding))
        left.difference_update(*(part.nodes for part in counting))
        self._open[finding.check] = left
        self._recorded.extend(counting)
        return counting

    def take_back(self, finding: Finding) -> None:
        """Take a finding out whose cause another one tells, and with it what was expected of its cells."""
        self._recorded.remove(finding)
        left = self._left(finding.check) - {*finding.nodes}
        expected = self.expected[finding.check] - {*finding.nodes}
        if expected:
            self.expected[finding.check], self._open[finding.check] = expected, left
        else:
            del self.expected[finding.check]
            self._open.pop(finding.check, None)

    def _left(self, check: str) -> set[str]:
        """The nodes that a check has no verdict of."""
        return self._open[check] if check in self._open else set(self.expected.get(check, ()))

    @property
    def judged(self) -> int:
        """How many cells have a verdict."""
        return sum(len(self.expected.get(check, ())) - len(left) for check, left in self._open.items())

    def missing(self) -> list[Cell]:
        """The cells still without a verdict, sorted."""
        return [Cell(check, node) for check in sorted(self.expected) for node in sorted(self._left(check))]

    def close(self, reason: str, order: Iterable[str]) -> None:
        """Turn every cell still missing into an error with `reason`, nodes in the given order."""
        place = {node: index for index, node in enumerate(order)}
        nodes_of: dict[str, list[str]] = {}
        for cell in self.missing():
            nodes_of.setdefault(cell.check, []).append(cell.node)
        for check, nodes in nodes_of.items():
            names = tuple(sorted(nodes, key=lambda node: place.get(node, len(place))))
            self.record(Finding(check, Verdict.ERROR, names, said("not measured: {reason}", reason)))

    def verdict(self, *, fail_on_warn: bool = False) -> Verdict:
        """The verdict of the whole run: fail > error > warn > pass; skip means that nothing was judged.

        Every finding counts, and every cell: one without a finding, or whose finding was lost, is an error.
        """
        overall = worst(concerning(self._recorded, self.chosen))
        if (self.missing() or not self._has_all_findings()) and SEVERITY[overall] < SEVERITY[Verdict.ERROR]:
            overall = Verdict.ERROR
        return Verdict.FAIL if overall is Verdict.WARN and fail_on_warn else overall

    def _has_all_findings(self) -> bool:
        """Whether the findings are of the expected cells, and of all of them."""
        nodes_of: dict[str, list[tuple[str, ...]]] = {}
        for finding in self._recorded:
            nodes_of.setdefault(finding.check, []).append(finding.nodes)
        return all(
            self.expected.get(check, frozenset()) == frozenset().union(*nodes_of.get(check, ()))
            for check in self.expected.keys() | nodes_of.keys()
        )

    def exit_code(self, *, fail_on_warn: bool = False) -> int:
        """0 pass or warn, 1 fail, 3 error, 5 no check asked or all skipped."""
        return EXIT_CODES[self.verdict(fail_on_warn=fail_on_warn)]


def _without_secrets(finding: Finding) -> Finding:
    """A finding as it may be shown: what a program printed on a node, or a variable held, is part of many a message."""
    message, fix = without_secrets(finding.message), without_secrets(finding.fix)
    return finding if (message, fix) == (finding.message, finding.fix) else replace(finding, message=message, fix=fix)
