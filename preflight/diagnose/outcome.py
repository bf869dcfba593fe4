"""What became of the job: did it end well, fail, was it stopped and by whom, or does its log just stop?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from preflight.diagnose.cause import Kind
from preflight.diagnose.ends.end import By, End, Outcome
from preflight.diagnose.ends.stages import Reached, Stage
from preflight.diagnose.ends.stalls import advice
from preflight.diagnose.found import Finding, Job
from preflight.diagnose.gather import Gatherer
from preflight.diagnose.tracebacks import OF_OTHERS
from preflight.reach.hosts import fold
from preflight.said import said

MOST_NODES = 64
NAME = re.compile(r"[A-Za-z][\w.-]*")
COLLECT = (
    "the output of every rank and node from its first line (torchrun --tee 3 --log-dir DIR), not only rank 0's",
    "NCCL_DEBUG=INFO and TORCH_DISTRIBUTED_DEBUG=DETAIL in the environment of the next run",
    "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1: the flight recorder's dumps name the missing rank",
    "the kernel log of every node from that hour (`dmesg -T`, `journalctl -k`): Xid, OOM kills, links",
)
BY_HAND = re.compile(r"(?i)keyboardinterrupt|sigint|\b2 death signal")
# The causes that tell that somebody ended the job.
STOPPED_BY = {
    "time-limit": By.TIME_LIMIT,
    "preempted": By.PREEMPTION,
    "cancelled": By.SCHEDULER,
    "ended-from-outside": By.SOMEBODY,
    "session-hangup": By.USER,
}
MISSING = {
    End.RUNNING: "its exit status, or the lines printed later; where it stands still, "
    "`preflight diagnose --hosts HOSTS --match train.py` shows what each rank does",
    End.JUST_STOPS: "what the ranks do now, while it hangs, or the exit status of the job and the output of every rank",
    End.NOTHING: "the output that the ranks and their launcher printed",
}


def outcome_of(
    gathered: Gatherer, causes: tuple[Finding, ...], consequences: tuple[Finding, ...], notes: Iterable[Finding]
) -> Outcome:
    """The outcome: what failed decides first, then a good end, then who stopped it, then how far it came."""
    ranks = gathered.ways.last()
    notes = tuple(notes)
    survived = any(one.survived and one.cause.kind >= Kind.SUSPICION for one in notes)
    first = (causes or consequences or (None,))[0]
    if first is not None:
        by = STOPPED_BY.get(first.cause.name)
        # A launcher's signal after a failure is that failure's.
        if by is None or (by is By.SOMEBODY and any(one.kind not in OF_OTHERS for one in gathered.tracebacks.raised)):
            return Outcome(End.FAILED, ranks=ranks, has_recovered=survived)
        by = By.USER if by is By.SOMEBODY and gathered.tracebacks.is_interrupted else by
        return Outcome(End.STOPPED, by, ranks=ranks, has_recovered=survived)
    if any(map(gathered.has_ended, gathered.files)):
        return Outcome(End.ENDED_WELL, ranks=ranks, has_recovered=survived)
    partings = [one for one in notes if one.cause.name in STOPPED_BY]
    is_user = gathered.tracebacks.is_interrupted or any(
        BY_HAND.search(line.text) for one in partings for line in one.evidence
    )
    if gathered.left or is_user or partings:
        by = By.USER if is_user else STOPPED_BY[partings[0].cause.name] if partings else By.SOMEBODY
        return Outcome(
            End.STOPPED, by, in_order=bool(gathered.left or gathered.saved), has_recovered=survived, ranks=ranks
        )
    behind = _behind(ranks)
    if gathered.progress and not behind:
        return Outcome(End.RUNNING, has_recovered=survived, ranks=ranks, missing=MISSING[End.RUNNING])
    if ranks or notes or gathered.facts.heard or gathered.progress:
        return Outcome(
            End.JUST_STOPS, has_recovered=survived, ranks=ranks, behind=behind, missing=MISSING[End.JUST_STOPS]
        )
    return Outcome(End.NOTHING, missing=MISSING[End.NOTHING])


def to_collect(outcome: Outcome, job: Job, *, is_explained: bool) -> tuple[str, ...]:
    """What to gather next, where the cause is not known or the log does not say what became of the job."""
    if outcome.end in {End.NOTHING, End.RUNNING} or outcome.exit_code == 0 or (outcome.exit_code == 1 and is_explained):
        return ()
    nodes = list(dict.fromkeys(filter(None, (*job.node_of.values(), *(one.node for one in outcome.ranks)))))
    hosts = fold(nodes[:MOST_NODES]) if nodes and all(NAME.fullmatch(node) for node in nodes) else "HOSTS"
    live = said("while it hangs: `preflight diagnose --hosts {hosts} --match train.py`", hosts)
    if outcome.end is End.JUST_STOPS:
        return *advice(outcome.behind or outcome.ranks), live, *COLLECT
    return *COLLECT, live


def _behind(ranks: tuple[Reached, ...]) -> tuple[Reached, ...]:
    """The ranks that had come less far than most; those that print no steps at all are not judged by them."""
    named = [one for one in ranks if one.rank >= 0]
    stepping = [one for one in named if one.step >= 0]
    if 2 * len(stepping) > len(named):
        step = Counter(one.step for one in stepping).most_common(1)[0][0]
        late = tuple(one for one in stepping if one.step < step)
        return late if 2 * len(late) < len(stepping) else ()
    waiting = [one for one in named if one.stage not in {Stage.UNKNOWN, Stage.RUNNING, Stage.SAVING, Stage.TEARDOWN}]
    if not waiting or len(waiting) < len(named):
        return ()
    stage = Counter(one.stage for one in waiting).most_common(1)[0][0]
    late = tuple(one for one in waiting if one.stage < stage)
    return late if 2 * len(late) < len(waiting) else ()
