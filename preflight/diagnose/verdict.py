"""Which of the causes found came first, and which only followed from it?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

from preflight.diagnose.cause import Cause, Kind
from preflight.diagnose.causes import SUBJECTS
from preflight.diagnose.causes.collectives.nccl import WARNED
from preflight.diagnose.derived.clocks import offsets
from preflight.diagnose.derived.hangs import hang_text, placed, with_hang, with_late
from preflight.diagnose.derived.joining import sizes, unjoined, with_awaited
from preflight.diagnose.derived.plugins import lost_plugins
from preflight.diagnose.derived.wording import BY_NAME, made
from preflight.diagnose.ends.described import told_of
from preflight.diagnose.ends.end import End
from preflight.diagnose.ends.stages import Stage
from preflight.diagnose.facts import Facts
from preflight.diagnose.found import Diagnosis, Evidence, Finding, Job
from preflight.diagnose.gather import JOINING as MEETING
from preflight.diagnose.gather import Gatherer
from preflight.diagnose.hanging.dumps import ELSEWHERE
from preflight.diagnose.outcome import outcome_of, to_collect
from preflight.diagnose.pace import LIMITS, before_the_limit, standstill
from preflight.diagnose.tracebacks import OF_OTHERS, Raised
from preflight.diagnose.unexplained import unexplained
from preflight.said import said

OUT_OF_DATA = "StopIteration"  # of a loader's iterator that a loop asks once more; alone, it says why a rank is gone
# Libraries that build code: what they raise, whatever its words, is that they cannot.
BUILDERS = re.compile(
    r"flashinfer/jit/|torch/utils/cpp_extension|deep_gemm/jit|triton/(?:runtime/build|compiler/|backends/)|/op_builder/"
)
LEFT_OVER = re.compile(r"srun: error: |Global rank \d+ \(PID")  # of srun and Composer: told of every process
ENDINGS = frozenset(
    ("rank-failed-elsewhere", "cancelled", "time-limit", "preempted", "node-fail")
)  # then what is left is killed
# Of a job that has ended well no more is left than that its processes ended one after the other.
PARTINGS = frozenset(("ended-from-outside", "session-hangup", "rendezvous-connection"))
LEAVINGS = frozenset(("ended-from-outside", "rank-failed-elsewhere"))
OF_CHAIN = 120  # lines of the tracebacks of a chain of exceptions
OF_MESSAGE = 6  # as many lines below an exception its message may still say what a library met
STRONG = 5  # a weight from which a cause explains others of its kind
# What aborts ranks: watchdogs, and libraries that lost a queue after another one had failed.
WATCHDOGS = frozenset(("collective-timeout", "nccl-remote-error", "heartbeat-timeout", "rdma-flushed"))
# What a rank also meets when another one ended: of the same grade as that one's own failure, and less likely first.
ECHOES = frozenset(
    (
        "rdma-transport-retry",
        "rdma-rnr-retry",
        "efa-peer-lost",
        "mpi-daemon-lost",
        "nccl-local-socket",
        "cxi-undeliverable",
        "cxi-peer-gone",
    )
)
# What ends when something else did, or waits in vain for it: said before it, that is the cause.
FOLLOWERS = {
    "ray-worker-died": frozenset(("collective-timeout", "heartbeat-timeout", "nccl-remote-error")),
    "mpi-daemon-lost": frozenset(("connection-refused", "connect-timed-out", "no-route")),
    "not-all-joined": frozenset(("loopback-master",)),
    # A store that is not there yet refuses: where nothing at all answers, its start is not what is late.
    "late-start": frozenset(("connect-timed-out", "no-route")),
}
JOINING = frozenset(("not-all-joined", "late-start", "store-wait-timeout", "rendezvous-connection"))
REJOINING = MEETING | {"gloo-connect", "loopback-address", "loopback-master"}
STUCK = "heartbeat-timeout"
KILLED = "killed-by-signal-9"
MET = MEETING | {"port-in-use"}  # what no rank suffers from that waits in a collective
MISMATCHED = "nccl-mismatched-call"
OF_NCCL = frozenset(cause.name for cause in SUBJECTS["nccl"])
PLACED_BY_PYTHON = frozenset(("syntax-error", "assertion"))


def conclude(gathered: Gatherer) -> Diagnosis:
    """The diagnosis of everything that was gathered."""
    job = replace(
        gathered.facts.job(),
        has_ended=any(map(gathered.has_ended, gathered.files)),
        runs=gathered.most_runs,
        fallen=tuple(sorted(gathered.fallen)),
    )
    findings = gathered.findings()
    findings += _derived(gathered.facts, job, findings)
    findings += _standstill(gathered, findings)
    findings += _dumped(gathered)
    lost = placed(findings, gathered.facts, job, has_progress=gathered.has_worked)
    if lost:  # whoever waits in a collective has found the others
        findings = [replace(one, survived=one.survived or one.cause.name in MET) for one in findings]
    findings += lost
    if not gathered.progress and JOINING & {finding.cause.name for finding in findings}:
        findings += sizes(gathered.facts)
    raised = _unknown_exception(gathered, findings)
    if raised is not None and not _is_told_below(raised.evidence[0], findings):
        findings = [*(one for one in findings if one.evidence[0].line or one.cause.name != "not-all-joined"), raised]
    findings = _warned_of(_in_time(findings, offsets(gathered.recent)))
    findings = [
        _as_echo(one) if _was_left_over(one, findings) or _followed(one, findings[:number]) else one
        for number, one in enumerate(findings)
    ]
    findings = _outlived(_rejoined(before_the_limit(findings)), gathered)
    names = {finding.cause.name for finding in findings}
    graded = [(_grade(finding, names), finding) for finding in findings]
    is_by_hand = gathered.facts.falls.is_by_hand
    if is_by_hand:  # what a launcher says of it is no failure
        graded = [(Kind.NOTE if one.cause.name in LEAVINGS else grade, one) for grade, one in graded]
    if job.hang is not None and job.hang.missing and all(grade < Kind.SUSPICION for grade, _ in graded):
        # no other cause is known, but the rank that the others waited for is
        graded = [(Kind.SUSPICION if f.cause.name == "collective-timeout" else grade, f) for grade, f in graded]
    told = [one for grade, one in graded if grade >= Kind.CONSEQUENCE]
    if told and told[0].cause.name == STUCK and all(grade < Kind.SUSPICION for grade, _ in graded):
        # nothing was said before it, so it followed from nothing that is known
        graded = [(Kind.SUSPICION if one is told[0] else grade, one) for grade, one in graded]
    if gathered.has_worked and all(one.is_mild for grade, one in graded if grade >= Kind.CONSEQUENCE):
        graded = [(Kind.NOTE, one) for _, one in graded]
    best = max((grade for grade, _ in graded), default=Kind.NOTE)
    causes: tuple[Finding, ...] = ()
    if best >= Kind.SUSPICION:
        first = _first(_own([finding for grade, finding in graded if grade == best]), gathered.fallen)
        causes = (
            _with_place(
                with_late(with_awaited(_with_warning(with_hang(first, job), findings), gathered.facts), gathered.facts),
                gathered,
            ),
            *_beside(first, [f for grade, f in graded if grade == best]),
        )
    if best < Kind.CONSEQUENCE and not is_by_hand and (left := unexplained(gathered)) is not None:
        graded.append((Kind.CONSEQUENCE, left))
    known = {cause.cause.name for cause in causes}
    consequences = [
        f for grade, f in graded if grade > Kind.NOTE and f.cause.name not in known and not _is_same(f, causes)
    ]
    consequences.sort(key=lambda f: (-_grade(f, names), -f.cause.weight))
    notes = tuple(f for grade, f in graded if grade == Kind.NOTE)
    outcome = outcome_of(gathered, causes, tuple(consequences), notes)
    return Diagnosis(
        files=tuple(gathered.files),
        lines=gathered.lines,
        job=job,
        causes=causes,
        consequences=tuple(with_hang(f, job) for f in consequences),
        notes=notes,
        collect=to_collect(
            outcome, job, is_explained=bool(causes) and causes[0].cause.name not in {"program-error", STUCK}
        )
        or (told_of(gathered.words()) if outcome.end is End.NOTHING else ()),
        outcome=outcome,
    )


def _in_time(findings: list[Finding], ahead: Mapping[str, float]) -> list[Finding]:
    """The findings in order: by line within one file; between several by time, where every line has one.

    ``ahead`` are the seconds that the clocks of files are ahead.
    """
    if _is_one_file(findings):
        return sorted(findings, key=lambda finding: finding.evidence[0].line)
    if _has_times(findings):
        return sorted(findings, key=lambda one: one.evidence[0].seconds - ahead.get(one.evidence[0].file, 0.0))
    return findings


def _warned_of(findings: list[Finding]) -> list[Finding]:
    """What torch warned of as it looked for GPUs is the cause where it then found none; else a suspicion at most."""
    warned = [one for one in findings if one.is_warning]
    if not warned:
        return findings
    has_none = any(one.cause.name == "no-gpu-visible" and not one.survived for one in findings)
    kind, weight = (Kind.CAUSE, STRONG + 3) if has_none else (Kind.SUSPICION, 1)
    return [
        replace(one, cause=replace(one.cause, kind=kind, weight=weight), survived=one.survived and not has_none)
        if one.is_warning
        else _as_echo(one)
        if one.cause.name == "no-gpu-visible"
        else one
        for one in findings
    ]


def _is_one_file(findings: list[Finding]) -> bool:
    return len({one.file for finding in findings for one in finding.evidence[:1] if one.line}) <= 1


def _has_times(findings: list[Finding]) -> bool:
    return all(one.seconds >= 0 for finding in findings for one in finding.evidence[:1])


def _own(findings: list[Finding]) -> list[Finding]:
    """The findings without what may be the echo of another rank's end, where nothing shows which came first."""
    if _is_one_file(findings) or _has_times(findings):
        return findings
    return [finding for finding in findings if finding.cause.name not in ECHOES] or findings


