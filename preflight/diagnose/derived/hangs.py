"""In which collective did ranks hang, who was not in it, and what does its place in the run tell?"""

from __future__ import annotations

from dataclasses import replace

from preflight.diagnose.derived.wording import BY_NAME, ranks_text
from preflight.diagnose.facts import Facts
from preflight.diagnose.found import Finding, Hang, Job
from preflight.said import said

HANGS = frozenset(("collective-timeout", "monitored-barrier", "heartbeat-timeout", "horovod-stalled"))
PLACED = frozenset(("first-collective-lost", "hang-after-the-end", "slow-preparation"))  # no single line tells of them
ENDED_BY_WATCHDOGS = ("collective-timeout", "heartbeat-timeout")
DONE = 100  # percent
FIRST = (0, 1)  # number of a group's first collective


def placed(findings: list[Finding], facts: Facts, job: Job, *, has_progress: bool) -> list[Finding]:
    """What it means that a hang was in the very first collective, or that the training had ended before it."""
    hung = [one for one in findings if one.cause.name in ENDED_BY_WATCHDOGS and not one.survived]
    if not hung:
        return []
    name = "hang-after-the-end" if all(one.is_after_end for one in hung) else ""
    if not name and not has_progress and job.hang is not None and _is_lost_at_first(job.hang, facts):
        name = "first-collective-lost"
    elif not name and not has_progress and _prepares(facts):
        name = "slow-preparation"
    return [replace(hung[0], cause=BY_NAME[name])] if name else []


def _prepares(facts: Facts) -> bool:
    """Whether a rank that does not wait was in the midst of its data set."""
    return any(percent < DONE and rank not in facts.timeouts for rank, percent in facts.prepared.items())


def _is_lost_at_first(hang: Hang, facts: Facts) -> bool:
    """Whether all ranks were in the first collective.

    Where no line says how many there are, those must count that a launcher's table of the failed ones lists.
    """
    everyone = set(range(facts.world_size)) or set(facts.calls) or set(facts.exits)
    return (
        hang.sequence in FIRST
        and not hang.missing
        and not hang.mismatch
        and len(everyone) > 1
        and everyone == set(hang.waiting)
        and everyone == set(range(len(everyone)))
    )


def with_late(finding: Finding, facts: Facts) -> Finding:
    """To a barrier that some ranks did not reach these ranks: the lines are of others, which came to it."""
    if finding.cause.name != "monitored-barrier" or not facts.late:
        return finding
    late = tuple(sorted(facts.late))
    return replace(
        finding, ranks=late, detail=finding.detail or said("{ranks_text} did not come to it", ranks_text(late))
    )


def with_hang(finding: Finding, job: Job) -> Finding:
    """What the job as a whole adds: for a collective, who was missing from it."""
    if job.hang is not None and finding.cause.name in HANGS | PLACED:
        return replace(finding, detail=hang_text(job.hang))
    return finding


def hang_text(hang: Hang) -> str:
    """The collective that hung, in words."""
    number = said(" (number {sequence})", hang.sequence) if hang.sequence >= 0 else ""
    elements = said(" of {elements} elements", hang.elements) if hang.elements >= 0 else ""
    words = said(
        "{operation}{elements}{number}: {ranks_text} waited", hang.operation, elements, number, ranks_text(hang.waiting)
    )
    if hang.mismatch:
        return said("{words}; {mismatch}", words, hang.mismatch)
    late = tuple(rank for rank in hang.missing if rank not in hang.silent)
    if late:
        words = said("{words} for {ranks_text}, which had not come to it", words, ranks_text(late))
    if hang.silent:
        return said(
            "{words}; {ranks_text} reported nothing: not there yet, or ended before the timeout",
            words,
            ranks_text(hang.silent),
        )
    if late:
        return words
    return said("{words}, and none of them is known to be missing: the network or a GPU may have lost it", words)
