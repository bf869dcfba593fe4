"""Which JSON do we take from where nobody is trusted?"""

from __future__ import annotations

from preflight.node.agent.frames import FrameError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from preflight.node.agent.frames import Message

VALUES_LIMIT = 200_000  # of one message: JSON of 1 MiB can hold half a million lists, and 60 MiB of memory with them
DEPTH_LIMIT = 32
DIGITS_LIMIT = 20
OTHER_BYTES = bytes(set(range(256)) - set(b"[]{}"))
BRACKETS = bytes.maketrans(b"{}", b"[]")


def strict_json(text: bytes) -> Message:
    """A JSON object of bounded size and depth without NaN, infinities or duplicate keys; FrameError otherwise."""
    import json

    if most_values(text) > VALUES_LIMIT:
        raise FrameError(f"a message of more than {VALUES_LIMIT} values")
    if not is_shallow(text):
        raise FrameError(f"not JSON, or nested more than {DEPTH_LIMIT} deep")
    try:
        message = json.loads(
            text, parse_constant=_refuse, parse_float=_finite, parse_int=_bounded, object_pairs_hook=_unique
        )
    except FrameError:
        raise
    except (ValueError, RecursionError) as error:  # RecursionError: the parser's own bound on depth
        raise FrameError(f"not JSON: {error}") from None
    if not isinstance(message, dict):
        raise FrameError(f"wanted an object, got {type(message).__name__}")
    return message


def most_values(text: bytes) -> int:
    """An upper bound of the values in a JSON text, found without decoding it; strings in it may make it larger."""
    return 1 + text.count(b",") + text.count(b":") + text.count(b"[") + text.count(b"{")


def is_shallow(text: bytes) -> bool:
    """Whether no bracket is deeper than the limit: the parser's own bound is close to that of our own recursion."""
    if text.count(b"[") + text.count(b"{") <= DEPTH_LIMIT:
        return True
    import re

    brackets = re.sub(rb'"(?:[^"\\]|\\.)*"', b"", text).translate(BRACKETS, OTHER_BYTES)
    for _ in range(DEPTH_LIMIT):
        if not brackets:
            return True
        brackets = brackets.replace(b"[]", b"")  # the innermost pairs
    return not brackets


def _bounded(digits: str) -> int:
    if len(digits) > DIGITS_LIMIT:
        raise FrameError(f"{digits[:20]}... has {len(digits)} digits")
    return int(digits)


def _refuse(name: str) -> None:
    raise FrameError(f"{name} is not a number")


def _finite(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise FrameError(f"{digits[:20]} is out of the range of a float")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> Message:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise FrameError("an object has the same key twice")
    return made
