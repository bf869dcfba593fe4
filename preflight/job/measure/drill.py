"""What happens when a rank is killed in mid-run: do the others end, which node is named, does a restart catch up?"""

from __future__ import annotations

import dataclasses
from typing import Any

from preflight.facts.results import Drill
from preflight.job.start.outcome import Outcome
from preflight.job.start.run import GRACE_SECONDS, run_job
from preflight.launch.job import Job
from preflight.reach.session.connection import Session

LATE_SECONDS = 10.0  # for starting the ranks, beside the time that they wait for each other


async def run_drill(
    sessions: dict[str, Session], job: Job, *, wanted_losses: tuple[float, ...]
) -> tuple[Drill, dict[str, Outcome]]:
    """Train twice with a rank that kills itself: it must be named, then torchrun must bring it back."""
    victim = job.placements[-1]
    steps = int(job.settings["steps"])
    settings = {
        **job.settings,
        "strategy": "ddp",
        "checkpoint_dir": "",  # then the checkpoint is in every node's own scratch folder, which the keeper removes
        "drill": True,
        "dying_rank": victim.rank,
        "dying_step": steps * 2 // 3,
    }
    dying = dataclasses.replace(job, settings=settings)
    outcome = await run_job(sessions, dying, launcher="direct")
    restarted = await run_job(sessions, dataclasses.replace(dying, restarts=1), launcher="torchrun")
    record: dict[str, Any] = next(iter(restarted.records("losses")), {"losses": [], "begin": 0})
    begin = int(record["begin"])
    drill = Drill(
        rank=victim.rank,
        node=victim.node,
        named=outcome.guilty,
        seconds_to_end=round(outcome.seconds, 3),
        limit_seconds=float(job.settings["join_seconds"]) + GRACE_SECONDS + LATE_SECONDS,
        restarted_losses=tuple(float(loss) for loss in record["losses"]),
        wanted_losses=wanted_losses[begin:],
        not_restarted=restarted.failure or ("" if begin else "no rank went on from the checkpoint"),
    )
    return drill, {"drill": outcome, "restart": restarted}
