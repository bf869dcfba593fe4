"""What do tests/data/said/ranked.txt list of sizes, pairs, groups and operations, and what torch is asked?"""

from __future__ import annotations

import builtins
import codecs
import contextlib
import io
import os
import types
from collections.abc import Iterator
from datetime import timedelta
from itertools import groupby, product
from typing import Any

import torch
import torch.distributed as dist

from preflight.job.ranks.bench import groups, operations, pairs, sizes
from preflight.job.ranks.bench.settings import MIB, Settings
from tests.instead import entries, instead, instead_of
from tests.job.ranks.alone import Event
from tests.job.ranks.benched import CPU, GPU, Records, place_of
from tests.job.ranks.meeting_cast import Moments

MEMORY = "MemTotal:       9 kB\nMemAvailable:   4096 kB\nMemFree: 1 kB\n"
SECOND = {"memory.max": "3000000\n", "memory.current": "1000000\n"}
FIRST = {"memory/memory.limit_in_bytes": "2000000\n", "memory/memory.usage_in_bytes": "500000\n"}
FILES: dict[str, dict[str, str]] = {
    "no group": {},
    "the second version": SECOND,
    "without a limit": {**SECOND, "memory.max": "max\n"},
    "the first version": FIRST,
    "both": {**SECOND, **FIRST},
    "a large limit": {**SECOND, "memory.max": "90000000\n"},
    "more than the limit": {**SECOND, "memory.current": "3000001\n"},
}


