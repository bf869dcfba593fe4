"""Which lines show each pattern of a cause? ``python -m tests.diagnose.causes.examples files`` prints what has none yet.

In tests/data/lines/SUBJECT.txt, below `%% cause`: a line as a program prints it, that the cause is found by; with `- `
before it a line that a pattern matches and that is none, as one of ``unless`` says. `%% cause: suspicion 6` says what
such a line proves, and how much of what else was found it explains, where that is not what a cause is by default.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from preflight.diagnose.cause import AND, Cause, Kind
from preflight.diagnose.causes import CAUSES, SUBJECTS
from tests.diagnose.causes import test_signals
from tests.house import ROOT

FOLDER = ROOT / "tests" / "data" / "lines"
NONE = "- "


def listed(path: Path) -> Iterator[tuple[str, str]]:
    """Cause and line of a file, "" for the cause where the line is none."""
    name = ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("%% "):
            name = line[3:].partition(":")[0].strip()
        elif line.startswith(NONE):
            yield "", line[len(NONE) :]
        elif line:
            yield name, line


def grades(path: Path) -> Iterator[tuple[str, tuple[Kind, int]]]:
    """Cause, and what its lines prove and outweigh, where a file says so."""
    for line in path.read_text(encoding="utf-8").splitlines():
        found = re.fullmatch(r"%% ([\w-]+): (\w+) (\d+)", line)
        if found:
            yield found[1], (Kind[found[2].upper()], int(found[3]))


@cache
def examples() -> tuple[tuple[str, str], ...]:
    """Cause and line, of the files and of the tables of lines in the tests of causes."""
    found = [pair for path in sorted(FOLDER.glob("*.txt")) for pair in listed(path)]
    for path in sorted(Path(__file__).parent.glob("*/test_*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        table = getattr(importlib.import_module(name), "LINES", ())
        found += [(cause, line) for line, cause in table if isinstance(line, str) and isinstance(cause, str)]
    return (*found, *test_signals.examples())


def matched(pattern: str, line: str) -> bool:
    """Whether all parts of a pattern are in a line."""
    return all(re.search(part, line.lower()) for part in pattern.split(AND))


def without_a_line(cause: Cause) -> Iterator[str]:
    """The patterns that no line of the cause has for itself, and the exceptions that save no line."""
    every = [line for _, line in examples()]
    own = [line for name, line in examples() if name == cause.name]
    for pattern in cause.patterns:
        others = [one for one in cause.patterns if one != pattern]
        if not any(matched(pattern, line) and not any(matched(one, line) for one in others) for line in own):
            yield pattern
    for word in cause.unless:
        others = [one for one in cause.unless if one != word]
        hit = (line for line in every if matched(word, line) and any(matched(one, line) for one in cause.patterns))
        if not any(not any(matched(one, line) for one in others) for line in hit):
            yield f"unless {word}"


def main() -> None:
    """Print them, cause by cause."""
    chosen = [cause for name in sys.argv[1:] for cause in SUBJECTS[name]] or CAUSES
    count = 0
    for cause in chosen:
        missing = list(without_a_line(cause))
        count += len(missing)
        if missing:
            print(f"%% {cause.name}", *missing, sep="\n    ")
    print(f"{count} without a line")


if __name__ == "__main__":
    main()
