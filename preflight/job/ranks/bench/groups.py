"""Who measures together? All ranks, or the groups of a round, each in its own process group."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    import torch

    from preflight.job.ranks.rank.records import Records


@dataclass(frozen=True)
class Place:
    """Who this rank is, among all ranks or in a group of them."""

    rank: int
    ranks: int
    device: torch.device
    store: Any  # where all ranks met
    name: str = ""
    members: tuple[int, ...] = ()  # the ranks of the group, in their own numbers; none where all are one
    group: Any = None

    def world(self, rank: int) -> int:
        """A rank of the group, as its number among all."""
        return self.members[rank] if self.members else rank


def places(
    rounds: Sequence[Sequence[dict[str, Any]]], *, place: Place, patience: timedelta, records: Records
) -> list[Place | None]:
    """Who this rank is in its group of each round, None where it has none and waits."""
    import torch.distributed as dist

    found: list[Place | None] = []
    for groups in rounds:
        mine = next((group for group in groups if place.rank in group["ranks"]), None)
        if mine is None:
            found.append(None)
            continue
        ranks = tuple(mine["ranks"])
        # Only its own ranks make a group: for all to make all of them takes minutes on many nodes.
        group = dist.new_group(list(ranks), timeout=patience, use_local_synchronization=True)
        records.advance()
        found.append(Place(ranks.index(place.rank), len(ranks), place.device, place.store, mine["name"], ranks, group))
    return found


def over_a_ring(place: Place, *, patience: timedelta) -> Place:
    """All ranks once more, in a communicator for which NCCL has no choice: it reads the variable for each."""
    import torch.distributed as dist

    os.environ["NCCL_ALGO"] = "Ring"
    return replace(place, group=dist.new_group(timeout=patience), name="NCCL_ALGO=Ring")


def largest(values: list[float], *, place: Place) -> list[float]:
    """The maximum over ranks of each value. All ranks get the same, so decisions taken on it agree everywhere."""
    import torch
    import torch.distributed as dist

    vector = torch.tensor(values, dtype=torch.float64, device=place.device)
    dist.all_reduce(vector, op=dist.ReduceOp.MAX, group=place.group)
    return [float(value) for value in vector.tolist()]