def of_sizes() -> Iterator[str]:
    """How much memory is counted on, and at which sizes an operation is measured."""
    for (name, files), local in product(FILES.items(), ("", "3")):

        def opened(path: str, files: dict[str, str] = files, *, encoding: str) -> io.StringIO:
            codecs.lookup(encoding)
            if path == "/proc/meminfo":
                return io.StringIO(MEMORY)
            if path.removeprefix("/sys/fs/cgroup/") not in files:
                raise FileNotFoundError(path)
            return io.StringIO(files[path.removeprefix("/sys/fs/cgroup/")])

        environ = {"LOCAL_WORLD_SIZE": local} if local else {}
        with instead(builtins, "open", opened), entries("os.environ", environ, clear=True):
            free = sizes.free_bytes(CPU)
        yield f"{name} {local}: {free}"
    with instead(torch.cuda, "mem_get_info", gives=(5, 9)), instead(torch.cuda, "get_device_properties", gives=None):
        yield f"a GPU: {sizes.free_bytes(GPU)}"
    tried: list[int] = []

    def trial(_collective: Any, *, size_bytes: int, place: Any, dtype: str, depth: int) -> Any:
        tried.append(size_bytes)
        return types.SimpleNamespace(once=lambda: tried.append(0) or 1e-4 + size_bytes / rate / depth)

    def largest(values: list[float], *, place: Any) -> list[float]:
        return [one if one < 0 else one * 1.5 for one in values]

    rows = [operations.COLLECTIVES[name] for name in ("all_reduce", "all_gather")]
    asked: tuple[dict[str, Any], ...] = (
        {},
        {"mode": "pipelined", "backend": "nccl"},
        {"sizes": (1 << 10, 1 << 25, 1 << 28)},
        {"sizes": (1 << 10,), "sizes_by_operation": {"all_gather": (1 << 11, 1 << 12)}},
        {"sizes": (1 << 38, 1 << 37)},
    )
    for row, given, rate, free in product(rows, asked, (1e6, 1e9, 4e11), (1 << 26, 1 << 36)):
        for rank, ranks in ((0, 2), (1, 2), (0, 1)):
            if (rank or given.get("sizes")) and rate != 1e9:
                continue
            tried.clear()
            said: list[str] = []
            with instead_of(sizes, free_bytes=lambda _device, free=free: free, Trial=trial, largest=largest):
                try:
                    place = place_of(rank, ranks)
                    told: Any = sizes.sizes_of(row, settings=Settings(**given), place=place, records=Records(said))  # type: ignore[arg-type]
                except MemoryError as error:
                    told = error
            seen = " ".join(str(one // MIB) if one else "-" for one in tried)
            yield f"{row.name} {given} {rate:g} {free >> 20} rank {rank} of {ranks}: {told} {seen} {said}"


def of_pairs() -> Iterator[str]:
    """Who sends how much to whom in which round, and what is told of it; how a message is timed."""
    rounds = (((0, 1), (2, 3)), ((1, 2),), ((3, 0), (1, 2)))
    for rank, rate, whole in product(range(4), (1e7, 1e9), (MIB // 2, 4 * MIB, 64 * MIB)):
        said: list[str] = []
        count = iter(range(1, 99))

        def passed(message: Any, *, other: int, place: Any, is_source: bool, said: list[str] = said) -> float:
            said.append(f"{'to' if is_source else 'from'} {other} {len(message)}")
            return len(message) / rate * (1 + next(count) % 4 / 8)  # noqa: B023

        kept: Any = types.SimpleNamespace(
            set=lambda key, value: said.append(f"sets {key} {value}"),  # noqa: B023
            get=lambda key: said.append(f"gets {key}") or b"70000",  # noqa: B023
        )
        settings = Settings(pairs=rounds, pair_bytes=whole)
        with instead(pairs, "send_or_receive", passed):
            place = place_of(rank, 4, store=kept)
            pairs.exchange(settings=settings, place=place, records=Records(said))  # type: ignore[arg-type]
        told = [f"{len(list(many))}x {line}" for line, many in groupby(line for line in said if line != "moves")]
        yield f"{rank} {rate:g} {whole}: {said.count('moves')} moves | {' | '.join(told)}"
    for device, is_source in product((CPU, GPU), (True, False)):
        said = []
        clock = Moments()
        clock.perf_counter = clock.monotonic  # type: ignore[attr-defined]

        def started(some: list[Any], said: list[str] = said, clock: Moments = clock) -> list[Any]:
            said.append(f"starts {some}")
            clock.sleep(2.5)
            return []

        with (
            instead(pairs, "time", clock),
            instead(dist, "P2POp", lambda run, *words: (run.__name__, *words)),
            instead(dist, "batch_isend_irecv", started),
            instead(torch.cuda, "Event", Event),
        ):
            place = place_of(device=device)
            took = pairs.send_or_receive("message", other=3, place=place, is_source=is_source)  # type: ignore[arg-type]
        yield f"{device.type} {is_source}: {took:g} {said}"


def of_groups() -> Iterator[str]:
    """Which groups a rank makes, how the largest is found, and what each operation asks of torch."""
    rounds: Any = [[{"name": "a", "ranks": [4, 2]}, {"name": "b", "ranks": [1, 3]}], [{"name": "c", "ranks": [1, 2]}]]
    said: list[str] = []

    def group(*words: Any, **named: Any) -> str:
        said.append(f"makes {words} {named}")
        return "group"

    with instead(dist, "new_group", group), entries("os.environ", {}, clear=True):
        for rank in (0, 2, 3):
            found = groups.places(
                rounds,
                place=place_of(rank, 5, store="store"),
                patience=timedelta(seconds=7),
                records=Records(said),  # type: ignore[arg-type]
            )
            yield f"{rank}: {found} {said}"
            said.clear()
        ring = groups.over_a_ring(place_of(1, 5, store="store"), patience=timedelta(seconds=7))
        yield f"{ring} {said} {dict(os.environ)}"
    asked: list[Any] = []
    with instead(
        dist,
        "all_reduce",
        lambda held, **named: asked.append((held.dtype, named["op"] == dist.ReduceOp.MAX, named["group"])),
    ):
        yield f"{groups.largest([3.0, -1.5], place=place_of())} {asked}"
    yield from of_operations()


def of_operations() -> Iterator[str]:
    """Each operation as torch is asked for it, by rank, in a group of other numbers."""
    members = (7, 8, 9)
    for name, row in operations.COLLECTIVES.items():
        for rank, is_async in product((0, 1, 2), (False, True)):
            said: list[str] = []

            def asks(*words: Any, _name: str, said: list[str] = said, **named: Any) -> Any:
                shown = [
                    [one.tolist() for one in word] if isinstance(word, list) and torch.is_tensor(word[0]) else word
                    for word in words
                ]
                said.append(f"{_name}{[w.tolist() if torch.is_tensor(w) else w for w in shown]} {named}")
                work = types.SimpleNamespace(wait=lambda: said.append("waits"))
                return [work, work] if _name.startswith("batch") else None

            place = groups.Place(rank, 3, CPU, None, "g", members, "group")
            with contextlib.ExitStack() as stack:
                for one in ASKED:
                    stack.enter_context(instead(dist, one, _named(asks, one)))
                for one in RENAMED:  # in newer versions of torch
                    held: Any = _named(asks, one) if rank == 2 else None
                    stack.enter_context(instead(dist, one, held))
                stack.enter_context(instead(dist, "P2POp", operation))
                row.run(torch.tensor([1, 2, 3]), torch.tensor([4, 5, 6]), place, is_async)
            yield f"{name} {rank} {is_async}: {said}"
    kept = torch.tensor([0, 0])
    row = operations.COLLECTIVES["sendrecv"]
    yield f"alone: {row.run(torch.tensor([1, 2]), kept, place_of(0, 1), False)} {kept.tolist()}"


ASKED = (
    *("all_reduce", "broadcast", "reduce", "all_gather_into_tensor", "reduce_scatter_tensor", "all_to_all_single"),
    *("gather", "scatter", "batch_isend_irecv"),
)
RENAMED = ("all_gather_single", "reduce_scatter_single")


def operation(run: Any, held: Any, *words: Any) -> tuple[Any, ...]:
    """One of a batch."""
    return (run.__name__, held.tolist(), *words)


def _named(asks: Any, name: str) -> Any:
    return lambda *words, **named: asks(*words, _name=name, **named)
