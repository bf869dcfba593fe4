"""How fast do collectives run over these ranks, and is what they deliver right? Every rank times and checks.

By hand, on CPU (gloo); every rank prints its records, one JSON object a line:

    torchrun --nproc-per-node=2 collectives.py
    torchrun --nnodes=2 --node-rank=N --nproc-per-node=1 --master-addr=HOST --master-port=29500 collectives.py
    RANK=N WORLD_SIZE=2 MASTER_ADDR=HOST MASTER_PORT=29500 python collectives.py

Settings are a JSON object: PREFLIGHT_SETTINGS='{"backend": "nccl", "operations": ["all_reduce", "broadcast"]}'.
"""

from __future__ import annotations

import gc
import json
import math
import os
import socket
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

MIB = 1 << 20
MOST_BYTES = {"gloo": 256 * MIB, "nccl": 4096 * MIB}  # B200 alone rises beyond; checking more only takes time
ALONE_BYTES = 64 * MIB  # of a rank without others, which has nothing to send: no size takes long enough
GO_SECONDS = 150.0  # by then the controller has long stopped waiting
AFTER_SECONDS = 5.0  # torch's watchdog needs so long to write its file and to end the process
ERROR_CHARACTERS = 4000  # the last lines of NCCL's error hold the cause
PERIOD = 1021  # a prime: data moved by any power of two does not fit
# The whole numbers up to which a type holds every one, so that sums of them are exact in any order.
EXACT = {
    "float32": 1 << 24,
    "float64": 1 << 53,
    "float16": 1 << 11,
    "bfloat16": 1 << 8,
    "int64": 1 << 62,
    "int32": (1 << 31) - 1,
    "int8": 127,
    "uint8": 255,
}
PIPELINED = 4  # operations of a train: enough for the next to start while the one before ends
TILE_PERIODS = {"cpu": 256, "cuda": 16384}  # a CPU tile of 1 MiB stays in its cache
TILES_BYTES = {"cpu": 128 * MIB, "cuda": 1024 * MIB}  # of all tiles together: of all_to_all 1,024 ranks have 2,048

Layout = tuple[tuple[int, ...], ...]  # a buffer's segments; each holds the sum of the patterns of its keys


# ---- settings and records --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Settings:
    """What to run. No `sizes` means one size per operation, found by probing."""

    backend: str = "gloo"
    operations: tuple[str, ...] = ("all_reduce",)
    sizes: tuple[int, ...] = ()
    sizes_by_operation: dict[str, tuple[int, ...]] = field(default_factory=dict)  # instead of `sizes`, for these
    dtype: str = "float32"
    mode: str = "blocking"  # one operation at a time, its latency in it; or "pipelined", several on their way at once
    target_seconds: float = 0.15  # of one operation at the size found; 16 MiB and more on a 1 Gbit link
    cap_seconds: float = 6.0  # of one operation at one size, all iterations
    warmup: int = 2
    min_iterations: int = 8
    max_iterations: int = 50
    ci: float = 0.01  # stop once the median is known to +- this share
    join_seconds: float = 30.0
    holds_to_ring: bool = False  # measure the all-reduce once more over a ring, whose bandwidth is that of the links
    pairs: tuple[tuple[tuple[int, int], ...], ...] = ()  # rounds of (who sends, who receives), after all else
    pair_bytes: int = 256 * MIB  # of a message between two ranks, at most
    device_seconds: float = 0.0  # for which each GPU first works by itself: matrices, then its memory
    wait_seconds: float = 45.0  # for an operation of NCCL: InfiniBand sends again for 30 s, then names the peer
    rounds: tuple[tuple[dict[str, Any], ...], ...] = ()  # groups that measure at once: {"name": ..., "ranks": [...]}

    @property
    def depth(self) -> int:
        """How many operations are on their way at once."""
        return PIPELINED if self.mode == "pipelined" else 1


class Records:
    """JSON lines to the local socket that PREFLIGHT_RECORDS names, or to stdout when started by hand."""

    def __init__(self, *, rank: int) -> None:
        self.rank = rank
        self.at = "import"
        self.moved = time.monotonic()
        self.socket = None
        if "PREFLIGHT_RECORDS" in os.environ:
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.socket.connect("\0" + os.environ["PREFLIGHT_RECORDS"])
            self.socket.sendall(json.dumps({"rank": rank}).encode() + b"\n")

    def send(self, record: dict[str, Any]) -> None:
        """One record; a line is written whole, so that ranks sharing a terminal do not mix theirs."""
        if self.socket:
            self.socket.sendall(json.dumps(record, allow_nan=False).encode() + b"\n")
        else:
            os.write(1, json.dumps({"rank": self.rank, **record}).encode() + b"\n")

    def await_go(self) -> None:
        """Wait until every rank has imported torch: none is to time out because another's file system is slow."""
        if self.socket:
            self.socket.settimeout(GO_SECONDS)
            with suppress(socket.timeout):  # then the time-outs of c10d hold
                self.socket.recv(16)
            self.socket.settimeout(None)

    def stage(self, name: str, **what: Any) -> None:
        """Where this rank is now: a rank that hangs is found by the last stage it sent."""
        self.at = name
        self.moved = time.monotonic()
        self.send({"record": "stage", "stage": name, **what})