def _was_left_over(finding: Finding, findings: list[Finding]) -> bool:
    """Whether a launcher killed what was left after it had begun to end the job: no word of what ended it."""
    first = finding.evidence[0]
    return (
        finding.cause.name == KILLED
        and LEFT_OVER.search(first.text) is not None
        and any(
            other.cause.name in ENDINGS
            and other.evidence[0].file == first.file
            and 0 < other.evidence[0].line < first.line
            for other in findings
        )
    )


def _followed(finding: Finding, before: list[Finding]) -> bool:
    """Whether what it follows from was said before it."""
    return any(
        one.cause.name in FOLLOWERS.get(finding.cause.name, ())
        and not one.survived
        and not one.is_aftermath
        and (one.evidence[0].file, one.evidence[0].line) != (finding.evidence[0].file, finding.evidence[0].line)
        for one in before
    )


def _outlived(findings: list[Finding], gathered: Gatherer) -> list[Finding]:
    """What some steps followed is no more than a remark where another failure has none after it."""
    has_killed = gathered.facts.falls.has_killed_first
    last = [
        one
        for one in findings
        if not one.later
        and not (one.survived or one.is_after_end)
        and (
            one.cause.name == "program-error"
            or (one.cause.kind == Kind.CAUSE and one.cause.weight >= STRONG and one.cause.name not in REJOINING)
            or (one.cause.name == KILLED and has_killed)
        )
    ]
    return [replace(one, survived=True) if last and _is_remark(one) else one for one in findings]


