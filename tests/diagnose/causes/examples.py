"""Which line does each pattern of a cause stand for? ``python -m tests.diagnose.causes.examples`` adds those that are missing.

A pattern that no log and no line of the tests has gets one in examples.txt, under the name and rank of its cause, made of the
pattern as it is then. It shows that the pattern is there, is found by its words and leads to its cause; not that a program prints it.
A line that a program printed belongs into LINES of the cause's test, and its made-up one goes then.
"""

from __future__ import annotations

import importlib
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

from preflight.diagnose.causes import CAUSES
from preflight.diagnose.index import Index, words_of
from tests.diagnose.test_logs import logs

if sys.version_info >= (3, 11):
    from re import _constants as constants
    from re import _parser as parser
else:
    import sre_constants as constants
    import sre_parse as parser

FOLDER = Path(__file__).parent
FILE = FOLDER / "examples.txt"
LETTERS = "7xa_-/.: '\"=()[]{}<>,;#%&@!~^$*+?|`\\\t"


@cache
def seen() -> frozenset[tuple[str, str]]:
    """The causes and patterns that the lines of the other tests have."""
    found = [line for _, lines in logs().values() for line in lines]
    for path in sorted(FOLDER.rglob("test_*.py")):
        name = ".".join(path.relative_to(FOLDER.parents[2]).with_suffix("").parts)
        found += [
            row if isinstance(row, str) else row[0] for row in getattr(importlib.import_module(name), "LINES", ())
        ]
    return frozenset().union(*map(matched, found))


def stored() -> dict[str, list[str]]:
    """The made-up lines under each cause's name."""
    found: dict[str, list[str]] = {}
    for block in FILE.read_text(encoding="utf-8").split("%% ")[1:] if FILE.exists() else ():
        head, *lines = block.splitlines()
        found[head.split()[0]] = lines
    return found


def ranks() -> dict[str, str]:
    """Kind and weight of each cause as they were written down: which explains which rests on them."""
    heads = [block.splitlines()[0].split(None, 1) for block in FILE.read_text(encoding="utf-8").split("%% ")[1:]]
    return dict(heads)


def rank(cause: Any) -> str:
    """Its kind and weight."""
    return f"{cause.kind.name} {cause.weight}"


def lacking() -> list[tuple[str, str]]:
    """The causes and patterns that no line has, in the order of the table."""
    had = seen().union(*(matched(line) for lines in stored().values() for line in lines))
    return [row for cause in CAUSES for pattern in cause.patterns if (row := (cause.name, pattern)) not in had]


@cache
def index() -> Index[tuple[str, str]]:
    """Causes and patterns as logs are looked up in them."""
    return Index((pattern, (cause.name, pattern)) for cause in CAUSES for pattern in cause.patterns)


def matched(line: str) -> set[tuple[str, str]]:
    """The causes and patterns that a line has."""
    lowered = line.lower()
    return {row for row, _ in index().matches(words_of(lowered.encode()), lowered)}


def made(tree: Any) -> str:
    """A line that a pattern matches."""
    return "".join(of_part(*part) for part in tree)


def of_part(kind: Any, value: Any) -> str:
    """What one part of a pattern may be."""
    if kind is constants.LITERAL:
        return chr(value)
    if kind is constants.NOT_LITERAL:
        return next(letter for letter in LETTERS if ord(letter) != value)
    if kind is constants.ANY:
        return " "
    if kind is constants.IN:
        return one_of(value)
    if kind is constants.BRANCH:
        return made(value[1][0])
    if kind is constants.SUBPATTERN:
        return made(value[3])
    if kind in (constants.MAX_REPEAT, constants.MIN_REPEAT):
        least, _, inner = value
        is_gap = not least and inner[0][0] is constants.ANY
        return " " if is_gap else made(inner) * least
    return ""  # an anchor, or what may not or must follow


def one_of(choices: Any) -> str:
    """A letter of a class."""
    literals = [chr(value) for kind, value in choices if kind is constants.LITERAL]
    if choices[0][0] is not constants.NEGATE and literals:
        return literals[0]
    is_in = re.compile("[" + "".join(map(written, choices)) + "]")
    return next(letter for letter in (*LETTERS, *map(chr, range(33, 127))) if is_in.fullmatch(letter))


def written(choice: Any) -> str:
    """A part of a class as a pattern has it."""
    kind, value = choice
    if kind is constants.NEGATE:
        return "^"
    if kind is constants.LITERAL:
        return re.escape(chr(value))
    if kind is constants.RANGE:
        return f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}"
    letter = {"DIGIT": "d", "WORD": "w", "SPACE": "s"}[str(value).rpartition("_")[2]]
    return f"\\{letter.upper() if '_NOT_' in str(value) else letter}"


def main() -> None:
    """Add what is missing, let go of what is of no use, and print the patterns that want a line made by hand."""
    kept = {name: [line for line in lines if useful(name, line)] for name, lines in stored().items()}
    write(kept)
    for name, pattern in lacking():
        line = made(parser.parse(pattern))
        if (name, pattern) in matched(line):
            kept.setdefault(name, []).append(line)
        else:
            print(f"{name}: {pattern}")
    write(kept)


def useful(name: str, line: str) -> bool:
    """Has a line a pattern of its cause that the other tests have no line of?"""
    return any(row[0] == name for row in matched(line) - seen())


def write(lines: dict[str, list[str]]) -> None:
    """Write the lines down, in the order of the table."""
    texts = [text for one in CAUSES for text in (f"%% {one.name} {rank(one)}", *lines.get(one.name, ()))]
    FILE.write_text("\n".join(texts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
