"""What is reported of a training: by each rank of itself, and by rank 0 of all?"""

from __future__ import annotations

import math
import resource
import socket
import statistics
from typing import TYPE_CHECKING, Any

from preflight.job.ranks.rank.board import identity_of
from preflight.job.ranks.training.place import from_every_rank

if TYPE_CHECKING:
    import torch

    from preflight.job.ranks.rank.records import Records
    from preflight.job.ranks.training.data import Data
    from preflight.job.ranks.training.trainee import Step


def memory_peak_bytes(device: torch.device) -> int:
    """The most that this rank held: of its GPU, or of the host."""
    if device.type == "cuda":
        import torch

        return int(torch.cuda.max_memory_allocated(device))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def report_rank(steps: list[Step], found: dict[str, Any], *, data: Data, records: Records) -> None:
    """Send what this rank found."""
    place, count = data.place, len(steps)
    steady = steps[1:] or steps  # the first one sets up connections and buckets

    # Of a node with a CPU quota many steps are as fast as elsewhere and some stand still: a median would not see it.
    own = sorted(step.seconds - step.communication_seconds for step in steady)
    own = own[: math.ceil(0.9 * len(own))]  # without the slowest tenth, which may be anybody's

    # Gathered at the end, not at each step: measuring must not disturb the steps.
    spoilt_at = next((number for number, step in enumerate(steps) if not step.finite), count)
    everyones = from_every_rank([spoilt_at], place=place)
    records.send(
        {
            "record": "trained",
            "rank": place.rank,
            "hostname": socket.gethostname(),
            **identity_of(place.device),
            "step_seconds_median": statistics.median(step.seconds for step in steady),
            "step_seconds_p95": sorted(step.seconds for step in steady)[math.ceil(0.95 * len(steady)) - 1],
            "communication_seconds_median": statistics.median(step.communication_seconds for step in steady),
            "compute_seconds_mean": statistics.fmean(own),
            **found,
            "import_seconds": place.import_seconds,
            # After one rank's infinity all ranks have it in the next step: it counts only where it came first.
            "finite": spoilt_at == count or spoilt_at > min(one[0] for one in everyones),
            "memory_peak_bytes": memory_peak_bytes(place.device),
        }
    )


def report_job(steps: list[Step], *, begin: int, data: Data, records: Records, figures: dict[str, Any]) -> None:
    """Rank 0 sends the figures of all ranks together."""
    place, count, steady = data.place, len(steps), steps[1:] or steps
    everyones = from_every_rank([*(s.loss for s in steps), *(s.seconds for s in steady)], place=place)
    if place.rank:
        return
    losses = [statistics.fmean(of_all) for of_all in zip(*(one[:count] for one in everyones))]
    until = next((number for number, loss in enumerate(losses) if not math.isfinite(loss)), count)
    slowest = [max(of_all) for of_all in zip(*(one[count:] for one in everyones))]
    rate = place.ranks * data.shape.batch * data.shape.length / statistics.median(slowest)
    records.send({"record": "losses", "losses": losses[:until], "tokens_per_s": rate, "begin": begin, **figures})
