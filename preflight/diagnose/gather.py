"""How does a stream of lines become causes and facts, in one pass and in constant memory?"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cache

from preflight.diagnose import recorder
from preflight.diagnose.cause import Cause, Kind
from preflight.diagnose.causes import CAUSES, SUBJECTS
from preflight.diagnose.causes.collectives.nccl import WARNED
from preflight.diagnose.ends.stages import PATTERNS as STAGES
from preflight.diagnose.ends.stages import Stage, Ways
from preflight.diagnose.facts import PATTERNS, Facts
from preflight.diagnose.forms.objects import described
from preflight.diagnose.forms.records import spoken
from preflight.diagnose.found import Evidence, Finding
from preflight.diagnose.hanging.dumps import Dumps
from preflight.diagnose.index import WORDS, Index, compiled
from preflight.diagnose.pace import KEPT, LEARNS, LIMITS, PROGRESS, Mark, is_progress
from preflight.diagnose.prefix import ANSI, job_of, line_of, seconds_of
from preflight.diagnose.quiet import (
    HARMLESS,
    is_cited,
    is_for_debugging,
    is_ignored,
    is_printed,
    is_python_warning,
    is_quoted,
    unescaped,
)
from preflight.diagnose.seen import Ended, Seen
from preflight.diagnose.tracebacks import BUILT_IN, Tracebacks

TAIL = 40  # lines at the end of a file: what a failure that no cause explains looks like
LONGEST_LINE = 1024  # bytes of a line that are looked at
WENT_ON = 5  # a failure with this many lines of progress after it was survived
# Ranks that do not find each other make no progress at all: one line of it shows that they did.
JOINING = frozenset(
    (
        *(cause.name for cause in SUBJECTS["rendezvous"]),
        *("connection-refused", "connect-timed-out", "name-not-resolved", "no-route", "store-wait-timeout"),
        "wandb-network",  # nothing of the training waits for it
    )
)
CODE = re.compile(rb"(?:\[\w+\]:)? {4}")  # of the program, as a traceback shows it
TRACEBACK = b"traceback"
ESCAPE = b"\x1b"
COLOURS = re.compile(ANSI.pattern.encode())
# What torch only warns of when it looks for GPUs; that there is none is said later, and less clearly.
OF_DRIVERS = ("driver-library-mismatch", "driver-too-old", "fabric-manager", "cuda-init-failed")
LOOKS_FOR_GPUS = re.compile(r"warning: .*(?:cuda initialization:|can't initialize nvml)")
MISCALLED = re.compile(
    r"missing \d+ required positional"
)  # of a library's function it tells of versions, of the program's of itself
# What torch's native code only warns of: a peer that has left, as jobs that ended well leave one after the other.
MILD = re.compile(r"\b[WI](?:\d{3,4} [\d:.]+)? (?:\d+ )?(?:socket|TCPStore|ProcessGroup\w*|Utils)\.\w+:\d+\]")
BEGINNINGS = frozenset(("begun", "begun_on_node"))
# What tells that a run is over: on all of its nodes, as a launcher prints what it then starts.
OVER = frozenset(("rank-failed-elsewhere", "usage-error", *LIMITS, "preempted", "ended-from-outside", "session-hangup"))
OFTEN = 64  # after this many lines with the same words and no cause, further ones are skipped
VERY_OFTEN = 4096  # the same where they show a cause: by then most ranks have printed it
MOST_SHAPES = 50_000
NAMED = {cause.name: cause for cause in CAUSES}
POSITION = {cause.name: number for number, cause in enumerate(CAUSES)}
NEVER: tuple[int, tuple[str, ...]] = (0, ())
REPEATED = frozenset(("channel", "ring"))  # of which a few stand for all


@cache
def causes_index() -> Index[Cause]:
    """The known causes by their words."""
    return Index((pattern, cause) for cause in CAUSES for pattern in cause.patterns)


@cache
def passed_index() -> Index[str]:
    """The names of causes by the words that say that what they waited for has come."""
    return Index((pattern, cause.name) for cause in CAUSES for pattern in cause.passed)


@cache
def facts_index() -> Index[str]:
    """The patterns of facts about the job, by their words."""
    return Index((pattern, name) for name, pattern in PATTERNS)


@cache
def stages_index() -> Index[Stage]:
    """The stages of a job by the words that show that it has come to them."""
    return Index((pattern, stage) for stage, pattern in STAGES)


@dataclass
class Gatherer:
    """Takes the lines of all files, one after the other."""

    facts: Facts = field(default_factory=Facts)
    tracebacks: Tracebacks = field(default_factory=Tracebacks)
    seen: dict[str, Seen] = field(default_factory=dict)
    known: set[tuple[str, int]] = field(default_factory=set)  # places of lines that a cause explains
    progress: dict[str, int] = field(default_factory=dict)
    ended: dict[str, int] = field(default_factory=dict)  # file -> how often a part of the job said that it ended well
    ended_at: dict[str, Ended] = field(default_factory=dict)  # file -> where the last of these stands
    saved: dict[str, int] = field(default_factory=dict)  # file -> its progress when the last checkpoint was saved
    left: dict[str, int] = field(default_factory=dict)  # the same when it began to end in order
    runs: Counter[str] = field(default_factory=Counter)  # file -> how many runs before the last one
    shapes: dict[int, tuple[int, tuple[str, ...]]] = field(default_factory=dict)  # words of lines -> how often, causes
    recent: dict[str, deque[Mark]] = field(default_factory=dict)  # file -> its last lines of progress
    ways: Ways = field(default_factory=Ways)
    dumps: Dumps = field(default_factory=Dumps)  # of py-spy
    tails: dict[str, deque[Mark]] = field(default_factory=dict)  # file -> its last lines
    files: list[str] = field(default_factory=list)
    lines: int = 0
    seconds: float = -1.0  # the last time that was named in this file
    is_awaited: bool = False  # whether a cause was seen of which a line may say that it has passed
    several_a_task: bool = False  # whether a task of srun or mpirun starts several ranks: its number is no rank

    def read(self, name: str, lines: Iterable[tuple[int, bytes]]) -> None:
        """Every line of a file; this loop sees all bytes of gigabytes, so it does little."""
        self.files.append(name)
        self.seconds = -1.0
        wanted = causes_index().words | facts_index().words | passed_index().words | stages_index().words
        wanted |= BUILT_IN | {TRACEBACK}
        is_idle, is_no_progress, open_tracebacks = wanted.isdisjoint, PROGRESS.isdisjoint, self.tracebacks.open
        learns_nothing = LEARNS.isdisjoint
        progress, number, count = 0, 0, 0
        keep = self.recent.setdefault(name, deque(maxlen=KEPT)).append
        keep_last = self.tails.setdefault(name, deque(maxlen=TAIL)).append
        step = self.ways.step
        self.shapes.clear()
        known, table = self.shapes, WORDS
        for number, printed in self.dumps.watched(name, spoken(described(lines))):
            count += 1
            keep_last((number, printed))
            # The letter that ends a colour would be a part of the next word.
            line = COLOURS.sub(b"", printed) if ESCAPE in printed else printed
            words = line.translate(table).split()
            if open_tracebacks or not is_idle(words):
                shape = hash(tuple(words))
                looked, causes = known.get(shape, NEVER)
                if open_tracebacks or looked < (VERY_OFTEN if causes else OFTEN):
                    causes, is_told = self._look(name, number, line[:LONGEST_LINE], words)
                    if is_told:
                        if len(known) > MOST_SHAPES:
                            known.clear()
                        known[shape] = (looked + 1, causes)
                else:
                    for cause in causes:
                        self.seen[cause].count += 1
                        self.seen[cause].progress[name] = self._progress(name)
                if causes:
                    continue
            if (
                not is_no_progress(words)
                and (not learns_nothing(words) or is_progress(words, line))
                and not (open_tracebacks and CODE.match(line))
            ):
                # Ranks print one after the other: only what goes beyond the furthest of them is progress of the job.
                progress = self.progress[name] = max(progress, step(name, number, line))
                keep((number, line))
        self.lines += count
        self.tracebacks.open.clear()

    def _look(self, name: str, number: int, raw: bytes, words: list[bytes]) -> tuple[tuple[str, ...], bool]:
        """The causes that the line shows, and whether further lines with the same words can be skipped."""
        text = unescaped(raw.decode("utf-8", "backslashreplace"))
        lowered = text.lower()
        is_warning = is_python_warning(words)
        is_of_driver = is_warning and LOOKS_FOR_GPUS.search(lowered) is not None
        found = (
            []
            if (is_warning and not is_of_driver) or is_for_debugging(words, text) or HARMLESS.search(lowered)
            else [
                (cause, match)
                for cause, match in causes_index().matches(words, lowered)
                if not _is_excused(cause, lowered) and (not is_of_driver or cause.name in OF_DRIVERS)
            ]
        )
        if len(found) > 1:  # the more serious of one line's causes first, in whatever order its words were looked up
            found.sort(key=lambda pair: (-pair[0].weight, POSITION[pair[0].name]))
            found = [pair for pair in found if pair[0].name != WARNED] or found
        if is_of_driver:  # all that its runtime says is in one line: the clearest counts
            found = sorted(found, key=lambda pair: OF_DRIVERS.index(pair[0].name))[:1]
        facts = list(facts_index().matches(words, lowered))
        stages = [stage for stage, _ in stages_index().matches(words, lowered)]
        passed = (
            [cause for cause, _ in passed_index().matches(words, lowered) if cause in self.seen]
            if self.is_awaited
            else []
        )
        is_traceback = TRACEBACK in words and "most recent call last" in lowered
        is_exception = not BUILT_IN.isdisjoint(words)
        if not (found or facts or stages or passed or is_traceback or is_exception or self.tracebacks.open):
            return (), True
        line = line_of(text, file=name)
        stream = line.stream
        self.tracebacks.go_on(stream, line)
        is_of_others = is_quoted(line.text)
        if self.tracebacks.shows_code(stream, line):
            found, facts, stages = [], [], []
        if found and (is_of_others or is_printed(line.text) or self.tracebacks.ends_nothing(stream, line)):
            found = []
        cut = len(text) - len(line.text)  # the length of its prefixes
        found = [(cause, match) for cause, match in found if not is_ignored(line.text[: max(0, match.start() - cut)])]
        if self.tracebacks.open:
            found = [(NAMED[self.tracebacks.cause_within(stream, cause.name)], match) for cause, match in found]
        if found and MISCALLED.search(lowered) and self.tracebacks.is_of_program(stream):
            found = [pair for pair in found if pair[0].name != "import-failed"]
        for cause_name in passed:
            self.seen[cause_name].come(name, line.node)
        self.facts.hear(line)
        if line.seconds >= 0:
            self.seconds = line.seconds
        if line.task not in {-1, line.rank}:
            self.several_a_task = True
        if stages and not is_of_others:
            self.ways.pass_milestone(max(stages), name, number, line)
        stage = self.ways.stage_of(name, line, has_progress=name in self.progress)
        evidence = Evidence(name, number, line.text.strip()[:500], line.rank, line.node, self.seconds, stage)
        for fact, match in facts:
            self.facts.take(fact, match, line)
            if fact == "ended":
                self.ended[name] = self.ended.get(name, 0) + 1
                self.ended_at[name] = Ended(self.progress.get(name, 0), self._last_seconds(name))
            elif fact in ("saved", "left"):
                (self.saved if fact == "saved" else self.left)[name] = self.progress.get(name, 0)
            elif fact in BEGINNINGS and self._has_told_an_end(name, of_all=fact == "begun"):
                self._begin_again(name)
        named = {cause.name: node for cause, match in found if (node := _named(match, text))}
        is_mail = text.startswith(">")
        for cause, match in found:
            at = replace(evidence, node=named.get(cause.name, line.node))
            is_other = is_mail or is_cited(line.text[: max(0, match.start() - cut)])
            is_mild = cause.kind == Kind.CONSEQUENCE and MILD.search(text[:160]) is not None
            self._add(cause, at, task=line.task, is_warning=is_of_driver, is_cited=is_other, is_mild=is_mild)
        if found and len(self.known) < 10_000:
            self.known.add((name, number))
        if is_traceback:
            self.tracebacks.begin(stream, is_quoted=is_of_others)
        elif stream in self.tracebacks.open:
            self.tracebacks.take(stream, line, evidence, progress=self._progress(name))
        elif is_exception and not is_of_others:
            self.tracebacks.take_alone(line, evidence, progress=self._progress(name))
        names = tuple({cause.name: None for cause, _ in found})
        return names, not is_traceback and not passed and all(fact in REPEATED for fact, _ in facts)

    def _add(
        self, cause: Cause, evidence: Evidence, *, task: int, is_warning: bool, is_cited: bool, is_mild: bool
    ) -> None:
        seen = self.seen.get(cause.name)
        if seen is None:
            seen = self.seen[cause.name] = Seen(cause, len(self.seen))
            self.is_awaited = self.is_awaited or bool(cause.passed)
        seen.take(
            evidence,
            self._progress(evidence.file),
            task=task,
            is_warning=is_warning,
            is_cited=is_cited,
            is_mild=is_mild,
            has_ended=self.has_ended(evidence.file),
            has_left=self.is_leaving(evidence.file),
        )

    def _progress(self, file: str) -> int:
        """Lines of progress of a file so far; a part of the job that ended well counts as many."""
        return self.progress.get(file, 0) + WENT_ON * self.ended.get(file, 0)

    def has_ended(self, file: str) -> bool:
        """Whether the training of a file said that it ended well, and no other began in it."""
        end = self.ended_at.get(file)
        return end is not None and self.progress.get(file, 0) - end.progress < WENT_ON

    def is_leaving(self, file: str) -> bool:
        """Whether the program of a file has begun to end in order, and went on with nothing since."""
        return file in self.left and self.progress.get(file, 0) - self.left[file] < WENT_ON

    def _has_parted(self, seen: Seen) -> bool:
        """Whether lines only tell how a program went that had just saved its state, or left in order."""
        if not seen.is_parting:
            return False
        jobs = {job_of(file) for file in seen.progress}
        is_asked = seen.cause.name != "rank-failed-elsewhere" or "ended-from-outside" in self.seen
        marks = [self.left, self.saved] if is_asked else [self.left]
        return any(
            job_of(file) in jobs and self.progress.get(file, 0) - before < WENT_ON
            for mark in marks
            for file, before in mark.items()
        )

    def _ended_beside(self, file: str, seconds: float, *, surely: bool = False) -> bool:
        """Whether another file of the same job tells of a good end that came before this time, as far as times show.

        Often rank 0 alone tells of it, or the standard output, and the others only how they were ended.
        """
        ends = [
            self.ended_at[other]
            for other in self.ended_at
            if other != file and self.has_ended(other) and job_of(other) == job_of(file)
        ]
        return any(end.seconds <= seconds if min(end.seconds, seconds) >= 0 else not surely for end in ends)

    def _last_seconds(self, file: str) -> float:
        """The last time that a file has named so far, in a line that was looked at or in its last line of progress."""
        marks = self.recent[file]
        return max(self.seconds, seconds_of(marks[-1][1][:200].decode(errors="replace")) if marks else -1.0)

    def _has_told_an_end(self, file: str, *, of_all: bool) -> bool:
        """Whether a run of this file is over; `of_all` where what began is no further node of the same run."""
        if file in self.ended_at or any(file in self.seen[name].progress for name in OVER & set(self.seen)):
            return True
        return of_all and any(raised.evidence.file == file for raised in self.tracebacks.raised)

    def _begin_again(self, file: str) -> None:
        """Another run begins in the same file: what is told of the one before it is forgotten."""
        self.runs[file] += 1
        self.shapes.clear()
        self.ended.pop(file, None)
        self.ended_at.pop(file, None)
        self.saved.pop(file, None)
        self.left.pop(file, None)
        self.recent[file].clear()
        self.tails[file].clear()
        self.tracebacks.forget(file)
        self.ways.forget(file)
        for name in [name for name, seen in self.seen.items() if set(seen.progress) == {file}]:
            del self.seen[name]
        if len(self.files) == 1:
            self.facts = Facts()

    def words(self) -> list[str]:
        """The last lines of all files, as text."""
        return [raw[:LONGEST_LINE].decode(errors="replace") for tail in self.tails.values() for _, raw in tail]

    @property
    def has_worked(self) -> bool:
        """Whether any file has more lines of progress than the settings that a program prints look like."""
        return max(self.progress.values(), default=0) >= WENT_ON

    @property
    def fallen(self) -> frozenset[int]:
        """The ranks that ended first, by what launchers saw."""
        return self.facts.falls.first(several_a_task=self.several_a_task)

    @property
    def most_runs(self) -> int:
        """How many runs stand in the file that has most of them."""
        return 1 + max(self.runs.values(), default=0)

    def went_on(self, file: str, before: int, wanted: int = WENT_ON) -> bool:
        """Whether the training went on for so many lines after those `before`."""
        return self._progress(file) - before >= wanted

    def has_answered(self, file: str) -> bool:
        """Whether a server did what it is there for, or ended in order: what one request met did not end it."""
        return self.progress.get(file, 0) > 0 or self.is_leaving(file)

    def _is_after_end(self, seen: Seen, *, surely: bool = False) -> bool:
        """Whether all lines of a cause came after the training had ended."""
        first = min((one.seconds for one in seen.evidence), default=-1.0)
        return all(self._ended_beside(file, first, surely=surely) for file in seen.before_end)

    def _said_much_after(self, seen: Seen) -> bool:
        """Whether the program went on, and said a good deal, after a library had warned of something."""
        return all(self.tails[one.file][-1][0] - one.line > TAIL for one in seen.evidence if self.tails[one.file])

    def _is_own(self, seen: Seen) -> bool:
        """Whether the files that quote a cause are a job's own logs, and not quoted as a whole."""
        return all(
            (file in self.ended or self.recent[file] or self.ways.has_own(file))
            and not all(line.startswith(b">") for _, line in self.tails[file])
            for file in seen.progress
        )

    def take_dump(self, name: str, data: bytes) -> None:
        """A dump of the flight recorder. Raises UsageError for one that cannot be read."""
        rank, calls = recorder.read(name, data)
        self.files.append(name)
        self.lines += len(calls)
        self.facts.heard.add(rank)
        self.facts.calls[rank] = calls

    def findings(self) -> list[Finding]:
        """Every cause with its lines, the earliest first: by time where all lines have one, else in the order read."""
        rows = sorted(self.seen.values(), key=lambda seen: seen.order)
        times = [seen.evidence[0].seconds for seen in rows]
        if rows and min(times) >= 0:
            rows.sort(key=lambda seen: seen.evidence[0].seconds)
        return [
            Finding(
                seen.cause,
                tuple(seen.evidence),
                seen.count,
                tuple(sorted(seen.ranks - seen.tasks if self.several_a_task else seen.ranks)),
                seen.of_nodes,
                survived=(seen.is_cited and self._is_own(seen))
                or (seen.is_warning and self._said_much_after(seen))
                or all(
                    not seen.waiting[file]
                    or self.went_on(file, before, 1 if seen.is_tried or seen.cause.name in JOINING else WENT_ON)
                    for file, before in seen.progress.items()
                ),
                is_after_end=self._is_after_end(seen, surely=True),
                is_aftermath=(seen.is_parting and self._is_after_end(seen)) or not seen.before_left,
                is_parting=self._has_parted(seen),
                is_warning=seen.is_warning,
                is_mild=seen.is_mild,
                later=min(self._progress(file) - before for file, before in seen.progress.items()),
            )
            for seen in rows
        ]


def _named(found: re.Match[str], text: str) -> str:
    """The node that the words of a line name, as the line writes it: who prints a line is often another one."""
    if "node" not in found.re.groupindex or not found["node"]:
        return ""
    start, end = found.span("node")
    written = text[start:end]
    return written if written.lower() == found["node"] else found["node"]


def _is_excused(cause: Cause, lowered: str) -> bool:
    return any(compiled(pattern).search(lowered) for pattern in cause.unless)
