"""What broke a job, according to its logs? `diagnose(lines)` reads lines, `diagnose_files(names)` files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from preflight.diagnose import recorder
from preflight.diagnose.cause import Cause
from preflight.diagnose.derived.wording import BY_NAME
from preflight.diagnose.found import Diagnosis, Gap
from preflight.diagnose.gather import Gatherer
from preflight.diagnose.read import lines_of, logs_in, logs_of
from preflight.diagnose.verdict import conclude
from preflight.said import said
from preflight.said.errors import UsageError

__all__ = ["Diagnosis", "cause_named", "cause_of", "diagnose", "diagnose_files", "diagnose_texts"]


def diagnose(lines: Iterable[str], *, name: str = "log") -> Diagnosis:
    """The diagnosis of lines of text, in the order in which they were printed; evidence counts them from 1."""
    gathered = Gatherer()
    gathered.read(name, ((number, line.rstrip("\n").encode(errors="replace")) for number, line in enumerate(lines, 1)))
    return conclude(gathered)


def diagnose_texts(texts: Mapping[str, str]) -> Diagnosis:
    """The diagnosis of several logs together, by their names."""
    gathered = Gatherer()
    for name, text in texts.items():
        gathered.read(
            name, ((number, line.encode(errors="replace")) for number, line in enumerate(text.splitlines(), 1))
        )
    return conclude(gathered)


def diagnose_files(names: Iterable[str], *, say: Callable[[str], None] = lambda _: None) -> Diagnosis:
    """The diagnosis of log files and dumps of the flight recorder together; `say` hears how far it is.

    ``-`` is the standard input, a folder all logs that lie below it; what is packed or encoded is known by its bytes.
    What could not be read stands in the diagnosis of the others.

    Raises UsageError for a file that is not there, and where nothing at all could be read.
    """
    gathered = Gatherer()
    gaps: list[Gap] = []
    for given in (log for name in names for log in logs_of(name)):
        for name, blocks in logs_in(given, gaps):
            say(name)
            if recorder.is_dump(blocks.peek(recorder.HEAD_BYTES)):
                try:
                    gathered.take_dump(name, blocks.read(recorder.MOST_BYTES))
                except UsageError as error:
                    gaps.append(Gap(name, str(error).removeprefix(f"{name}: ")))
            else:
                gathered.read(name, lines_of(blocks, say=say))
    if gaps and not gathered.files:
        others = said(" (and {gaps} more that could not be read)", len(gaps) - 1) if len(gaps) > 1 else ""
        raise UsageError(f"{gaps[0].words}{others}")
    return replace(conclude(gathered), gaps=tuple(gaps))


def cause_of(text: str) -> Cause | None:
    """The known cause that the words of one rank show or follow from; None where there is none."""
    diagnosis = diagnose(text.splitlines())
    findings = [one for one in (*diagnosis.causes, *diagnosis.consequences) if one.cause.patterns]
    return findings[0].cause if findings else None


def cause_named(name: str) -> Cause:
    """The cause of that name. Raises KeyError."""
    return BY_NAME[name]