def _is_remark(finding: Finding) -> bool:
    """Whether a program may have caught and printed it: without one of them ranks make one more step at most."""
    return finding.later > 1 and finding.cause.kind >= Kind.SUSPICION and finding.cause.weight < STRONG + 3


def _rejoined(findings: list[Finding]) -> list[Finding]:
    """The findings; that ranks do not find each other again after steps and a failure follows from that failure."""
    found: list[Finding] = []
    has_failed = False
    for one in findings:
        is_again = one.cause.name in REJOINING and one.evidence[0].stage >= Stage.RUNNING
        found.append(_as_echo(one) if is_again and has_failed else one)
        is_failure = one.cause.kind >= Kind.SUSPICION and one.cause.name not in REJOINING
        has_failed = has_failed or (is_failure and not one.survived)
    return found


def _standstill(gathered: Gatherer, findings: list[Finding]) -> list[Finding]:
    """What a limit ended had stood still for long before, as a finding of its own."""
    for end in findings:
        if end.cause.name in LIMITS:
            found = standstill(gathered.recent, end.evidence[0])
            if found is not None:
                return [Finding(BY_NAME["standstill"], (found.last,), 1, ranks=found.behind, detail=found.words)]
    return []


def _dumped(gathered: Gatherer) -> list[Finding]:
    """What the dumps of a hanging job's ranks show, taken together, as a finding of its own."""
    stuck = gathered.dumps.compared()
    if stuck is None or not stuck.guilty or any(map(gathered.has_ended, gathered.files)):
        return []
    ranks = tuple(sorted({one.process.rank for one in stuck.guilty if one.process.rank >= 0}))
    return [replace(made(ELSEWHERE, stuck.verdict), ranks=ranks)]


