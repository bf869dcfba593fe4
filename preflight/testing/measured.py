"""What does a healthy cluster measure: mesh, benchmark, training?"""

from __future__ import annotations

from typing import Any

import msgspec

from preflight.facts.results import (
    Bench,
    Device,
    Drill,
    Expected,
    Mesh,
    RankReport,
    Rendezvous,
    Result,
    Stream,
    TrainedRank,
    Training,
    Transport,
)


def mesh(names: list[str]) -> Mesh:
    """Every node reached every other, and the port of rank 0."""
    edges = len(names) * (len(names) - 1)
    meeting = Rendezvous(node=names[0], address="10.0.0.1", port=29500, tried=len(names) - 1)
    return Mesh(edges=edges, ok=edges, failed=(), node_names=tuple(names), rendezvous=meeting)


def bench(names: list[str], ranks: list[tuple[int, str]]) -> Bench:
    """An all-reduce as fast as the links, and streams that differ by a few percent."""
    rates = (0.11, 0.108, 0.112, 0.109, 0.111)
    result = Result(
        op="all_reduce",
        bytes=1 << 28,
        iterations=20,
        seconds_first=3.0,
        seconds_median=2.5,
        seconds_p5=2.4,
        seconds_p95=2.6,
        seconds_low=2.49,
        seconds_high=2.51,
        cv=0.01,
        algbw_gbytes_per_s=1.5,
        busbw_gbytes_per_s=3.0,
        busbw_low_gbytes_per_s=2.98,
        busbw_high_gbytes_per_s=3.02,
        wrong=0,
    )
    streams = [
        Stream(source=name, target=names[(i + 1) % len(names)], shift=1, gbytes_per_s=2.9 + rates[i % 5])
        for i, name in enumerate(names)
    ]
    return Bench(
        backend="gloo",
        world_size=len(ranks),
        nodes=len(names),
        node_names=tuple(names),
        results=(result,),
        expected=Expected(
            busbw_gbytes_per_s=3.05, bound_gbytes_per_s=3.09, derivation=("25 Gbit/s x 0.990 = 3.09 GB/s",)
        )
        if len(names) > 1
        else None,
        slow=(),
        streams=tuple(streams) if len(names) > 1 else (),
        ranks=tuple(
            RankReport(rank=rank, node=node, device="cpu", import_seconds=1.0, init_seconds=0.1, nccl="2.28.9")
            for rank, node in ranks
        ),
    )


def training(ranks: list[tuple[int, str]], backend: str) -> Training:
    """A loss that falls, and ranks that agree."""
    trained = []
    for rank, node in ranks:
        local_rank = sum(other == node for number, other in ranks if number < rank)
        device = f"cuda:{local_rank}" if backend == "nccl" else "cpu"
        trained.append(
            TrainedRank(
                rank=rank,
                node=node,
                device=device,
                step_seconds_median=0.1,
                step_seconds_p95=0.12,
                parameters_digest="d0",
                gradient_error=1e-7,
                parameters_error=1e-6,
                import_seconds=1.0,
                finite=True,
                compute_seconds_mean=0.1,
                optimizer_digest="o0",
                replay_error=0.0,
                accumulation_error=1e-6,
                resume_error=0.0,
            )
        )
    losses = (5.5, 5.0, 4.6, 4.2)
    drill = Drill(
        rank=ranks[-1][0],
        node=ranks[-1][1],
        named=(ranks[-1][1],),
        seconds_to_end=5.0,
        limit_seconds=44.0,
        restarted_losses=losses[2:],
        wanted_losses=losses[2:],
    )
    return Training(
        launcher="direct",
        world_size=len(ranks),
        losses=losses,
        ranks=tuple(trained),
        backend=backend,
        node_names=tuple(dict.fromkeys(node for _, node in ranks)),
        checkpoint_dir="/shared",
        drill=drill,
    )


def h200(place: int, node: str, **fields: Any) -> Device:
    """A healthy GPU that measured itself."""
    device = Device(
        rank=place,
        node=node,
        device=f"cuda:{place}",
        model="NVIDIA H200",
        matmul_tflops_per_s=700.0 + place,
        matmul_dtype="bfloat16",
        wrong=0,
        memory_gbytes_per_s=4300.0,
        to_device_gbytes_per_s=54.0,
        from_device_gbytes_per_s=53.0,
        sm_mhz=1755.0,
        memory_celsius=62.0,
        memory_limit_celsius=95.0,
        pcie_generation=5.0,
        pcie_generation_max=5.0,
        pcie_width=16.0,
    )
    return msgspec.structs.replace(device, **fields)


def transport(rank: int, node: str, network: str = "IB", *ports: str, **fields: Any) -> Transport:
    """What the NCCL log of one rank says, on a node with eight RoCE ports and NVSwitches."""
    used = Transport(
        rank=rank,
        node=node,
        network=network,
        ports=ports or tuple(f"mlx5_{index}:1/RoCE" for index in range(8)),
        between_nodes=(f"NET/{network}" + "/GDRDMA" * (network != "Socket"),),
        within_node=("P2P/CUMEM",),
        channels=16,
        algorithm="RING SIMPLE",
        nvls="available",
        nvls_channels=16,
        topology=tuple(f"GPU {index}: NUMA {index // 4}, 32.0 GT/s x16, 18 NVLinks, GPUDirect 1" for index in range(8)),
        graphs=("graph 0: 16 channels, 20/20 GB/s, NVL/PIX",),
    )
    return msgspec.structs.replace(used, **fields)
