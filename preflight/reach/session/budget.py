"""How much may a node say in one run, so that none uses up the memory and the time of all?

Limits are per frame, per node and for all nodes together. Beyond a fair share each, which every healthy node stays
below, nodes draw on one pool: many that flood us at once are stopped as one is.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from preflight.node.agent import frames
from preflight.reach.session import quick
from preflight.said import said

NODE_BYTES = 64 << 20
NODE_VALUES = 500_000  # numbers, texts, lists and objects: a node that is asked about 1,000 peers sends 30,000
NODE_FRAMES = 100_000
NODE_SECONDS = 5.0  # of our processor time, to decode what it sent
QUICK_BYTES = 1024  # decoding smaller messages is as cheap as reading the clock: they are not timed
FAIR_BYTES = 8 << 20
FAIR_VALUES = 60_000
POOL_BYTES = 256 << 20
POOL_VALUES = 1_000_000
STDERR_BYTES = 16 << 20


@dataclass
class Pool:
    """What all nodes of a run have said beyond their fair shares."""

    size: int = 0
    values: int = 0


@dataclass
class Budget:
    """What one node has said so far; FrameError once that is more than its share."""

    pool: Pool = field(default_factory=Pool)
    size: int = 0
    values: int = 0
    frames: int = 0
    seconds: float = 0.0

    def arrived(self, count: int) -> None:
        """Count bytes that came."""
        self.pool.size += _beyond(self.size, count, FAIR_BYTES)
        self.size += count
        if self.size > NODE_BYTES:
            raise frames.FrameError(said("more than {NODE_BYTES} MiB in one run", NODE_BYTES >> 20))
        if self.size > FAIR_BYTES and self.pool.size > POOL_BYTES:
            raise frames.FrameError("too many bytes from many nodes at once, and more than its share from this one")

    def read(self, text: bytes) -> dict[str, Any]:
        """The message of a frame, counted before it is decoded."""
        self.frames += 1
        if self.frames > NODE_FRAMES:
            raise frames.FrameError(said("more than {NODE_FRAMES} messages in one run", NODE_FRAMES))
        outline = quick.outline(text)
        count = quick.most_values(outline)
        self.pool.values += _beyond(self.values, count, FAIR_VALUES)
        self.values += count
        if self.values > NODE_VALUES:
            raise frames.FrameError(said("more than {NODE_VALUES} values in one run", NODE_VALUES))
        if self.values > FAIR_VALUES and self.pool.values > POOL_VALUES:
            raise frames.FrameError("too many values from many nodes at once, and more than its share from this one")
        if len(text) < QUICK_BYTES:
            return quick.message(text, outline)
        begun = time.thread_time()
        try:
            return quick.message(text, outline)
        finally:
            self.seconds += time.thread_time() - begun
            if self.seconds > NODE_SECONDS:
                raise frames.FrameError(said("decoding what it said took more than {NODE_SECONDS:g} s", NODE_SECONDS))


def _beyond(before: int, more: int, share: int) -> int:
    """How much of `more` lies above the share."""
    return max(0, before + more - max(before, share))
