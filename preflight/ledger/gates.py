"""Which findings keep a job from starting, and on which nodes?"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from preflight.hosts import fold
from preflight.ledger.findings import Finding, Verdict

# What must hold before a job is worth starting: one cause, told once, instead of a hang in every later stage.
GATES: dict[str, tuple[str, ...]] = {
    "mesh": ("reach.no_machine_",),
    "bench": ("reach.", "names.", "mesh.", "software.", "network.interface_", "network.training_"),
    "training": ("launch.", "reach.", "names.", "mesh.", "software.", "network.interface_", "network.training_"),
}
PRUNED_KINDS = ("bench", "training")  # with --prune these start on the nodes that the gate does not name
OPEN = {Verdict.PASS, Verdict.WARN, Verdict.SKIP}
Blockers = dict[str, list[Finding]]  # by check


@dataclass(frozen=True)
class Gate:
    """What keeps a job from starting, as a message says it, and the nodes it names; open where there are no words."""

    words: str
    nodes: frozenset[str]


@dataclass(frozen=True)
class Gatekeeper:
    """Looks at the findings before a job of some kind is started."""

    names: tuple[str, ...]  # every host, in HOSTS order
    reached: frozenset[str]
    is_pruning: bool = False

    def is_pruned(self, kind: str) -> bool:
        """Whether a job of this kind starts on the good nodes although others are bad."""
        return self.is_pruning and kind in PRUNED_KINDS

    def gate(self, kind: str, findings: Iterable[Finding]) -> Gate:
        """What of these findings keeps a job of this kind from starting."""
        if kind not in GATES:
            return Gate("", frozenset())
        everything = tuple(findings)
        told = self._causes(kind, everything)
        if self.is_pruned(kind):
            wider = {**told, **self._others_bad(kind, everything)}
            # Where hardly anything is good, the gate alone decides: the job would have started without --prune.
            told = told if nodes_of(wider).issuperset(self.reached) else wider
        words = (f"{check} on {fold(self._ordered(nodes_of({check: found})))}" for check, found in sorted(told.items()))
        return Gate("; ".join(words), nodes_of(told))

    def _causes(self, kind: str, findings: tuple[Finding, ...]) -> Blockers:
        # The mesh is of the nodes that answered: one that did not is no reason to leave the others unconnected.
        absent = set(self.names) - self.reached if kind == "mesh" else set()
        blockers: Blockers = {}
        for finding in findings:
            if absent and absent.issuperset(finding.nodes):
                continue
            if finding.check.startswith(GATES[kind]) and finding.counted not in OPEN:
                blockers.setdefault(finding.check, []).append(finding)
        # An error that another check caused is no second reason.
        return {check: found for check, found in blockers.items() if not all(map(is_consequence, found))} or blockers

    def _others_bad(self, kind: str, findings: tuple[Finding, ...]) -> Blockers:
        """What does not hold on some nodes, but by itself keeps no job from starting; of all nodes it tells nothing."""
        found: Blockers = {}
        for finding in findings:
            is_ours = finding.check.startswith(GATES[kind])
            if finding.counted not in OPEN and not is_ours and not is_consequence(finding):
                found.setdefault(finding.check, []).append(finding)
        return {check: bad for check, bad in found.items() if not self.reached.issubset(nodes_of({check: bad}))}

    def _ordered(self, nodes: AbstractSet[str]) -> tuple[str, ...]:
        return tuple(name for name in self.names if name in nodes)


def is_consequence(finding: Finding) -> bool:
    """Whether another check's finding stands behind this one."""
    return finding.message.startswith(("blocked by", "not started"))


def nodes_of(blockers: Blockers) -> frozenset[str]:
    """Every node that is named."""
    return frozenset(node for found in blockers.values() for finding in found for node in finding.nodes)
