"""What do tests/data/said/ranked.txt list of what ranks report of their steps, and do once more or alone?"""

from __future__ import annotations

import types
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

import torch
import torch.distributed as dist

from preflight.job.ranks.training import again, figures
from preflight.job.ranks.training.place import Place
from preflight.job.ranks.training.settings import Settings
from tests.instead import instead
from tests.job.ranks.benched import CPU
from tests.job.ranks.stepped import Ranks, place_of


def of_reports() -> Iterator[str]:
    """What ranks report of their steps, and rank 0 of all."""
    count = 12
    for ranks, spoilt in product((1, 2), ({}, {0: 5}, {0: 5, 1: 4}, {1: 11})):
        together = Ranks(ranks)
        said: list[list[Any]] = [[] for _ in range(ranks)]

        def work(rank: int, said: Any = said, spoilt: Any = spoilt, ranks: int = ranks) -> str:
            steps: Any = [
                types.SimpleNamespace(
                    loss=float("nan") if number == spoilt.get(rank) else 9.0 - number + rank,
                    seconds=1.0 + (number * 5 % 7) / 8 + rank,
                    communication_seconds=(number * 3 % 5) / 8,
                    finite=number < spoilt.get(rank, count),
                )
                for number in range(count)
            ]
            shape = types.SimpleNamespace(batch=4, length=10)
            given: Any = types.SimpleNamespace(place=place_of(rank, ranks), shape=shape)
            records: Any = types.SimpleNamespace(send=said[rank].append)
            for some in (steps, steps[:1]):
                figures.report_rank(some, {"found": rank}, data=given, records=records)
            figures.report_job(steps, begin=3, data=given, records=records, figures={"more": 1})
            return ""

        with instead(figures, "from_every_rank", together.from_every_rank):
            together.run(work)
        own = ("hostname", "memory_peak_bytes")
        for rank, records in enumerate(said):
            for record in records:
                yield f"{spoilt} {rank}: { {name: held for name, held in record.items() if name not in own} }"
    cuda = types.SimpleNamespace(type="cuda")
    with instead(torch.cuda, "max_memory_allocated", gives=7):
        yield f"{figures.memory_peak_bytes(cuda)}"  # type: ignore[arg-type]
    with instead(figures.resource, "getrusage", gives=types.SimpleNamespace(ru_maxrss=3)):
        yield f"{figures.memory_peak_bytes(CPU)}"


@contextmanager
def trainees(said: list[str]) -> Iterator[None]:
    """A trainee that only says what it is asked."""

    class Trainee:
        def __init__(self, start: str, *, settings: Settings, place: Place, group: Any = None) -> None:
            said.append(f"a trainee from {start} in {group}")
            self.optimizer = types.SimpleNamespace(zero_grad=lambda: said.append("forgets gradients"))
            self.model = "model"
            self.steps = 0

        def step(self, batch: Any) -> float:
            said.append(f"steps on {batch}")
            return float(batch)

        def backward(self, *parts: Any) -> None:
            said.append(f"goes back over {[part.tolist() for part in parts]}")

        def timed_step(self, batch: Any) -> Any:
            said.append(f"times a step on {batch}")
            self.steps += 1
            return types.SimpleNamespace(seconds=10.0 / self.steps)

    with instead(again, "Trainee", Trainee):
        yield


def of_repeats() -> Iterator[str]:
    """What is trained again, and by which nodes alone."""
    for strategy in ("ddp", "fsdp", "zero2"):
        said: list[str] = []
        place = place_of(0, 1, moved=lambda: None)
        given: Any = types.SimpleNamespace(place=place, settings=Settings(strategy=strategy, seed=3))
        batches: Any = [torch.tensor([4.0, 3.0, 2.0, 1.0]).view(4, 1)[number:] for number in range(4)]
        steps: Any = [types.SimpleNamespace(loss=loss) for loss in (1.0, 2.0, 4.0, 8.0)]
        prints = iter(([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 5.0]))
        with (
            trainees(said),
            instead(again, "held_gradients", lambda model: f"gradients of {model}"),
            instead(again, "fingerprint", lambda held, *, seed, moved: [float(seed), *next(prints), held]),  # noqa: B023
            instead(again, "distance", lambda ours, reference: f"{ours} {reference}"),
            instead(again, "distance_of_losses", lambda _trainee, some, then: (len(some), len(then))),
        ):
            yield f"{strategy}: {again.check_again('start', batches, steps, data=given)} {said}"  # type: ignore[arg-type]
    with trainees(said := []):
        trainee: Any = again.Trainee("start", settings=Settings(), place=place)  # type: ignore[arg-type]
        yield f"{again.distance_of_losses(trainee, [1.0, 3.0, 4.0], steps)} {said}"  # type: ignore[list-item]
    for firsts, strategy, count in product(((0, 0), (0, 1), (0, 0, 2)), ("ddp", "fsdp"), (1, 3, 9)):
        for rank in range(len(firsts)):
            said = []
            given = types.SimpleNamespace(
                place=place_of(rank, len(firsts), first_here=firsts[rank]), settings=Settings(strategy=strategy)
            )
            with (
                trainees(said),
                instead(
                    again,
                    "from_every_rank",
                    lambda held, *, place: said.append(f"all begin {held}") or [[float(one)] for one in firsts],  # noqa: B023
                ),
                instead(dist, "new_group", lambda *words, **named: f"group {words} {named}"),
            ):
                told = again.time_alone("start", list(range(count)), data=given)  # type: ignore[arg-type]
            yield f"{firsts} {strategy} {count} rank {rank}: {told} {said}"
