"""How fast is each path from one rank to another? Measured in rounds, so that a slow path has a direction."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from preflight.job.ranks.bench.figures import quantile
from preflight.job.ranks.bench.operations import finish
from preflight.job.ranks.bench.settings import MIB, Settings

if TYPE_CHECKING:
    import torch

    from preflight.job.ranks.bench.groups import Place
    from preflight.job.ranks.rank.records import Records

PAIR_TIMES = 5
PAIR_SECONDS = 0.05  # of a message


def exchange(*, settings: Settings, place: Place, records: Records) -> None:
    """All rounds of pairs: in one round a rank either sends or receives, so that a slow path has a direction.

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
            other, is_source = (target, True) if place.rank == source else (source, False)

            def run(message: torch.Tensor, other: int = other, is_source: bool = is_source) -> float:
                seconds = send_or_receive(message, other=other, place=place, is_source=is_source)
                records.advance()
                return seconds

            least = whole[: min(MIB, settings.pair_bytes)]
            run(least)  # makes the connection, and waits
            seconds = run(least)
            key = f"preflight/pair/{number}/{target}"
            if place.rank == target:
                wanted = int(len(least) * PAIR_SECONDS / max(seconds, 1e-6))
                place.store.set(key, str(max(len(least), min(settings.pair_bytes, wanted))))
            message = whole[: int(place.store.get(key))]
            timed = [run(message) for _ in range(PAIR_TIMES)]
            able = quantile(timed, 0.25)  # who shares the node's processor only delays; a buffer speeds up one at most
            what = {"round": number, "bytes": len(message), "seconds": able, "gbytes_per_s": len(message) / able / 1e9}
            if place.rank == target:
                records.send({"record": "pair", "source": source, **what})
            else:
                records.send({"record": "sent", "target": target, **what})


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
