"""What did the vendors' own tests find on a node's GPUs?"""

from __future__ import annotations

from typing import Literal, NamedTuple

from preflight.facts.value import Count, Missing, Text, Value

NOT_ASKED = Missing("not asked for (--vendor-tests)", "absent")


class Finding(NamedTuple):
    """One test on one GPU."""

    test: Text  # "Memory Bandwidth"
    gpu: Text  # "3", "0,1,2,3"; "" where it is of the node
    status: Literal["pass", "warn", "fail", "skip"]
    words: Text


class Copy(NamedTuple):
    """The rate of one copy."""

    test: Text  # "host_to_device_memcpy_ce"
    row: Count
    column: Count
    gbytes_per_s: float


class Copies(NamedTuple):
    """What nvbandwidth measured, or what it found wrong with the data that it copied."""

    cells: tuple[Copy, ...]
    wrong: Text


class Vendor(Value, frozen=True, kw_only=True):
    """The outcome of each test by the name of its program."""

    dcgmi: tuple[Finding, ...] | Missing = NOT_ASKED
    rvs: tuple[Finding, ...] | Missing = NOT_ASKED
    agfhc: tuple[Finding, ...] | Missing = NOT_ASKED
    nvbandwidth: Copies | Missing = NOT_ASKED
