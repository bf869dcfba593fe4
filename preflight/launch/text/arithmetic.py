"""What do ``$((a * b))`` and ``${NAME%%pattern}`` give for values that are known?"""

from __future__ import annotations

import fnmatch

NUMBER_LIMIT = 10**15


def cut(text: str, operator: str, pattern: str) -> str:
    """``${NAME%%pattern}`` and its three relatives."""
    lengths = range(len(text) + 1)
    if operator in ("%%", "##"):
        lengths = range(len(text), -1, -1)
    for length in lengths:
        if operator[0] == "%" and fnmatch.fnmatchcase(text[len(text) - length :], pattern):
            return text[: len(text) - length]
        if operator[0] == "#" and fnmatch.fnmatchcase(text[:length], pattern):
            return text[length:]
    return text


def calculated(left: int, operator: str, right: int) -> int | None:
    """The result of one operator, None for one that is not calculated here."""
    if operator in ("/", "%") and right == 0:
        return None
    results = {
        "+": lambda: left + right,
        "-": lambda: left - right,
        "*": lambda: left * right,
        "/": lambda: left // right,
        "%": lambda: left % right,
    }
    value = results[operator]() if operator in results else None
    return value if value is not None and abs(value) < NUMBER_LIMIT else None
