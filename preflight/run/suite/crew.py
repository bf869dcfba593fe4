"""Which nodes does the training run on, where a job needs fewer than there are, and which may the job have?"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from preflight.judge.ledger.choice import UNFINISHED, Choice, best_nodes, blameless
from preflight.judge.ledger.findings import Finding
from preflight.run.source import Source


@dataclass
class Crew:
    """The nodes of a job that needs so many; all of them where it needs 0."""

    need: int = 0
    _trained: Choice | None = field(default=None, init=False)

    def spares(self, kind: str, good: tuple[str, ...], source: Source, findings: Iterable[Finding]) -> tuple[str, ...]:
        """Those of the good nodes that a job of this kind leaves out: bandwidth is measured on all of them.

        They are chosen once, by what was found before the training.
        """
        if kind != "training" or not self.need:
            return ()
        if self._trained is None:
            self._trained = best_nodes(findings, source.names, self.need, good=good, groups=source.racks)
        return tuple(name for name in good if name not in self._trained.nodes)

    def left_out(self, kind: str, names: Collection[str]) -> frozenset[str]:
        """The nodes that a job of this kind was not started on."""
        taken = self._trained if kind == "training" else None
        return frozenset() if taken is None else frozenset(names).difference(taken.nodes)

    def choice(self, source: Source, findings: Collection[Finding]) -> Choice | None:
        """The nodes for the job at the end of a run; None where it needs 0.

        They are of those that were trained on, where any were: a spare does not take the place of one that
        failed in the training, for nothing tells that it would not, too.
        """
        if not self.need:
            return None
        reached = {node.name for node in source.cluster}
        good = [name for name in blameless(findings, source.names) if name in reached]
        if self._trained is None:
            return best_nodes(findings, source.names, self.need, good=good, groups=source.racks)
        trained = self._trained
        made = best_nodes(findings, source.names, self.need, good=[name for name in good if name in trained.nodes])
        reasons = {
            node: trained.left_out.get(node, reason) if reason == UNFINISHED else reason
            for node, reason in made.left_out.items()
        }
        return replace(made, left_out=reasons)
