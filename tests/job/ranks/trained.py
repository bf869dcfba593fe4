"""What do tests/data/said/ranked.txt list of the reference training: its parts in their order?"""

from __future__ import annotations

import os
import types
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import groupby, product
from typing import Any

import torch
from torch import nn

from preflight.job.ranks import train
from preflight.job.ranks.training.place import Place
from preflight.job.ranks.training.settings import Settings
from tests.instead import entries, instead, instead_of
from tests.job.figures import figures
from tests.job.ranks.benched import CPU, Records


def place_of(rank: int = 0, life: int = 0, **more: Any) -> Place:
    """A rank of three, the second of its node."""
    given = {"first_here": rank - 1, "import_seconds": 1.5, "store": "store", **more}
    return Place(rank=rank, ranks=3, device=CPU, life=life, **given)


def model() -> nn.Module:
    """A small one: 6 parameters of four bytes."""
    made: Any = nn.Linear(2, 2)
    return made


def of_trainings() -> Iterator[str]:
    """The parts of a training in their order, by what was asked for."""
    asked: tuple[dict[str, Any], ...] = (
        {"steps": 3},
        {"steps": 4, "checkpoint_dir": "/c", "strategy": "fsdp", "seed": 5},
        {"steps": 4, "drill": True},
        {"steps": 4, "checkpoint_dir": "/c", "drill": True, "dying_rank": 1, "dying_step": 2},
    )
    for given, rank, life in product(asked, (0, 1), (0, 1)):
        if not given.get("drill") and (rank, life) != (0, 0):
            continue
        said: list[str] = []
        records: Any = Records(said)
        with parts(said):
            train.train(settings=Settings(**given), place=place_of(rank, life), records=records)
        yield f"{given} rank {rank} life {life}: {records.planned.stored_bytes} bytes stored"
        yield from (f"  {len(list(many))}x {line}" for line, many in groupby(said))


@contextmanager
def parts(said: list[str]) -> Iterator[None]:
    """Each part only says that it is there, with what it is given."""

    def says(name: str, told: Any) -> Any:
        def one(*words: Any, **named: Any) -> Any:
            shown = [word for word in (*words, *named.values()) if isinstance(word, int | str | list | dict)]
            said.append(f"{name} {figures([of(word) for word in shown])}")
            return told

        return one

    def of(word: Any) -> Any:
        return f"of {len(word)}" if isinstance(word, list) and word and not isinstance(word[0], int | float) else word

    class Data:
        shape = None

        def __init__(self, *, settings: Any, place: Any) -> None:
            self.settings = settings

        def load(self) -> tuple[list[str], float]:
            return [f"batch {number}" for number in range(self.settings.steps)], 0.25

    class Trainee:
        def __init__(self, start: nn.Module, **_more: Any) -> None:
            self.model = model()
            self.wire = types.SimpleNamespace(keeps_what_is_sent=None)
            said.append("a trainee")

        def timed_step(self, batch: str) -> str:
            said.append(f"steps on {batch}, keeps {self.wire.keeps_what_is_sent}")
            return f"step on {batch}"

        def optimizer_state(self) -> list[str]:
            return ["moments"]

    class Checkpoint:
        def __init__(self, *, settings: Any, **_more: Any) -> None:
            self.step, self.path = settings.steps // 2, settings.checkpoint_dir
            said.append(f"a checkpoint after {self.step}")

        def read_into(self, _trainee: Any) -> int:
            said.append("reads")
            return self.step

        def write(self, _trainee: Any) -> None:
            said.append("writes")

    told = {
        "Data": Data,
        "build_model": lambda _shape: model(),
        "Trainee": Trainee,
        "Checkpoint": Checkpoint,
        "Quota": lambda: said.append("counts periods") or types.SimpleNamespace(held=lambda: (3, 7)),
        "check_first_step": says("looks at the first step", {"gradient_error": 0.5}),
        "check_samples": says("looks at samples", {"samples_missing": 2, "samples_right": True}),
        "check_again": says("trains again", {"replay_error": 0.125}),
        "check_resuming": says("resumes", {"resume_error": 0.0}),
        "time_alone": says("times alone", 0.75),
        "digest": lambda held, *, moved: f"digest of {len(held)}",
        "report_rank": says("reports", None),
        "report_job": says("reports of all", None),
        "gc": types.SimpleNamespace(freeze=partial(said.append, "freezes"), enable=partial(said.append, "collects")),
    }
    with (
        instead_of(train, **told),
        instead(os, "kill", lambda _pid, number: said.append(f"ends itself with {number}")),
        instead(torch, "manual_seed", lambda seed: said.append(f"seed {seed}")),
    ):
        yield


def of_joining() -> Iterator[str]:
    """How a rank of the training joins the others, and leaves them."""
    for given, environ, has_node in product(
        ({}, {"backend": "nccl", "wait_seconds": 40.0, "join_seconds": 20.0}),
        ({}, {"LOCAL_RANK": "2", "TORCHELASTIC_RESTART_COUNT": "3", "ACCELERATE_MIXED_PRECISION": "no"}),
        (False, True),
    ):
        said: list[str] = []

        def met(backend: str, said: list[str] = said, **named: Any) -> Any:
            said.append(f"meets by {backend} { {name: held for name, held in named.items() if name != 'records'} }")
            return types.SimpleNamespace(rank=5, ranks=8, device=CPU, store="store")

        records: Any = Records(said, socket=has_node)
        told = {
            "load_torch": lambda _records: 1.5,
            "load_the_rest": partial(said.append, "loads the rest"),
            "meet": met,
            "look_through_accelerate": lambda place: said.append(f"looks through accelerate as {place.rank}"),  # noqa: B023
            "from_every_rank": lambda values, *, place: said.append(f"exchanges {values} {place.first_here}"),  # noqa: B023
            "joined": lambda world, *, nccl, records: said.append(f"joined {world.rank} {nccl!r}"),  # noqa: B023
            "keep_what_is_written": lambda rank: said.append(f"keeps what {rank} writes"),  # noqa: B023
            "leave_together": lambda store, **named: said.append(f"leaves {store} {named}"),  # noqa: B023
            "train": lambda *, settings, place, records: said.append(  # noqa: B023
                f"trains {settings.backend} life {place.life} {place.import_seconds:g} {place.store}"
            ),
        }
        nccl = types.SimpleNamespace(version=lambda: (2, 20, 5))
        with (
            instead_of(train, **told),
            entries("os.environ", environ, clear=True),
            instead(torch.cuda, "nccl", nccl),
        ):
            train.work(given, records)
        yield f"{given} {environ} {has_node}: {said}"
    with instead(train, "live", lambda work: f"lives {work.__name__}"):
        yield f"{train.main()}"
