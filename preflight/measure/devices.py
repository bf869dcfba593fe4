"""How does the device of every rank measure itself: all its figures, or beside a slow result the matrices alone?"""

from __future__ import annotations

import dataclasses

from preflight.jobs.outcome import Outcome
from preflight.jobs.run import run_job
from preflight.launch.job import Job
from preflight.results import Device
from preflight.session.connection import Session

SECONDS = 120.0  # of the whole job: most of it is the import of torch, which may be slow, and is judged elsewhere
FIGURES = {True: (("matmul", "memory", "host"), 2.0), False: (("matmul",), 0.5)}  # and how long each is measured


def job_of(job: Job, *, is_full: bool) -> Job:
    """The job of the devices, on the ranks of the benchmark."""
    figures, seconds = FIGURES[is_full]
    device = "cuda" if job.settings["backend"] == "nccl" else "cpu"
    settings = {"device": device, "figures": list(figures), "seconds": seconds}
    return dataclasses.replace(job, workload="devices", settings=settings, seconds=min(job.seconds, SECONDS))


async def run(sessions: dict[str, Session], job: Job, *, is_full: bool) -> tuple[tuple[Device, ...], Outcome]:
    """The devices of all ranks, none where one of them gave no figure; the outcome says which, and why."""
    outcome = await run_job(sessions, job_of(job, is_full=is_full), launcher="direct")
    node_of = {placement.rank: placement.node for placement in job.placements}
    known = set(Device.__struct_fields__)
    devices = tuple(
        Device(**{name: value for name, value in record.items() if name in known}, node=node_of[record["rank"]])
        for record in outcome.records("device")
    )
    return devices if not outcome.failure else (), outcome
