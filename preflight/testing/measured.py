"""What does a healthy cluster measure: mesh, benchmark, training?"""

from __future__ import annotations

from typing import Any

import msgspec

from preflight.results import (
    Bench,
    Device,
    Drill,
    Expected,
    Mesh,
    RankReport,
    Result,
    Stream,
    TrainedRank,
    Training,
    Transport,
)


def mesh(count: int) -> Mesh:
    """Every node reached every other."""
    return Mesh(edges=count * (count - 1), ok=count * (count - 1), failed=())


def bench(names: list[str], ranks: list[tuple[int, str]]) -> Bench:
    """An all-reduce as fast as the links, and streams that differ by a few percent."""
    rates = (0.11, 0.108, 0.112, 0.109, 0.111)
    result = Result("all_reduce", 1 << 28, 20, 3.0, 2.5, 2.4, 2.6, 2.49, 2.51, 0.01, 1.5, 3.0, 2.98, 3.02, wrong=0)
    streams = [Stream(name, names[(i + 1) % len(names)], 1, 2.9 + rates[i % 5]) for i, name in enumerate(names)]
    return Bench(
        backend="gloo",
        world_size=len(ranks),
        nodes=len(names),
        results=(result,),
        expected=Expected(3.05, 3.09, ("25 Gbit/s x 0.990 = 3.09 GB/s",)) if len(names) > 1 else None,
        slow=(),
        streams=tuple(streams) if len(names) > 1 else (),
        ranks=tuple(RankReport(rank, node, "cpu", 1.0, 0.1, "2.28.9") for rank, node in ranks),
    )


def training(ranks: list[tuple[int, str]], backend: str) -> Training:
    """A loss that falls, and ranks that agree."""
    trained = []
    for rank, node in ranks:
        local_rank = sum(other == node for number, other in ranks if number < rank)
        device = f"cuda:{local_rank}" if backend == "nccl" else "cpu"
        trained.append(
            TrainedRank(
                rank,
                node,
                device,
                0.1,
                0.12,
                "d0",
                1e-7,
                1e-6,
                1.0,
                finite=True,
                compute_seconds_mean=0.1,
                optimizer_digest="o0",
                replay_error=0.0,
                accumulation_error=1e-6,
                resume_error=0.0,
            )
        )
    losses = (5.5, 5.0, 4.6, 4.2)
    drill = Drill(ranks[-1][0], ranks[-1][1], (ranks[-1][1],), 5.0, 44.0, losses[2:], losses[2:])
    return Training(
        "direct", len(ranks), losses, tuple(trained), backend=backend, checkpoint_dir="/shared", drill=drill
    )


def h200(place: int, node: str, **fields: Any) -> Device:
    """A healthy GPU that measured itself."""
    device = Device(place, node, f"cuda:{place}", "NVIDIA H200", 700.0 + place, "bfloat16", 0, 4300.0, 54.0, 53.0)
    return msgspec.structs.replace(device, **fields)


def transport(rank: int, node: str, network: str = "IB", *ports: str) -> Transport:
    """What NCCL told of one rank."""
    return Transport(rank, node, network, ports or ("mlx5_0:1/RoCE",), (f"NET/{network}",), (), 16, "RING SIMPLE")