# ---- figures: plain arithmetic, no torch -----------------------------------------------------------------------------


def quantile(values: list[float], share: float) -> float:
    """The value below which `share` of the values lie, between neighbours in proportion."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def median_interval(values: list[float]) -> tuple[float, float]:
    """The 95 % interval of the median from order statistics: no assumption about the distribution.

    The median lies below the k-th of n ordered values with the chance that a fair coin shows fewer than k heads in
    n throws. Six values are the fewest that give 95 %: with fewer the interval is their whole range.
    """
    ordered = sorted(values)
    count, outside, rank = len(ordered), 0.5 ** len(ordered), 0
    while True:
        following = outside + math.comb(count, rank + 1) * 0.5**count
        if following > 0.025 or 2 * (rank + 1) >= count:
            return ordered[rank], ordered[count - 1 - rank]
        outside, rank = following, rank + 1


def is_settled(seconds: list[float], *, ci: float) -> bool:
    """Whether the median of these is known to +- `ci` of itself."""
    low, high = median_interval(seconds)
    return len(seconds) >= 6 and high - low <= 2 * ci * quantile(seconds, 0.5)


def automatic_bytes(*, probe_bytes: int, probe_seconds: float, target_seconds: float, most_bytes: int) -> int:
    """The power of two, 1 MiB or more, whose operation should take nearest to `target_seconds`."""
    wanted = probe_bytes * target_seconds / probe_seconds
    nearest = 1 << max(20, round(math.log2(wanted)))
    return min(nearest, max(MIB, 1 << (most_bytes.bit_length() - 1)))


def pattern(index: int, key: int, levels: int = PERIOD) -> int:
    """Element `index` of the pattern `key`: one of `levels` whole numbers from 0."""
    return (index * 131 + key * 17) % PERIOD % levels


def levels_of(dtype: str, *, ranks: int) -> int:
    """How many different values a pattern may have, that the sum over all ranks is exact in this type."""
    levels = min(PERIOD, EXACT[dtype] // ranks + 1)
    if levels < 2:
        raise ValueError(f"sums over {ranks} ranks are not exact in {dtype}: take float32")
    return levels


# ---- who measures together -------------------------------------------------------------------------------------------


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


def places(rounds: Sequence[Sequence[dict[str, Any]]], *, place: Place, patience: timedelta) -> list[Place | None]:
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
        found.append(Place(ranks.index(place.rank), len(ranks), place.device, place.store, mine["name"], ranks, group))
    return found


def over_a_ring(place: Place, *, patience: timedelta) -> Place:
    """All ranks once more, in a communicator for which NCCL has no choice: it reads the variable for each."""
    import torch.distributed as dist

    os.environ["NCCL_ALGO"] = "Ring"
    return replace(place, group=dist.new_group(timeout=patience), name="NCCL_ALGO=Ring")


def meet(place: Place, number: int) -> None:
    """Wait until all ranks are through a round; rank 0, which keeps the store, leaves last.

    In the store: in a collective the ranks that wait would give up, and keep their GPU busy.
    """
    for step in ("done", "heard"):
        key = f"preflight/{number}/{step}"
        if place.store.add(key, 1) == place.ranks:
            place.store.set(f"{key}/all", "")
        if step == "done" or place.rank == 0:
            place.store.wait([f"{key}/all"], timedelta(hours=1))  # as long as the controller lets us


# ---- the collectives: one row each -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Collective:
    """One operation. Its size in bytes is that of the longer of its two buffers, as nccl-tests counts it."""

    name: str
    run: Callable[[torch.Tensor, torch.Tensor, Place, bool], Any]  # (send, receive, place, is_async) -> works
    sends: Callable[[int, int], Layout]  # (rank, ranks) -> what this rank puts in
    receives: Callable[[int, int], Layout]  # ... and what must be there afterwards
    bus_factor: Callable[[int], float]  # ranks -> busbw / algbw, as nccl-tests
    in_place: bool
    sums: bool = False  # adds up what the ranks put in


def run_all_reduce(send: torch.Tensor, _receive: torch.Tensor, place: Place, is_async: bool) -> Any:
    """The sum, everywhere."""
    import torch.distributed as dist

    return dist.all_reduce(send, group=place.group, async_op=is_async)


def run_broadcast(send: torch.Tensor, _receive: torch.Tensor, place: Place, is_async: bool) -> Any:
    """From rank 0 to all."""
    import torch.distributed as dist

    return dist.broadcast(send, src=place.world(0), group=place.group, async_op=is_async)


def run_sendrecv(send: torch.Tensor, receive: torch.Tensor, place: Place, is_async: bool) -> Any:
    """Each rank sends to the next and receives from the one before."""
    import torch.distributed as dist

    if place.ranks == 1:
        receive.copy_(send)
        return None
    # The receive first: on gloo its notice would otherwise queue behind our payload, which halves the rate.
    before, after = (place.world((place.rank + step) % place.ranks) for step in (-1, 1))
    receiving = dist.P2POp(dist.irecv, receive, before, place.group)
    works = dist.batch_isend_irecv([receiving, dist.P2POp(dist.isend, send, after, place.group)])
    return works if is_async else finish(works)


def run_reduce(send: torch.Tensor, _receive: torch.Tensor, place: Place, is_async: bool) -> Any:
    """The sum, on rank 0."""
    import torch.distributed as dist

    return dist.reduce(send, dst=place.world(0), group=place.group, async_op=is_async)


def run_all_gather(send: torch.Tensor, receive: torch.Tensor, place: Place, is_async: bool) -> Any:
    """Every rank's piece, everywhere."""
    import torch.distributed as dist

    # Newer versions of torch renamed it, and this one would warn there.
    gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    return gather(receive, send, group=place.group, async_op=is_async)


