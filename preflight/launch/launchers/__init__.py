"""Which launchers are there, and why can one of them not start a job?"""

from __future__ import annotations

from collections.abc import Mapping

from preflight.launch.job import Job, Process
from preflight.launch.launcher import Launcher
from preflight.launch.launchers.accelerate.command import ACCELERATE
from preflight.launch.launchers.deepspeed.command import DEEPSPEED
from preflight.launch.launchers.env import DIRECT, ENV
from preflight.launch.launchers.kubernetes import K8S, KUBERNETES
from preflight.launch.launchers.llamafactory import LLAMAFACTORY
from preflight.launch.launchers.mpirun.command import MPIRUN
from preflight.launch.launchers.ray.command import RAY
from preflight.launch.launchers.serving import SGLANG, VLLM
from preflight.launch.launchers.slurm import SLURM, SRUN
from preflight.launch.launchers.torchrun import TORCHRUN
from preflight.launch.launchers.trainers import COLOSSALAI, COMPOSER, FABRIC
from preflight.launch.plan import Plan
from preflight.launch.traits import PYTHON
from preflight.reach.hosts import fold
from preflight.said import said
from preflight.said.errors import UsageError

# In the order in which people read their names.
ROWS = (
    DIRECT,
    TORCHRUN,
    ACCELERATE,
    ENV,
    DEEPSPEED,
    SLURM,
    LLAMAFACTORY,
    COMPOSER,
    FABRIC,
    COLOSSALAI,
    SRUN,
    MPIRUN,
    RAY,
    VLLM,
    SGLANG,
    K8S,
    KUBERNETES,
)
LAUNCHERS: Mapping[str, Launcher] = {row.name: row for row in ROWS}


def row_of(plan: Plan) -> Launcher:
    """The row of a plan's launcher."""
    return LAUNCHERS[plan.launcher.name]


def logs_in(plan: Plan) -> bool:
    """Whether a plan's command starts the other nodes over ssh, by itself or behind pdsh."""
    return row_of(plan).logs_in(plan) or "pdsh" in plan.wraps


def startable() -> tuple[str, ...]:
    """The names that --launcher takes where the reference job is started."""
    return tuple(row.name for row in ROWS if row.start is not None)


def writable() -> tuple[str, ...]:
    """The names that --launcher takes where launch files are written."""
    return tuple(row.name for row in ROWS if row.write is not None)


def launch_words() -> tuple[str, ...]:
    """The words by which a text is known to start a job."""
    return tuple(word for row in ROWS for word in row.words)


def first_words() -> tuple[str, ...]:
    """The first words of commands that start a job, a plain python among them."""
    return tuple(dict.fromkeys([PYTHON, *(word.split()[0] for word in launch_words())]))


def start_job(launcher: str, job: Job, master_port: int) -> Mapping[str, list[Process]]:
    """The processes of a job on each of its nodes. Raises UsageError for a launcher that starts none."""
    start = LAUNCHERS[launcher].start
    if start is None:
        raise UsageError(
            said("--launcher {launcher}: not supported; wanted one of {startable}", launcher, ", ".join(startable()))
        )
    return start(job, master_port)


def why_not(launcher: str, job: Job, packages: Mapping[str, Mapping[str, str]]) -> str:
    """Why this launcher cannot start this job, or nothing. ``packages`` are the distributions of each node."""
    row = LAUNCHERS[launcher]
    without = [node for node in job.nodes if row.needs and node in packages and row.needs not in packages[node]]
    if without:
        return said("--launcher {launcher}: {needs} is not installed on {without}", launcher, row.needs, fold(without))
    reason = row.refuses(job)
    return f"--launcher {launcher}: {reason}" if reason else ""
