"""Ranks of a job at one moment, each in one of several states: every pair of states, of two ranks beside many others."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement

import msgspec

from preflight.diagnose.hanging.live import Process, Seen
from preflight.facts.value import Missing
from tests.diagnose.hanging.test_stuck import IN_TORCH, LOADER, STEP, rank

MEETING = "init_process_group (/env/site-packages/torch/distributed/distributed_c10d.py:1700)"
BARRIER = "barrier (/env/site-packages/torch/distributed/distributed_c10d.py:4700)"
UNREAD = Missing("py-spy may not attach", "denied")
# What one rank does: its frames, innermost first, and what else is seen of it.
STATES: dict[str, tuple[tuple[str, ...], dict[str, object]]] = {
    "waits": ((IN_TORCH, STEP), {}),
    "meets": ((MEETING, STEP), {}),
    "elsewhere": ((BARRIER, "save (/job/train.py:90)"), {}),
    "works": ((IN_TORCH, STEP), {"cpu": 0.04}),
    "loads": ((LOADER, STEP), {}),
    "computes": ((LOADER, STEP), {"cpu": 0.5}),
    "runs": ((LOADER, STEP), {"state": "R"}),
    "stopped": ((), {"state": "T"}),
    "traced": ((IN_TORCH, STEP), {"state": "t"}),
    "dead": ((), {"state": "Z"}),
    "in the kernel": ((STEP,), {"state": "D", "wchan": "nfs_wait"}),
    "in a place of the kernel": ((), {"state": "D", "wchan": ""}),
    "was in the kernel": ((STEP,), {"state": "D", "earlier": (Seen("S", "", (STEP,)),)}),
    "stays in the kernel": ((STEP,), {"state": "D", "earlier": (Seen("D", "", (STEP,)),)}),
    "unread": ((), {"frames": UNREAD}),
    "unread, at work": ((), {"frames": UNREAD, "cpu": 0.5, "wchan": ""}),
    "unread, moved": ((), {"frames": UNREAD, "earlier": (Seen("S", "do_poll", UNREAD),)}),
    "moved on": ((IN_TORCH, STEP), {"earlier": (Seen("S", "", (BARRIER, STEP)),)}),
    "moved here": ((IN_TORCH, STEP), {"earlier": (Seen("S", "", (LOADER, STEP)),)}),
    "of more ranks": ((IN_TORCH, STEP), {"world": 5}),
    "without a number": ((IN_TORCH, STEP), {"number": -1, "world": 0}),
    "of one number": ((IN_TORCH, STEP), {"number": 3}),
}


def process(number: int, state: str, world: int) -> Process:
    """A rank in one of the states."""
    frames, others = STATES[state]
    given = {"number": number, "world": world, **others}
    held = {name: value for name, value in given.items() if name not in ("number", "frames")}
    made = rank(given["number"], *frames, pid=100 + number, **held)
    return msgspec.structs.replace(made, frames=given["frames"]) if "frames" in given else made


def moments() -> Iterator[tuple[str, str, dict[str, tuple[Process, ...]]]]:
    """What two ranks do, how many others wait with the first, and all ranks by their nodes."""
    for first, second in combinations_with_replacement(STATES, 2):
        for others in (0, 2):
            states = [first, second, *[first] * others]
            ranks = [process(number, state, len(states)) for number, state in enumerate(states)]
            yield first, f"{second}, {others} more", {"a": tuple(ranks[::2]), "b": tuple(ranks[1::2])}
