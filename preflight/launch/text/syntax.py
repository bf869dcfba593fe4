"""What text does a part of a script's syntax tree stand for, and what do its operators give for known values?"""

from __future__ import annotations

import re
from typing import Any

LEADING = re.compile(r"^(?:\s|\\\n)+")
ESCAPED_IN_QUOTES = re.compile(r'\\([$`"\\])|\\\n')
NUMBER_LIMIT = 10**15
WORDS_LIMIT = 512  # that one word becomes
TEXT_LIMIT = 1 << 16  # letters of one value


def source(node: Any) -> str:
    """The text of a node."""
    text = str(node.text.decode("utf-8", "replace"))
    if node.type in ("simple_expansion", "expansion", "command_substitution"):
        return LEADING.sub("", text)  # the grammar counts what stands before an expansion in a text as part of it
    return text


def unquoted(text: str) -> str:
    """The text between double quotes without its backslashes."""
    return ESCAPED_IN_QUOTES.sub(lambda found: found[1] or "", text)


def written_here(node: Any) -> Any:
    """The text of ``$(cat <<EOF ... EOF)``; None for any other command substitution."""
    inner = node.named_children[0] if node.named_child_count == 1 else None
    if inner is None or inner.type != "redirected_statement" or source(inner.named_children[0]).strip() != "cat":
        return None
    parts = (part for child in inner.named_children[1:] for part in child.named_children)
    return next((part for part in parts if part.type == "heredoc_body"), None)


def is_all(node: Any) -> bool:
    """Whether it is all elements of an array, each a word."""
    return node.type == "expansion" and "[@]" in source(node)


def subscript(node: Any) -> tuple[str, str]:
    """The name and index of ``NAME[INDEX]``."""
    if node.type != "subscript":
        return source(node), ""
    name, _, index = source(node).partition("[")
    return name, index.removesuffix("]").strip("\"'")


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


def replaced(text: str, pattern: str, by: str, times: int) -> str | None:
    """The text with another in the places of a part, at most so often (-1: each time); None for one too long."""
    count = text.count(pattern) if times < 0 else min(times, text.count(pattern))
    grown = len(text) + count * (len(by) - len(pattern))
    return text.replace(pattern, by, times) if pattern and grown <= TEXT_LIMIT else None
