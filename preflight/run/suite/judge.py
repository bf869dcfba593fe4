"""What does one check say of each node: which verdict, which words, which fix?"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from preflight.facts.cluster import Cluster
from preflight.facts.results import Bench, Training
from preflight.judge.again import again
from preflight.judge.check import KINDS, Check
from preflight.judge.commands import with_commands
from preflight.judge.ledger.findings import Finding, Verdict, Where
from preflight.judge.ledger.gates import Gate, Gatekeeper, is_pruned
from preflight.judge.ledger.ledger import Ledger
from preflight.judge.outcome import (
    Outcome,
    alike,
    blames_of,
    by_reason,
    evaluate,
    outcome_of,
    outcome_of_missing,
    text_of_pass,
)
from preflight.judge.settings import Settings
from preflight.judge.unreached import losses, way_back
from preflight.judge.views.bench import BenchView, slow_text
from preflight.judge.views.coverage import without_part
from preflight.judge.views.mesh import MeshView
from preflight.judge.views.rehearsal import RehearsalView
from preflight.judge.views.training import TrainingView
from preflight.reach.hosts import fold
from preflight.run.source import Source
from preflight.run.suite.crew import Crew
from preflight.said import joined, said
from preflight.said.errors import (
    Blame,
    BlameMany,
    FactMissing,
    NotApplicable,
    PreflightError,
)

SLOW_CHECK = "bench.no_node_is_slower_than_its_peers"
REACH_CHECK = "reach.every_node_answers"


@dataclass(frozen=True)
class Judge:
    """Evaluates checks against a source of facts and measurements, one finding per verdict and message."""

    source: Source
    ledger: Ledger
    settings: Settings
    require_all: bool = False
    is_pruning: bool = False
    crew: Crew = field(default_factory=Crew)
    command: tuple[str, ...] = ()  # of the run, as it was typed
    gates: dict[str, Gate] = field(default_factory=dict)  # as found by the first check of a kind

    def judge(self, check: Check) -> list[Finding]:
        """Every finding of one check; each node of the run is in exactly one of them."""
        begun = time.monotonic()
        findings = self._unreached(check)
        if self.source.cluster.nodes:
            findings += self._reached(check)
        seconds = round(time.monotonic() - begun, 4)
        placed = [replace(finding, nodes=self._ordered(finding.nodes), seconds=seconds) for finding in findings]
        if self._is_proved(check):
            placed = [replace(finding, proof=self._proof_text(finding)) for finding in placed]
        return [with_commands(finding, self.source.cluster) for finding in placed]

    def _is_proved(self, check: Check) -> bool:
        """Whether the check is judged by what an earlier run measured."""
        proof = self.source.proof
        return proof is not None and any(job in check.arguments for job in proof.jobs)

    def _proof_text(self, finding: Finding) -> str:
        """Only a verdict on the measurement is proved: what kept it from being judged is of this run."""
        proof = self.source.proof
        was_judged = finding.verdict in (Verdict.PASS, Verdict.WARN, Verdict.FAIL)
        return proof.text() if proof is not None and was_judged else ""

    def _unreached(self, check: Check) -> list[Finding]:
        failures = self.source.failures
        if not failures:
            return []
        if check.id == REACH_CHECK:
            fixes = partial(way_back, transports=self.source.transports, logins=self.source.logins)
            lost = losses(failures, self.source.racks)
            return [
                Finding(
                    check.id,
                    Verdict.ERROR,
                    loss.nodes,
                    loss.message,
                    fixes(loss),
                    commands=again(loss.reason, loss.nodes, self.command),
                )
                for loss in lost
            ]
        words = said("blocked by {REACH_CHECK}", REACH_CHECK)
        return [Finding(check.id, Verdict.ERROR, tuple(failures), words, blocked_by=REACH_CHECK)]

    def _reached(self, check: Check) -> list[Finding]:
        names = self.source.cluster.names
        gate = self._gate(check.kind)
        good = tuple(name for name in names if name not in gate.nodes) if self._is_pruned(check.kind) else ()
        pruned: list[Finding] = []
        if len(good) < self.crew.need and self._is_pruned(check.kind):
            words = said(
                "good so far: {good} of {need} nodes that are needed: {words}", len(good), self.crew.need, gate.words
            )
            return [self._not_started(check, names, gate, words)]
        if gate.words and not good:
            return [self._not_started(check, names, gate, gate.words)]
        if gate.words:
            self.source.leave_out(gate.nodes)
            left_out = tuple(name for name in names if name in gate.nodes)
            pruned = [self._not_started(check, left_out, gate, said("pruned for {words}", gate.words))] * bool(left_out)
            names = good
        spares = self.crew.spares(check.kind, names, self.source, self.ledger.findings)
        if spares:
            self.source.leave_out(spares)
            pruned.append(
                Finding(check.id, Verdict.SKIP, spares, said("a spare: --need {need} took others", self.crew.need))
            )
            names = tuple(name for name in names if name not in spares)
        try:
            subject = self._subject(check.kind)
        except NotApplicable as reason:
            return [Finding(check.id, Verdict.SKIP, names, str(reason))]
        except PreflightError as error:
            return [*pruned, Finding(check.id, Verdict.ERROR, names, said("not measured: {error}", error))]
        if check.kind == "node":
            return self._for_every_node(check)
        cluster: Cluster = subject if isinstance(subject, Cluster) else subject.cluster
        took_part = {node.name for node in cluster}
        absent = tuple(name for name in names if name not in took_part)
        if isinstance(subject, BenchView):
            dropped = self._dropped(check, subject, absent)
            pruned += dropped
            absent = tuple(name for name in absent if not any(name in finding.nodes for finding in dropped))
        words = said("not measured: took no part in the {kind}", check.kind)
        findings = [*pruned, *[Finding(check.id, Verdict.ERROR, absent, words)] * bool(absent)]
        return [*findings, *self._once(check, subject, cluster)] if took_part else findings

    def _dropped(self, check: Check, bench: BenchView, absent: tuple[str, ...]) -> list[Finding]:
        """Of the nodes that a first look found slow, and the second did without: what they are, or what follows."""
        slow = {name: place for place in bench.result.dropped for name in place.nodes if name in absent}
        if not slow:
            return []
        if check.id != SLOW_CHECK:
            words = said("not started: left out for {SLOW_CHECK} on {slow}", SLOW_CHECK, fold(slow))
            return [Finding(check.id, Verdict.ERROR, tuple(slow), words, blocked_by=SLOW_CHECK)]
        reported: dict[str, list[str]] = {}
        for name, place in slow.items():
            reported.setdefault(slow_text(place, self.source.cluster), []).append(name)
        return [Finding(check.id, Verdict.FAIL, tuple(names), text, check.fix) for text, names in reported.items()]

    def _not_started(self, check: Check, names: tuple[str, ...], gate: Gate, why: str) -> Finding:
        return Finding(check.id, Verdict.ERROR, names, said("not started: {why}", why), blocked_by=gate.check)

    def _is_pruned(self, kind: str) -> bool:
        return is_pruned(kind, is_pruning=self.is_pruning)

    def _gate(self, kind: str) -> Gate:
        """The same for all checks of a kind: its job starts once."""
        if kind not in self.gates:
            keeper = Gatekeeper(
                self.source.names,
                frozenset(self.source.cluster.names),
                is_pruning=self.is_pruning,
                site_checks=self.ledger.site_checks,
            )
            self.gates[kind] = keeper.gate(kind, self.ledger.findings)
        return self.gates[kind]

    def _subject(self, kind: str) -> Any:
        """What the check's main fixture is; a job starts here, on its first use."""
        left_out = self._gate(kind).nodes if self._is_pruned(kind) else frozenset()
        left_out |= self.crew.left_out(kind, self.source.names)
        nodes = tuple(node for node in self.source.cluster if node.name not in left_out)
        cluster = Cluster(nodes, asked=len(self.source.names))
        if kind == "ending":
            self.source.end()
            return Cluster(self.source.cluster.nodes, asked=len(self.source.names))
        if kind in {"node", "cluster"}:
            return cluster
        if kind == "mesh":
            result = self.source.mesh() if len(cluster) > 1 else None
            if result is None:
                return cluster
            for name, reason in result.unmeasured.items():
                cluster.unmeasured[name] = FactMissing("mesh", reason)
            for name in without_part(result, _connectable(cluster, result.unmeasured)):
                cluster.unmeasured[name] = FactMissing("mesh", "the node took no part")
            return MeshView(result, cluster)
        if kind == "bench":
            bench = self.source.bench()
            return BenchView(bench, _members(cluster, bench))
        if kind == "rehearsal":
            return RehearsalView(self.source.rehearsal(), cluster)
        training = self.source.training()
        return TrainingView(training, _members(cluster, training), self.source.planned())

    def _for_every_node(self, check: Check) -> list[Finding]:
        outcomes: dict[Outcome, list[str]] = {}
        absent: dict[str, str] = {}
        passed = Outcome(Verdict.PASS, check.title)
        others = {name: self._subject(name) for name in KINDS if name in check.arguments and name != check.kind}
        given = self._arguments(check, others)
        for node in self.source.cluster.nodes:
            outcome = passed
            try:
                evaluate(check, {**given, check.kind: node})
            except FactMissing as missing:
                if missing.kind == "absent":
                    absent[node.name] = str(missing)
                outcome = self._missing(check, missing)
            except Exception as error:
                outcome = outcome_of(error, check)
            outcomes.setdefault(outcome, []).append(node.name)
        is_somewhere = any(outcome.verdict in (Verdict.PASS, Verdict.WARN, Verdict.FAIL) for outcome in outcomes)
        if not absent or is_somewhere:
            return [outcome.finding(check, names) for outcome, names in alike(outcomes, self.source.racks).items()]
        # Where no node has the fact it applies to none, whatever else keeps the others from being judged.
        reasons = joined(sorted(set(absent.values())))
        rest = {outcome: [name for name in names if name not in absent] for outcome, names in outcomes.items()}
        skipped = Finding(check.id, Verdict.SKIP, tuple(absent), said("on no node: {reasons}", reasons))
        return [skipped, *(outcome.finding(check, names) for outcome, names in rest.items() if names)]

    def _once(self, check: Check, subject: Any, cluster: Cluster) -> list[Finding]:
        names = cluster.names
        broken: list[Finding] = []
        try:
            if isinstance(subject, Cluster) and check.kind == "mesh":
                raise NotApplicable("one node: there is no peer to connect to")
            self._call(check, subject)
        except (Blame, BlameMany) as blame:
            for one in blames_of(blame):
                guilty = tuple(name for name in names if name in one.nodes) or names
                verdict = check.broken(is_advisory=one.is_advisory)
                where = tuple(Where(*place) for place in one.where)
                broken.append(Finding(check.id, verdict, guilty, one.message, one.fix or check.fix, where))
        except FactMissing as missing:
            outcome = self._missing(check, missing)
            if missing.kind == "absent":
                outcome = outcome._replace(verdict=Verdict.SKIP, blocked_by="")
            return [outcome.finding(check, names)]
        except NotApplicable as reason:
            # What could not be asked of a node is no reason to leave it out.
            rest = tuple(name for name in names if name not in cluster.unmeasured)
            skipped = [outcome_of(reason, check).finding(check, rest)] if rest else []
            return [*skipped, *self._unmeasured(check, cluster.unmeasured)]
        except Exception as error:
            return [outcome_of(error, check).finding(check, names)]
        blamed = {name for finding in broken for name in finding.nodes}
        unmeasured = {name: why for name, why in cluster.unmeasured.items() if name not in blamed}
        broken += self._unmeasured(check, unmeasured)
        left_out = {name: why for name, why in cluster.inapplicable.items() if name not in {*blamed, *unmeasured}}
        broken += [Finding(check.id, Verdict.SKIP, nodes, why) for why, nodes in by_reason(left_out).items()]
        judged = {*blamed, *unmeasured, *left_out}
        rest = tuple(name for name in names if name not in judged)
        return [
            *broken,
            *([Finding(check.id, Verdict.PASS, rest, text_of_pass(check, cluster.untold))] if rest else []),
        ]

    def _unmeasured(self, check: Check, unmeasured: dict[str, FactMissing]) -> list[Finding]:
        groups: dict[Outcome, list[str]] = {}
        for name, missing in unmeasured.items():
            groups.setdefault(self._missing(check, missing), []).append(name)
        return [outcome.finding(check, names) for outcome, names in alike(groups, self.source.racks).items()]

    def _call(self, check: Check, subject: Any) -> None:
        others = {name: self._subject(name) for name in KINDS if name in check.arguments and name != check.kind}
        own = {check.kind: subject} if check.kind in check.arguments else {}
        evaluate(check, {**self._arguments(check, others), **own})

    def _arguments(self, check: Check, others: Mapping[str, Any]) -> dict[str, Any]:
        """What the check takes beside its main fixture."""
        given = {**check.others, "settings": self.settings, **others}
        return {name: given[name] for name in check.arguments if name != check.kind}

    def _missing(self, check: Check, missing: FactMissing) -> Outcome:
        return outcome_of_missing(missing, check, require_all=self.require_all)

    def _ordered(self, names: Any) -> tuple[str, ...]:
        wanted = set(names)
        return tuple(name for name in self.source.names if name in wanted)


def _connectable(cluster: Cluster, unmeasured: Collection[str]) -> list[str]:
    """The nodes that a mesh should connect: what has no training interface is blocked by the check that says so."""
    return [node.name for node in cluster if node.name not in unmeasured and node.has_training_interface()]


def _members(cluster: Cluster, result: Bench | Training) -> Cluster:
    """The nodes of a cluster that took part in a job."""
    absent = without_part(result, [node.name for node in cluster])
    return Cluster(tuple(node for node in cluster if node.name not in absent), asked=cluster.asked)
