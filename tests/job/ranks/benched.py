"""What do tests/data/said/ranked.txt list of the benchmark of collectives: its parts, its sizes and its batches?"""

from __future__ import annotations

import os
import types
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from itertools import product
from typing import Any

import torch

from preflight.job.ranks import collectives, devices
from preflight.job.ranks.bench import groups
from preflight.job.ranks.bench.operations import COLLECTIVES
from preflight.job.ranks.bench.settings import Settings
from preflight.job.ranks.rank.limits import Planned
from tests.instead import entries, instead, instead_of
from tests.job.figures import figures
from tests.job.ranks.meeting_cast import Moments

CPU = torch.device("cpu")
GPU: Any = types.SimpleNamespace(type="cuda")


class Records:
    """What a rank reports, in one list with what it does."""

    def __init__(self, said: list[str], *, socket: bool = False) -> None:
        self.said, self.socket, self.rank, self.planned = said, socket, 1, Planned(ranks=8)

    def stage(self, name: str, **more: Any) -> None:
        """Where it is."""
        self.said.append(f"stage {name} {more or ''}".rstrip())

    def send(self, record: Any) -> None:
        """What it found."""
        self.said.append(f"sends {figures(record) if isinstance(record, dict) else record}")

    def advance(self) -> None:
        """It moved."""
        self.said.append("moves")

    @contextmanager
    def while_others_work(self) -> Iterator[None]:
        """It waits."""
        self.said.append("others work")
        yield
        self.said.append("and have")


def place_of(rank: int = 0, ranks: int = 2, *, device: Any = CPU, name: str = "", store: Any = None) -> groups.Place:
    """A rank among some."""
    return groups.Place(rank=rank, ranks=ranks, device=device, store=store, name=name)


def of_works() -> Iterator[str]:
    """The parts of the benchmark in their order, by what was asked for."""
    rounds = [[{"name": "a", "ranks": [0, 1]}], [{"name": "b", "ranks": [2, 3]}]]
    asked: tuple[dict[str, Any], ...] = (
        {},
        {"operations": ["all_reduce", "reduce"], "sizes": [8, 16, 32], "join_seconds": 20.0, "wait_seconds": 40.0},
        {"rounds": rounds, "sizes": [8]},
        {"holds_to_ring": True, "operations": ["reduce"]},
        {"pairs": [[[0, 1]]], "pair_bytes": 1 << 30, "operations": []},
        {"device_seconds": 0.5},
        {"backend": "nccl"},
        {"backend": "nccl", "device_seconds": 0.5, "wait_seconds": 40.0, "rounds": rounds, "mode": "pipelined"},
        {"backend": "nccl", "pairs": [[[0, 1]]], "holds_to_ring": True},
    )
    for given, has_node, is_forced in product(asked, (False, True), (False, True)):
        if (is_forced and "holds_to_ring" not in given) or (has_node and given and "backend" not in given):
            continue
        said: list[str] = []
        records: Any = Records(said, socket=has_node)
        environ = {"TMPDIR": "/t", "LOCAL_RANK": "0", **({"NCCL_ALGO": "Tree"} if is_forced else {})}
        with entries("os.environ", environ, clear=True), parts(said):
            collectives.work(given, records)
            dumped = [name for name in sorted(os.environ) if "DUMP" in name]
        yield f"{given} {has_node} {is_forced}: {dumped}"
        yield from (f"  {line}" for line in said)
    with instead(collectives, "live", lambda work: f"lives {work.__name__}"):
        yield f"{collectives.main()}"


