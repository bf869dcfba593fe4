"""What do tests/data/said/ranked.txt list of the first step and the samples of several ranks?"""

from __future__ import annotations

import threading
import types
from collections.abc import Iterator
from copy import deepcopy
from itertools import product
from typing import Any

import torch
from torch import nn

from preflight.job.ranks.training import data, first_step
from preflight.job.ranks.training.place import Place
from preflight.job.ranks.training.settings import Settings
from tests.instead import instead
from tests.job.ranks.benched import CPU


class Small(nn.Module):
    """Six parameters whose gradients other samples change, in double precision: nothing of them is rounding."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([[0.3, -0.7], [0.2, 0.9]], dtype=torch.float64))
        self.bias = nn.Parameter(torch.tensor([0.1, -0.4], dtype=torch.float64))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """A loss."""
        return ((tokens.double() @ self.weight + self.bias) ** 3).abs().mean() / 1000


class Wrong(Small):
    """One that computes otherwise."""

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Half as much again."""
        return super().forward(tokens) * 1.5


class Ranks:
    """Several ranks, each a thread: what one gives to the others, all have."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.barrier = threading.Barrier(count, timeout=60)
        self.given: dict[int, list[float]] = {}

    def from_every_rank(self, values: list[float], *, place: Place) -> list[list[float]]:
        """In rank order."""
        self.given[place.rank] = list(values)
        self.barrier.wait()
        found = [self.given[rank] for rank in range(self.count)]
        self.barrier.wait()
        return found

    def run(self, work: Any) -> list[Any]:
        """What each rank found."""
        found: dict[int, Any] = {}

        def one(rank: int) -> None:
            try:
                found[rank] = work(rank)
            except BaseException as error:
                found[rank] = repr(error)
                self.barrier.abort()

        threads = [threading.Thread(target=one, args=(rank,)) for rank in range(self.count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [found[rank] for rank in range(self.count)]


def place_of(rank: int, ranks: int, **more: Any) -> Place:
    """A rank among some."""
    return Place(rank, ranks, CPU, import_seconds=0.5, life=0, **{"first_here": rank, **more})


def of_first_steps() -> Iterator[str]:
    """Who is blamed where one of several ranks sends, computes or moves otherwise, and whose samples each computes."""
    for ranks, wrong in product((1, 2, 3, 5), ("nothing", "sent", "computed", "moved", "in shards")):
        for world in (16, 1):
            together = Ranks(ranks)
            settings = Settings(reference_world=world, weight_decay=0.3)

            def work(rank: int, wrong: str = wrong, settings: Any = settings, ranks: int = ranks) -> str:
                return one_step(rank, ranks, wrong if rank == ranks // 2 or wrong == "in shards" else "", settings)

            with instead(first_step, "from_every_rank", together.from_every_rank):
                told = together.run(work)
            yield f"{ranks} ranks, {wrong}, {world}:"
            yield from (f"  {line}" for line in told)


def batch(rank: int, step: int) -> torch.Tensor:
    """The samples of a rank."""
    return torch.tensor([[rank + 1, 2 - rank], [step + 3, rank]])


def one_step(rank: int, ranks: int, wrong: str, settings: Settings) -> str:
    """What a rank finds of its first step."""
    asked: list[str] = []
    moves: list[int] = []
    trained, copied = Small(), Wrong() if wrong == "computed" else Small()
    copied.load_state_dict(trained.state_dict())
    plain = deepcopy(trained)
    own = first_step.gradients_of(plain, batch(rank, 0), "fp32")
    sent = {
        id(one): grad * (1.5 if wrong == "sent" else 1) for one, grad in zip(trained.parameters(), own, strict=True)
    }
    whole = first_step.gradients_of(plain, torch.cat([batch(one, 0) for one in range(ranks)]), "fp32")
    with torch.no_grad():
        for parameter, gradient in zip(trained.parameters(), whole, strict=True):
            adamw(parameter, gradient * (1.5 if wrong == "moved" else 1), settings)

    def asks(one: int, step: int) -> torch.Tensor:
        asked.append(f"{one}/{step}")
        return batch(one, step)

    trainee: Any = types.SimpleNamespace(
        model=trained, wire=types.SimpleNamespace(sent={} if wrong == "in shards" else sent)
    )
    given: Any = types.SimpleNamespace(
        place=place_of(rank, ranks, moved=lambda: moves.append(1)), settings=settings, batch=asks
    )
    found = first_step.check_first_step(trainee, copied, data=given)
    told = " ".join(f"{name}={float(value):.3f}" for name, value in found.items())
    return f"{rank}: {told} {' '.join(asked)}, {len(moves)} moves"


def adamw(parameter: torch.Tensor, gradient: torch.Tensor, settings: Settings) -> None:
    """The optimizer's first step, by its moments."""
    first, second = 0.1 * gradient, 0.001 * gradient**2
    parameter.mul_(1 - settings.learning_rate * settings.weight_decay)
    parameter.sub_(settings.learning_rate * (first / 0.1) / ((second / 0.001).sqrt() + settings.epsilon))


def of_samples() -> Iterator[str]:
    """Which samples each of several ranks says are wrong, shared and missing."""
    tokens = [data.sample(index, data.SHAPES["tiny"]) for index in (0, 1, 2, 5)]
    yield f"{[(one[:3], one[-1], len(one)) for one in tokens]}"
    for ranks, wrong in product((1, 2, 3), ("nothing", "another's shard", "another seed", "too few", "nothing at all")):
        together = Ranks(ranks)

        def work(rank: int, ranks: int = ranks, wrong: str = wrong) -> str:
            is_wrong = rank == ranks - 1
            seed = 99 if is_wrong and wrong == "another seed" else 7
            one = data.Data(settings=Settings(steps=2, seed=seed), place=place_of(rank, ranks))
            own = one.indices(0 if is_wrong and wrong == "another's shard" else rank)
            own = own[:5] if is_wrong and wrong == "too few" else own
            one.indices = lambda _rank: [] if is_wrong and wrong == "nothing at all" else own  # type: ignore[method-assign]
            return f"{data.check_samples(one)}"

        with instead(data, "from_every_rank", together.from_every_rank):
            yield from (f"{ranks} {wrong}: {one}" for one in together.run(work))
    one = data.Data(settings=Settings(steps=3, seed=7), place=place_of(1, 2))
    clock = iter((0.0, 1.0, 5.0, 7.0, 10.0, 16.0))
    with instead(data, "time", types.SimpleNamespace(perf_counter=clock.__next__)):
        batches, seconds = one.load()
    yield f"{[[row[:2].tolist() for row in held] for held in batches]} {seconds}"
    yield f"{[one.batch(rank, 1)[:, 0].tolist() for rank in (0, 1)]} {one.indices(1)}"
