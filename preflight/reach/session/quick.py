"""How is a node's message decoded fast, where it is as our own agent writes it?

msgspec decodes ten times as fast as the standard library, but says nothing of a key that stands twice. So what it
decoded is encoded again: where that gives the very same bytes, each key stood once, and every number is within bounds.
Anything else goes to the strict reader that the node agent has too.
"""

from __future__ import annotations

from typing import Any

import msgspec

from preflight.node.agent import strict

DIGITS = bytes.maketrans(b"123456789", b"0" * 9)
OF_VALUES = bytes(set(range(256)) - set(b'[]{},:"'))
LONG_NUMBER = b"0" * (strict.DIGITS_LIMIT + 1)  # once every digit is a 0: a fifth of the time of a pattern


def outline(text: bytes) -> bytes:
    """The brackets, quotes, commas and colons of a JSON text, all brackets square: what its size and depth show in."""
    return text.translate(strict.BRACKETS, OF_VALUES)


def most_values(outline: bytes) -> int:
    """As strict.most_values, from the outline of the text."""
    return 1 + outline.count(b",") + outline.count(b":") + outline.count(b"[")


def message(text: bytes, outline: bytes) -> dict[str, Any]:
    """The message of a frame that has this outline. Raises FrameError as strict.strict_json does."""
    if (
        b"\\" in text
        or LONG_NUMBER in text.translate(DIGITS)
        or most_values(outline) > strict.VALUES_LIMIT
        or not _is_shallow(outline)
    ):
        return strict.strict_json(text)
    try:
        found = msgspec.json.decode(text)
        if isinstance(found, dict) and msgspec.json.encode(found) == text:
            return found
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
        pass  # the strict reader reports what is wrong
    return strict.strict_json(text)


def _is_shallow(outline: bytes) -> bool:
    """The bound on depth, of a text without a backslash: every other piece between its quotes is outside strings."""
    if outline.count(b"[") <= strict.DEPTH_LIMIT:
        return True
    brackets = outline.translate(None, b",:").replace(b'""', b"")  # most strings have no bracket in them
    if b'"' in brackets:
        brackets = b"".join(brackets.split(b'"')[::2])
    for _ in range(strict.DEPTH_LIMIT):
        if not brackets:
            return True
        brackets = brackets.replace(b"[]", b"")  # the innermost pairs
    return not brackets