@contextmanager
def parts(said: list[str]) -> Iterator[None]:
    """Each part only says that it is there, with what it is given."""

    def swept(*, settings: Settings, place: groups.Place, ahead: Any, **_more: Any) -> None:
        said.append(f"sweeps {settings.operations} in {place.name!r}, {ahead.cells} in all of {ahead.cap_seconds:g} s")
        ahead.cells -= 1

    def grouped(rounds: Any, *, place: Any, patience: timedelta, records: Any) -> list[Any]:
        said.append(f"{len(rounds)} rounds, each call within {patience.total_seconds():.2f} s")
        return [place_of(name="a"), None]

    def ringed(place: Any, *, patience: timedelta) -> groups.Place:
        said.append(f"a ring for {place.ranks}, each call within {patience.total_seconds():.2f} s")
        return place_of(name="ring")

    def met(backend: str, **named: Any) -> Any:
        said.append(f"meets by {backend} { {name: held for name, held in named.items() if name != 'records'} }")
        return types.SimpleNamespace(rank=1, ranks=2, device=CPU, store="store")

    def left(store: Any, **named: Any) -> None:
        said.append(f"leaves {store} {named}")

    def measured(device: Any, names: Any, *, seconds: float) -> dict[str, Any]:
        return {"record": f"device {device} {names}", "seconds": seconds}

    told = {
        "load_torch": lambda _records: 1.5,
        "meet": met,
        "joined": lambda world, *, nccl, records: said.append(f"joined {world.rank} {nccl!r} {records.rank}"),
        "nccl_in_use": lambda: "2.20",
        "leave_together": left,
        "places": grouped,
        "over_a_ring": ringed,
        "sweep": swept,
        "exchange": lambda *, settings, **_more: said.append(f"exchanges {settings.pairs}"),
        "largest": lambda values, *, place: said.append(f"largest {values} of {place.ranks}") or values,
        "nccl_lines": lambda path, begin=0: [f"lines of {path} from {begin}"],
        "bytes_so_far": len,
        "nccl_dump": lambda path: [f"dump {path}"],
        "gc": types.SimpleNamespace(freeze=partial(said.append, "freezes"), enable=partial(said.append, "collects")),
    }
    with instead_of(collectives, **told), instead(devices, "measured", measured):
        yield


def of_batches() -> Iterator[str]:
    """How many operations are timed at once until the median is known, or the time is up."""
    for took, noise, rank, more in product(
        (1e-4, 0.01, 0.07, 2.0),
        (0.0, 0.5),
        (0, 1),
        ({}, {"warmup": 0, "cap_seconds": 0.5}, {"mode": "pipelined", "min_iterations": 3, "max_iterations": 12}),
    ):
        clock, said, batches = Moments(), [], []
        clock.perf_counter = clock.monotonic  # type: ignore[attr-defined]

        def once(clock: Moments = clock, took: float = took, noise: float = noise) -> float:
            clock.sleep(took)
            return took * (1 + noise * (round(clock.passed / took) % 3))

        def largest(values: list[float], *, place: Any, batches: list[int] = batches) -> list[float]:
            batches.append(len(values))
            return values

        settings = Settings(**more)
        records: Any = Records(said)
        trial: Any = types.SimpleNamespace(
            place=place_of(rank), once=once, collective=COLLECTIVES["all_reduce"], bytes=64
        )
        ahead = collectives.Ahead(cells=3, cap_seconds=settings.cap_seconds)
        with instead_of(collectives, time=clock, largest=largest):
            times = collectives.time_until_settled(
                trial, began=clock.monotonic() - 0.2, settings=settings, records=records, ahead=ahead
            )
        lines = [line for line in said if line != "moves"]
        counts = f"{times.first:g} {len(times.own)} {len(times.slowest)} moves {len(said) - len(lines)}"
        yield f"{took:g} {noise:g} {rank} {more}: {batches} {counts} {lines[:1]} {len(lines)}"
    for given in ({}, {"operations": ("reduce", "gather"), "dtype": "int32", "mode": "pipelined"}):
        said = []
        settings = Settings(**given)
        told: dict[str, Any] = {
            "sizes_of": lambda collective, **_more: (4, len(collective.name)),
            "Trial": lambda collective, **named: said.append(f"tries {collective.name} {named}"),  # noqa: B023
            "time_until_settled": lambda _trial, *, began, **_more: said.append(f"times from {began}"),  # noqa: B023
            "report": lambda *_words, **_more: said.append("reports"),  # noqa: B023
            "time": types.SimpleNamespace(perf_counter=iter(range(99)).__next__),
        }
        ahead = collectives.Ahead(cells=4, cap_seconds=1.0)
        with instead_of(collectives, **told):
            collectives.sweep(settings=settings, place=place_of(), records=Records(said), ahead=ahead)  # type: ignore[arg-type]
        yield f"{given}: {said} {figures(ahead)}"
