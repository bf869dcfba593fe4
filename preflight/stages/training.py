"""How is the reference training run, and what do its ranks tell?"""

from __future__ import annotations

from statistics import median
from typing import Any

from preflight.facts.measured import TrainedRank, Training
from preflight.jobs import run_job
from preflight.launchers import Job
from preflight.outcome import Outcome
from preflight.session import Session

STEPS = 12
SEED = 20240517
JOIN_SECONDS = 30


async def run(sessions: dict[str, Session], job: Job, *, launcher: str) -> tuple[Training, Outcome]:
    """The training's section of the report; `not_measured` names who failed where it did not end."""
    outcome = await run_job(sessions, job, launcher=launcher)
    return summarise(job, outcome, launcher=launcher), outcome


def settings(backend: str) -> dict[str, Any]:
    """What the workload is told."""
    return {"backend": backend, "steps": STEPS, "seed": SEED, "model": "tiny", "join_seconds": JOIN_SECONDS}


def summarise(job: Job, outcome: Outcome, *, launcher: str) -> Training:
    """The ranks' records -> the section of the report."""
    node_of = {placement.rank: placement.node for placement in job.placements}
    ranks = tuple(
        TrainedRank(
            rank=record["rank"],
            node=node_of[record["rank"]],
            device=record["device"],
            step_seconds_median=record["step_seconds_median"],
            step_seconds_p95=record["step_seconds_p95"],
            parameters_digest=record["parameters_digest"],
            gradient_error=record["gradient_error"],
            parameters_error=record["parameters_error"],
            import_seconds=record["import_seconds"],
            finite=record["finite"],
            reference_agreed=record["reference_agreed"],
            samples_digest=record["samples_digest"],
            communication_seconds_median=record["communication_seconds_median"],
        )
        for record in outcome.records("trained")
    )
    told = outcome.records("losses")
    losses = tuple(float(loss) for loss in told[0]["losses"]) if told else ()
    return Training(
        launcher=launcher,
        world_size=job.world_size,
        losses=losses,
        ranks=ranks if not outcome.failure else (),
        backend=str(job.settings["backend"]),
        steps=len(losses),
        tokens_per_s=float(told[0]["tokens_per_s"]) if told else 0.0,
        not_measured=outcome.failure,
        not_measured_nodes=outcome.guilty,
    )


def slowest(training: Training) -> TrainedRank:
    """The rank with the longest median step."""
    return max(training.joined(), key=lambda rank: rank.step_seconds_median)


def typical_step_seconds(training: Training) -> float:
    """The median over ranks of their median step."""
    return median(rank.step_seconds_median for rank in training.joined())
