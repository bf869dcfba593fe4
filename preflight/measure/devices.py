"""How does the device of every rank measure itself: in the ranks of the benchmark, or with all its figures alone?"""

from __future__ import annotations

import dataclasses
from typing import Any

from preflight.jobs.outcome import Outcome
from preflight.jobs.run import run_job
from preflight.launch.job import Job
from preflight.results import Device
from preflight.session.connection import Session

SECONDS = 120.0  # for the whole job: mostly the import of torch, which may be slow and is judged elsewhere
FIGURES = ("matmul", "memory", "host")
FIGURE_SECONDS = 2.0  # of each
SECONDS_IN_BENCH = 0.5  # of the matrices and of the memory, in the ranks of the benchmark, before their collectives


def job_of(job: Job) -> Job:
    """The job of the devices, on the ranks of the benchmark."""
    device = "cuda" if job.settings["backend"] == "nccl" else "cpu"
    settings = {"device": device, "figures": list(FIGURES), "seconds": FIGURE_SECONDS}
    return dataclasses.replace(job, workload="devices", settings=settings, seconds=min(job.seconds, SECONDS))


async def run(sessions: dict[str, Session], job: Job) -> tuple[tuple[Device, ...], Outcome]:
    """The devices of all ranks, none where one of them gave no figure; the outcome says which, and why."""
    outcome = await run_job(sessions, job_of(job), launcher="direct")
    return told(job, outcome), outcome


def told(job: Job, outcome: Outcome) -> tuple[Device, ...]:
    """The devices that the ranks of a job reported, none where one of them gave no figure."""
    node_of = {placement.rank: placement.node for placement in job.placements}
    known = set(Device.__struct_fields__)
    found = tuple(
        Device(
            **{name: as_told(value) for name, value in record.items() if name in known}, node=node_of[record["rank"]]
        )
        for record in outcome.records("device")
    )
    return found if len(found) == len(job.placements) else ()


def as_told(value: Any) -> Any:
    """A JSON list as a tuple."""
    return tuple(value) if isinstance(value, list) else value