def _as_echo(finding: Finding) -> Finding:
    return replace(finding, cause=replace(finding.cause, kind=Kind.CONSEQUENCE))


def _grade(finding: Finding, among: AbstractSet[str] = frozenset()) -> int:
    """The kind that a finding counts as.

    One that the training survived is a note, as is a service that has nothing to do; an abort that no watchdog explains
    counts for more.
    """
    if finding.cause.name == "fabric-manager" and "no-nvswitch" in among:
        return Kind.NOTE
    if finding.cause.name == "aborted" and not WATCHDOGS & among:
        return Kind.SUSPICION
    if finding.survived or (finding.is_parting and finding.cause.name in LEAVINGS):
        return Kind.NOTE
    if finding.is_aftermath and (finding.cause.kind == Kind.CONSEQUENCE or finding.cause.name in PARTINGS):
        return Kind.NOTE
    return finding.cause.kind


def _first(findings: list[Finding], fallen: AbstractSet[int]) -> Finding:
    """The finding that explains the others: the earliest of those with much weight, else of all.

    What is told of ``fallen``, the ranks that the launcher saw end first, counts as earlier than what others print.
    """
    heaviest = max(finding.cause.weight for finding in findings)
    if heaviest >= STRONG:
        findings = [finding for finding in findings if finding.cause.weight >= STRONG]
    hardware = [finding for finding in findings if finding.cause.weight >= STRONG + 3]
    chosen = hardware or findings
    if heaviest >= STRONG:
        own = [one for one in chosen if not fallen.isdisjoint(one.ranks)] if chosen[0].ranks else []
        return (own or chosen)[0]
    return max(chosen, key=lambda finding: finding.cause.weight)


def _beside(first: Finding, findings: list[Finding]) -> tuple[Finding, ...]:
    """At most two more of the same grade and weight, on other lines: they may be true as well."""
    places = {(one.file, one.line) for one in first.evidence}
    others = [
        finding
        for finding in findings
        if finding is not first
        and finding.cause.kind == Kind.CAUSE
        and finding.cause.weight >= max(STRONG, first.cause.weight)
        and not places & {(one.file, one.line) for one in finding.evidence}
    ]
    return tuple(others[:2])


def _is_same(finding: Finding, causes: tuple[Finding, ...]) -> bool:
    """Whether all lines of a finding are those of the causes: the same words, matched less exactly."""
    places = {(one.file, one.line) for cause in causes for one in cause.evidence}
    return finding.count <= len(finding.evidence) and {(one.file, one.line) for one in finding.evidence} <= places


def _unknown_exception(gathered: Gatherer, findings: list[Finding]) -> Finding | None:
    """The first exception that no cause of the table explains, as a finding of its own; else a rank without data.

    One that followed from an exception which the table explains is none.
    """
    caught = gathered.tracebacks.caught()
    ending = [
        raised
        for raised in gathered.tracebacks.raised
        if (raised.evidence.file, raised.evidence.line) not in gathered.known
        and not gathered.went_on(raised.evidence.file, raised.progress)
        and not (raised.is_of_request and gathered.has_answered(raised.evidence.file))
        and (raised.evidence.file, raised.kind, raised.at) not in caught
        and not (raised.follows and any(_led_to(one, raised.evidence) for one in findings))
    ]
    own = [raised for raised in ending if raised.kind not in OF_OTHERS]
    own = [raised for raised in own if not raised.is_of_thread] or own
    dry = [raised for raised in ending if raised.kind == OUT_OF_DATA]
    if not own and not dry:
        return None
    fallen = gathered.fallen
    if fallen:  # it is stable: those of which no line names a rank stay first
        own.sort(key=lambda raised: raised.evidence.rank >= 0 and raised.evidence.rank not in fallen)
    # torch wraps what a data loader or a replica raised, and prints it below.
    first = next((raised for raised in own if not raised.message.startswith("Caught ")), (own or dry)[0])
    same = [raised for raised in ending if raised.kind == first.kind]
    builds = BUILDERS.search(first.inner or first.at) is not None
    return Finding(
        (BY_NAME["compile-failed"] if builds else _exception(first)) if own else BY_NAME["uneven-inputs"],
        tuple(raised.evidence for raised in same[:3]),
        len(same),
        tuple(sorted({raised.evidence.rank for raised in same if raised.evidence.rank >= 0})),
        tuple(sorted({raised.evidence.node for raised in same if raised.evidence.node})),
    )


