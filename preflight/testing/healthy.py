"""What does a healthy cluster look like? It is made once a process, and everyone gets a run of their own on it."""

from __future__ import annotations

import dataclasses
import functools

import msgspec

from preflight.facts.subjects.gpu import Gpu, Gpus, Imex
from preflight.facts.subjects.rdma import Gid
from preflight.facts.value import Missing
from preflight.testing import measured
from preflight.testing.fake import FakeRun
from preflight.testing.hardware import ABSENT, node_address
from preflight.testing.nodes import node_facts


def healthy(count: int = 3) -> FakeRun:
    """node1, node2, ...: one Ethernet interface of 25 Gbit/s each, no GPU, no RDMA, no variable set."""
    return dataclasses.replace(_healthy(count))  # without what is noted while a run is judged


@functools.cache
def _healthy(count: int) -> FakeRun:
    return _run(count, gpu_count=0, variables={})


def roce(count: int = 4) -> FakeRun:
    """Healthy nodes with 8 GPUs and 8 RoCE ports each, and the variables that a job usually sets."""
    return dataclasses.replace(_roce(count))  # without what is noted while a run is judged


@functools.cache
def _roce(count: int) -> FakeRun:
    variables = {
        "MASTER_ADDR": "node1",
        "MASTER_PORT": "29500",
        "NCCL_SOCKET_IFNAME": "eth",
        "NCCL_IB_HCA": "mlx5",
        "NCCL_IB_GID_INDEX": "3",
        "NCCL_NET_PLUGIN": "libnccl-net.so",
        "CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7",
    }
    run = _run(count, gpu_count=8, variables=variables)
    (first,) = run.measured_bench.results
    return run.bench_has(
        backend="nccl",
        results=(first, msgspec.structs.replace(first, op="broadcast")),
        operations=("all_reduce", "broadcast"),
        transports=tuple(measured.transport(rank, name) for rank, name in enumerate(run.names)),
        baseline=(first,),
        devices=tuple(measured.h200(place, name) for name in run.names for place in range(8)),
    )


def infiniband(count: int = 4) -> FakeRun:
    """The same on InfiniBand, benchmarked rail by rail, with a job that lets GPUs start transfers themselves.

    NVLink joins the GPUs of all nodes, as in a rack of GB200.
    """
    return dataclasses.replace(_infiniband(count))  # without what is noted while a run is judged


@functools.cache
def _infiniband(count: int) -> FakeRun:
    run = rail_by_rail(roce(count).with_variables(NVSHMEM_IB_ENABLE_IBGDA="1"))
    for number, name in enumerate(run.names):
        for device in range(8):
            own = number * 8 + device + 1
            gid = Gid(index=0, gid=f"fe80:0000:0000:0000:a088:c203:00ad:{own:04x}", kind="IB/RoCE v1", netdev=ABSENT)
            fields = {"gids": (gid,), "lid": f"0x{own:x}", "sm_lid": "0x1"}
            run = run.broken_rdma_port(name, device, link_layer="InfiniBand", **fields)
        imex = Imex(
            is_running=True, nodes=tuple(node_address(n) for n in range(1, count + 1)), state="UP", not_ready=()
        )
        run = run.broken(name, "gpu", devices=in_one_domain(run.facts(name, "gpu", Gpus)), imex_channels=1, imex=imex)
    return run


def in_one_domain(held: Gpus, *, clique: str = "32766") -> tuple[Gpu, ...]:
    """The same GPUs, joined with those of other nodes by one NVLink fabric."""
    joined = {"fabric_cluster": "9b2f7f6e-6d22-4c22-9f57-c481f13e7c44", "fabric_clique": clique}
    return tuple(
        msgspec.structs.replace(gpu, status=msgspec.structs.replace(gpu.status, **joined)) for gpu in held.readable()
    )


def rail_by_rail(run: FakeRun, *, slowest: float = 3.0) -> FakeRun:
    """The same all-reduce over each of three rails, of which rail 1 may be slow."""
    first = run.measured_bench.results[0]
    rates = {f"rail {number}": slowest if number == 1 else 3.0 for number in range(3)}
    results = [
        msgspec.structs.replace(
            first, group=name, busbw_gbytes_per_s=rate, busbw_low_gbytes_per_s=rate, busbw_high_gbytes_per_s=rate
        )
        for name, rate in rates.items()
    ]
    return run.bench_has(scope="rails", results=tuple(results), operations=("all_reduce",), baseline=tuple(results[:1]))


def _run(count: int, *, gpu_count: int, variables: dict[str, str]) -> FakeRun:
    names = [f"node{number}" for number in range(1, count + 1)]
    subjects = {name: node_facts(name, names, gpu_count=gpu_count, variables=variables) for name in names}
    ranks = [(rank, names[rank // max(gpu_count, 1)]) for rank in range(count * max(gpu_count, 1))]
    return FakeRun(
        subjects,
        measured.mesh(names),
        measured.bench(names, ranks),
        measured.training(ranks, "nccl" if gpu_count else "gloo"),
        "nccl" if gpu_count else "gloo",
        missing={} if gpu_count else {name: {"trust": Missing("not asked for", "absent")} for name in names},
    )
