"""Which findings keep a job from starting, and on which nodes?"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from preflight.judge.ledger.findings import Finding, Verdict
from preflight.reach.hosts import fold
from preflight.said import joined, said

# What must hold before a job is worth starting: one cause, reported once, instead of a hang in every later stage.
# A word ending in a dot is a subject, whose every check gates; the others are ids of single checks.
MESH_GATES = ("reach.no_machine_is_named_twice",)
BENCH_GATES = (
    "reach.",
    "names.",
    "mesh.",
    "software.",
    "gpu.devices_are_readable",
    "network.interface_variables_match_an_interface",
    "network.training_interface_exists",
    "network.training_interface_is_a_real_one",
    "network.training_interface_is_fast_enough_for_gpus",
    "network.training_interfaces_have_the_same_rate",
    "network.training_addresses_are_unique",
    "network.training_addresses_share_a_subnet",
    "network.nccl_starts_on_an_interface_of_the_peers",
    "network.nccl_takes_no_more_interfaces_than_meant",
)
RULES = "launch."  # the rules on launch files, which are no checks of a folder
GATES: dict[str, tuple[str, ...]] = {
    "mesh": MESH_GATES,
    "bench": BENCH_GATES,
    "rehearsal": ("reach.",),
    "training": (RULES, *BENCH_GATES, "files.the_checkpoint_folder_is_shared"),
}
PRUNED_KINDS = ("bench", "training")  # with --prune these start on the nodes that the gate does not name
OPEN = {Verdict.PASS, Verdict.WARN, Verdict.SKIP}
Blockers = dict[str, list[Finding]]  # by check


@dataclass(frozen=True)
class Gate:
    """What keeps a job from starting: in words, the first check in them, and the nodes; open where all are empty."""

    words: str
    nodes: frozenset[str]
    check: str


OPEN_GATE = Gate("", frozenset(), "")


def is_pruned(kind: str, *, is_pruning: bool) -> bool:
    """Whether a job of this kind starts on the good nodes although others are bad."""
    return is_pruning and kind in PRUNED_KINDS


@dataclass(frozen=True)
class Gatekeeper:
    """Looks at the findings before a job of some kind is started.

    `site_checks` are the ids of checks from files of the user's own: whatever they are called, they gate nothing.
    """

    names: tuple[str, ...]  # every host, in HOSTS order
    reached: frozenset[str]
    is_pruning: bool = False
    site_checks: AbstractSet[str] = frozenset()

    def gate(self, kind: str, findings: Iterable[Finding]) -> Gate:
        """What of these findings keeps a job of this kind from starting."""
        if kind not in GATES:
            return OPEN_GATE
        everything = tuple(findings)
        causes = self._causes(kind, everything)
        if is_pruned(kind, is_pruning=self.is_pruning):
            wider = {**causes, **self._others_bad(kind, everything)}
            # Where hardly anything is good, the gate alone decides: the job would have started without --prune.
            causes = causes if nodes_of(wider).issuperset(self.reached) else wider
        if not causes:
            return OPEN_GATE
        words = (
            said("{check} on {ordered}", check, fold(self._ordered(nodes_of({check: found}))))
            for check, found in sorted(causes.items())
        )
        return Gate(joined(words), nodes_of(causes), min(causes))

    def _gates(self, kind: str, check: str) -> bool:
        """Whether a check of this id has a say in whether a job of this kind starts."""
        return check not in self.site_checks and is_gate(kind, check)

    def _causes(self, kind: str, findings: tuple[Finding, ...]) -> Blockers:
        # The mesh is of the nodes that answered: one that did not, or did not tell who it is, is no reason to leave the
        # others unconnected.
        absent = set(self.names) - self.reached if kind == "mesh" else set()
        blockers: Blockers = {}
        for finding in findings:
            if absent and absent.issuperset(finding.nodes):
                continue
            if kind == "mesh" and finding.counted is Verdict.ERROR and not self.reached.issubset(finding.nodes):
                continue
            if self._gates(kind, finding.check) and finding.counted not in OPEN:
                blockers.setdefault(finding.check, []).append(finding)
        # An error that another check caused is no second reason.
        return {
            check: found for check, found in blockers.items() if not all(finding.blocked_by for finding in found)
        } or blockers

    def _others_bad(self, kind: str, findings: tuple[Finding, ...]) -> Blockers:
        """What does not hold on some nodes and gates nothing; pruning for what is bad on all nodes would leave none."""
        found: Blockers = {}
        for finding in findings:
            if finding.counted not in OPEN and not self._gates(kind, finding.check) and not finding.blocked_by:
                found.setdefault(finding.check, []).append(finding)
        return {check: bad for check, bad in found.items() if not self.reached.issubset(nodes_of({check: bad}))}

    def _ordered(self, nodes: AbstractSet[str]) -> tuple[str, ...]:
        return tuple(name for name in self.names if name in nodes)


def is_gate(kind: str, check: str) -> bool:
    """Whether a job of this kind waits for one of our own checks, or of the rules on launch files."""
    return any(check.startswith(word) if word.endswith(".") else check == word for word in GATES[kind])


def nodes_of(blockers: Blockers) -> frozenset[str]:
    """Every node that is named."""
    return frozenset(node for found in blockers.values() for finding in found for node in finding.nodes)
