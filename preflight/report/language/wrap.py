"""Where does a line end that holds letters of two columns, with no space between words?"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

# A letter of a script without spaces, or a word up to its space, with the punctuation that may not begin a line.
ENDING = r"[\u3001-\u3011\uff01\uff09\uff0c\uff1a\uff1b\uff1f]*"
UNIT = re.compile(rf"\s+|(?:[\u2e80-\u9fff\uff00-\uffef]|[^\s\u2e80-\u9fff\uff00-\uffef]+){ENDING}")


def width_of(text: str) -> int:
    """The columns of a terminal that a text takes."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def cut(text: str, width: int) -> str:
    """A text of at most so many columns; dots stand for what was left out."""
    if width_of(text) <= width:
        return text
    taken, used = 0, 0
    for letter in text:
        used += width_of(letter)
        if used > width - 3:
            break
        taken += 1
    return f"{text[:taken]}..."


def in_columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells as lines, each column as wide as its widest cell on a terminal."""
    widths = [max(map(width_of, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(f"{cell}{' ' * (wide - width_of(cell))}" for cell, wide in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
    return "\n".join(lines)


def wrapped(text: str, width: int, *, first: int, rest: int) -> list[str]:
    """Lines of at most `width` columns, the first indented by `first`, the others by `rest`; a word stays whole."""
    lines: list[str] = []
    line, used = " " * first, first
    is_empty = True
    for unit in UNIT.findall(text):
        columns = width_of(unit)
        if not is_empty and not unit.isspace() and used + columns > width:
            lines.append(line.rstrip())
            line, used, is_empty = " " * rest, rest, True
        if is_empty and unit.isspace() and lines:
            continue
        line += unit
        used += columns
        is_empty = is_empty and unit.isspace()
    return [*lines, line.rstrip()]
