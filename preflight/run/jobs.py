"""Which jobs does a run start on its nodes: with which settings, and for how long?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from preflight.facts import view
from preflight.facts.results import Bench, Result
from preflight.job.measure import bench, devices, rails, scope, streams, training
from preflight.job.measure.rdma import writes
from preflight.job.options.options import Options
from preflight.job.start.outcome import Outcome
from preflight.job.start.patience import RESERVE_SECONDS
from preflight.job.start.placement import JobNodes
from preflight.launch.job import Job
from preflight.run.stages import Stages
from preflight.said import said
from preflight.said.errors import NotApplicable, NotMeasured

BENCH_SECONDS = 90.0
SEARCH_SECONDS = 60.0
TRAINING_SECONDS = 90.0
DEEPSPEED_ON_CPU = "without GPUs accelerate's DeepSpeed gives every rank a world of one"
LOG_OF = {"nccl": "nccl", "trace": "flight-recorder"}


def bench_job(crew: JobNodes, stages: Stages, *, racks: Mapping[str, str], earlier: Iterable[Result]) -> Job:
    """The collectives over all ranks; `earlier` is what they are compared with. NotMeasured without time or ranks."""
    sweep = crew.options.sweep
    groups = scope.rounds(sweep.scope, crew.placements(), racks)
    seconds = stages.left(max(BENCH_SECONDS, bench.seconds_of(sweep, max(1, len(groups)))))
    settings = bench.settings(crew.backend, len(crew.cluster), sweep, groups=groups, seconds=seconds, earlier=earlier)
    return crew.job("collectives", settings, seconds=stages.left(seconds + RESERVE_SECONDS))


def bench_plan(options: Options, *, earlier: tuple[Result, ...], say: Callable[[str], None]) -> bench.Plan:
    """What else the options ask of the bench."""
    return bench.Plan(
        is_localizing=options.localize,
        is_full_mesh=options.full_mesh,
        is_burning_in=options.burn_in,
        thresholds=options.settings,
        baseline=earlier,
        say=say,
        scope=options.sweep.scope,
    )


def search_seconds(crew: JobNodes) -> float:
    """How long the search for what is slow may take beside the collectives."""
    is_full, count = crew.options.full_mesh, len(crew.cluster)
    seconds = SEARCH_SECONDS + devices.SECONDS + (2 * streams.full_mesh_seconds(count) if is_full else 0.0)
    if crew.backend == "nccl":
        most = max(placement.local_world_size for placement in crew.placements())
        seconds += rails.longest_seconds(count, most, is_full=is_full) + writes.LONGEST_SECONDS
    return seconds


def training_job(crew: JobNodes, stages: Stages) -> Job:
    """The reference training through the launcher of the options.

    NotApplicable where the launch files cannot start it; NotMeasured without time or ranks, and where a node lacks the
    launcher.
    """
    from preflight.launch.launchers import why_not  # imported here: not every run trains

    options, reason = crew.options, not_started(crew)
    if reason:
        raise NotApplicable(reason)
    settings = training.settings(crew.backend, options)
    job = crew.job("train", settings, seconds=stages.left(TRAINING_SECONDS + RESERVE_SECONDS))
    job = replace(job, starting=options.starting, placements=crew.placements(options.starting))
    refusal = why_not(options.launcher, job, view.packages(crew.cluster))
    if refusal:
        raise NotMeasured(refusal)
    return job


def not_started(crew: JobNodes) -> str:
    """Why the launch files cannot start the reference job on these nodes, "" where they can."""
    starting = crew.options.starting
    reason = starting.refusal
    if starting.needs_gpus and crew.backend == "gloo":
        reason = said("{needs_gpus}: {DEEPSPEED_ON_CPU}", starting.needs_gpus, DEEPSPEED_ON_CPU)
    return said("the reference job was not started: {reason}", reason) if reason else ""


def all_reduce_gbytes_per_s(result: Bench | None) -> float | None:
    """What the bench's all-reduce reached over these ranks, where it ran."""
    results = result.results if result is not None else ()
    return max((one.algbw_gbytes_per_s for one in results if one.title == "all_reduce"), default=None)


def logs_of(outcomes: Mapping[str, Outcome]) -> dict[str, str]:
    """The files of the report that hold what the jobs printed, by name."""
    logs: dict[str, str] = {}
    for stage, outcome in outcomes.items():
        for node, commands in outcome.commands.items():
            logs[f"{stage}-launch-{node}.log"] = commands
        for story in outcome.stories:
            name = f"{stage}-rank{story.placement.rank}-{story.placement.node}"
            logs[f"{name}.log"] = story.log
            for kind, text in story.files.items():
                logs[f"{name}-{LOG_OF[kind]}.log"] = text
    return logs
