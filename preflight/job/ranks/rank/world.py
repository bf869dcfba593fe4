"""How do the ranks of a job meet? In torch's store, then in a process group of its backend."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from preflight.job.ranks.rank.board import identity_of
from preflight.job.ranks.rank.device import bound, own_device
from preflight.job.ranks.rank.limits import AFTER_SECONDS, Planned, allowed, of_a_call
from preflight.job.ranks.rank.traces import watch

if TYPE_CHECKING:
    import torch

    from preflight.job.ranks.rank.records import Records

POLL_SECONDS = (0.005, 1.0)  # the store is asked at first, and at last, so often


@dataclass(frozen=True)
class World:
    """All ranks of the job, as one of them sees them."""

    rank: int
    ranks: int
    device: torch.device
    store: Any  # where all ranks met
    import_seconds: float
    began: float  # time.perf_counter() when this rank went to meet the others


def load_torch(records: Records) -> float:
    """Import torch: the seconds that it took."""
    records.stage("import")
    started = time.perf_counter()
    import torch
    import torch.distributed

    import_seconds = time.perf_counter() - started
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)  # as torchrun does: ranks on one host must not fight for its cores
    return import_seconds


def meet(
    backend: str,
    *,
    join_seconds: float,
    wait_seconds: float,
    import_seconds: float,
    records: Records,
    planned: Planned,
    is_bound: bool = True,
) -> World:
    """Wait for the other ranks for `join_seconds`; an operation of NCCL may then take `wait_seconds`.

    Both as much longer as what is planned needs. ``is_bound`` ties the process group to the rank's GPU.
    """
    import torch.distributed as dist
    from torch.distributed.rendezvous import rendezvous

    device = own_device(backend)
    records.stage("rendezvous")
    records.await_go()
    began = time.perf_counter()
    expected = replace(planned, ranks=int(os.environ.get("WORLD_SIZE", planned.ranks)))
    patience = timedelta(seconds=allowed("rendezvous", expected, seconds=join_seconds))
    store, rank, ranks = next(rendezvous("env://", timeout=patience))
    records.planned = planned = replace(planned, ranks=ranks)
    records.stage("communicator")
    is_cuda = device.type == "cuda"
    seconds = wait_seconds if is_cuda else join_seconds
    coming = allowed("communicator" if is_cuda else "rendezvous", planned, seconds=seconds)  # Gloo loads nothing for it
    in_a_call = max(of_a_call(planned, seconds=seconds), coming)
    # torch's own watchdog writes its file and ends the rank; ours comes after it.
    watch(records, seconds=wait_seconds, least=in_a_call + AFTER_SECONDS if is_cuda else 0.0, ranks=ranks)
    patience = timedelta(seconds=in_a_call)
    more = bound(device) if device.type == "cuda" and is_bound else {}
    dist.init_process_group(backend, store=store, rank=rank, world_size=ranks, timeout=patience, **more)
    return World(rank, ranks, device, store, import_seconds, began)


def joined(world: World, *, nccl: str, records: Records) -> None:
    """Report who this rank is, once it has exchanged a first word with the others."""
    records.send(
        {
            "record": "joined",
            "rank": world.rank,
            "hostname": socket.gethostname(),
            **identity_of(world.device),
            "import_seconds": world.import_seconds,
            "init_seconds": time.perf_counter() - world.began,
            "nccl": nccl,
        }
    )


def all_through(store: Any, *, ranks: int, key: str, records: Records) -> None:
    """Wait in the store until every rank has come here, for as long as those that have work to do advance with it.

    They report that with `advanced_with`. Not in a collective: there those that wait would give up, and be blamed.
    """
    begin, most = POLL_SECONDS
    came, seen = store.add(f"preflight/{key}/through", 1), -1
    while came < ranks:
        moved = store.add(f"preflight/{key}/moved", 0)
        if moved != seen:
            seen = moved
            records.advance(beyond=2 * most)  # who works is to be named before who waits
        time.sleep(begin)
        begin = min(most, 2 * begin)
        came = store.add(f"preflight/{key}/through", 0)
    records.advance()


def advanced_with(store: Any, *, key: str, records: Records) -> None:
    """Tell those that wait in `all_through` that something was done."""
    store.add(f"preflight/{key}/moved", 1)
    records.advance()


def leave_together(store: Any, *, rank: int, ranks: int, key: str, seconds: float) -> None:
    """Wait in the store until every rank is through; rank 0 keeps the store, and leaves last.

    Not in a collective: there the ranks that wait would give up, and keep their GPU busy.
    """
    for step in ("done", "heard"):
        name = f"preflight/{key}/{step}"
        if store.add(name, 1) == ranks:
            store.set(f"{name}/all", "")
        if step == "done" or rank == 0:
            store.wait([f"{name}/all"], timedelta(seconds=seconds))
