"""Does a repeated computation give the same result, and how fast is each node alone?"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from preflight.job.ranks.training.fingerprint import difference, distance, fingerprint
from preflight.job.ranks.training.place import from_every_rank
from preflight.job.ranks.training.trainee import Trainee

if TYPE_CHECKING:
    import torch
    from torch import nn

    from preflight.job.ranks.training.data import Data
    from preflight.job.ranks.training.trainee import Step

REPLAYED_STEPS = 3
ALONE_STEPS = 5  # the first of them sets up buckets and is not counted


def check_again(start: nn.Module, batches: list[torch.Tensor], steps: list[Step], *, data: Data) -> dict[str, Any]:
    """Train the first steps once more, and take one batch in two halves: both must give what was there before."""
    settings, seed = data.settings, data.settings.seed
    again = Trainee(start, settings=settings, place=data.place)
    found = {"replay_error": distance_of_losses(again, batches[:REPLAYED_STEPS], steps)}
    if settings.strategy != "zero2":
        again.optimizer.zero_grad()
        again.backward(batches[0])
        large = fingerprint(held_gradients(again.model), seed=seed, moved=data.place.moved)
        again.optimizer.zero_grad()
        again.backward(*batches[0].chunk(2))
        found["accumulation_error"] = distance(
            fingerprint(held_gradients(again.model), seed=seed, moved=data.place.moved), large
        )
    return found


def distance_of_losses(trainee: Trainee, batches: list[torch.Tensor], steps: list[Step]) -> float:
    """Train on these batches: how far the losses are from those of `steps`, where that is worst."""
    return max(difference(float(trainee.step(tokens)), then.loss) for tokens, then in zip(batches, steps))


def held_gradients(model: nn.Module) -> list[torch.Tensor]:
    """The gradients that a model holds now."""
    return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


def time_alone(start: nn.Module, batches: list[torch.Tensor], *, data: Data) -> float | None:
    """Median seconds of a step when each node trains alone, all at the same time; None for a single node."""
    import torch.distributed as dist

    place = data.place
    first_ranks = [int(one[0]) for one in from_every_rank([place.first_here], place=place)]
    if len(set(first_ranks)) == 1 or data.settings.strategy != "ddp":
        return None
    here = [rank for rank, first in enumerate(first_ranks) if first == place.first_here]
    group: Any = dist.new_group(here, use_local_synchronization=True)
    alone = Trainee(start, settings=data.settings, place=place, group=group)
    from_every_rank([0.0], place=place)  # all begin together
    seconds = [alone.timed_step(tokens).seconds for tokens in batches[:ALONE_STEPS]]
    return statistics.median(seconds[1:] or seconds)