def run_reduce_scatter(send: torch.Tensor, receive: torch.Tensor, place: Place, is_async: bool) -> Any:
    """Each rank's piece of the sum."""
    import torch.distributed as dist

    scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
    return scatter(receive, send, group=place.group, async_op=is_async)


def run_all_to_all(send: torch.Tensor, receive: torch.Tensor, place: Place, is_async: bool) -> Any:
    """A piece from every rank to every rank."""
    import torch.distributed as dist

    return dist.all_to_all_single(receive, send, group=place.group, async_op=is_async)


def run_gather(send: torch.Tensor, receive: torch.Tensor, place: Place, is_async: bool) -> Any:
    """Every rank's piece, on rank 0."""
    import torch.distributed as dist

    pieces = list(receive.chunk(place.ranks)) if place.rank == 0 else None
    return dist.gather(send, pieces, dst=place.world(0), group=place.group, async_op=is_async)


def run_scatter(send: torch.Tensor, receive: torch.Tensor, place: Place, is_async: bool) -> Any:
    """A piece from rank 0 to every rank."""
    import torch.distributed as dist

    pieces = list(send.chunk(place.ranks)) if place.rank == 0 else None
    return dist.scatter(receive, pieces, src=place.world(0), group=place.group, async_op=is_async)


def finish(works: Any) -> None:
    """Wait for what is on its way: one work, several, or none."""
    for work in works if isinstance(works, list) else [works]:
        if work is not None:
            work.wait()


def own(rank: int, _ranks: int) -> Layout:
    """One segment, this rank's pattern."""
    return ((rank,),)


def everyones_sum(_rank: int, ranks: int) -> Layout:
    """One segment, the sum of all patterns."""
    return (tuple(range(ranks)),)


def ring(ranks: int) -> float:
    """The share of the data that must cross a rank's link."""
    return (ranks - 1) / ranks


COLLECTIVES = {
    row.name: row
    for row in (
        Collective("all_reduce", run_all_reduce, own, everyones_sum, lambda n: 2 * ring(n), in_place=True, sums=True),
        Collective("broadcast", run_broadcast, own, lambda _r, _n: ((0,),), lambda _n: 1.0, in_place=True),
        Collective("sendrecv", run_sendrecv, own, lambda r, n: (((r - 1) % n,),), lambda _n: 1.0, in_place=False),
        Collective(
            "reduce",
            run_reduce,
            own,
            lambda r, n: everyones_sum(r, n) if r == 0 else (),
            lambda _n: 1.0,
            in_place=True,
            sums=True,
        ),
        Collective(
            "all_gather", run_all_gather, own, lambda _r, n: tuple((s,) for s in range(n)), ring, in_place=False
        ),
        Collective(
            "reduce_scatter",
            run_reduce_scatter,
            lambda r, n: tuple((r * n + d,) for d in range(n)),
            lambda r, n: (tuple(s * n + r for s in range(n)),),
            ring,
            in_place=False,
            sums=True,
        ),
        Collective(
            "all_to_all",
            run_all_to_all,
            lambda r, n: tuple((r * n + d,) for d in range(n)),
            lambda r, n: tuple((s * n + r,) for s in range(n)),
            ring,
            in_place=False,
        ),
        Collective(
            "gather",
            run_gather,
            own,
            lambda r, n: tuple((s,) for s in range(n)) if r == 0 else (),
            ring,
            in_place=False,
        ),
        Collective(
            "scatter",
            run_scatter,
            lambda r, n: tuple((d,) for d in range(n)) if r == 0 else (),
            lambda r, _n: ((r,),),
            ring,
            in_place=False,
        ),
    )
}


