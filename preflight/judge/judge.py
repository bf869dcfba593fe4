"""What does one check say of each node: which verdict, which words, which fix?"""

from __future__ import annotations

import re
import time
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from preflight.errors import (
    Blame,
    BlameMany,
    BlockedBy,
    FactMissing,
    HostError,
    NotApplicable,
    NotMeasured,
    PreflightError,
)
from preflight.facts.cluster import Cluster
from preflight.hosts import fold
from preflight.judge.commands import with_commands
from preflight.judge.coverage import without_part
from preflight.judge.crew import Crew
from preflight.judge.unreached import ANY, IN_MID_RUN, Loss, by_rack, losses, without_name
from preflight.judge.views.bench import BenchView, slow_text
from preflight.judge.views.mesh import MeshView
from preflight.judge.views.training import TrainingView
from preflight.ledger.findings import Finding, Verdict
from preflight.ledger.gates import Gate, Gatekeeper, is_pruned
from preflight.ledger.ledger import Ledger
from preflight.options.settings import Settings
from preflight.results import Bench, Training
from preflight.run.source import Source
from preflight.transport import TRANSPORTS, written_for
from preflight.transport.kubernetes import Kubernetes

# The last one that a check asks for says how it runs: `node` beside `cluster` is a body for every node.
KINDS = ("cluster", "node", "mesh", "bench", "training", "ending")
SLOW_CHECK = "bench.no_node_is_slower_than_its_peers"
REACH_CHECK = "reach.every_node_answers"
REFUSED_WITH_A_KEY = (
    "where the key is there already, sshd's log on the node says why (`journalctl -u ssh -u sshd`): the account has "
    "expired or is locked, its shell does not exist, AllowUsers or PermitRootLogin keeps it out"
)


