"""How is the reference training run, what do its ranks report, and where did it stop if it failed?"""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec

from preflight.facts.results import JobFailure, TrainedRank, Training
from preflight.job.measure.drill import run_drill
from preflight.job.options.options import Options
from preflight.job.start.contradiction import unheard
from preflight.job.start.outcome import Outcome, RankStory
from preflight.job.start.patience import WAIT_SECONDS
from preflight.job.start.run import run_job
from preflight.launch.job import Job
from preflight.reach.session.connection import Session
from preflight.said import said

STEPS = 12
SEED = 20240517
JOIN_SECONDS = 30


async def run(
    sessions: dict[str, Session], job: Job, options: Options, *, algbw_gbytes_per_s: float | None
) -> tuple[Training, dict[str, Outcome]]:
    """The training's section of the report, and the end of each job that was run, by name."""
    outcome = heard(await run_job(sessions, job, launcher=options.launcher))
    training = summarise(job, outcome, launcher=options.launcher, algbw_gbytes_per_s=algbw_gbytes_per_s)
    outcomes = {"training": outcome}
    if options.drill and training.ranks:
        drill, more = await run_drill(sessions, job, wanted_losses=training.losses)
        training = msgspec.structs.replace(training, drill=drill)
        outcomes |= more
    return training, outcomes


def heard(outcome: Outcome) -> Outcome:
    """The end of the ranks; they failed too where one ends well and says nothing of itself or of what it did."""
    why, nodes = unheard(outcome.stories, ("joined", "trained"))
    return dataclasses.replace(outcome, failure=why, guilty=nodes) if why and not outcome.failure else outcome


def settings(backend: str, options: Options) -> dict[str, Any]:
    """The settings of the workload."""
    from preflight.launch.launchers import LAUNCHERS  # imported here: not every run trains

    return {
        "backend": backend,
        "steps": STEPS,
        "seed": SEED,
        "model": options.model,
        "strategy": LAUNCHERS[options.launcher].strategy or options.strategy,
        "precision": options.precision,
        "accumulate": int(options.accumulate),
        "checkpoint_activations": options.checkpoint_activations,
        "join_seconds": JOIN_SECONDS,
        "wait_seconds": WAIT_SECONDS,
        "checkpoint_dir": options.checkpoint_dir,
        "checkpoint_name": f"preflight-{options.run_id}",
    }


def summarise(job: Job, outcome: Outcome, *, launcher: str, algbw_gbytes_per_s: float | None = None) -> Training:
    """The ranks' records -> the section of the report."""
    node_of = {story.placement.rank: story.placement.node for story in outcome.stories}
    ranks = tuple(TrainedRank.told(record, node=node_of[record["rank"]]) for record in outcome.records("trained"))
    record: dict[str, Any] = next(iter(outcome.records("losses")), {"losses": [], "tokens_per_s": 0.0})
    losses = tuple(float(loss) for loss in record["losses"])
    sent_bytes = int(record.get("gradient_bytes", 0)) if job.world_size > 1 else 0
    return Training(
        launcher=launcher,
        world_size=job.world_size,
        losses=losses,
        ranks=ranks if not outcome.failure else (),
        backend=str(job.settings["backend"]),
        steps=len(losses),
        tokens_per_s=float(record["tokens_per_s"]),
        not_measured=outcome.failure,
        not_measured_nodes=outcome.guilty,
        model=str(job.settings["model"]),
        strategy=str(job.settings["strategy"]),
        precision=str(job.settings["precision"]),
        accumulate=int(job.settings["accumulate"]),
        checkpoints_activations=bool(job.settings["checkpoint_activations"]),
        samples_missing=int(record.get("samples_missing", 0)),
        scaling_efficiency=scaling_efficiency(ranks) if not outcome.failure else None,
        expected_communication_seconds=sent_bytes / (algbw_gbytes_per_s * 1e9) if algbw_gbytes_per_s else None,
        checkpoint_dir=str(job.settings["checkpoint_dir"]),
        failure=failure_of(outcome) if outcome.failure else None,
    )


def failure_of(outcome: Outcome) -> JobFailure:
    """Where the job stopped, and why, as far as its ranks or their launcher reported it."""
    first = outcome.culprits[0] if outcome.culprits else None
    return JobFailure(
        nodes=outcome.guilty,
        is_proven=outcome.is_proven,
        message=outcome.failure,
        stage=first.stage if first else "",
        ranks=tuple(story.placement.rank for story in outcome.culprits),
        cause=outcome.why.cause,
        fix=outcome.why.fix or (where_to_read(first) if first else ""),
        last_lines=tuple(first.last_lines) if first else (),
    )


def where_to_read(story: RankStory) -> str:
    """What to do about a rank that ended by itself, for a reason that no table knows."""
    rank, node = story.placement.rank, story.placement.node
    return said(
        "read logs/training-rank{rank}-{node}.log of this report from its end; where it says "
        "nothing, `dmesg -T` on {node}, and what its Python runs by itself (PYTHONPATH, "
        "sitecustomize.py, .pth files)",
        rank,
        node,
    )


def scaling_efficiency(ranks: tuple[TrainedRank, ...]) -> float | None:
    """Tokens/s of all nodes together, over the sum of what each reaches by itself; None where there is one node.

    Every rank takes the same number of tokens a step, and a step is as slow as its slowest rank.
    """
    alone: dict[str, list[float]] = {}
    for rank in ranks:
        if rank.alone_step_seconds_median is None:
            return None
        alone.setdefault(rank.node, []).append(rank.alone_step_seconds_median)
    if not alone:
        return None
    together = len(ranks) / max(rank.step_seconds_median for rank in ranks)
    return together / sum(len(seconds) / max(seconds) for seconds in alone.values())
