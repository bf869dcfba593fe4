"""For how long may a rank keep the others waiting, stage by stage, before it is named?

The controller watches the first stages: NCCL waits without limit for a rank that does not come, and c10d
knows only who has not come, not why. While the job runs, its ranks watch each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

STAGES = (
    "start",
    "import",
    "rendezvous",
    "communicator",
    "first_step",
    "running",
    "pairs",
    "checking",
    "checkpoint",
    "done",
)
# Of a rank in this stage, once another rank is further. An import of 60 s is slow, which is reported; it is not a hang.
SECONDS = {"start": 30.0, "import": 75.0}
AGENT_SECONDS = 75.0  # of one in stage start, where a launcher's agent imports torch before it starts a rank
# For one operation of NCCL. InfiniBand sends again for 30 s (NCCL_IB_TIMEOUT=20: 4.3 s, seven times) before it gives
# up and names the peer; the ranks themselves end 5 s later, for the case that torch's watchdog does not.
WAIT_SECONDS = 45.0
COLD_SECONDS = 15.0  # more, where the communicator is made: CUDA and NCCL load their code
# What a job is given beside its work, so that a rank that hangs is named within the job's time.
RESERVE_SECONDS = SECONDS["import"] + WAIT_SECONDS + COLD_SECONDS + 5.0


@dataclass
class Patience:
    """When each rank was first seen in its stage."""

    has_agents: bool = False
    since: dict[int, tuple[str, float]] = field(default_factory=dict)

    def late(self, stages: Mapping[int, str], now: float) -> tuple[int, ...]:
        """The ranks that have stayed too long where others have gone on; `now` is in seconds of a monotonic clock."""
        for rank, stage in stages.items():
            if self.since.get(rank, ("", 0.0))[0] != stage:
                self.since[rank] = (stage, now)
        furthest = max(map(STAGES.index, stages.values()))
        first = min((at for stage, at in self.since.values() if STAGES.index(stage) == furthest), default=now)
        allowed = {**SECONDS, "start": AGENT_SECONDS} if self.has_agents else SECONDS
        return tuple(
            rank
            for rank, (stage, at) in self.since.items()
            if stage in allowed and STAGES.index(stage) < furthest and now - max(at, first) > allowed[stage]
        )