@dataclass(frozen=True)
class Check:
    """A check as found in a file: its id, its function, and what it said of itself."""

    id: str
    function: Callable[..., Any]
    arguments: tuple[str, ...]
    kind: str
    is_advisory: bool = False
    needs: frozenset[str] = frozenset()
    others: Mapping[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The first line of the docstring."""
        return (self.function.__doc__ or self.id).strip().splitlines()[0]

    @property
    def fix(self) -> str:
        """What the docstring says after ``Fix:``."""
        return docstring_fix(self.function.__doc__ or "")


class Outcome(NamedTuple):
    """What one evaluation of a check's body means; equal outcomes of several nodes are one finding."""

    verdict: Verdict
    message: str
    fix: str = ""
    blocked_by: str = ""

    def finding(self, check: Check, names: Iterable[str]) -> Finding:
        """The finding of the nodes that share it."""
        return Finding(check.id, self.verdict, tuple(names), self.message, self.fix, blocked_by=self.blocked_by)


def docstring_fix(text: str) -> str:
    """The text after ``Fix:``, on one line."""
    _, found, after = text.partition("Fix:")
    return re.sub(r"\s+", " ", after).strip() if found else ""


@dataclass(frozen=True)
class Judge:
    """Evaluates checks against a source of facts and measurements, one finding per verdict and message."""

    source: Source
    ledger: Ledger
    settings: Settings
    require_all: bool = False
    is_pruning: bool = False
    crew: Crew = field(default_factory=Crew)
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

    def _loss_fix(self, loss: Loss) -> str:
        own = self._unreached_fix(loss.nodes, loss.reason)
        return f"look at the switch and the power of {loss.rack} first; else {own}" if loss.rack else own

    def _unreached_fix(self, names: Sequence[str], reason: str) -> str:
        """What to do: as the reason says where it does, else by hand, as the transport of these nodes says."""
        if reason.startswith("busy: "):
            return "wait for the run named to end, or stop it where it was started (Ctrl-C), then run again"
        has_torch = re.search(r"\(there (\S+) has torch \S+\)$", reason)
        if has_torch:
            return f"`--python={has_torch[1]}`, which has torch there, then run again"
        if "give --python PATH" in reason:
            return "`--python PATH` with the full path of a Python of 3.9 or newer on the nodes named, then run again"
        said = re.search(r": (ssh(?:-copy-id)? [-\w@.:\[\]<> ]+)$", reason)
        if said and said[1].startswith("ssh-copy-id"):
            return f"`{said[1]}`, then run again; {REFUSED_WITH_A_KEY}"
        if said:  # with the user and the port that HOSTS gave
            return f"`{said[1]}`, then run again"
        transport = TRANSPORTS.get(self.source.transports.get(names[0], ""), written_for(names[0]))
        is_known = transport.name == Kubernetes.name or "(srun: " in reason  # each such cause ends with what to do
        if is_known and "; " in reason:
            return reason.rpartition("; ")[2].rstrip(")") + ", then run again"
        return transport.log_in_hint(self.source.logins.get(names[0], names[0]) if len(names) == 1 else ANY)

    def _unreached(self, check: Check) -> list[Finding]:
        failures = self.source.failures
        if not failures:
            return []
        if check.id == REACH_CHECK:
            return [
                Finding(check.id, Verdict.ERROR, loss.nodes, loss.message, self._loss_fix(loss))
                for loss in losses(failures, self.source.racks)
            ]
        words = f"blocked by {REACH_CHECK}"
        return [Finding(check.id, Verdict.ERROR, tuple(failures), words, blocked_by=REACH_CHECK)]

    def _reached(self, check: Check) -> list[Finding]:
        names = self.source.cluster.names
        gate = self._gate(check.kind)
        good = tuple(name for name in names if name not in gate.nodes) if self._is_pruned(check.kind) else ()
        pruned: list[Finding] = []
        if len(good) < self.crew.need and self._is_pruned(check.kind):
            words = f"good so far: {len(good)} of {self.crew.need} nodes that are needed: {gate.words}"
            return [self._not_started(check, names, gate, words)]
        if gate.words and not good:
            return [self._not_started(check, names, gate, gate.words)]
        if gate.words:
            self.source.leave_out(gate.nodes)
            left_out = tuple(name for name in names if name in gate.nodes)
            pruned = [self._not_started(check, left_out, gate, f"pruned for {gate.words}")] * bool(left_out)
            names = good
        spares = self.crew.spares(check.kind, names, self.source, self.ledger.findings)
        if spares:
            self.source.leave_out(spares)
            pruned.append(Finding(check.id, Verdict.SKIP, spares, f"a spare: --need {self.crew.need} took others"))
            names = tuple(name for name in names if name not in spares)
        try:
            subject = self._subject(check.kind)
        except NotApplicable as reason:
            return [Finding(check.id, Verdict.SKIP, names, str(reason))]
        except (NotMeasured, HostError, PreflightError) as error:
            return [*pruned, Finding(check.id, Verdict.ERROR, names, f"not measured: {error}")]
        if check.kind == "node":
            return self._for_every_node(check)
        cluster: Cluster = subject if isinstance(subject, Cluster) else subject.cluster
        took_part = {node.name for node in cluster}
        absent = tuple(name for name in names if name not in took_part)
        if isinstance(subject, BenchView):
            dropped = self._dropped(check, subject, absent)
            pruned += dropped
            absent = tuple(name for name in absent if not any(name in finding.nodes for finding in dropped))
        words = f"not measured: took no part in the {check.kind}"
        findings = [*pruned, *[Finding(check.id, Verdict.ERROR, absent, words)] * bool(absent)]
        return [*findings, *self._once(check, subject, cluster)] if took_part else findings

    def _dropped(self, check: Check, bench: BenchView, absent: tuple[str, ...]) -> list[Finding]:
        """Of the nodes that a first look found slow, and the second did without: what they are, or what follows."""
        slow = {name: place for place in bench.result.dropped for name in place.nodes if name in absent}
        if not slow:
            return []
        if check.id != SLOW_CHECK:
            words = f"not started: left out for {SLOW_CHECK} on {fold(slow)}"
            return [Finding(check.id, Verdict.ERROR, tuple(slow), words, blocked_by=SLOW_CHECK)]
        reported: dict[str, list[str]] = {}
        for name, place in slow.items():
            reported.setdefault(slow_text(place, self.source.cluster), []).append(name)
        return [Finding(check.id, Verdict.FAIL, tuple(names), text, check.fix) for text, names in reported.items()]

    def _not_started(self, check: Check, names: tuple[str, ...], gate: Gate, why: str) -> Finding:
        return Finding(check.id, Verdict.ERROR, names, f"not started: {why}", blocked_by=gate.check)

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
                check.function(**given, **{check.kind: node})
            except FactMissing as missing:
                if missing.kind == "absent":
                    absent[node.name] = str(missing)
                outcome = self._missing(check, missing)
            except Exception as error:
                outcome = self._outcome(check, error)
            outcomes.setdefault(outcome, []).append(node.name)
        is_somewhere = any(outcome.verdict in (Verdict.PASS, Verdict.WARN, Verdict.FAIL) for outcome in outcomes)
        if not absent or is_somewhere:
            return [outcome.finding(check, names) for outcome, names in _alike(outcomes, self.source.racks).items()]
        # Where no node has the fact it applies to none, whatever else keeps the others from being judged.
        reasons = "; ".join(sorted(set(absent.values())))
        rest = {outcome: [name for name in names if name not in absent] for outcome, names in outcomes.items()}
        skipped = Finding(check.id, Verdict.SKIP, tuple(absent), f"on no node: {reasons}")
        return [skipped, *(outcome.finding(check, names) for outcome, names in rest.items() if names)]

    def _once(self, check: Check, subject: Any, cluster: Cluster) -> list[Finding]:
        names = cluster.names
        broken: list[Finding] = []
        try:
            if isinstance(subject, Cluster) and check.kind == "mesh":
                raise NotApplicable("one node: there is no peer to connect to")
            self._call(check, subject)
        except (Blame, BlameMany) as blame:
            many = blame.blames if isinstance(blame, BlameMany) else (blame,)
            for one in many:
                verdict = Verdict.WARN if check.is_advisory or one.is_advisory else Verdict.FAIL
                guilty = tuple(name for name in names if name in one.nodes) or names
                broken.append(Finding(check.id, verdict, guilty, one.message, one.fix or check.fix))
        except FactMissing as missing:
            outcome = self._missing(check, missing)
            if missing.kind == "absent":
                outcome = outcome._replace(verdict=Verdict.SKIP, blocked_by="")
            return [outcome.finding(check, names)]
        except NotApplicable as reason:
            # What could not be asked of a node is no reason to leave it out.
            rest = tuple(name for name in names if name not in cluster.unmeasured)
            skipped = [self._outcome(check, reason).finding(check, rest)] if rest else []
            return [*skipped, *self._unmeasured(check, cluster.unmeasured)]
        except Exception as error:
            return [self._outcome(check, error).finding(check, names)]
        blamed = {name for finding in broken for name in finding.nodes}
        unmeasured = {name: why for name, why in cluster.unmeasured.items() if name not in blamed}
        broken += self._unmeasured(check, unmeasured)
        left_out = {name: why for name, why in cluster.inapplicable.items() if name not in {*blamed, *unmeasured}}
        broken += [Finding(check.id, Verdict.SKIP, nodes, why) for why, nodes in _by_reason(left_out).items()]
        judged = {*blamed, *unmeasured, *left_out}
        rest = tuple(name for name in names if name not in judged)
        return [*broken, *([Finding(check.id, Verdict.PASS, rest, _passed(check, cluster.untold))] if rest else [])]

    def _unmeasured(self, check: Check, unmeasured: dict[str, FactMissing]) -> list[Finding]:
        groups: dict[Outcome, list[str]] = {}
        for name, missing in unmeasured.items():
            groups.setdefault(self._missing(check, missing), []).append(name)
        return [outcome.finding(check, names) for outcome, names in _alike(groups, self.source.racks).items()]

    def _call(self, check: Check, subject: Any) -> None:
        others = {name: self._subject(name) for name in KINDS if name in check.arguments and name != check.kind}
        own = {check.kind: subject} if check.kind in check.arguments else {}
        check.function(**self._arguments(check, others), **own)

    def _arguments(self, check: Check, others: Mapping[str, Any]) -> dict[str, Any]:
        """What the check takes beside its main fixture."""
        given = {**check.others, "settings": self.settings, **others}
        return {name: given[name] for name in check.arguments if name != check.kind}

    def _missing(self, check: Check, missing: FactMissing) -> Outcome:
        if missing.kind == "denied" and check.needs and not self.require_all:
            return Outcome(Verdict.SKIP, f"not permitted: {missing}")
        if isinstance(missing, BlockedBy):
            return Outcome(Verdict.ERROR, str(missing), blocked_by=missing.check)
        return Outcome(Verdict.ERROR, f"not measured: {missing}")

    def _outcome(self, check: Check, error: Exception) -> Outcome:
        """What an exception of a check's body means; a missing fact has `_missing`."""
        if isinstance(error, (Blame, BlameMany)):
            blames = error.blames if isinstance(error, BlameMany) else (error,)
            is_advisory = check.is_advisory or all(blame.is_advisory for blame in blames)
            verdict = Verdict.WARN if is_advisory else Verdict.FAIL
            return Outcome(verdict, "; ".join(blame.message for blame in blames), blames[0].fix or check.fix)
        if isinstance(error, NotApplicable):
            return Outcome(Verdict.SKIP, str(error))
        if isinstance(error, (NotMeasured, HostError)):
            return Outcome(Verdict.ERROR, f"not measured: {error}")
        if isinstance(error, AssertionError):
            verdict = Verdict.WARN if check.is_advisory else Verdict.FAIL
            return Outcome(verdict, _authors_words(error), check.fix)
        return Outcome(Verdict.ERROR, f"the check itself broke: {type(error).__name__}: {error} ({_place(error)})")

    def _ordered(self, names: Any) -> tuple[str, ...]:
        wanted = set(names)
        return tuple(name for name in self.source.names if name in wanted)


def _by_reason(reasons: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Reason -> the nodes that have it."""
    found: dict[str, tuple[str, ...]] = {}
    for name, why in reasons.items():
        found[why] = (*found.get(why, ()), name)
    return found


def _passed(check: Check, untold: Iterable[str]) -> str:
    """What a check says of nodes that pass it: what holds, and what of it nobody could tell."""
    left_out = ", ".join(dict.fromkeys(untold))
    return f"{check.title} Not reported by any node: {left_out}." if left_out else check.title


def _alike(outcomes: dict[Outcome, list[str]], racks: Mapping[str, str]) -> dict[Outcome, list[str]]:
    """One finding for all nodes that were lost for one reason: a rack that dies in mid-run is named once."""
    reasons = {
        outcome: outcome._replace(message=without_name(outcome.message, names[0]))
        for outcome, names in outcomes.items()
        if outcome.verdict is Verdict.ERROR and len(names) == 1
    }
    shared = Counter(reasons.values())
    made: dict[Outcome, list[str]] = {}
    for outcome, names in outcomes.items():
        reason = reasons.get(outcome, outcome)
        made.setdefault(reason if shared[reason] > 1 else outcome, []).extend(names)
    return {
        outcome._replace(message=part.message_of_its_end): list(part.nodes)
        for outcome, names in made.items()
        for part in (
            by_rack(names, outcome.message, racks)
            if any(words in outcome.message for words in IN_MID_RUN)
            else [Loss(tuple(names), outcome.message)]
        )
    }


def _connectable(cluster: Cluster, unmeasured: Collection[str]) -> list[str]:
    """The nodes that a mesh should connect: what has no training interface is blocked by the check that says so."""
    return [node.name for node in cluster if node.name not in unmeasured and node.has_training_interface()]


def _members(cluster: Cluster, result: Bench | Training) -> Cluster:
    """The nodes of a cluster that took part in a job."""
    absent = without_part(result, [node.name for node in cluster])
    return Cluster(tuple(node for node in cluster if node.name not in absent), asked=cluster.asked)


def _authors_words(error: AssertionError) -> str:
    """The message of an assert as its author wrote it: pytest adds its own explanation after a newline.

    Without a message it is the assertion and its values. The rest of pytest's explanation prints whole objects, which
    differ from node to node, so that equal outcomes would not be folded.
    """
    text = str(error).split("\nassert", 1)[0].strip()
    if text.startswith("assert "):
        values = text.partition("\n")[0].removeprefix("assert ")
        frames = traceback.extract_tb(error.__traceback__)
        line = (frames[-1].line or "") if frames else ""
        return f"{line}: {values}" if line.startswith("assert ") else f"assert {values}"
    return text or "an assertion without a message does not hold"


def _place(error: Exception) -> str:
    # The line that asked for a fact, not the one that says that there is none.
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.name != "__getattr__"]
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "no line"
