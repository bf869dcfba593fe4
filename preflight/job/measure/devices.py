"""How does the device of every rank measure itself: in the ranks of the benchmark, or with all its figures alone?"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

from preflight.facts.results import Device, NoDevice
from preflight.facts.results.measured import named
from preflight.job.start.outcome import Outcome, RankStory
from preflight.job.start.run import run_job
from preflight.launch.job import Job
from preflight.reach.session.connection import Session
from preflight.said import said

SECONDS = 120.0  # for the whole job: mostly the import of torch, which may be slow and is judged elsewhere
FIGURES = ("matmul", "memory", "host")
FIGURE_SECONDS = 2.0  # of each
SECONDS_IN_BENCH = 0.5  # of the matrices and of the memory, in the ranks of the benchmark, before their collectives
OWN_BYTES = 2 << 30  # that a rank takes before: the context of CUDA, and NCCL's buffers


class DeviceResults(NamedTuple):
    """What the ranks' devices are by themselves, and why some gave no figure."""

    devices: tuple[Device, ...] = ()
    missing: tuple[NoDevice, ...] = ()
    not_measured: str = ""  # why there is nothing at all


def job_of(job: Job) -> Job:
    """The job of the devices, on the ranks of the benchmark."""
    device = "cuda" if job.settings["backend"] == "nccl" else "cpu"
    settings = {"device": device, "figures": list(FIGURES), "seconds": FIGURE_SECONDS}
    return dataclasses.replace(job, workload="devices", settings=settings, seconds=min(job.seconds, SECONDS))


async def run(sessions: dict[str, Session], job: Job) -> tuple[DeviceResults, Outcome]:
    """The devices of all ranks, and of those that gave no figure the reason; the outcome says why a job failed."""
    whole = job_of(job)
    outcome = await run_job(sessions, whole, launcher="direct")
    return results_of(whole, outcome), outcome


def results_of(job: Job, outcome: Outcome) -> DeviceResults:
    """The devices that the ranks of a job reported; where it measures them, every other rank has its reason."""
    node_of = {placement.rank: placement.node for placement in job.placements}
    found = tuple(Device.told(record, node=node_of[record["rank"]]) for record in outcome.records("device"))
    if job.workload != "devices" and not job.settings.get("device_seconds"):
        return DeviceResults(found)
    have = {one.rank for one in found}
    missing = [_without(story, outcome) for story in outcome.stories if story.placement.rank not in have]
    if outcome.failure and not found:
        return DeviceResults(not_measured=outcome.failure)
    return DeviceResults(found, tuple(missing))


def _without(story: RankStory, outcome: Outcome) -> NoDevice:
    """Why a rank's device has no figure: it has too little memory, others fill it, or nothing was said of it."""
    place = story.placement
    record: dict[str, Any] = next((one for one in story.records if one.get("record") == "no_device"), {})
    if not record:
        silent = said("rank {rank} said nothing of its GPU by itself", place.rank)
        why = said("rank {rank}: {error}", place.rank, story.error) if story.error else outcome.failure or silent
        return NoDevice(rank=place.rank, node=place.node, why=why)
    free, memory, wanted = (record[name] >> 20 for name in ("free_bytes", "memory_bytes", "wanted_bytes"))
    is_too_small = record["memory_bytes"] < record["wanted_bytes"] + OWN_BYTES
    place_there = {name: record.get(name, "") for name in ("device", "board", "uuid")}
    title = f"{named(**place_there)} ({record['model']})"
    why = said(
        "{title} has {memory} MiB, and {free} of them free; measuring it by itself takes {wanted}",
        title,
        memory,
        free,
        wanted,
    )
    if not is_too_small:
        why = said(
            "other processes fill {title}: {free} of its {memory} MiB are free, measuring it by itself takes {wanted}",
            title,
            free,
            memory,
            wanted,
        )
    return NoDevice(rank=place.rank, node=place.node, why=why, **place_there, is_too_small=is_too_small)
