"""Which cells must get a verdict, and which got one?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import NamedTuple

from preflight.ledger.choice import concerning
from preflight.ledger.findings import EXIT_CODES, SEVERITY, Finding, Verdict, worst
from preflight.redact import without_secrets


class Cell(NamedTuple):
    """One question for one node: the unit that must get exactly one verdict. A tuple: there may be 100,000s."""

    check: str
    node: str


@dataclass
class Ledger:
    """Every cell that must be judged, written before anything runs, and what was judged.

    A cell may be judged once; the cells left over at the end are errors. Nothing but this decides the exit code.
    """

    expected: set[Cell] = field(default_factory=set)
    not_asked: dict[str, str] = field(default_factory=dict)  # check -> what left it out: "-k", "profile quick"
    site_checks: set[str] = field(default_factory=set)  # those from the user's own files
    chosen: frozenset[str] = frozenset()  # the nodes that the verdict is of; all of them where it is empty
    waive: Callable[[Finding], tuple[Finding, ...]] = lambda finding: (finding,)
    # Check -> nodes, each a dictionary without values: a set of 5,000 names takes four times the room.
    _judged: dict[str, dict[str, None]] = field(default_factory=dict)
    _recorded: list[Finding] = field(default_factory=list)

    @property
    def findings(self) -> list[Finding]:
        """What was recorded, in that order; a copy, for verdicts change by `record` alone."""
        return list(self._recorded)

    def expect(self, check: str, nodes: Iterable[str]) -> None:
        """Write down that `check` must judge each of `nodes`."""
        self.expected.update(map(Cell, repeat(check), nodes))

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
            raise TypeError(f"{finding.check}: {finding.verdict!r} is not a Verdict")
        if not finding.nodes and finding.verdict in (Verdict.PASS, Verdict.SKIP):
            raise ValueError(f"{finding.check}: {finding.verdict} of no node")
        if len(set(finding.nodes)) != len(finding.nodes):
            raise ValueError(f"{finding.check} names a node twice: {finding.nodes}")
        cells = list(map(Cell, repeat(finding.check), finding.nodes))
        judged = self._judged.get(finding.check, {})
        for cell in cells:
            if cell not in self.expected:
                raise ValueError(f"{cell.check} is not expected of {cell.node}")
            if cell.node in judged:
                raise ValueError(f"{cell.check} judged {cell.node} twice")
        counting = self.waive(_without_secrets(finding))
        for part in counting:
            self._judged.setdefault(part.check, {}).update(dict.fromkeys(part.nodes))
        self._recorded.extend(counting)
        return counting

    def is_judged(self, check: str, node: str) -> bool:
        """Whether the cell has its verdict."""
        return node in self._judged.get(check, ())

    @property
    def judged(self) -> int:
        """How many cells have a verdict."""
        return sum(map(len, self._judged.values()))

    def missing(self) -> list[Cell]:
        """The cells still without a verdict, sorted."""
        if self.judged == len(self.expected):  # only what is expected is ever judged
            return []
        return sorted(cell for cell in self.expected if not self.is_judged(*cell))

    def close(self, reason: str, order: Iterable[str]) -> None:
        """Turn every cell still missing into an error with `reason`, nodes in the given order."""
        place = {node: index for index, node in enumerate(order)}
        nodes_of: dict[str, list[str]] = {}
        for cell in self.missing():
            nodes_of.setdefault(cell.check, []).append(cell.node)
        for check, nodes in nodes_of.items():
            names = tuple(sorted(nodes, key=lambda node: place.get(node, len(place))))
            self.record(Finding(check, Verdict.ERROR, names, f"not measured: {reason}"))

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
        held: dict[str, dict[str, None]] = {}
        for finding in self._recorded:
            held.setdefault(finding.check, {}).update(dict.fromkeys(finding.nodes))
        return sum(map(len, held.values())) == len(self.expected) and all(
            self.expected.issuperset(zip(repeat(check), nodes)) for check, nodes in held.items()
        )

    def exit_code(self, *, fail_on_warn: bool = False) -> int:
        """0 pass or warn, 1 fail, 3 error, 5 no check asked or all skipped."""
        return EXIT_CODES[self.verdict(fail_on_warn=fail_on_warn)]


def _without_secrets(finding: Finding) -> Finding:
    """A finding as it may be shown: what a program printed on a node, or a variable held, is part of many a message."""
    message, fix = without_secrets(finding.message), without_secrets(finding.fix)
    return finding if (message, fix) == (finding.message, finding.fix) else replace(finding, message=message, fix=fix)
