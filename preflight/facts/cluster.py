"""All nodes together: who differs from the rest?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from preflight.errors import Blame, BlameMany, BlockedBy, FactMissing, NotApplicable
from preflight.facts.node import NodeFacts
from preflight.hosts import fold


class Row(NamedTuple):
    """A line of a table of facts that must be the same on every node.

    ``follows`` names another row: while that one differs, this one is its consequence and stays unjudged.
    """

    what: str
    key: Callable[[NodeFacts], Any]
    fix: str
    follows: str = ""


@dataclass(frozen=True)
class Cluster:
    """The nodes that answered, in HOSTS order; iterating gives NodeFacts.

    ``unmeasured`` collects, during one check, the nodes whose fact was missing, with the reason: they become
    errors of that check while the others are judged (a Blame of the node outweighs it). ``asked`` is how many
    hosts were named: one that answers alone among several is no cluster of one.
    """

    nodes: tuple[NodeFacts, ...]
    unmeasured: dict[str, FactMissing] = field(default_factory=dict)
    asked: int = 0

    def __iter__(self) -> Iterator[NodeFacts]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    def __getitem__(self, name: str) -> NodeFacts:
        """The node of that name."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(name)

    @property
    def first(self) -> NodeFacts:
        """The node of rank 0: the first host. BlockedBy when that one did not answer."""
        if not self.nodes or self.nodes[0].index != 0:
            raise BlockedBy("reach.every_node_answers", detail="the first host, which runs rank 0, did not answer")
        return self.nodes[0]

    @property
    def has_peers(self) -> bool:
        """Whether the job spans several hosts, however many of them answered."""
        return max(len(self.nodes), self.asked) > 1

    def needs_peers(self) -> None:
        """Leave the check as not applicable when there is one node only."""
        if not self.has_peers:
            raise NotApplicable("one node: there is no peer to compare with")
        if len(self.nodes) < 2:
            raise BlockedBy("reach.every_node_answers", detail="no other node answered")

    def cannot_judge(self, name: str, reason: FactMissing) -> None:
        """Note that the running check has no answer for a node: an error with that reason, unless it is blamed."""
        self.unmeasured.setdefault(name, reason)

    def gather(self, key: Callable[[NodeFacts], Any]) -> dict[str, Any]:
        """`key` of every node that has it; the others are noted as unmeasured.

        Raises NotApplicable when the fact exists on no node.
        """
        values: dict[str, Any] = {}
        absent: dict[str, FactMissing] = {}
        for node in self.nodes:
            try:
                values[node.name] = key(node)
            except FactMissing as missing:
                absent[node.name] = missing
        if not values and all(m.kind == "absent" for m in absent.values()):
            reasons = {str(missing) for missing in absent.values()}
            raise NotApplicable(f"on no node: {'; '.join(sorted(reasons))}")
        for name, reason in absent.items():
            self.cannot_judge(name, reason)
        return values

    def group_by(self, key: Callable[[NodeFacts], Any]) -> dict[Any, tuple[str, ...]]:
        """Value of `key` -> names of the nodes that have it, the largest group first."""
        groups: dict[Any, tuple[str, ...]] = {}
        for name, value in self.gather(key).items():
            groups[value] = (*groups.get(value, ()), name)
        return dict(sorted(groups.items(), key=lambda item: -len(item[1])))

    def same(self, key: Callable[[NodeFacts], Any], what: str, *, fix: str = "") -> None:
        """Every node has the same value of `key`; otherwise the minority is blamed, and all of them on a tie."""
        groups = self.group_by(key)
        if len(groups) <= 1:
            return
        counts = [len(names) for names in groups.values()]
        tie = counts[0] == counts[1]
        odd = tuple(
            node.name for node in self.nodes for names in list(groups.values())[0 if tie else 1 :] if node.name in names
        )
        told = ", ".join(f"{value} on {fold(names)}" for value, names in groups.items())
        raise Blame(f"{what}: {told}", nodes=odd, fix=fix)

    def same_rows(self, table: Iterable[Row | tuple[str, Callable[[NodeFacts], Any], str, str]]) -> None:
        """Every node has the same value in every row; each row that differs is a Blame with its own fix."""
        blames: list[Blame] = []
        differing: set[str] = set()
        missing: list[str] = []
        rows = [Row._make(row) for row in table]
        for row in rows:
            if row.follows in differing:
                continue
            try:
                self.same(row.key, row.what, fix=row.fix)
            except Blame as blame:
                blames.append(blame)
                differing.add(row.what)
            except NotApplicable as reason:
                missing.append(str(reason))
        if blames:
            raise BlameMany(blames)
        if len(missing) == len(rows):
            raise NotApplicable("; ".join(missing))
