"""Who is this rank in the training, and what do the others have?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Place:
    """Who this rank is."""

    rank: int
    ranks: int
    device: torch.device
    import_seconds: float
    first_here: int  # the lowest rank on this node
    life: int  # how often torchrun has started the ranks again
    store: Any = None  # where all ranks met
    moved: Callable[[], None] = lambda: None  # told of each piece of work that is done: no rank hangs that goes on


def from_every_rank(values: list[float], *, place: Place) -> list[list[float]]:
    """These values of all ranks, in rank order."""
    import torch
    import torch.distributed as dist

    mine = torch.tensor(values, dtype=torch.float64, device=place.device)
    everyone = [torch.empty_like(mine) for _ in range(place.ranks)]
    dist.all_gather(everyone, mine)
    return [one.tolist() for one in everyone]


def look_through_accelerate(place: Place) -> None:
    """Whether accelerate, which started this rank, sees the right world; in a world of one it would train alone."""
    from accelerate import PartialState

    seen = PartialState(cpu=place.device.type == "cpu")
    if (seen.num_processes, seen.process_index) != (place.ranks, place.rank):
        world = f"accelerate sees a world of {seen.num_processes} and rank {seen.process_index}"
        raise RuntimeError(f"{world}; wanted {place.ranks} and {place.rank}")
