"""Does a version meet what is wanted of it?"""

from __future__ import annotations

import re

Version = tuple[int, ...]


def is_within(version: str, wanted: str) -> bool:
    """Whether a version meets every part of ">=2.4,<2.5", as PEP 440 has it; an unknown one meets none."""
    return bool(version) and all(_meets(release(version), part.strip()) for part in wanted.split(","))


def _meets(number: Version, part: str) -> bool:
    sign = part[: len(part) - len(part.lstrip("<>=!~"))]
    text = part.removeprefix(sign)
    bound = release(text)
    kept = text.count(".")  # of the numbers, where the last one is free: "==2.1.*" and "~=2.1.3"
    has_prefix = [*number, *[0] * kept][:kept] == [*bound, *[0] * kept][:kept]
    if text.endswith(".*"):
        return has_prefix if sign == "==" else not has_prefix
    if sign == "~=":
        return number >= bound and has_prefix
    signs = {"<": number < bound, "<=": number <= bound, ">": number > bound, ">=": number >= bound}
    return signs.get(sign, number != bound if sign == "!=" else number == bound)


def release(version: str) -> Version:
    """The numbers that a version begins with, without zeros at the end: "2.4.0a0+07cec" is (2, 4)."""
    found = re.match(r"\d+(\.\d+)*", version)
    numbers = [int(part) for part in found[0].split(".")] if found else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
