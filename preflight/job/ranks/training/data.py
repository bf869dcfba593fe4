"""Which samples does a rank train on? Its share of generated ones, as torch distributes it; was it the right one?"""

from __future__ import annotations

import hashlib
import statistics
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from preflight.job.ranks.training.model import SHAPES, Shape
from preflight.job.ranks.training.place import Place, from_every_rank

if TYPE_CHECKING:
    import torch

    from preflight.job.ranks.training.settings import Settings


def sample(index: int, shape: Shape) -> list[int]:
    """Sample `index`: a line through the vocabulary of slope 1, 2 or 3: each token follows from those before."""
    start, slope = index * 7919, 1 + index % 3
    return [(start + slope * place) % shape.vocabulary for place in range(shape.length + 1)]


class Data:
    """Every rank's samples, dealt by torch's DistributedSampler: one epoch, each sample once."""

    def __init__(self, *, settings: Settings, place: Place) -> None:
        self.shape, self.settings, self.place = SHAPES[settings.model], settings, place

    def indices(self, rank: int) -> list[int]:
        """All samples of a rank, in the order in which it uses them."""
        from torch.utils.data import DistributedSampler

        everything = range(self.settings.steps * self.shape.batch * self.place.ranks)
        sampler: Any = DistributedSampler
        return list(sampler(everything, num_replicas=self.place.ranks, rank=rank, seed=self.settings.seed))

    def batch(self, rank: int, step: int) -> torch.Tensor:
        """What a rank is shown at a step."""
        import torch

        chosen = self.indices(rank)[step * self.shape.batch : (step + 1) * self.shape.batch]
        return torch.tensor([sample(index, self.shape) for index in chosen], device=self.place.device)

    def load(self) -> tuple[list[torch.Tensor], float]:
        """Every batch of this rank, and the median seconds that making one took."""
        batches, seconds = [], []
        for step in range(self.settings.steps):
            started = time.perf_counter()
            batches.append(self.batch(self.place.rank, step))
            seconds.append(time.perf_counter() - started)
        return batches, statistics.median(seconds)


def check_samples(data: Data) -> dict[str, Any]:
    """Whether this rank's samples are those that it should have, how many others use too, and how many no rank uses.

    What it should have comes from the formula, without DistributedSampler, with the seed that most ranks have.
    """
    import torch

    place, settings = data.place, data.settings
    count = settings.steps * data.shape.batch
    mine = [*data.indices(place.rank), *[-1] * count][:count]
    everyones = from_every_rank([settings.seed, *mine], place=place)
    seed = Counter(int(one[0]) for one in everyones).most_common(1)[0][0]
    dealt = torch.randperm(count * place.ranks, generator=torch.Generator().manual_seed(seed)).tolist()
    others = {index for rank, one in enumerate(everyones) if rank != place.rank for index in one[1:]}
    return {
        "samples_digest": hashlib.sha256(",".join(map(str, mine)).encode()).hexdigest()[:16],
        "samples_right": mine == dealt[place.rank :: place.ranks],
        "samples_shared": sum(index in others for index in mine),
        "samples_missing": count * place.ranks - len(others.union(mine) - {-1}),
    }
