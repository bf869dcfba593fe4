"""What had stood still, or failed, before a limit or a person ended it, and which ranks had got less far?"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from preflight.diagnose.cause import Kind
from preflight.diagnose.found import Evidence, Finding
from preflight.diagnose.prefix import Line, line_of
from preflight.said import said

STRONG = 5  # a weight from which a failure may be what a limit only ended
LIMITS = frozenset(("time-limit", "cancelled"))  # they also end what has hung for hours
BETWEEN = 300  # at most so many lines between a failure and the limit that ended what was left of the job
STUCK = frozenset(
    (
        "collective-timeout",
        "heartbeat-timeout",
        "monitored-barrier",
        "horovod-stalled",
        "engine-worker-silent",
        "standstill",
    )
)
Mark = tuple[int, bytes]  # a line of progress with its number
KEPT = 64  # lines of progress of each file
FEWEST = 5  # from which on the pace is known
LONG = 900.0  # seconds; a checkpoint or an evaluation takes less
TIMES = 5  # as long as the longest time between two lines before
HALF_HOUR = 1800.0
BLUR = 180.0
NUMBER = re.compile(r"(?i)(?<!job )(?<![a-z])(?:step|iter(?:ation)?)s?[ \]\"':=#/-]{0,4}(\d{1,12})\b")


LEARNS = frozenset((b"loss", b"iteration", b"epoch"))
# Words of a line of progress, and what it must look like: the number of a step of the training, where Slurm numbers the
# steps of jobs; a bar of the training, which has no title as those of downloads do; what an engine answers to.
STEP = re.compile(rb"(?i)(?<!job )(?<![a-z])(?:step|iter)s?[ \]\"':=#/-]{0,4}\d|\[ *\d+/\d+\][ ,]+eta: ?\d")
SIZES = re.compile(rb"(?i)\bminbytes \d+ maxbytes \d")  # of nccl-tests, which count no step by step and iters
BAR = re.compile(rb"(?:^|\) |\]: ?) *\d+%\|[^|\n]{0,200}\| *\d+/\d+ \[")
ANSWERS = re.compile(rb"throughput[ (a-z/)]{0,20}: ?0*(?:\.0*)?[1-9]")
SERVED = re.compile(rb'"POST /\S* HTTP/[\d.]+" 200\b')
LOOKS = {
    **dict.fromkeys((b"step", b"steps", b"iter", b"eta"), STEP),
    b"it": BAR,
    b"throughput": ANSWERS,
    b"post": SERVED,
}
PROGRESS = LEARNS | frozenset(LOOKS)


def is_progress(words: list[bytes], line: bytes) -> bool:
    """Whether a line with a word of progress looks like one."""
    return SIZES.search(line) is None and any(LOOKS[word].search(line) for word in PROGRESS.intersection(words))


@dataclass(frozen=True)
class Standstill:
    """How long no rank had made progress, the last line of it, and the ranks that had not come as far as others."""

    seconds: float
    last: Evidence
    step: int = -1
    behind: tuple[int, ...] = ()
    behind_step: int = -1

    @property
    def words(self) -> str:
        """What is known, as words."""
        at = said(" after step {step}", self.step) if self.step >= 0 else ""
        minutes = round(self.seconds / 60)
        words = said("no line of progress in the last {minutes} minutes{at}", minutes, at)
        if not self.behind:
            return words
        ranks = f"rank{'s' * (len(self.behind) != 1)} {', '.join(map(str, self.behind[:16]))}"
        return said("{words}; {ranks} had only come to step {behind_step}", words, ranks, self.behind_step)


def standstill(recent: Mapping[str, Iterable[Mark]], end: Evidence) -> Standstill | None:
    """The standstill before `end`; None where the times of the lines do not show one.

    Schedulers print local time, and programs often another zone's: what differs by full half hours shows nothing.
    """
    marks: list[tuple[float, Evidence]] = []
    steps: dict[int, int] = {}
    for file, lines in recent.items():
        for number, raw in lines:
            line = line_of(raw[:1024].decode("utf-8", "backslashreplace"), file=file)
            _count(steps, line)
            if line.seconds >= 0:
                text = line.text.strip()[:500]
                marks.append((line.seconds, Evidence(file, number, text, line.rank, line.node, line.seconds)))
    if len(marks) < FEWEST or end.seconds < 0:
        return None
    marks.sort(key=lambda mark: mark[0])
    seconds = end.seconds - marks[-1][0]
    usual = max(later[0] - earlier[0] for earlier, later in itertools.pairwise(marks))
    blur = BLUR + usual
    if seconds < max(LONG, TIMES * usual) or (seconds + blur) % HALF_HOUR < 2 * blur:
        return None
    step = max(steps.values(), default=-1)
    behind = tuple(sorted(rank for rank, at in steps.items() if at < step))
    if 2 * len(behind) > len(steps):
        behind = ()
    return Standstill(seconds, marks[-1][1], step, behind, min((steps[rank] for rank in behind), default=-1))


def _count(steps: dict[int, int], line: Line) -> None:
    """Note the step that a line names for its rank."""
    found = NUMBER.search(line.text)
    if found:
        steps[line.rank] = max(steps.get(line.rank, -1), int(found[1]))


def before_the_limit(findings: list[Finding]) -> list[Finding]:
    """The findings, with the weight of a limit for the failure that it only ended: else a hang before it."""
    ends = [one for one in findings if one.cause.name in LIMITS and not one.survived]
    if not ends:
        return findings
    end = ends[0]
    before = [one for one in findings[: findings.index(end)] if not one.survived and not one.is_aftermath]
    failed = [
        one
        for one in before
        if one.cause.kind == Kind.CAUSE
        and one.cause.weight >= STRONG
        and one.cause.name != "standstill"
        and one.evidence[0].file == end.evidence[0].file
        and end.evidence[0].line - one.evidence[0].line <= BETWEEN
    ]
    hung = [] if failed else [one for one in before if one.cause.name in STUCK]
    weight = max(one.cause.weight for one in (end, *failed, *hung))
    return [
        replace(one, cause=replace(one.cause, kind=Kind.CAUSE, weight=weight)) if one in failed or one in hung else one
        for one in findings
    ]
