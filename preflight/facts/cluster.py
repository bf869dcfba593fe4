"""All nodes together: who differs from the rest?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median
from typing import Any, NamedTuple

from preflight.facts.node import NodeFacts
from preflight.facts.once import Once
from preflight.facts.value import present
from preflight.reach.hosts import fold
from preflight.said import joined, knowing, said
from preflight.said.errors import Blame, BlameMany, BlockedBy, FactMissing, NotApplicable


class Row(NamedTuple):
    """A line of a table of facts that must be the same on every node.

    ``follows`` names another row: while that one differs, this one is its consequence and stays unjudged.
    """

    what: str
    key: Callable[[NodeFacts], Any]
    fix: str
    follows: str = ""


@dataclass(frozen=True)
class Cluster(Once):
    """The nodes that answered, in HOSTS order; iterating gives NodeFacts.

    ``unmeasured`` collects, during one check, the nodes whose fact was missing, with the reason: they become
    errors of that check while the others are judged (a Blame of the node outweighs it). ``untold`` collects what no
    node has, so that the check passes without it and says so. ``asked`` is how many hosts were named: one that
    answers alone among several is no cluster of one. ``inapplicable`` has the nodes of which the running check has
    nothing to ask, with the reason, while it judges the others.
    """

    nodes: tuple[NodeFacts, ...]
    unmeasured: dict[str, FactMissing] = field(default_factory=dict)
    untold: list[str] = field(default_factory=list)
    asked: int = 0
    inapplicable: dict[str, str] = field(default_factory=dict)

    def __iter__(self) -> Iterator[NodeFacts]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    def __getitem__(self, name: str) -> NodeFacts:
        """The node of that name."""
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, NodeFacts]:
        return {node.name: node for node in self.nodes}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the nodes that answered."""
        return tuple(node.name for node in self.nodes)

    @cached_property
    def bearers(self) -> Mapping[str, int]:
        """Hostname -> how many nodes call themselves so."""
        return Counter(self._reported(lambda node: node.identity.hostname)[0].values())

    def among(self, names: Iterable[str]) -> list[NodeFacts]:
        """Those of the names that answered, in their order."""
        return [self._by_name[name] for name in names if name in self._by_name]

    @property
    def hosts(self) -> int:
        """How many hosts were named, whether they answered or not."""
        return max(len(self.nodes), self.asked)

    def at(self, place: int) -> NodeFacts | None:
        """The host that stands at this place of HOSTS, from 0; None where it did not answer, or there are fewer."""
        if len(self.nodes) < self.asked:
            return next((node for node in self.nodes if node.index == place), None)
        return self.nodes[place] if 0 <= place < len(self.nodes) else None

    @property
    def first(self) -> NodeFacts:
        """The node of rank 0: the first host. BlockedBy when that one did not answer."""
        if not self.nodes or self.nodes[0].index != 0:
            raise BlockedBy("reach.every_node_answers", detail="the first host, which runs rank 0, did not answer")
        return self.nodes[0]

    @property
    def has_peers(self) -> bool:
        """Whether the job spans several hosts, however many of them answered."""
        return self.hosts > 1

    def needs_peers(self) -> None:
        """Leave the check as not applicable when there is one node only."""
        if not self.has_peers:
            raise NotApplicable("one node: there is no peer to compare with")
        if len(self.nodes) < 2:
            raise BlockedBy("reach.every_node_answers", detail="no other node answered")

    def cannot_judge(self, name: str, reason: FactMissing) -> None:
        """Note that the running check has no answer for a node: an error with that reason, unless it is blamed."""
        self.unmeasured.setdefault(name, reason.kept())

    def does_not_apply(self, name: str, reason: str) -> None:
        """Note that the running check has nothing to ask of a node: skipped with that reason, unless it is blamed."""
        self.inapplicable.setdefault(name, reason)

    def gather(self, key: Callable[[NodeFacts], Any]) -> dict[str, Any]:
        """`key` of every node that has it; the others are noted as unmeasured.

        Raises NotApplicable when the fact exists on no node, even where some nodes could not be asked.
        """
        return self._judged(*self._reported(key))

    def of_those_asked(self, key: Callable[[NodeFacts], Any]) -> dict[str, Any]:
        """`key` of every node that has it; who was not asked has nothing to answer for, the others are unmeasured."""
        values, lacking = self._reported(key)
        for name, missing in lacking.items():
            if missing.kind == "absent":
                self.does_not_apply(name, str(missing))
            else:
                self.cannot_judge(name, missing)
        return values

    def _judged(self, values: dict[str, Any], lacking: Mapping[str, FactMissing]) -> dict[str, Any]:
        absent = {name: missing for name, missing in lacking.items() if missing.kind == "absent"}
        for name, reason in lacking.items():
            if values or name not in absent:
                self.cannot_judge(name, reason)
        if not values and (absent or not lacking):
            reasons = {str(missing) for missing in absent.values()}
            raise NotApplicable(said("on no node: {reasons}", joined(sorted(reasons))))
        return values

    def _reported(self, key: Callable[[NodeFacts], Any]) -> tuple[dict[str, Any], dict[str, FactMissing]]:
        """`key` of every node that has it, and why the others do not."""
        values: dict[str, Any] = {}
        lacking: dict[str, FactMissing] = {}
        for node in self.nodes:
            try:
                values[node.name] = key(node)
            except FactMissing as missing:
                lacking[node.name] = missing.kept()
        return values, lacking

    def group_by(self, key: Callable[[NodeFacts], Any]) -> dict[Any, tuple[str, ...]]:
        """Value of `key` -> names of the nodes that have it, the largest group first."""
        return _grouped(self.gather(key))

    def same(self, key: Callable[[NodeFacts], Any], what: str, *, fix: str = "") -> None:
        """Every node has the same value of `key`; otherwise the minority is blamed, and all of them on a tie."""
        for blame in self.differing(self.group_by(key), what, fix=fix):
            raise blame

    def differing(
        self, groups: Mapping[Any, Collection[str]], what: str, *, fix: str = "", **known: Any
    ) -> list[Blame]:
        """The Blame, if any, for values that should be one: of the minority, and of all nodes on a tie.

        Its sentence is ``about`` what differs, unless the caller knows better; more that is `known` goes along.
        """
        if len(groups) <= 1:
            return []
        ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
        is_tie = len(ordered[0][1]) == len(ordered[1][1])
        odd = {name for _, names in ordered[0 if is_tie else 1 :] for name in names}
        message = joined([said("{value} on {names}", value, fold(names)) for value, names in ordered], ", ")
        return [
            Blame(
                knowing(said("{what}: {message}", what, message), **{"about": what, **known}),
                nodes=[node.name for node in self.nodes if node.name in odd],
                fix=fix,
            )
        ]

    def clocks_off(self, *, limit_seconds: float) -> dict[str, str]:
        """The nodes whose clock is certainly further than the limit from the median, with how far it is.

        A node whose clock is less certain than the limit cannot be judged.
        """
        clocks = self.gather(lambda node: node.clock)
        middle = median(clock.offset_seconds for clock in clocks.values()) if clocks else 0.0
        off: dict[str, str] = {}
        for name, clock in clocks.items():
            apart, unsure = clock.offset_seconds - middle, clock.uncertainty_seconds
            if unsure > limit_seconds:
                reason = said(
                    "its offset is known to {unsure:.3g} s only; wanted {limit_seconds:g} s", unsure, limit_seconds
                )
                self.cannot_judge(name, FactMissing("clock", reason))
            elif abs(apart) - unsure > limit_seconds:
                off[name] = said("{apart} s (known to {unsure:.2g} s)", _signed(apart), unsure)
        return off

    def clocks_drifted(self, *, limit_seconds: float) -> dict[str, str]:
        """The nodes whose clock certainly moved by more than the limit during the run, beside the others."""

        def moved(node: NodeFacts) -> tuple[float, float]:
            then, now = node.clock, present(node.ending.offset_seconds, "clock at the end")
            unsure = then.uncertainty_seconds + present(node.ending.uncertainty_seconds, "clock at the end")
            return now - then.offset_seconds, unsure

        clocks = self.gather(moved)
        middle = median(seconds for seconds, _ in clocks.values()) if clocks else 0.0
        return {
            name: f"{_signed(seconds - middle)} s"
            for name, (seconds, unsure) in clocks.items()
            if abs(seconds - middle) - unsure > limit_seconds
        }

    def _same_row(self, row: Row) -> None:
        values, lacking = self._reported(row.key)
        self._needs_most(row, values, lacking)
        for blame in self.differing(_grouped(self._judged(values, lacking)), row.what, fix=row.fix):
            raise blame

    def _needs_most(self, row: Row, values: Mapping[str, Any], lacking: Mapping[str, FactMissing]) -> None:
        absent = [name for name, missing in lacking.items() if missing.kind == "absent"]
        if values and len(absent) > len(values):
            reported = ", ".join(sorted({str(value) for value in values.values()}))
            message = said(
                "{what}: {reported} on {values}, not reported on {absent}",
                row.what,
                reported,
                fold(values),
                fold(absent),
            )
            for name in lacking.keys() - set(absent):
                self.cannot_judge(name, lacking[name])
            raise Blame(knowing(message, about=row.what), nodes=values, fix=row.fix)

    def same_rows(self, table: Iterable[Row | tuple[str, Callable[[NodeFacts], Any], str, str]]) -> None:
        """Every node has the same value in every row; each row that differs is a Blame with its own fix.

        A few nodes that have what most do not are what differs; most nodes that have what a few lack leave these open.
        """
        blames: list[Blame] = []
        differing: set[str] = set()
        missing: dict[str, str] = {}
        rows = [Row._make(row) for row in table]
        for row in rows:
            if row.follows in differing:
                continue
            try:
                self._same_row(row)
            except Blame as blame:
                blames.append(blame)
                differing.add(row.what)
            except NotApplicable as reason:
                missing[row.what] = str(reason)
        if len(missing) < len(rows):
            self.untold.extend(missing)
        if blames:
            raise BlameMany(blames)
        if len(missing) == len(rows):
            raise NotApplicable(joined(missing.values()))


def _grouped(values: Mapping[str, Any]) -> dict[Any, tuple[str, ...]]:
    groups: dict[Any, list[str]] = {}
    for name, value in values.items():
        groups.setdefault(value, []).append(name)
    return {value: tuple(names) for value, names in sorted(groups.items(), key=lambda item: -len(item[1]))}


def _signed(seconds: float) -> str:
    """Three digits, and whole seconds where they are more: "+0.25", "-900", "+86400"."""
    return f"{seconds:+.3g}" if abs(seconds) < 999.5 else f"{seconds:+.0f}"
