"""How do a job's own files start another program in place of theirs, and why do some files start none?"""

from __future__ import annotations

import os
from dataclasses import replace

from preflight.launch.address import address_of, hostfile_of, logs_in
from preflight.launch.field import Sourced, told, words
from preflight.launch.job import Start, Starting
from preflight.launch.launchers.accelerate import accelerate_options
from preflight.launch.launchers.torchrun import torchrun_options
from preflight.launch.plan import LaunchFiles, Plan
from preflight.launch.rules.jobs import Job, jobs

# What the launcher or the shell tells each rank, and no layer of the environment may.
OF_A_RANK = words("RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE NODE_RANK GROUP_RANK MASTER_ADDR MASTER_PORT")
# Kinds of accelerate that are torchrun's agent inside.
BY_AGENT = words("MULTI_GPU FSDP DEEPSPEED MEGATRON_LM")


def starting_of(files: LaunchFiles) -> Starting:
    """The start that the files tell: of their first job, or of the one command that starts all nodes."""
    return replace(_starting_of(files), logs_in=any(map(logs_in, files.plans)))


def _starting_of(files: LaunchFiles) -> Starting:
    found = jobs(files)
    if not found:
        others = [plan for plan in files.plans if plan.launcher in REFUSED or plan.launcher == "deepspeed"]
        return _by_one_command(others[0], files) if others else Starting()
    job = max(found, key=lambda job: (len(job.files), len(job.plans)))
    refusal = next(filter(None, map(_why_not, job.plans)), "")
    if refusal:
        return Starting(refusal=refusal)
    starts = _by_hand(job) if job.reads_rank else [_start(plan) for plan in sorted(job.plans, key=_node_rank)]
    return Starting(tuple(starts))


REFUSED = {
    "kubernetes": "a Kubernetes manifest is started by the cluster's controller",
    "srun": "srun starts it, inside an allocation of Slurm",
    "mpirun": "mpirun starts it",
}


def _node_rank(plan: Plan) -> int:
    return told(plan.node_rank) or 0


def _at(plan: Plan) -> str:
    return f"{plan.where.file}:{plan.where.line}"


def _why_not(plan: Plan) -> str:
    """Why a plan is read and judged only; "" where it is started."""
    if plan.slurm is not None or "srun" in plan.wraps:
        return f"{_at(plan)}: {REFUSED['srun']}"
    if "mpirun" in plan.wraps or "mpiexec" in plan.wraps:
        return f"{_at(plan)}: {REFUSED['mpirun']}"
    if told(plan.rendezvous) not in (None, "static", "c10d", "env"):
        return f"{_at(plan)}: a rendezvous by {told(plan.rendezvous)} needs a server of its own"
    return _accelerate_why_not(plan) if plan.launcher == "accelerate" else ""


def _accelerate_why_not(plan: Plan) -> str:
    kind = plan.setting("distributed_type")
    if plan.setting("use_cpu") is True or plan.setting("cpu") is not None or kind in ("NO", False, "MULTI_CPU"):
        return f"{_at(plan)}: accelerate starts one plain process for it, which is a world of one"
    if kind is not None and kind not in BY_AGENT:
        return f"{_at(plan)}: distributed_type {kind} is not started here"
    if hostfile_of(plan):
        return f"{_at(plan)}: accelerate hands the start to pdsh or mpirun over {hostfile_of(plan)}"
    return ""


def _by_one_command(plan: Plan, files: LaunchFiles) -> Starting:
    """A command that reaches the nodes by itself; DeepSpeed's hostfile tells what it would start on each."""
    if plan.launcher != "deepspeed":
        return Starting(refusal=f"{_at(plan)}: {REFUSED[plan.launcher]}")
    common = _start(plan)
    named = os.path.basename(str(plan.setting("hostfile")))
    hostfile = next((held for held in files.hostfiles if os.path.basename(held.file) == named), None)
    if hostfile is None or "include" in plan.settings or "exclude" in plan.settings:
        return Starting((common,))
    slots = [told(host.slots) or common.processes for host in hostfile.hosts]
    return Starting(tuple(replace(common, processes=count) for count in slots))


def _start(plan: Plan) -> Start:
    """The start of a node whose file gives one number to the whole node."""
    launcher = "torchrun" if plan.launcher == "llamafactory" else plan.launcher
    rank = plan.node_rank
    return Start(
        launcher=launcher,
        where=plan.where,
        processes=told(plan.processes_per_node) or 0,
        nodes=(told(plan.nodes) or 0) if plan.fewest_nodes in (None, plan.nodes) else 0,
        options=tuple(accelerate_options(plan) if launcher == "accelerate" else torchrun_options(plan)),
        config=plan.config,
        address=address_of(plan),
        has_node_rank=isinstance(rank, Sourced) and rank.origin != "tool",
        rendezvous=told(plan.rendezvous) or "static",
        rendezvous_id=told(plan.rendezvous_id) or "preflight",
        environment=_environment(plan),
        needs_gpus=plan.setting("distributed_type") == "DEEPSPEED" or "use_deepspeed" in plan.settings,
    )


def _environment(plan: Plan) -> dict[str, str]:
    """What the file exports for every rank alike."""
    return {
        name: value.value
        for name, value in plan.environment.items()
        if isinstance(value, Sourced) and name not in OF_A_RANK and not name.startswith(("PET_", "PREFLIGHT_"))
    }


def _by_hand(job: Job) -> list[Start]:
    """The starts of files that number each process themselves; the file of the lowest rank is the first node's."""
    by_node: dict[tuple[str, int], list[Plan]] = {}
    for place, plan in enumerate(job.plans):
        # over ssh, or in a branch, each line is another node's
        is_alone = "ssh" in plan.wraps or plan.is_conditional
        by_node.setdefault((plan.where.file, place if is_alone else -1), []).append(plan)
    starts = []
    for plans in by_node.values():
        ranks = tuple(rank for plan in plans if (rank := told(plan.rank)) is not None)
        first = plans[0]
        starts.append(
            Start(
                "env",
                first.where,
                processes=len(plans),
                nodes=1 if ranks else 0,
                address=address_of(first),
                ranks=ranks if len(ranks) == len(plans) else (),
                world_size=told(first.world_size) or 0,
                environment=_environment(first),
            )
        )
    return sorted(starts, key=lambda start: start.ranks)
