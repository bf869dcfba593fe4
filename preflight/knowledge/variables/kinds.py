"""What may stand in a variable, as the library that reads it parses it?"""

from __future__ import annotations

import re
from dataclasses import dataclass

from preflight.said import said

LEADING_NUMBER = re.compile(r"\s*([+-]?)(0[xX][0-9a-fA-F]+|\d+)")


@dataclass(frozen=True)
class Kind:
    """A kind of value: a regular expression for the whole of it, and for a number what it may be.

    ``taken`` is an example of what the library takes, ``refused`` of what it does not; "" where it takes everything.
    """

    wanted: str
    pattern: str
    taken: str
    refused: str
    low: int | None = None
    high: int | None = None

    def refuses(self, value: str) -> str:
        """What was wanted, where the library would not take `value` as it is written; "" where it takes it.

        An empty value is the same as none to all of them.
        """
        if value == "":
            return ""
        if not re.fullmatch(self.pattern, value, re.IGNORECASE):
            return self.wanted
        found = LEADING_NUMBER.match(value) if self.low is not None else None
        if found is None:
            return ""
        digits = found[2]
        number = int(found[1] + digits, 16 if digits[:2].lower() == "0x" else 10)
        is_too_high = self.high is not None and number > self.high
        return self.wanted if (self.low is not None and number < self.low) or is_too_high else ""


def whole(low: int, high: int | None = None) -> Kind:
    """A whole number as strtoll takes it: decimal or 0x..., and whatever follows is ignored."""
    wanted = said("a whole number from {low}", low) + ("" if high is None else said(" to {high}", high))
    refused = str(low - 1) if high is None else str(high + 1)
    return Kind(wanted, r"\s*[+-]?(0x[0-9a-f]+|\d+).*", str(low), refused, low, high)


def choice(*words: str) -> Kind:
    """One of some words, in upper or lower case."""
    pattern = "|".join(re.escape(word) for word in words)
    return Kind(said("one of {words}", ", ".join(words)), pattern, words[0], f"{words[0]}{words[1]}")


def some_of(*words: str) -> Kind:
    """A list of some words; ^ before it turns the choice round."""
    one = rf"\^?({'|'.join(re.escape(word) for word in words)})"
    return Kind(
        said("a list of {words}", ", ".join(words)), rf"{one}(,{one})*,?", ",".join(words[:2]), " ".join(words[:2])
    )


def of_functions(*words: str) -> Kind:
    """NCCL_ALGO and NCCL_PROTO: a list, and from NCCL 2.24 one for each function: "ring;allreduce:tree"."""
    names = "|".join(re.escape(word) for word in words)
    one = rf"(\w+:)?\^?({names})(,({names}))*"
    return Kind(said("a list of {words}", ", ".join(words)), rf"{one}(;{one})*;?", f"^{words[0]}", " ".join(words[:2]))


TEXT = Kind("a text", r"[\s\S]*", "text", "")
SWITCH = Kind("0 or 1", r"\s*[+-]?(0x[0-9a-f]+|\d+).*", "1", "true", -2, 2)  # -2 is how NCCL writes "not set"
NUMBER = whole(-2)
POSITIVE = whole(1)
FLAG = Kind("0 or 1", r"0|1|y|yes|t|true|n|no|f|false|on|off", "true", "2")
LEVEL = Kind("one of LOC, NVL, PIX, PXB, PHB, SYS", r"LOC|NVL|C2C|PIX|PXB|PXN|P2C|PHB|SYS|\d+", "NVL", "NEAR")
FAMILY = choice("AF_INET", "AF_INET6")
VISIBLE = Kind(
    "indexes or UUIDs, separated by commas",
    r"(-1|NoDevFiles|all|none|void|(\s*[\w./-]+\s*)(,\s*[\w./-]+\s*)*,?)",
    "0,GPU-8a",
    "0 1",
)
THREADS = Kind("whole numbers from 1, separated by commas", r"\s*[1-9]\d*\s*(,\s*[1-9]\d*\s*)*", "8,4", "0")
