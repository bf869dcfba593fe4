"""What does each collective move, from whom to whom? One row each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    import torch

    from preflight.job.ranks.bench.groups import Place

Layout = tuple[tuple[int, ...], ...]  # a buffer's segments; each holds the sum of the patterns of its keys


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
    """Wait for the operations that were started: one work handle, several, or none."""
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
