"""Which line shows each pattern of a table by which lines are told apart?

In tests/data/marks/TABLE.txt, below `%% name`: a line as a program prints it, for each pattern that has that name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from preflight.diagnose.cause import AND
from tests.house import ROOT


def lines_of(table: str) -> Iterator[tuple[str, str]]:
    """The name that each line stands below, and the line."""
    name = ""
    for line in (ROOT / "tests" / "data" / "marks" / f"{table}.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("%% "):
            name = line[3:]
        elif line:
            yield name, line


def without_a_line(table: str, patterns: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The patterns for which no line of their name speaks that no other pattern of that name fits."""
    rows, lines = list(patterns), list(lines_of(table))
    missing = []
    for name, pattern in rows:
        others = [other for one, other in rows if one == name and other != pattern]
        own = (line for one, line in lines if one == name and fits(pattern, line))
        if all(any(fits(other, line) for other in others) for line in own):
            missing.append((name, pattern))
    return missing


def fits(pattern: str, line: str) -> bool:
    """Whether all parts of a pattern are in a line."""
    return all(re.search(part, line.lower()) for part in pattern.split(AND))
