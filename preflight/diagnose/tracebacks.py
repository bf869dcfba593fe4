"""Which exceptions of Python do the logs hold, of which rank, from which line of the program?"""

from __future__ import annotations

import builtins
import re
from collections import Counter
from dataclasses import dataclass, field, replace

from preflight.diagnose.causes.frames import Within, told
from preflight.diagnose.found import Evidence
from preflight.diagnose.prefix import Line

LIBRARY = ("site-packages", "dist-packages", "/lib/python", "/torch/", "<frozen")
LONGEST = 400  # lines of one traceback
MOST = 200
CODE = re.compile(r" {4}|\s*File \"|Traceback \(")  # lines of a traceback but the last
FRAME = re.compile(r'\s*File "([^"]{1,300})", line (\d+)(?:, in (\S+))?')
# What Python calls as a process ends: an exception in it is printed, and ends nothing.
AT_THE_END = frozenset(["_run_finalizers", "_exit_function", "__del__", "_run_exitfuncs"])
# Frames of a web server, which catches whatever a request meets: others are answered after it.
REQUEST = re.compile(r"/(?:uvicorn/protocols|starlette|fastapi|aiohttp/web\w*|flask|werkzeug|tornado)[/.]")
# What Python prints between two exceptions of which the first led to the second.
CHAINED = re.compile(r"(?:during handling of the above exception|exception was the direct cause)\b", re.IGNORECASE)
UNFINISHED = re.compile(r"(?::|\bvalidation errors? for \w+)$")  # a message that says more on its next line
# A process ends by one exception, which it tells twice at most, with those that led to it: one that it prints more
# often, or after which it prints so many more, it has caught.
OFTEN, MANY_MORE = 3, 6
THREAD, CLOSED = "_bootstrap_inner", "_check_closed"  # frames of any thread, and of one that outlives what it reads
RAISED = re.compile(r"((?:\w+\.)*[A-Z]\w*|(?:\w+\.)+(?:error|timeout|gaierror|herror))(?:: ?(.*))?$")
# A rank that is interrupted raises more of them while it cleans up, within so many lines.
INTERRUPTIONS = frozenset(["KeyboardInterrupt", "SystemExit", "SignalException"])
NEXT = 6
# Exceptions that follow from another rank's failure, or end a program on purpose.
OF_OTHERS = frozenset(
    [
        "ChildFailedError",
        "SystemExit",
        "KeyboardInterrupt",
        "CalledProcessError",
        "DistBackendError",
        "DistNetworkError",
        "DistStoreError",
        "ProcessRaisedException",
        "ProcessExitedException",
        "RayTaskError",
        "EngineDeadError",
        "BrokenPipeError",
        "SignalException",
        "StopIteration",
        "GeneratorExit",
        "TimeoutExpired",
        "DistError",
        "CancelledError",
    ]
)


# As a line begins with them where only the end of a traceback was kept.
BUILT_IN = frozenset(
    [
        b"acceleratorerror",  # of torch 2.8 and later, for what the GPU's runtime reports
        *(
            name.lower().encode()
            for name, kind in vars(builtins).items()
            if isinstance(kind, type) and issubclass(kind, Exception) and name.endswith(("Error", "Exception"))
        ),
    ]
)


@dataclass(frozen=True)
class Raised:
    """An exception as a traceback ends with it.

    ``at`` is the innermost frame of the program's own, else of all, "" where no frame was printed; ``progress`` counts
    the lines of progress of its file before it.
    """

    kind: str
    message: str
    at: str
    evidence: Evidence
    progress: int = 0
    is_of_thread: bool = False  # which ends alone: the program goes on
    follows: bool = False  # from the exception above it
    is_of_request: bool = False  # which a server answers with an error: it goes on as well
    inner: str = ""  # the innermost frame, where that is a library's
    process: str = ""  # which printed it, where its lines say
    number: int = 0  # of the exceptions that this process printed


@dataclass
class Open:
    """A traceback that is being printed."""

    own: str = ""
    last: str = ""
    lines: int = 0
    follows_frame: bool = False  # whether the line before named a place in a file: its statement comes
    is_at_the_end: bool = False
    within: frozenset[Within] = frozenset()  # what its frames say of its last line
    is_of_thread: bool = False
    is_of_request: bool = False
    follows: bool = False