def _led_to(finding: Finding, raised: Evidence) -> bool:
    """Whether a finding stands just above an exception that followed from another one."""
    last = finding.evidence[-1]
    return (
        finding.cause.kind >= Kind.SUSPICION
        and not finding.survived
        and (last.file, last.rank) == (raised.file, raised.rank)
        and 0 < raised.line - last.line <= OF_CHAIN
    )


def _is_told_below(raised: Evidence, findings: list[Finding]) -> bool:
    """Whether the lines that follow an exception at once, as a part of its message, show a known cause of weight."""
    return any(
        one.cause.kind >= Kind.SUSPICION
        and one.cause.weight >= STRONG
        and one.cause.name not in {KILLED, *ENDINGS, *LEAVINGS}
        and (one.evidence[0].file, one.evidence[0].rank) == (raised.file, raised.rank)
        and 0 < one.evidence[0].line - raised.line <= OF_MESSAGE
        for one in findings
    )


def _exception(raised: Raised) -> Cause:
    message = f": {raised.message}" if raised.message else ""
    return Cause(
        name="program-error",
        meaning=said("the program itself failed: {kind}{message}", raised.kind, message)
        + (
            said(" (at {at}{inner})", raised.at, said(", raised in {inner}", raised.inner) if raised.inner else "")
            if raised.at
            else ""
        ),
        patterns=(),
        fix="no table of known causes has this exception: read the lines above it; where no other cause is named, it "
        "comes from the program or its versions, not from the network",
        source="Python",
        kind=Kind.SUSPICION,
        weight=STRONG,
    )


def _derived(facts: Facts, job: Job, findings: list[Finding]) -> list[Finding]:
    """Causes that no single line shows: calls that do not match, versions that differ."""
    found = []
    hang = job.hang
    if hang is not None and hang.mismatch:
        detail = said("at number {sequence} of the sequence: {mismatch}", hang.sequence, hang.mismatch)
        found.append(made(MISMATCHED, detail))
    elif hang is not None and (facts.calls or facts.unjoined):
        found.append(made("collective-timeout", hang_text(hang)))
    found += unjoined(facts)
    # The errors of torch leave out for which CUDA it was built.
    nccl = tuple(dict.fromkeys(version.partition("+")[0] for version in job.versions.get("nccl", ())))
    failed = [one.cause for one in findings if one.cause.kind >= Kind.CONSEQUENCE and not one.survived]
    others = [one for one in failed if one.kind == Kind.CAUSE and one.weight >= STRONG and one.name != MISMATCHED]
    if len(nccl) > 1 and not others and (hang is not None or any(one.name in OF_NCCL for one in failed)):
        found.append(made("nccl-version-mismatch", said("NCCL {nccl} in one run", " and ".join(nccl))))
    return [*found, *lost_plugins(facts)]


def _with_place(finding: Finding, gathered: Gatherer) -> Finding:
    """To a mistake in a file of the program, its place: Python prints it above the line that says what is wrong."""
    if finding.cause.name not in PLACED_BY_PYTHON or finding.detail:
        return finding
    first = finding.evidence[0]
    places = (
        raised.at
        for raised in gathered.tracebacks.raised
        if (raised.evidence.file, raised.evidence.line) == (first.file, first.line)
    )
    at = next(places, "")
    return replace(finding, detail=said("at {at}", at)) if at else finding


def _with_warning(finding: Finding, findings: list[Finding]) -> Finding:
    """To an error of NCCL that says nothing, the warning that came with it."""
    if finding.cause.name != "nccl-error-unknown":
        return finding
    warned = [one.evidence[0].text for one in findings if one.cause.name == WARNED]
    return replace(finding, detail=warned[0]) if warned else finding
