"""Does a real DistributedDataParallel training over these ranks compute what one process would? A small one shows it.

By hand, on CPU (gloo), from the folder that holds ``preflight``; every rank prints its records, one JSON object a line:

    torchrun --nproc-per-node=2 -m preflight.job.ranks.train
    torchrun --nnodes=2 --node-rank=N --master-addr=HOST --master-port=29500 -m preflight.job.ranks.train
    RANK=N WORLD_SIZE=2 MASTER_ADDR=HOST MASTER_PORT=29500 python -m preflight.job.ranks.train

Settings are a JSON object: PREFLIGHT_SETTINGS='{"backend": "nccl", "strategy": "fsdp", "precision": "bf16"}'.
"""

from __future__ import annotations

import gc
import os
import signal
from dataclasses import replace
from typing import Any

from preflight.job.ranks.rank.life import live
from preflight.job.ranks.rank.limits import Planned
from preflight.job.ranks.rank.records import Records
from preflight.job.ranks.rank.traces import keep_what_is_written
from preflight.job.ranks.rank.world import joined, leave_together, load_torch, meet
from preflight.job.ranks.training.again import check_again, time_alone
from preflight.job.ranks.training.checkpoint import Checkpoint, check_resuming
from preflight.job.ranks.training.data import Data, check_samples
from preflight.job.ranks.training.figures import report_job, report_rank
from preflight.job.ranks.training.fingerprint import digest, whole
from preflight.job.ranks.training.first_step import check_first_step
from preflight.job.ranks.training.model import build_model
from preflight.job.ranks.training.place import Place, from_every_rank, look_through_accelerate
from preflight.job.ranks.training.quota import Quota
from preflight.job.ranks.training.settings import Settings
from preflight.job.ranks.training.trainee import Trainee

STATES = 3  # that a checkpoint holds of each parameter: itself, and AdamW's two moments


def join(*, settings: Settings, records: Records) -> Place:
    """Import torch, meet the other ranks, and exchange a first word with them."""
    import_seconds = load_torch(records)
    load_the_rest()
    world = meet(
        settings.backend,
        join_seconds=settings.join_seconds,
        wait_seconds=settings.wait_seconds,
        import_seconds=import_seconds,
        records=records,
        planned=Planned(),
    )
    place = Place(
        rank=world.rank,
        ranks=world.ranks,
        device=world.device,
        import_seconds=import_seconds,
        first_here=world.rank - int(os.environ.get("LOCAL_RANK", "0")),
        life=int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")),
        store=world.store,
        moved=records.advance,
    )
    if "ACCELERATE_MIXED_PRECISION" in os.environ:
        look_through_accelerate(place)
    from_every_rank([0.0], place=place)  # NCCL connects at the first operation only
    joined(world, nccl=nccl_version() if settings.backend == "nccl" else "", records=records)
    return place


def nccl_version() -> str:
    """The version that NCCL says it is."""
    import torch

    nccl: Any = torch.cuda.nccl
    return ".".join(str(part) for part in nccl.version())


def load_the_rest() -> None:
    """Import what the first optimizer would: a thousand files.

    On a busy file system they take longer than ranks wait for each other in a step; for an import all have time.
    """
    import torch

    torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))])


def train(*, settings: Settings, place: Place, records: Records) -> None:
    """Train, check every claim on what was trained, and report."""
    import torch

    torch.manual_seed(settings.seed)
    data = Data(settings=settings, place=place)
    start = build_model(data.shape).to(place.device)
    trainee = Trainee(start, settings=settings, place=place)
    # Of the very model that is trained, before its first step; what is hung on that later is not on this one.
    start.load_state_dict({name: whole(value) for name, value in trainee.model.state_dict().items()})
    batches, data_seconds = data.load()
    checkpoint = Checkpoint(settings=settings, place=place, records=records)

    found: dict[str, Any] = {"data_seconds_median": data_seconds}
    begin = checkpoint.read_into(trainee) if settings.drill and place.life else 0
    steps = []
    quota = Quota()
    for number in range(begin, settings.steps):
        if (number, place.rank, place.life) == (settings.dying_step, settings.dying_rank, 0):
            os.kill(os.getpid(), signal.SIGKILL)
        trainee.wire.keeps_what_is_sent = number == 0
        steps.append(trainee.timed_step(batches[number]))
        if number == 0:
            gc.freeze()  # what torch has imported until now stays to the end: no step is to wait for a look through it
            gc.enable()
            found |= check_first_step(trainee, start, data=data)
            records.stage("running")
        if number + 1 == checkpoint.step and checkpoint.path:
            size = sum(parameter.numel() * parameter.element_size() for parameter in start.parameters())
            records.planned = replace(records.planned, stored_bytes=STATES * size)
            records.stage("checkpoint")
            checkpoint.write(trainee)
            records.stage("running")
    if settings.drill:
        report_job(steps, begin=begin, data=data, records=records, figures={})
        return

    found["quota_periods_stopped"], found["quota_periods"] = quota.held()
    records.stage("checking")
    found["parameters_digest"] = digest(list(trainee.model.parameters()), moved=place.moved)
    found["optimizer_digest"] = (
        digest(trainee.optimizer_state(), moved=place.moved) if settings.strategy == "ddp" else ""
    )
    found |= check_samples(data) | check_again(start, batches, steps, data=data)
    found["alone_step_seconds_median"] = time_alone(start, batches, data=data)
    if checkpoint.path:
        records.stage("checkpoint")
        found |= check_resuming(start, checkpoint, batches, steps, data=data)
    size = sum(parameter.numel() * parameter.element_size() for parameter in start.parameters())
    figures = {"gradient_bytes": size, "samples_missing": found.pop("samples_missing")}
    report_rank(steps, found, data=data, records=records)
    report_job(steps, begin=begin, data=data, records=records, figures=figures)


def work(given: dict[str, Any], records: Records) -> None:
    """Join, train, report."""
    settings = Settings(**given)
    if settings.backend == "nccl" and records.socket:
        keep_what_is_written(records.rank)
    place = join(settings=settings, records=records)
    records.stage("first_step")
    train(settings=settings, place=place, records=records)
    if settings.backend == "nccl":  # which may still send
        seconds = settings.wait_seconds
        leave_together(place.store, rank=place.rank, ranks=place.ranks, key=str(place.life), seconds=seconds)


def main() -> int:
    """The life of one rank."""
    return live(work)


if __name__ == "__main__":
    # No teardown: gloo + DDP can abort in it after all work is done, and the records are what counts.
    os._exit(main())
