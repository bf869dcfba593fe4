"""How fast do collectives run over these ranks, and are their results correct? Every rank times and checks.

By hand, on CPU (gloo), from the folder that holds ``preflight``; every rank prints its records, one JSON object a line:

    torchrun --nproc-per-node=2 -m preflight.job.ranks.collectives
    torchrun --nnodes=2 --node-rank=N --master-addr=HOST --master-port=29500 -m preflight.job.ranks.collectives
    RANK=N WORLD_SIZE=2 MASTER_ADDR=HOST MASTER_PORT=29500 python -m preflight.job.ranks.collectives

Settings are a JSON object: PREFLIGHT_SETTINGS='{"backend": "nccl", "operations": ["all_reduce", "broadcast"]}'.
"""

from __future__ import annotations

import gc
import os
import time
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from preflight.job.ranks.bench.figures import is_settled, summary
from preflight.job.ranks.bench.groups import Place, largest, over_a_ring, places
from preflight.job.ranks.bench.nccl import DUMPS, bytes_so_far, dump_topology, nccl_dump, nccl_in_use, nccl_lines
from preflight.job.ranks.bench.operations import COLLECTIVES, Collective
from preflight.job.ranks.bench.pairs import exchange
from preflight.job.ranks.bench.settings import Settings
from preflight.job.ranks.bench.sizes import sizes_of
from preflight.job.ranks.bench.trial import Trial
from preflight.job.ranks.rank.life import live
from preflight.job.ranks.rank.limits import Planned, of_a_call
from preflight.job.ranks.rank.records import Records
from preflight.job.ranks.rank.traces import keep_what_is_written
from preflight.job.ranks.rank.world import joined, leave_together, load_torch, meet

PART_SECONDS = 3600.0  # for the others to finish a part: as long as the controller allows


def join(*, settings: Settings, records: Records) -> Place:
    """Import torch, meet the other ranks, and exchange a first word with them."""
    world = meet(
        settings.backend,
        join_seconds=settings.join_seconds,
        wait_seconds=settings.wait_seconds,
        import_seconds=load_torch(records),
        records=records,
        planned=Planned(rounds=len(settings.pairs), message_bytes=settings.message_bytes),
        # Not where groups are made later: a group is then split from all ranks, and idle ones would have to help.
        is_bound=not settings.rounds,
    )
    place = Place(rank=world.rank, ranks=world.ranks, device=world.device, store=world.store)
    largest([0.0], place=place)  # NCCL connects at the first operation only
    joined(world, nccl=nccl_in_use() if settings.backend == "nccl" else "", records=records)
    return place


def end_together(place: Place, part: str) -> None:
    """Wait until all ranks have finished a part of the benchmark."""
    leave_together(place.store, rank=place.rank, ranks=place.ranks, key=part, seconds=PART_SECONDS)


def measure_device(*, settings: Settings, place: Place, records: Records) -> None:
    """Measure this rank's GPU alone, while all other ranks do the same, as in a job."""
    from preflight.job.ranks.devices import measured

    records.send(measured(place.device, ("matmul", "memory"), seconds=settings.device_seconds))
    largest([0.0], place=place)  # no rank starts while another still measures


def sweep(*, settings: Settings, place: Place, records: Records, ahead: Ahead) -> None:
    """Every operation at every size, with the ranks of one group."""
    for name in settings.operations:
        collective = COLLECTIVES[name]
        for size in sizes_of(collective, settings=settings, place=place, records=records):
            measure(collective, size_bytes=size, settings=settings, place=place, records=records, ahead=ahead)


@dataclass
class Ahead:
    """How long all operations at all sizes will still take, as rank 0 reports it from time to time."""

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


@dataclass(frozen=True)
class Times:
    """Seconds of every operation of one collective at one size."""

    first: float  # of the slowest rank; connections may be set up in it
    own: list[float]  # on this rank
    slowest: list[float]  # of the slowest rank


def measure(
    collective: Collective, *, size_bytes: int, settings: Settings, place: Place, records: Records, ahead: Ahead
) -> None:
    """Time one collective at one size, check what it delivered, and report."""
    records.stage("running", op=collective.name, bytes=size_bytes)
    began = time.perf_counter()
    trial = Trial(collective, size_bytes=size_bytes, place=place, dtype=settings.dtype, depth=settings.depth)
    times = time_until_settled(trial, began=began, settings=settings, records=records, ahead=ahead)
    ahead.ended(time.perf_counter() - began)
    report(trial, times, settings=settings, records=records)


