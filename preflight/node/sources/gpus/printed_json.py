"""What does the JSON say that a program printed, perhaps between other lines?"""

from __future__ import annotations

import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def value_at(text: str, start: int) -> tuple[Any, int]:
    """The JSON value that begins there, and where it ends. ValueError where it is broken, too deep, or holds 1e999."""
    import json

    decoder = json.JSONDecoder(parse_float=_finite, parse_constant=_finite)
    try:
        return decoder.raw_decode(text, start)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _finite(word: str) -> float:
    number = float(word)
    if not math.isfinite(number):
        raise ValueError(f"{word[:40]} is not a number")
    return number
