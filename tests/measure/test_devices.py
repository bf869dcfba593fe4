"""Does the device of every rank measure itself, and is nothing told where one gives no figure?"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from preflight.launch.job import Job, Placement
from preflight.measure import devices
from tests.measure.played import PlayedNode, job_of


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
    assert [(device.rank, device.node, device.matmul_tflops_per_s) for device in found] == [
        (0, "a", 600.0),
        (1, "a", 601.0),
        (2, "b", 602.0),
    ]
    assert outcome.failure == ""
    assert nodes["b"].started[0][1]["device"] == "cuda"


def test_where_one_rank_gives_no_figure_none_is_told():
    """Half of the devices would be compared as if they were all; the outcome names the rank and why."""

    def said(rank: int) -> list[dict[str, Any]]:
        return [{"record": "failed", "error": "CUDA error: out of memory"}] if rank == 1 else [figure(rank)]

    nodes = {name: PlayedNode({"devices": said}) for name in ("a", "b")}
    found, outcome = asyncio.run(devices.run(nodes, job_of("a", "b", backend="nccl")))
    assert found == ()
    assert outcome.guilty == ("b",)
    assert "out of memory" in outcome.failure


def test_the_devices_have_no_more_time_than_the_job():
    """And two minutes at most: they are measured beside something else."""
    assert [devices.job_of(job_of("a", seconds=given)).seconds for given in (20.0, 900.0)] == [20.0, 120.0]
