"""What can be asked of the benchmark?"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

MIB = 1 << 20
PIPELINED = 4  # operations of a train: enough for the next to start while the one before ends


@dataclass(frozen=True)
class Settings:
    """What to run. No `sizes` means one size per operation, found by probing."""

    backend: str = "gloo"
    operations: tuple[str, ...] = ("all_reduce",)
    sizes: tuple[int, ...] = ()
    sizes_by_operation: dict[str, tuple[int, ...]] = field(default_factory=dict)  # instead of `sizes`, for these
    dtype: str = "float32"
    mode: str = "blocking"  # one operation at a time, its latency in it; or "pipelined", several on their way at once
    target_seconds: float = 0.15  # of one operation at the size found; 16 MiB and more on a 1 Gbit link
    cap_seconds: float = 6.0  # of one operation at one size, all iterations
    warmup: int = 2
    min_iterations: int = 8
    max_iterations: int = 50
    ci: float = 0.01  # stop once the median is known to +- this share
    join_seconds: float = 30.0
    holds_to_ring: bool = False  # measure the all-reduce once more over a ring, whose bandwidth is that of the links
    pairs: tuple[tuple[tuple[int, int], ...], ...] = ()  # rounds of (who sends, who receives), after all else
    pair_bytes: int = 256 * MIB  # of a message between two ranks, at most
    device_seconds: float = 0.0  # for which each GPU first works by itself: matrices, then its memory
    wait_seconds: float = 45.0  # for an operation of NCCL: InfiniBand sends again for 30 s, then names the peer
    rounds: tuple[tuple[dict[str, Any], ...], ...] = ()  # groups that measure at once: {"name": ..., "ranks": [...]}

    @property
    def message_bytes(self) -> int:
        """The largest that is asked for; what is found by probing takes no longer than `target_seconds`."""
        sizes = (*self.sizes, *(size for held in self.sizes_by_operation.values() for size in held))
        return self.depth * max((*sizes, self.pair_bytes if self.pairs else 0), default=0)

    @property
    def depth(self) -> int:
        """How many operations are on their way at once."""
        return PIPELINED if self.mode == "pipelined" else 1