@dataclass
class Tracebacks:
    """Tracebacks of many ranks, printed at the same time."""

    open: dict[str, Open] = field(default_factory=dict)
    interrupted: dict[str, tuple[str, int]] = field(
        default_factory=dict
    )  # stream -> where its interruption was printed
    raised: list[Raised] = field(default_factory=list)
    is_interrupted: bool = False  # whether a person or a signal interrupted the program
    idle: set[tuple[str, str]] = field(default_factory=set)  # exceptions that ended nothing, by file and message
    times: Counter[tuple[str, ...]] = field(default_factory=Counter)  # by file and process; by exception, place, too
    chained: set[str] = field(default_factory=set)  # streams whose next exception follows from their last
    unfinished: str = ""  # the stream whose last exception says more on the next line

    def forget(self, file: str) -> None:
        """Another run begins in a file."""
        self.open.clear()
        self.interrupted.clear()
        self.is_interrupted = False
        self.raised = [raised for raised in self.raised if raised.evidence.file != file]

    def begin(self, stream: str, *, is_quoted: bool = False) -> None:
        """``Traceback (most recent call last):`` was printed; one that is quoted ends nothing."""
        if len(self.open) < 4096:
            self.open[stream] = Open(is_at_the_end=is_quoted, follows=stream in self.chained)
        self.chained.discard(stream)

    def go_on(self, stream: str, line: Line) -> None:
        """The lines after an exception: the rest of its message, and whether another one followed from it."""
        if CHAINED.search(line.text) and len(self.chained) < MOST:
            self.chained.add(stream)
        if self.unfinished:
            self.open.pop(self.unfinished, None)
            self.unfinished = ""
            if self.raised and line.text[:2] == "  ":
                last = self.raised[-1]
                self.raised[-1] = replace(last, message=f"{last.message} {line.text.strip()}"[:300])

    def caught(self) -> set[tuple[str, str, str]]:
        """The exceptions, by file, kind and place, that a process cannot have ended by."""
        return {
            (one.evidence.file, one.kind, one.at)
            for one in self.raised
            if one.process
            and (
                self.times[one.evidence.file, one.process, one.kind, one.at] > OFTEN
                or self.times[one.evidence.file, one.process] - one.number >= MANY_MORE
            )
        }

    def living(self, file: str) -> set[str]:
        """The processes of a file that went on after exceptions which they caught."""
        caught = self.caught()
        return {
            one.process
            for one in self.raised
            if one.process and one.evidence.file == file and (file, one.kind, one.at) in caught
        }

    def cause_within(self, stream: str, name: str) -> str:
        """The cause that a line shows which shows this one by its words alone, for the frames that led to it."""
        traceback = self.open.get(stream)
        rows = traceback.within if traceback is not None else ()
        return next((row.cause for row in rows if name in row.instead_of), name)

    def is_of_program(self, stream: str) -> bool:
        """Whether the innermost frame of the traceback that is being printed is the program's own."""
        traceback = self.open.get(stream)
        return traceback is not None and bool(traceback.own) and traceback.own == traceback.last

    def shows_code(self, stream: str, line: Line) -> bool:
        """Whether a line is a statement that an open traceback shows: words of the program, not of a run."""
        traceback = self.open.get(stream)
        if traceback is None or not traceback.last:
            return False
        # Some prefixes take the indentation with them.
        return line.text.startswith("    ") or (traceback.follows_frame and RAISED.match(line.text) is None)

    def ends_nothing(self, stream: str, line: Line) -> bool:
        """Whether a line is an exception that Python printed as a process ended anyway."""
        traceback = self.open.get(stream)
        return traceback is not None and traceback.is_at_the_end and RAISED.match(line.text) is not None

    def take(self, stream: str, line: Line, evidence: Evidence, *, progress: int = 0) -> Raised | None:
        """A line of a stream with an open traceback; gives the exception when it is the last."""
        traceback = self.open[stream]
        traceback.lines += 1
        frame = FRAME.match(line.text)
        traceback.follows_frame = frame is not None
        if frame:
            traceback.last = f"{frame[1]}:{frame[2]}"
            traceback.is_of_thread = traceback.is_of_thread or frame[3] == THREAD
            is_idle = frame[3] in AT_THE_END or (traceback.is_of_thread and frame[3] == CLOSED)
            traceback.is_at_the_end = traceback.is_at_the_end or is_idle
            traceback.within |= told(frame[1], frame[3])
            traceback.is_of_request = traceback.is_of_request or REQUEST.search(frame[1]) is not None
            if not any(part in frame[1] for part in LIBRARY):
                traceback.own = traceback.last
            return None
        found = RAISED.match(line.text) if not line.text[:1].isspace() else None
        # Where ranks write over each other the frames may be lost.
        if found is None or not (traceback.last or _is_plain(found)):
            if traceback.lines > LONGEST:
                del self.open[stream]
            return None
        del self.open[stream]
        place, number = self.interrupted.pop(stream, ("", 0))
        is_next = place == evidence.file and evidence.line - traceback.lines - number <= NEXT
        self.is_interrupted = self.is_interrupted or found[1].rpartition(".")[2] == "KeyboardInterrupt"
        if is_next or found[1].rpartition(".")[2] in INTERRUPTIONS:
            self.interrupted[stream] = evidence.file, evidence.line
        if traceback.is_at_the_end and found[2]:
            self.idle.add((evidence.file, found[2]))
        if is_next or traceback.is_at_the_end:
            return None
        raised = self._add(found, traceback, evidence, progress, line.process)
        if raised.message and UNFINISHED.search(raised.message):
            self.unfinished, self.open[stream] = stream, Open()
        return raised

    def take_alone(self, line: Line, evidence: Evidence, *, progress: int = 0) -> None:
        """A line outside of any traceback that begins as the last of one does: the frames went elsewhere."""
        found = RAISED.match(line.text)
        if found and _is_plain(found) and (evidence.file, found[2]) not in self.idle:
            self._add(found, Open(), evidence, progress, line.process)

    def _add(self, found: re.Match[str], traceback: Open, evidence: Evidence, progress: int, process: str) -> Raised:
        message = (found[2] or "").strip()[:300]
        at = traceback.own or traceback.last
        inner = traceback.last if at != traceback.last else ""
        kind = found[1].rpartition(".")[2]
        if process and len(self.times) < 10 * MOST:
            self.times[evidence.file, process] += 1
            self.times[evidence.file, process, kind, at] += 1
        raised = Raised(
            kind,
            message,
            at,
            evidence,
            progress,
            is_of_thread=traceback.is_of_thread,
            follows=traceback.follows,
            is_of_request=traceback.is_of_request,
            inner=inner,
            process=process,
            number=self.times[evidence.file, process],
        )
        if len(self.raised) < MOST:
            self.raised.append(raised)
        return raised


def _is_plain(found: re.Match[str]) -> bool:
    """Whether the words are an exception with its message, whatever stands above them."""
    return bool(found[2]) and found[1].endswith(("Error", "Exception"))
