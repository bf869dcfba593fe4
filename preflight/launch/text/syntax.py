"""What text does a node of a script's syntax tree stand for?"""

from __future__ import annotations

import re
from typing import Any

ESCAPED_IN_QUOTES = re.compile(r'\\([$`"\\])|\\\n')


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
