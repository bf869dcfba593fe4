"""What text does a part of a script's syntax tree stand for, and what do its operators give for known values?"""

from __future__ import annotations

import fnmatch
import re
from typing import Any

ESCAPED_IN_QUOTES = re.compile(r'\\([$`"\\])|\\\n')
NUMBER_LIMIT = 10**15
WORDS_LIMIT = 512  # that one word becomes


def source(node: Any) -> str:
    """The text of a node."""
    text = str(node.text.decode("utf-8", "replace"))
    return text.lstrip() if node.type in ("simple_expansion", "expansion", "command_substitution") else text


def unquoted(text: bytes) -> str:
    """The text between double quotes without its backslashes."""
    return ESCAPED_IN_QUOTES.sub(lambda found: found[1] or "", text.decode("utf-8", "replace"))


def is_all(node: Any) -> bool:
    """Whether it is all elements of an array, each a word."""
    return node.type == "expansion" and "[@]" in source(node)


def subscript(node: Any) -> tuple[str, str]:
    """The name and index of ``NAME[INDEX]``."""
    if node.type != "subscript":
        return source(node), ""
    name, _, index = source(node).partition("[")
    return name, index.removesuffix("]").strip("\"'")


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


def sequence(first: str, last: str) -> list[str]:
    """``{01..16}``: the numbers between two, in either direction, padded where one of them is."""
    start, end = int(first), int(last)
    width = max(len(first), len(last)) if any(text[0] == "0" and len(text) > 1 for text in (first, last)) else 0
    numbers = range(start, end + 1) if start <= end else range(start, end - 1, -1)
    return [str(number).zfill(width) for number in numbers[:WORDS_LIMIT]]


def calculated(left: int, operator: str, right: int) -> int | None:
    """The result of one operator, None for one that is not calculated here."""
    if operator in ("/", "%") and right == 0:
        return None
    quotient = abs(left) // abs(right or 1) * (1 if (left < 0) == (right < 0) else -1)  # a shell rounds towards 0
    results = {
        "+": lambda: left + right,
        "-": lambda: left - right,
        "*": lambda: left * right,
        "/": lambda: quotient,
        "%": lambda: left - quotient * right,
    }
    value = results[operator]() if operator in results else None
    return value if value is not None and abs(value) < NUMBER_LIMIT else None