def time_until_settled(trial: Trial, *, began: float, settings: Settings, records: Records, ahead: Ahead) -> Times:
    """Warm up, then time in batches until the median is known or the cap, counted from `began`, is reached."""
    place = trial.place

    def once() -> float:
        took = trial.once()
        records.advance()  # the next one may be slow too, and no rank is lost
        return took

    warm_up = largest([once() for _ in range(max(1, settings.warmup))], place=place)
    times = Times(first=warm_up[0], own=[], slowest=[])
    fits = int(settings.cap_seconds / (warm_up[-1] * settings.depth))
    batch = max(1, min(settings.min_iterations, settings.max_iterations, fits))
    while True:
        timed = [once() for _ in range(batch)]
        *slowest, elapsed = largest([*timed, time.perf_counter() - began], place=place)
        times.own.extend(timed)
        times.slowest.extend(slowest)
        done = len(times.slowest)
        usual = elapsed / (done + len(warm_up))
        left = min(settings.max_iterations - done, int((settings.cap_seconds - elapsed) / usual))
        if left < 1 or is_settled(times.slowest, ci=settings.ci):
            return times
        if place.rank == 0:
            what = {"op": trial.collective.name, "bytes": trial.bytes, "iterations": done}
            ahead.report(records, what, elapsed=elapsed, left_seconds=left * usual)
        # Few at a time where they are long, so that we stop soon; more where the counting would cost as much.
        batch = min(max(4, int(0.25 / usual)), left)


def report(trial: Trial, times: Times, *, settings: Settings, records: Records) -> None:
    """Every rank sends its own times; rank 0 also the figures of all, and which ranks got wrong data."""
    import torch
    import torch.distributed as dist

    collective, place = trial.collective, trial.place
    wrong = torch.zeros(place.ranks, dtype=torch.int64, device=place.device)
    wrong[place.rank] = trial.wrong
    dist.all_reduce(wrong, group=place.group)
    own = {"op": collective.name, "bytes": trial.bytes, "seconds": times.own, "group": place.name}
    records.send({"record": "matrix", **own})
    if place.rank == 0:
        figures = summary(times.slowest, size_bytes=trial.bytes, bus_factor=collective.bus_factor(place.ranks))
        records.send(
            {
                "record": "result",
                "op": collective.name,
                "bytes": trial.bytes,
                "seconds_first": times.first,
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


def work(given: dict[str, Any], records: Records) -> None:
    """Run every operation at every size, in every group that this rank is in."""
    settings = Settings(**given)
    is_nccl = settings.backend == "nccl"
    nccl_log = ""
    if is_nccl and records.socket:
        nccl_log = keep_what_is_written(records.rank, subsystems="INIT,NET,GRAPH,TUNING,ENV")
        dump_topology(nccl_log, records.rank)
    place = join(settings=settings, records=records)
    gc.freeze()
    gc.enable()
    records.stage("running")
    if settings.device_seconds and is_nccl:
        measure_device(settings=settings, place=place, records=records)
    seconds = settings.wait_seconds if is_nccl else settings.join_seconds
    patience = timedelta(seconds=of_a_call(records.planned, seconds=seconds))
    mine = places(settings.rounds, place=place, patience=patience, records=records) if settings.rounds else [place]
    ahead = Ahead(len(settings.operations) * max(1, len(settings.sizes)) * len(mine), settings.cap_seconds)
    for number, here in enumerate(mine):
        if here is not None:
            sweep(settings=settings, place=here, records=records, ahead=ahead)
        if settings.rounds:
            with records.while_others_work():
                end_together(place, f"round {number}")
    if nccl_log:
        dumps = {name.lower(): nccl_dump(f"{nccl_log}-{name}") for name in DUMPS}
        records.send({"record": "nccl_log", "lines": nccl_lines(nccl_log), **dumps})
    if settings.holds_to_ring and "NCCL_ALGO" not in os.environ:
        alone, begin = replace(settings, operations=("all_reduce",)), bytes_so_far(nccl_log)
        sweep(settings=alone, place=over_a_ring(place, patience=patience), records=records, ahead=ahead)
        if nccl_log and place.rank == 0:  # which alone writes what NCCL chose
            records.send({"record": "ring_log", "lines": nccl_lines(nccl_log, begin=begin)})
    if settings.pairs:
        records.stage("pairs")
        exchange(settings=settings, place=place, records=records)
        with records.while_others_work():
            end_together(place, "pairs")  # a rank that leaves early may lose its last message
    if is_nccl:
        with records.while_others_work():
            # NCCL still sends after its kernel has ended: no rank leaves before all are done.
            end_together(place, "end")


def main() -> int:
    """The life of one rank."""
    return live(work)


if __name__ == "__main__":
    # No teardown: gloo can abort in it after all work is done, and the records are what counts.
    os._exit(main())
