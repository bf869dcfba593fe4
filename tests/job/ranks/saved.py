"""What do tests/data/said/ranked.txt list of a checkpoint: who writes, finds and reads it?"""

from __future__ import annotations

import os
import subprocess
import tempfile
import types
from collections.abc import Iterator
from functools import partial
from itertools import groupby, product
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint import state_dict

from preflight.job.ranks.training import checkpoint
from preflight.job.ranks.training.settings import Settings
from tests.instead import Asked, Noted, entries, instead, instead_of
from tests.job.ranks.meeting_cast import Moments
from tests.job.ranks.trained import place_of


def of_checkpoints() -> Iterator[str]:
    """Where a checkpoint lies, who writes it, in which pieces, and for how long it is looked for."""
    for given, environ in product(
        ({}, {"checkpoint_dir": "/c"}, {"drill": True}, {"checkpoint_dir": "/c", "drill": True, "steps": 7}),
        ({}, {"TMPDIR": "/t"}),
    ):
        with entries("os.environ", environ, clear=True):
            one = checkpoint.Checkpoint(settings=Settings(**given), place=place_of(1, 2), records=None)  # type: ignore[arg-type]
        told = [one.step, one.is_shared, one.path, one.error, one.bits, one.remover, one._key]
        yield f"{given} {environ}: {told}"
    for is_shared, rank, error in product((True, False), (0, 1), ("", "No space left on device")):
        with tempfile.TemporaryDirectory() as folder, entries("os.environ", {"TMPDIR": folder}):
            told = " | ".join(of_writing(folder, rank, error, is_shared=is_shared)).replace(folder, "FOLDER")
        yield f"{is_shared} {rank} {error}: {told}"
    for there, value in product((0.0, 3.0, 9.0), (5.0, 7.0)):
        clock = Moments()
        one = checkpoint.Checkpoint(settings=Settings(checkpoint_dir="/c"), place=place_of(2), records=None)  # type: ignore[arg-type]

        def digest(clock: Moments = clock, there: float = there, value: float = value) -> float:
            if clock.passed < there:
                raise FileNotFoundError(2, "No such file or directory")
            return value

        with instead_of(checkpoint, time=clock, from_every_rank=lambda _values, place: [[5.0], [0.0]]):
            one._digest = digest  # type: ignore[method-assign]
            yield f"{there} {value}: {one.find()!r} after {clock.passed:.1f} s"
    one.error = "of rank 0"
    with instead_of(checkpoint, from_every_rank=lambda _values, place: [[0.0], [5.0]]):
        yield f"nothing written: {one.find()!r}"
    yield from of_reading(one)


def of_reading(one: checkpoint.Checkpoint) -> Iterator[str]:
    """What is read of a checkpoint, and whether a rank goes on from it."""
    said: list[str] = []
    held = {"model": "m", "optimizer": "o", "step": 3}

    def sets(*words: Any, options: Any, **named: Any) -> None:
        said.append(f"sets {words} {named} {options.full_state_dict}")

    trainee: Any = types.SimpleNamespace(engine="engine", optimizer="optimizer")
    with (
        instead(torch, "load", lambda path, **named: said.append(f"loads {path} {named}") or held),
        instead(state_dict, "set_state_dict", sets),
    ):
        yield f"{one.read_into(trainee)} {said}"
    for error, others in product(("", "No such file"), ([0.0], [1.0])):
        asked: list[str] = []
        told = {
            "from_every_rank": lambda values, *, place: asked.append(f"exchanges {values}") or [others, values],  # noqa: B023
            "Trainee": lambda start, **_named: asked.append(f"a trainee from {start}"),  # noqa: B023
            "distance_of_losses": lambda _trainee, *words: asked.append(f"compares {words}") or 0.125,  # noqa: B023
        }
        file: Any = types.SimpleNamespace(
            find=lambda: asked.append("finds") or error,  # noqa: B023
            read_into=lambda _trainee: asked.append("reads") or 2,  # noqa: B023
            remove=lambda: asked.append("removes"),  # noqa: B023
        )
        data: Any = types.SimpleNamespace(settings="settings", place=place_of())
        batches, steps = ([f"{name} {number}" for number in range(4)] for name in ("batch", "step"))
        with instead_of(checkpoint, **told):
            found: Any = checkpoint.check_resuming("start", file, batches, steps, data=data)  # type: ignore[arg-type]
        yield f"{error} {others}: {found} {asked}"


def of_writing(folder: str, rank: int, error: str, *, is_shared: bool) -> Iterator[str]:
    """What a rank does for a checkpoint in this folder."""
    said: list[str] = []
    settings = Settings(**({"checkpoint_dir": folder} if is_shared else {"drill": True}), steps=6)
    records: Any = types.SimpleNamespace(doing="", advance=partial(said.append, "moves"))
    one = checkpoint.Checkpoint(settings=settings, place=place_of(rank, 2, first_here=1), records=records)

    def save(held: dict[str, Any], file: Any) -> None:
        said.append(f"saves {held} while it is {records.doing}")
        said.extend(str(file.write(b"x" * count)) for count in (3, 9, 8, 20))
        file.flush()
        if error:
            raise OSError(28, error)

    def state(*_words: Any, options: Any) -> tuple[str, str]:
        said.append(f"gathers {options.full_state_dict} {options.cpu_offload}")
        return "model", "optimizer"

    remover = Asked()
    started = Noted(remover)
    trainee: Any = types.SimpleNamespace(engine="engine", optimizer="optimizer")
    with (
        instead(checkpoint, "PIECE_BYTES", 8),
        instead(torch, "save", save),
        instead(state_dict, "get_state_dict", state),
        instead(subprocess, "Popen", started),
        instead(os, "fsync", lambda file: said.append(f"on the disk {file > 2}")),
        instead_of(
            checkpoint,
            advanced_with=lambda store, *, key, records: said.append(f"tells {store} {key}"),
            all_through=lambda store, *, ranks, key, records: said.append(f"waits for {ranks} at {store} {key}"),
            from_every_rank=lambda values, *, place: said.append(f"exchanges {values}"),
        ),
    ):
        one.write(trainee)
        yield from (f"{len(list(many))}x {line}" for line, many in groupby(said))
        left = sorted(path.name for path in Path(folder).iterdir())
        yield f"{left} {one.error} {one.bits:g} {one.remover is remover} {records.doing!r}"
        yield f"{started.words} {started.named}"
        one.remove()
        yield f"{said[-1]} {remover.said}"
