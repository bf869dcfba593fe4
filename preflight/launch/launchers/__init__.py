"""Which launchers are there, and why can one of them not start a job?"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from preflight.hosts import fold
from preflight.launch.job import Job, Placement, Process
from preflight.launch.launchers import accelerate, deepspeed, direct, env, torchrun

Launcher = Callable[[Job, list[Placement], int], list[Process]]

LAUNCHERS: dict[str, Launcher] = {
    "direct": direct.start,
    "torchrun": torchrun.start,
    "accelerate": accelerate.start,
    "env": env.start,
    "deepspeed": deepspeed.start,
}

# What must be installed for the job's interpreter on every node, beside torch.
NEEDS = {"accelerate": "accelerate", "deepspeed": "deepspeed"}


def why_not(launcher: str, job: Job, packages: Mapping[str, Mapping[str, str]]) -> str:
    """Why this launcher cannot start this job, or nothing. ``packages`` are the distributions of each node."""
    needed = NEEDS.get(launcher)
    without = [node for node in job.nodes if needed and node in packages and needed not in packages[node]]
    if without:
        return f"--launcher {launcher}: {needed} is not installed on {fold(without)}"
    if launcher == "accelerate":
        counts = {placement.node: placement.local_world_size for placement in job.placements}
        if len(set(counts.values())) > 1:
            told = ", ".join(f"{count} on {node}" for node, count in counts.items())
            return f"--launcher accelerate: starts equally many ranks on every node; wanted are {told}"
        if job.world_size < 2:
            return "--launcher accelerate: with MULTI_GPU it wants two ranks or more (--ranks-per-node 2)"
    return ""