# ---- one operation at one size, timed and checked --------------------------------------------------------------------


class Trial:
    """The buffers of one collective at one size, refilled and checked outside the clock on every run.

    A train of several operations has buffers for each: a sum in place can be taken once only.
    """

    def __init__(
        self, collective: Collective, *, size_bytes: int, place: Place, dtype: str = "float32", depth: int = 1
    ) -> None:
        import torch

        self.collective, self.place = collective, place
        self.sends = collective.sends(place.rank, place.ranks)
        self.receives = collective.receives(place.rank, place.ranks)
        kind = getattr(torch, dtype)
        segments = max(
            len(layout(r, place.ranks)) for layout in (collective.sends, collective.receives) for r in (0, 1)
        )
        segment = max(1, size_bytes // kind.itemsize // segments)
        self.bytes = segment * segments * kind.itemsize
        self.buffers = []
        for _ in range(depth):
            send = torch.empty(segment * len(self.sends), dtype=kind, device=place.device)
            receive = send if collective.in_place else send.new_empty(segment * len(self.receives))
            self.buffers.append((send, receive))
        levels = levels_of(dtype, ranks=place.ranks if collective.sums else 1)
        layouts = {*self.sends, *self.receives}
        periods = periods_of_tile(len(layouts), segment=segment, itemsize=kind.itemsize, device=place.device.type)
        self.tiles = {keys: tile(keys, device=place.device, levels=levels).to(kind).repeat(periods) for keys in layouts}
        self.wrong = 0

    def once(self) -> float:
        """Seconds of one operation on this rank, of each on average where several are on their way at once."""
        for send, _ in self.buffers:
            for _ in self._pieces(send, self.sends, fill=True):
                pass
        seconds = self._timed_cuda() if self.place.device.type == "cuda" else self._timed_cpu()
        for _, receive in self.buffers:
            self.wrong += int(sum(self._pieces(receive, self.receives, fill=False)))
        return seconds / len(self.buffers)

    def _run(self) -> None:
        place, is_async = self.place, len(self.buffers) > 1
        works = [self.collective.run(send, receive, place, is_async) for send, receive in self.buffers]
        for work in works if is_async else ():
            finish(work)

    def _timed_cpu(self) -> float:
        import torch.distributed as dist

        dist.barrier(group=self.place.group)
        started = time.perf_counter()
        self._run()
        return time.perf_counter() - started

    def _timed_cuda(self) -> float:
        import torch
        import torch.distributed as dist

        event: Any = torch.cuda.Event
        started, ended = event(enable_timing=True), event(enable_timing=True)
        # A barrier on the stream: no way through the host.
        dist.all_reduce(torch.zeros(1, device=self.place.device), group=self.place.group)
        started.record()
        self._run()
        ended.record()
        ended.synchronize()
        return float(started.elapsed_time(ended)) / 1e3

    def _pieces(self, buffer: torch.Tensor, layout: Layout, *, fill: bool) -> Any:
        """Fill the buffer, or give the wrong elements of each piece: tile by tile, so no second buffer is needed."""
        if not layout:
            return
        for segment, keys in zip(buffer.chunk(len(layout)), layout):
            whole = self.tiles[keys]
            for start in range(0, len(segment), len(whole)):
                piece = segment[start : start + len(whole)]
                wanted = whole[: len(piece)]
                yield piece.copy_(wanted) if fill else piece.ne(wanted).count_nonzero()


def periods_of_tile(tiles: int, *, segment: int, itemsize: int, device: str) -> int:
    """How often a tile repeats its period: as often as fits its cache, the segment, and the memory for all tiles."""
    room = TILES_BYTES[device] // (max(1, tiles) * PERIOD * itemsize)
    return max(1, min(TILE_PERIODS[device], -(-segment // PERIOD), room))


def tile(keys: tuple[int, ...], *, device: torch.device, levels: int) -> torch.Tensor:
    """One period of the sum of these keys' patterns."""
    import torch

    index = torch.arange(PERIOD, device=device)
    period = torch.zeros(PERIOD, dtype=torch.int64, device=device)
    for key in keys:
        period += (index * 131 + key * 17) % PERIOD % levels
    return period


def largest(values: list[float], *, place: Place) -> list[float]:
    """The maximum over ranks of each value. All ranks get the same, so decisions taken on it agree everywhere."""
    import torch
    import torch.distributed as dist

    vector = torch.tensor(values, dtype=torch.float64, device=place.device)
    dist.all_reduce(vector, op=dist.ReduceOp.MAX, group=place.group)
    return [float(value) for value in vector.tolist()]


def free_bytes(device: torch.device) -> int:
    """Memory a rank may count on: the GPU's, or its part of what the host and its control group have left."""
    if device.type == "cuda":
        import torch

        return int(torch.cuda.mem_get_info(device)[0])
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
        records.moved = time.monotonic()
        wanted = automatic_bytes(probe_bytes=size, probe_seconds=seconds, target_seconds=target, most_bytes=most)
        if wanted <= size or seconds >= target / 4:
            return wanted
        size = min(wanted, 16 * size)


def sizes_of(collective: Collective, *, settings: Settings, place: Place, records: Records) -> tuple[int, ...]:
    """The sizes asked for whose buffers leave memory free, the others told of; or the one found by probing.

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


@dataclass
class Ahead:
    """How long all operations at all sizes will still take, as rank 0 reports it now and then."""

    cells: int
    cap_seconds: float
    done: int = 0
    spent_seconds: float = 0.0
    reported_at: float = 0.0

    def report(self, records: Records, what: dict[str, Any], *, elapsed: float, left_seconds: float) -> None:
        """Where we are, at most twice a second."""
        now = time.monotonic()
        if now - self.reported_at < 0.5:
            return
        self.reported_at = now
        usual = self.spent_seconds / self.done if self.done else min(self.cap_seconds, elapsed + left_seconds)
        left = left_seconds + usual * (self.cells - self.done - 1)
        records.send({"record": "progress", **what, "seconds_left": max(0.0, left)})

    def ended(self, seconds: float) -> None:
        """One operation at one size is done."""
        self.done += 1
        self.spent_seconds += seconds


def measure(
    collective: Collective, *, size_bytes: int, settings: Settings, place: Place, records: Records, ahead: Ahead
) -> None:
    """Warm up, time in batches until the median is known or the cap is reached, and report."""
    import torch
    import torch.distributed as dist

    records.stage("running", op=collective.name, bytes=size_bytes)
    began = time.perf_counter()
    trial = Trial(collective, size_bytes=size_bytes, place=place, dtype=settings.dtype, depth=settings.depth)

    def once() -> float:
        took = trial.once()
        records.moved = time.monotonic()  # the one after it may be slow too, and nobody is gone
        return took

    warm = largest([once() for _ in range(max(1, settings.warmup))], place=place)
    mine: list[float] = []
    seconds: list[float] = []
    fits = int(settings.cap_seconds / (warm[-1] * settings.depth))
    batch = max(1, min(settings.min_iterations, settings.max_iterations, fits))
    while True:
        timed = [once() for _ in range(batch)]
        *slowest, elapsed = largest([*timed, time.perf_counter() - began], place=place)
        mine += timed
        seconds += slowest
        usual = elapsed / (len(seconds) + len(warm))
        left = min(settings.max_iterations - len(seconds), int((settings.cap_seconds - elapsed) / usual))
        if left < 1 or is_settled(seconds, ci=settings.ci):
            break
        if place.rank == 0:
            what = {"op": collective.name, "bytes": trial.bytes, "iterations": len(seconds)}
            ahead.report(records, what, elapsed=elapsed, left_seconds=left * usual)
        # Few at a time where they are long, so that we stop soon; more where the counting would cost as much.
        batch = min(max(4, int(0.25 / usual)), left)
    ahead.ended(time.perf_counter() - began)

    wrong = torch.zeros(place.ranks, dtype=torch.int64, device=place.device)
    wrong[place.rank] = trial.wrong
    dist.all_reduce(wrong, group=place.group)
    own = {"op": collective.name, "bytes": trial.bytes, "seconds": mine, "group": place.name}
    records.send({"record": "matrix", **own})
    if place.rank == 0:
        figures = summary(seconds, size_bytes=trial.bytes, bus_factor=collective.bus_factor(place.ranks))
        records.send(
            {
                "record": "result",
                "op": collective.name,
                "bytes": trial.bytes,
                "seconds_first": warm[0],
                **figures,
                "wrong": int(wrong.sum()),
                "wrong_ranks": [place.world(rank) for rank, count in enumerate(wrong.tolist()) if count],
                "group": place.name,
                "ranks": place.ranks,
                "dtype": settings.dtype,
                "mode": settings.mode,
                "in_place": collective.in_place,
            }
        )


def summary(seconds: list[float], *, size_bytes: int, bus_factor: float) -> dict[str, float]:
    """The figures of one result: `seconds` holds the maximum over ranks of each iteration."""
    median, (low, high) = quantile(seconds, 0.5), median_interval(seconds)
    mean = sum(seconds) / len(seconds)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in seconds) / max(1, len(seconds) - 1))
    return {
        "iterations": len(seconds),
        "seconds_median": median,
        "seconds_p5": quantile(seconds, 0.05),
        "seconds_p95": quantile(seconds, 0.95),
        "seconds_low": low,
        "seconds_high": high,
        "cv": deviation / mean,
        "algbw_gbytes_per_s": size_bytes / median / 1e9,
        "busbw_gbytes_per_s": bus_factor * size_bytes / median / 1e9,
        "busbw_low_gbytes_per_s": bus_factor * size_bytes / high / 1e9,
        "busbw_high_gbytes_per_s": bus_factor * size_bytes / low / 1e9,
    }


# ---- one rank, from start to end -------------------------------------------------------------------------------------


def nccl_in_use() -> str:
    """The NCCL that this process has really mapped, and the version it says it is."""
    import torch

    with open("/proc/self/maps", encoding="utf-8") as file:
        paths = {line.split(maxsplit=5)[5].strip() for line in file if "libnccl.so" in line}
    nccl: Any = torch.cuda.nccl
    return f"{'.'.join(str(part) for part in nccl.version())} {' '.join(sorted(paths)) or 'linked into torch'}"


NCCL_SIGNS = (
    *(" via ", "Using network", " : Using ", "coll channels", "Bytes -> Algo", "NCCL WARN", "GPU Direct RDMA"),
    *("NVLS multicast", " MNNVL ", "use ring PXN", "NET/Plugin", "NET plugin", "network plugin", "No device found"),
    "Proceeding without NVLS",
)
NCCL_LINES = 400
DUMPS = ("TOPO", "GRAPH")


def keep_what_is_written(rank: int) -> str:
    """Let NCCL's log and torch's flight recorder go to files of ours, which the node keeps if the job fails; the log.

    Else the recorder's file lies in the user's cache, over that of the user's own job; and before it ends a process the
    watchdog sleeps four times the milliseconds below, so that every rank can write its own.
    """
    folder = os.environ.get("TMPDIR", "/tmp")
    trace = os.path.join(folder, "preflight-trace-rank")  # torch appends the number
    log = os.path.join(folder, f"preflight-nccl-rank{rank}")
    if os.environ.get("LOCAL_RANK", "0") == "0":  # one rank of each node; NCCL asks for its number in the job
        for dump in DUMPS:
            os.environ |= {f"NCCL_{dump}_DUMP_FILE": f"{log}-{dump}", f"NCCL_{dump}_DUMP_FILE_RANK": str(rank)}
    os.environ |= {
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "INIT,NET,GRAPH,TUNING",
        "NCCL_DEBUG_FILE": log,
        "TORCH_FR_DUMP_TEMP_FILE": trace,
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": trace,
        "TORCH_FR_BUFFER_SIZE": "200",
        "TORCH_NCCL_TRACE_BUFFER_SIZE": "200",
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC": "500",
    }
    return log


def nccl_lines(path: str) -> list[str]:
    """What NCCL wrote about its network and its paths.

    Of thousands of channels one line for each path is kept, and of each operation one for each size.
    """
    kept: dict[str, str] = {}
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                if any(sign in line for sign in NCCL_SIGNS):
                    said = line.partition(" NCCL ")[2] or line
                    _, is_path, way = said.partition(" via ")
                    kept.setdefault(way if is_path else said, line.strip()[:2100])  # 2 KiB list many ports
    except FileNotFoundError:  # it never came so far
        return []
    return list(kept.values())[:NCCL_LINES]


def nccl_dump(path: str) -> list[str]:
    """What NCCL found of this node (NCCL_TOPO_DUMP_FILE), or chose (NCCL_GRAPH_DUMP_FILE), a line for each part.

    Without what is each node's own (addresses, GUIDs, names), so that equal nodes give equal lines; [] without a dump.
    """
    from xml.etree import ElementTree as ET

    try:
        root = ET.parse(path).getroot()  # noqa: S314 - NCCL has just written it
    except (OSError, ET.ParseError):
        return []
    found: list[str] = []

    def walk(element: ET.Element, way: list[str]) -> None:
        told = element.attrib
        if element.tag == "cpu":
            found.append(f"CPU {told.get('numaid')}: {told.get('arch')} {told.get('vendor')} {told.get('modelid')}")
            way = [f"NUMA {told.get('numaid')}"]
        elif element.tag == "pci":
            way = [*way, f"{told.get('link_speed', '?').replace(' PCIe', '')} x{told.get('link_width', '?')}"]
        elif element.tag == "gpu":
            links = sum(int(link.get("count", "1")) for link in element.iter("nvlink"))
            found.append(f"GPU {told.get('dev')}: {', '.join(way)}, {links} NVLinks, GPUDirect {told.get('gdr', '?')}")
        elif element.tag == "net":
            speed = f"{told.get('speed', '?')} Mbit/s, GPUDirect {told.get('gdr', '?')}"
            found.append(f"adapter {told.get('dev')}: {', '.join(way)}, {speed}")
        elif element.tag == "graph":
            kinds = f"{told.get('typeintra')}/{told.get('typeinter')}"
            speeds = f"{told.get('speedintra')}/{told.get('speedinter')} GB/s"
            found.append(f"graph {told.get('id')}: {told.get('nchannels')} channels, {speeds}, {kinds}")
            return
        for child in element:
            walk(child, way)

    walk(root, [])
    return found[:NCCL_LINES]


def watch(records: Records, *, seconds: float, ranks: int) -> None:
    """End this rank, with its reason, once it has stood still for so long: a call into NCCL or CUDA never gives up.

    torch's own watchdog comes first where there is one: none looks at the making of a communicator.
    """
    import threading

    def look() -> None:
        while time.monotonic() - records.moved < seconds or records.at in {"checkpoint", "done"}:
            time.sleep(0.5)
        why = f"TimeoutError: Timed out waiting {seconds:.0f} s at stage {records.at}: another rank does not answer"
        if ranks == 1:
            why = (
                f"TimeoutError: nothing moved for {seconds:.0f} s at stage {records.at}: a call into CUDA or NCCL hangs"
            )
        records.send({"record": "failed", "stage": records.at, "error": why})
        dump_trace(records.rank)
        os._exit(1)

    threading.Thread(target=look, daemon=True).start()


def dump_trace(rank: int) -> None:
    """Write what torch's flight recorder holds, as its watchdog would; older ones have none."""
    import torch

    c10d: Any = getattr(torch._C, "_distributed_c10d", None)  # noqa: SLF001 - torch gives it no public name
    dump = getattr(c10d, "_dump_nccl_trace", None)
    prefix = os.environ.get("TORCH_FR_DUMP_TEMP_FILE", "")
    if dump is None or not prefix or os.path.exists(f"{prefix}{rank}"):
        return
    with open(f"{prefix}{rank}", "wb") as file:
        file.write(dump())


def own_gpu(seen: int) -> int:
    """The number of this rank's GPU among those it sees: where Slurm shows each task its own alone, that is 0."""
    local = int(os.environ.get("LOCAL_RANK", "0"))
    return 0 if "PREFLIGHT_OWN_GPUS" in os.environ and local >= seen > 0 else local


def bound(device: torch.device) -> dict[str, Any]:
    """Arguments that tie a process group to its GPU, where torch knows them: its communicator is then made at once."""
    import inspect

    import torch.distributed as dist

    return {"device_id": device} if "device_id" in inspect.signature(dist.init_process_group).parameters else {}


def join(*, settings: Settings, records: Records) -> Place:
    """Import torch, meet the other ranks, and exchange a first word with them."""
    records.stage("import")
    started = time.perf_counter()
    import torch
    import torch.distributed as dist
    from torch.distributed.rendezvous import rendezvous

    import_seconds = time.perf_counter() - started
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)  # as torchrun does: ranks on one host must not fight for its cores
    cuda = settings.backend == "nccl"
    device = torch.device("cuda", own_gpu(torch.cuda.device_count())) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)

    records.stage("rendezvous")
    records.await_go()
    started = time.perf_counter()
    patience = timedelta(seconds=settings.join_seconds)
    store, rank, ranks = next(rendezvous("env://", timeout=patience))
    records.stage("communicator")
    if cuda:
        patience = timedelta(seconds=settings.wait_seconds)
        watch(records, seconds=settings.wait_seconds + AFTER_SECONDS, ranks=ranks)
    dist.init_process_group(
        settings.backend,
        store=store,
        rank=rank,
        world_size=ranks,
        timeout=patience,
        # Not where groups are made later: a group is then split from all ranks, and idle ones would have to help.
        **(bound(device) if cuda and not settings.rounds else {}),
    )
    place = Place(rank=rank, ranks=ranks, device=device, store=store)
    largest([0.0], place=place)  # NCCL connects at the first operation only
    records.send(
        {
            "record": "joined",
            "rank": rank,
            "hostname": socket.gethostname(),
            "device": str(device),
            "import_seconds": import_seconds,
            "init_seconds": time.perf_counter() - started,
            "nccl": nccl_in_use() if cuda else "",
        }
    )
    return place


def measure_device(*, settings: Settings, place: Place, records: Records) -> None:
    """What this rank's GPU does by itself while all others do the same, as in a job; one that is slow is named so."""
    import importlib

    devices: Any = importlib.import_module("devices")  # beside this file, and sent with it
    records.send(devices.measured(place.device, ("matmul", "memory"), seconds=settings.device_seconds))
    largest([0.0], place=place)  # none begins while another still works


def sweep(*, settings: Settings, place: Place, records: Records, ahead: Ahead) -> None:
    """Every operation at every size, with the ranks of one group."""
    for name in settings.operations:
        collective = COLLECTIVES[name]
        for size in sizes_of(collective, settings=settings, place=place, records=records):
            measure(collective, size_bytes=size, settings=settings, place=place, records=records, ahead=ahead)


PAIR_TIMES = 5
PAIR_SECONDS = 0.05  # of a message


def exchange(*, settings: Settings, place: Place, records: Records) -> None:
    """Every round of pairs: in one a rank sends or receives, never both, so that what is slow has a direction.

    Both time: the figure is the receiver's time, because what is still in buffers has not arrived; the sender's must
    confirm it. The receiver finds the size, and puts it into the store. Nobody waits for the whole round; a rank's next
    partner is there when both are through the one before.
    """
    import torch

    whole = torch.empty(settings.pair_bytes, dtype=torch.uint8, device=place.device)
    for number, pairs in enumerate(settings.pairs):
        for source, target in pairs:
            if place.rank not in (source, target):
                continue
            run = partial(
                send_or_receive, other=target if place.rank == source else source, is_source=place.rank == source
            )
            least = whole[: min(MIB, settings.pair_bytes)]
            run(least, place=place)  # makes the connection, and waits
            seconds = run(least, place=place)
            key = f"preflight/pair/{number}/{target}"
            if place.rank == target:
                wanted = int(len(least) * PAIR_SECONDS / max(seconds, 1e-6))
                place.store.set(key, str(max(len(least), min(settings.pair_bytes, wanted))))
            message = whole[: int(place.store.get(key))]
            timed = [run(message, place=place) for _ in range(PAIR_TIMES)]
            able = quantile(timed, 0.25)  # who shares the node's processor only delays; a buffer speeds up one at most
            what = {"round": number, "bytes": len(message), "seconds": able, "gbytes_per_s": len(message) / able / 1e9}
            if place.rank == target:
                records.send({"record": "pair", "source": source, **what})
            else:
                records.send({"record": "sent", "target": target, **what})
    meet(place, len(settings.rounds))  # who leaves early may take its last message along


def send_or_receive(message: torch.Tensor, *, other: int, place: Place, is_source: bool) -> float:
    """The seconds of one message on this rank."""
    import torch
    import torch.distributed as dist

    run = dist.isend if is_source else dist.irecv
    event: Any = torch.cuda.Event
    is_cuda = place.device.type == "cuda"
    started, ended = (event(enable_timing=True), event(enable_timing=True)) if is_cuda else (None, None)
    began = time.perf_counter()
    if started is not None:
        started.record()
    finish(dist.batch_isend_irecv([dist.P2POp(run, message, other, place.group)]))
    if started is None or ended is None:
        return time.perf_counter() - began
    ended.record()
    ended.synchronize()
    return float(started.elapsed_time(ended)) / 1e3


def main() -> int:
    """Run every operation at every size, in every group that this rank is in."""
    missing = [name for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
    if missing:
        sys.exit(f"{', '.join(missing)} not set: start it with one of the lines at the top of this file")
    records = Records(rank=int(os.environ["RANK"]))
    nccl_log = ""
    gc.disable()  # importing torch makes no garbage, and looking for it takes a tenth of that time
    try:
        settings = Settings(**json.loads(os.environ.get("PREFLIGHT_SETTINGS", "{}")))
        if settings.backend == "nccl" and records.socket:
            nccl_log = keep_what_is_written(records.rank)
        place = join(settings=settings, records=records)
        gc.freeze()
        gc.enable()
        records.stage("running")
        if settings.device_seconds and settings.backend == "nccl":
            measure_device(settings=settings, place=place, records=records)
        patience = timedelta(seconds=settings.wait_seconds if settings.backend == "nccl" else settings.join_seconds)
        mine = places(settings.rounds, place=place, patience=patience) if settings.rounds else [place]
        ahead = Ahead(len(settings.operations) * max(1, len(settings.sizes)) * len(mine), settings.cap_seconds)
        for number, here in enumerate(mine):
            if here is not None:
                sweep(settings=settings, place=here, records=records, ahead=ahead)
            if settings.rounds:
                records.moved = math.inf  # other groups may take long
                meet(place, number)
                records.moved = time.monotonic()
        if nccl_log:
            dumps = {name.lower(): nccl_dump(f"{nccl_log}-{name}") for name in DUMPS}
            records.send({"record": "nccl_log", "lines": nccl_lines(nccl_log), **dumps})
        if settings.holds_to_ring and "NCCL_ALGO" not in os.environ:
            alone = replace(settings, operations=("all_reduce",))
            sweep(settings=alone, place=over_a_ring(place, patience=patience), records=records, ahead=ahead)
        if settings.pairs:
            exchange(settings=settings, place=place, records=records)
        if settings.backend == "nccl":
            records.moved = math.inf
            meet(place, len(mine))  # NCCL still sends when its kernel has ended: nobody leaves before all are done
        records.stage("done")
        records.send({"record": "done"})
    except Exception as error:  # whatever the error is, the controller must learn where this rank stopped
        why = f"{type(error).__name__}: {error}"[:ERROR_CHARACTERS]
        records.send({"record": "failed", "stage": records.at, "error": why})
        return 1
    return 0


if __name__ == "__main__":
    # No teardown: gloo can abort in it after all work is done, and the records are what counts.
    os._exit(main())
