"""What broke a job, by the logs it left? `diagnose(lines)` reads lines, `diagnose_files(names)` files."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from preflight.diagnose.found import Diagnosis
from preflight.diagnose.gather import Gatherer
from preflight.diagnose.read import lines_of, opened
from preflight.diagnose.verdict import conclude

__all__ = ["Diagnosis", "diagnose", "diagnose_files"]


def diagnose(lines: Iterable[str], *, name: str = "log") -> Diagnosis:
    """The diagnosis of lines of text, in the order in which they were printed; evidence counts them from 1."""
    gathered = Gatherer()
    gathered.read(name, ((number, line.rstrip("\n").encode()) for number, line in enumerate(lines, 1)))
    return conclude(gathered)


def diagnose_files(names: Iterable[str], *, say: Callable[[str], None] = lambda _: None) -> Diagnosis:
    """The diagnosis of log files together, ``-`` the standard input, gzip and zstd unpacked; `say` hears of each.

    Raises UsageError for the first that cannot be read.
    """
    gathered = Gatherer()
    for name in names:
        say(name)
        with opened(name) as stream:
            gathered.read(name, lines_of(stream))
    return conclude(gathered)
