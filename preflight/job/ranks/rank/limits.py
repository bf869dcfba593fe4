"""For how long may a rank stand still at a stage before it counts as stuck? As the work planned there needs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Callable

AFTER_SECONDS = 5.0  # torch's watchdog needs so long to write its file and to end the process
RANKS_A_SECOND = 20.0  # that come into the store, or into a communicator, at least: 64 on two cores
LEAST_BYTES_A_SECOND = 50e6  # of a message between nodes
LEAST_STORED_BYTES_A_SECOND = 10e6  # to a shared file system that many use
COLD_SECONDS = 15.0  # the first calls into CUDA and NCCL load their code
COMPILED_SECONDS = 30.0  # DeepSpeed compiles its optimizer for the first step
ROUND_SECONDS = 0.5  # of pairs: seven messages; a rank may wait until its partner is through those before


@dataclass(frozen=True)
class Planned:
    """What a rank is going to do, as far as it takes time in one piece, where nothing can be reported."""

    ranks: int = 1
    rounds: int = 0
    message_bytes: int = 0
    stored_bytes: int = 0


# Stage -> the seconds that it may take in one piece beside what any call may.
EXTRA: Mapping[str, Callable[[Planned], float]] = {
    "rendezvous": lambda planned: planned.ranks / RANKS_A_SECOND,
    "communicator": lambda planned: COLD_SECONDS + planned.ranks / RANKS_A_SECOND,
    "first_step": lambda _planned: COMPILED_SECONDS,
    "running": lambda planned: planned.message_bytes / LEAST_BYTES_A_SECOND,
    "pairs": lambda planned: planned.message_bytes / LEAST_BYTES_A_SECOND + planned.rounds * ROUND_SECONDS,
    "checkpoint": lambda planned: planned.stored_bytes / LEAST_STORED_BYTES_A_SECOND,
}
IN_A_CALL = ("running", "pairs")  # stages whose time is that of one operation between ranks


def allowed(stage: str, planned: Planned, *, seconds: float) -> float:
    """How long a rank may report nothing at this stage, where any call may take `seconds`."""
    return seconds + (EXTRA[stage](planned) if stage in EXTRA else 0.0)


def of_a_call(planned: Planned, *, seconds: float) -> float:
    """How long an operation between ranks may take: what c10d is told once, for all stages."""
    return max(allowed(stage, planned, seconds=seconds) for stage in IN_A_CALL)
