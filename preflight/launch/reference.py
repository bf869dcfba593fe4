"""How do a job's own files start another program in place of theirs, and why do some files start none?"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from preflight.findings import Where
from preflight.launch import accelerate
from preflight.launch.addresses import hostfile_of, is_loopback, wrong_with
from preflight.launch.jobs import Job, jobs
from preflight.launch.plan import LaunchFiles, Plan, Sourced, told, words

# Options that start the agents differently, not the program; where they meet and how they log is ours.
TORCHRUN_KEPT = words("start_method role local_addr rdzv_conf numa_binding virtual_local_rank shutdown_timeout")
ACCELERATE_OURS = words(
    """
    config_file main_process_port monitor_interval tee log_dir quiet module no_python help max_restarts
    main_training_function
    """
)
# What the launcher or the shell tells each rank, and no layer of the environment may.
OF_A_RANK = words("RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE NODE_RANK GROUP_RANK MASTER_ADDR MASTER_PORT")
# Kinds of accelerate that are torchrun's agent inside.
BY_AGENT = words("MULTI_GPU FSDP DEEPSPEED MEGATRON_LM")


@dataclass(frozen=True)
class Start:
    """How the file of one node starts its ranks there; "", 0 and () are what the file leaves open."""

    launcher: str
    where: Where
    processes: int = 0
    nodes: int = 0
    options: tuple[str, ...] = ()
    config: str = ""
    address: str = ""
    has_node_rank: bool = False
    rendezvous: str = "static"
    rendezvous_id: str = "preflight"
    ranks: tuple[int, ...] = ()
    world_size: int = 0
    environment: Mapping[str, str] = field(default_factory=dict)
    needs_gpus: bool = False


@dataclass(frozen=True)
class Starting:
    """The start of each node in the order of their ranks, one for all where the file is a template; or why none."""

    starts: tuple[Start, ...] = ()
    refusal: str = ""
    logs_in: bool = False  # whether the user's own command reaches the other nodes by ssh

    @property
    def launcher(self) -> str:
        """What the files start their ranks with; "" where they start none."""
        return self.starts[0].launcher if self.starts else ""

    @property
    def numbers_freely(self) -> bool:
        """Whether the nodes agree among themselves which of them has which ranks."""
        return any(start.rendezvous != "static" for start in self.starts)

    @property
    def needs_gpus(self) -> str:
        """The place of a start that is worth nothing without GPUs, "" where there is none."""
        return next((f"{start.where.file}:{start.where.line}" for start in self.starts if start.needs_gpus), "")

    @property
    def nodes(self) -> int:
        """How many nodes the files start; 0 where they leave it open."""
        return len(self.starts) if len(self.starts) > 1 else sum(start.nodes for start in self.starts)

    def of(self, index: int) -> Start:
        """The start of the node of that number."""
        return self.starts[0] if len(self.starts) == 1 else self.starts[index]


def starting_of(files: LaunchFiles) -> Starting:
    """The start that the files tell: of their first job, or of the one command that starts all nodes."""
    return replace(_starting_of(files), logs_in=any(map(logs_in, files.plans)))


def logs_in(plan: Plan) -> bool:
    """Whether a plan's command starts the other nodes over ssh: DeepSpeed's, pdsh's or mpirun's hostfile."""
    by_runner = plan.launcher == "deepspeed" and plan.start == "all nodes" and "hostfile" in plan.settings
    return by_runner or (plan.launcher == "accelerate" and bool(hostfile_of(plan))) or "pdsh" in plan.wraps


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
        options=tuple(_accelerate_options(plan) if launcher == "accelerate" else _torchrun_options(plan)),
        config=plan.config,
        address=address_of(plan),
        has_node_rank=isinstance(rank, Sourced) and rank.origin != "tool",
        rendezvous=told(plan.rendezvous) or "static",
        rendezvous_id=told(plan.rendezvous_id) or "preflight",
        environment=_environment(plan),
        needs_gpus=plan.setting("distributed_type") == "DEEPSPEED" or "use_deepspeed" in plan.settings,
    )


def _torchrun_options(plan: Plan) -> Iterable[str]:
    for name in TORCHRUN_KEPT:
        value = plan.settings.get(name)
        if plan.launcher == "torchrun" and isinstance(value, Sourced):
            yield f"--{name.replace('_', '-')}={value.value}"


def _accelerate_options(plan: Plan) -> Iterable[str]:
    """What the command gives beside its file; the file goes to accelerate as it is."""
    for name, value in plan.settings.items():
        is_of_command = isinstance(value, Sourced) and bool(plan.command) and value.file == plan.where.file
        if not is_of_command or name in ACCELERATE_OURS or (name == "main_process_ip" and not address_of(plan)):
            continue
        yield f"--{name}" if name in accelerate.SPEC.flags else f"--{name}={told(value)}"


def address_of(plan: Plan) -> str:
    """The address of rank 0 where it is one, "" elsewhere."""
    address = told(plan.master_address) or ""
    return "" if wrong_with(address) or is_loopback(address) else address


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
