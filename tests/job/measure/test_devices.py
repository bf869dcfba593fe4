"""Does the device of every rank measure itself, and has one that gives no figure its reason?"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from preflight.job.measure import devices
from preflight.launch.job import Job, Placement
from tests.job.measure.played import PlayedNode, job_of


@pytest.mark.parametrize(("backend", "device"), [("nccl", "cuda"), ("gloo", "cpu")])
def test_the_job_of_the_devices_runs_on_the_benchmarks_ranks(backend, device):
    """On GPUs where the collectives do, and no longer than the benchmark may take."""
    job = Job("collectives", {"backend": backend}, (Placement(0, "a", 0, 1),), "10.0.0.1", (), 40.0)
    full = devices.job_of(job)
    assert (full.workload, full.placements, full.seconds) == ("devices", job.placements, 40.0)
    assert full.settings == {"device": device, "figures": ["matmul", "memory", "host"], "seconds": 2.0}


def figure(rank: int, **fields: Any) -> dict[str, Any]:
    """What the device of a rank records."""
    return {
        "record": "device",
        "device": f"cuda:{rank}",
        "model": "NVIDIA H200",
        "matmul_tflops_per_s": 600.0 + rank,
        "matmul_dtype": "bfloat16",
        "wrong": 0,
        **fields,
    }


def test_every_rank_gives_its_device_with_its_node():
    """Words that this version does not know are left out, as those of a newer workload would be."""
    nodes = {name: PlayedNode({"devices": lambda rank: [figure(rank, temperature=41)]}) for name in ("a", "b")}
    found, outcome = asyncio.run(devices.run(nodes, job_of("a", "a", "b", backend="nccl")))
    assert [(device.rank, device.node, device.matmul_tflops_per_s) for device in found.devices] == [
        (0, "a", 600.0),
        (1, "a", 601.0),
        (2, "b", 602.0),
    ]
    assert (outcome.failure, found.missing, found.not_measured) == ("", (), "")
    assert nodes["b"].started[0][1]["device"] == "cuda"


def test_a_rank_that_failed_has_no_figure_and_its_own_words_as_the_reason():
    """The others can still be compared with each other; the outcome names the rank too."""

    def said(rank: int) -> list[dict[str, Any]]:
        return [{"record": "failed", "error": "CUDA error: out of memory"}] if rank == 1 else [figure(rank)]

    nodes = {name: PlayedNode({"devices": said}) for name in ("a", "b")}
    found, outcome = asyncio.run(devices.run(nodes, job_of("a", "b", backend="nccl")))
    assert [device.node for device in found.devices] == ["a"]
    assert [(one.rank, one.node, one.is_too_small) for one in found.missing] == [(1, "b", False)]
    assert found.missing[0].why == "rank 1: CUDA error: out of memory"
    assert outcome.guilty == ("b",)
    assert "out of memory" in outcome.failure


def test_where_no_rank_gives_a_figure_the_job_says_why():
    """It is no GPU's own reason."""
    nodes = {name: PlayedNode({"devices": lambda _rank: [{"record": "failed", "error": "no torch"}]}) for name in "ab"}
    found, outcome = asyncio.run(devices.run(nodes, job_of("a", "b", backend="nccl")))
    assert (found.devices, found.missing) == ((), ())
    assert found.not_measured == outcome.failure != ""


def full(free_mib: int, memory_mib: int, model: str = "NVIDIA H200") -> dict[str, Any]:
    """What a rank records of a GPU with too little memory free."""
    sizes = {"free_bytes": free_mib << 20, "memory_bytes": memory_mib << 20, "wanted_bytes": 8192 << 20}
    return {"record": "no_device", "device": "cuda:0", "model": model, **sizes}


@pytest.mark.parametrize(
    ("record", "is_too_small", "why"),
    [
        (full(3000, 143_000), False, "other processes fill cuda:0 (NVIDIA H200): 3000 of its 143000 MiB are free"),
        (full(7400, 8100, "NVIDIA GeForce RTX 4060"), True, "cuda:0 (NVIDIA GeForce RTX 4060) has 8100 MiB"),
        (full(8100, 9856, "NVIDIA H100 MIG 1g.10gb"), True, "cuda:0 (NVIDIA H100 MIG 1g.10gb) has 9856 MiB"),
        (None, False, "rank 1 said nothing of its GPU by itself"),
    ],
)
def test_a_gpu_without_a_figure_is_too_small_or_should_have_given_one(record, is_too_small, why):
    """A small card and a slice have no room for what is measured; what others fill, and silence, hide a slow GPU."""

    def said(rank: int) -> list[dict[str, Any]]:
        return ([record] if record else []) if rank == 1 else [figure(rank)]

    nodes = {name: PlayedNode({"devices": said}) for name in ("a", "b", "c")}
    found, outcome = asyncio.run(devices.run(nodes, job_of("a", "b", "c", backend="nccl")))
    assert outcome.failure == ""
    assert [device.node for device in found.devices] == ["a", "c"]
    (missing,) = found.missing
    assert (missing.node, missing.is_too_small) == ("b", is_too_small)
    assert missing.why.startswith(why)


def test_the_devices_have_no_more_time_than_the_job():
    """And two minutes at most: they are measured beside something else."""
    assert [devices.job_of(job_of("a", seconds=given)).seconds for given in (20.0, 900.0)] == [20.0, 120.0]
