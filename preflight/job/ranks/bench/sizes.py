"""At which sizes is an operation measured? At those asked for that leave memory free, or at one found by probing."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

from preflight.job.ranks.bench.groups import Place, largest
from preflight.job.ranks.bench.settings import MIB, Settings
from preflight.job.ranks.bench.trial import Trial
from preflight.job.ranks.rank.board import memory_of

if TYPE_CHECKING:
    import torch

    from preflight.job.ranks.bench.operations import Collective
    from preflight.job.ranks.rank.records import Records

MOST_BYTES = {"gloo": 256 * MIB, "nccl": 4096 * MIB}  # B200 alone rises beyond; checking more only takes time
ALONE_BYTES = 64 * MIB  # of a rank without others, which has nothing to send: no size takes long enough


def automatic_bytes(*, probe_bytes: int, probe_seconds: float, target_seconds: float, most_bytes: int) -> int:
    """The power of two, 1 MiB or more, whose operation should take nearest to `target_seconds`."""
    wanted = probe_bytes * target_seconds / probe_seconds
    nearest = 1 << max(20, round(math.log2(wanted)))
    return min(nearest, max(MIB, 1 << (most_bytes.bit_length() - 1)))


def free_bytes(device: torch.device) -> int:
    """Memory a rank may count on: the GPU's, or its part of what the host and its control group have left."""
    if device.type == "cuda":
        return memory_of(device)[0]
    with open("/proc/meminfo", encoding="ascii") as file:
        free = next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable:"))
    for most, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        try:
            with (
                open(f"/sys/fs/cgroup/{most}", encoding="ascii") as limit,
                open(f"/sys/fs/cgroup/{used}", encoding="ascii") as now,
            ):
                free = min(free, int(limit.read()) - int(now.read()))
        except (OSError, ValueError):  # the other version of control groups, or "max"
            continue
    return max(0, free) // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def most_bytes_of(collective: Collective, *, settings: Settings, place: Place) -> int:
    """The largest size whose buffers leave every rank most of its memory."""
    buffers = (1 if collective.in_place else 2) * settings.depth
    return int(-largest([-free_bytes(place.device) / 4 / buffers], place=place)[0])


def probed_bytes(collective: Collective, *, settings: Settings, place: Place, records: Records) -> int:
    """The size at which one operation takes about `target_seconds`.

    Probed again at the size found, because a small operation fits into a shaper's burst, or shows latency only.
    """
    wanted_most = ALONE_BYTES if place.ranks == 1 else MOST_BYTES[settings.backend]
    most = min(most_bytes_of(collective, settings=settings, place=place), wanted_most)
    target = settings.target_seconds / settings.depth
    size = MIB
    while True:
        trial = Trial(collective, size_bytes=size, place=place, dtype=settings.dtype, depth=settings.depth)
        trial.once()
        seconds = largest([trial.once()], place=place)[0]
        records.advance()
        wanted = automatic_bytes(probe_bytes=size, probe_seconds=seconds, target_seconds=target, most_bytes=most)
        if wanted <= size or seconds >= target / 4:
            return wanted
        size = min(wanted, 16 * size)


def sizes_of(collective: Collective, *, settings: Settings, place: Place, records: Records) -> tuple[int, ...]:
    """The requested sizes whose buffers fit into memory, the others being reported; or one size found by probing.

    MemoryError where none of those asked for fits.
    """
    sizes = tuple(settings.sizes_by_operation.get(collective.name, settings.sizes))
    if not sizes:
        return (probed_bytes(collective, settings=settings, place=place, records=records),)
    most = most_bytes_of(collective, settings=settings, place=place)
    fits = tuple(size for size in sizes if size <= most)
    if not fits:
        raise MemoryError(f"{collective.name} of {min(sizes)} bytes: the ranks have room for {most}")
    if fits != sizes and place.rank == 0:
        records.send({"record": "left_out", "op": collective.name, "bytes": max(sizes), "room_bytes": most})
    return fits
