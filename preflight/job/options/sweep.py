"""Which collectives does the benchmark run, at which sizes and how, in the words of nccl-tests' options?"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from preflight.said import said
from preflight.said.errors import UsageError

OPERATIONS = (
    "all_reduce",
    "broadcast",
    "sendrecv",
    "reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "gather",
    "scatter",
)
DTYPES = ("float32", "float64", "float16", "bfloat16", "int32", "int64", "int8", "uint8")
SCOPES = ("all", "intra", "inter", "rails", "racks")
MODES = ("blocking", "pipelined")
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}  # as nccl-tests: 32M is 32 MiB
SIZE_MOST = 1 << 40


@dataclass(frozen=True)
class Sweep:
    """What the ranks measure. Without `sizes` it is one that suits the links; without `iterations` enough of them."""

    operations: tuple[str, ...] = ("all_reduce",)
    sizes: tuple[int, ...] = ()
    iterations: int = 0
    warmup: int = 2
    dtype: str = "float32"
    mode: str = "blocking"
    scope: str = "all"

    @property
    def cells(self) -> int:
        """How many figures it gives."""
        return len(self.operations) * max(1, len(self.sizes))


def parse_sweep(words: dict[str, Any], *, is_full: bool = False) -> Sweep:
    """The sweep that the options ask for; without --op all operations where the profile is full.

    Raises UsageError for the first word that cannot be.
    """
    return Sweep(
        operations=_operations(words["op"] or ("all" if is_full else "all_reduce")),
        sizes=_sizes(words["begin"], words["end"], words["factor"]),
        iterations=_count("--iters", words["iters"], least=6) if words["iters"] else 0,
        warmup=_count("--warmup", words["warmup"], least=1),
        dtype=words["dtype"],
        mode=words["mode"],
        scope=words["scope"],
    )


def parse_bytes(option: str, text: str) -> int:
    """'8', '512K', '32M' or '1G' as bytes."""
    found = re.fullmatch(r"([1-9][0-9]{0,14})([KMG]?)(i?B)?", text.strip(), re.IGNORECASE | re.ASCII)
    size = int(found[1]) * UNITS[found[2].upper()] if found else 0
    if not 1 <= size <= SIZE_MOST:
        raise UsageError(said("{option} {text!r}: wanted bytes, such as 8, 512K, 32M or 1G", option, text))
    return size


def _operations(text: str) -> tuple[str, ...]:
    names = OPERATIONS if text == "all" else tuple(dict.fromkeys(filter(None, text.split(","))))
    for name in names or (text,):
        if name not in OPERATIONS:
            raise UsageError(
                said("--op {name!r}: not supported; wanted all, or some of {OPERATIONS}", name, ",".join(OPERATIONS))
            )
    return names


def _sizes(begin: str | None, end: str | None, factor: str | None) -> tuple[int, ...]:
    """From begin to end, each `factor` x the one before; one of the two alone is the only size."""
    if begin is None and end is None:
        if factor is not None:
            raise UsageError(said("-f {factor}: wanted sizes beside it, -b and -e", factor))
        return ()
    ends = [parse_bytes(option, text) for option, text in (("-b", begin), ("-e", end)) if text is not None]
    first, last = ends[0], ends[-1]
    step = _count("-f", factor, least=2) if factor is not None else 2
    if first > last:
        raise UsageError(said("-b {begin} -e {end}: the first size is larger than the last", begin, end))
    sizes = []
    while first <= last:
        sizes.append(first)
        first *= step
    return tuple(sizes)


def _count(option: str, text: str, *, least: int) -> int:
    if not re.fullmatch(r"[0-9]{1,6}", str(text), re.ASCII) or int(text) < least:
        raise UsageError(said("{option} {text!r}: wanted a number from {least}", option, text, least))
    return int(text)
