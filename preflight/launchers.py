"""Which processes does each launcher start on a node, and which words does it put on their command lines?

A launcher is a function of a job, the ranks of one node and the port of the rendezvous. It gives the processes of that
node as `preflight.node.ranks` takes them: one for each rank (``rank3``), or one agent for the node (named after it).
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from preflight.hosts import fold

AGENT_JOIN_SECONDS = 30  # how long an agent waits for the agents of the other nodes


@dataclass(frozen=True)
class Placement:
    """Where one rank runs."""

    rank: int
    node: str
    local_rank: int
    local_world_size: int


@dataclass(frozen=True)
class Job:
    """A workload for a set of ranks."""

    workload: str
    settings: dict[str, Any]
    placements: tuple[Placement, ...]
    master_address: str
    environment: tuple[tuple[str, dict[str, str]], ...]
    seconds: float
    restarts: int = 0  # how often an agent starts its ranks again when one fails

    @property
    def world_size(self) -> int:
        """How many ranks there are."""
        return len(self.placements)

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes, in rank order."""
        return tuple(dict.fromkeys(placement.node for placement in self.placements))


Process = dict[str, Any]
Launcher = Callable[[Job, list[Placement], int], list[Process]]


def rank_variables(job: Job, placement: Placement, master_port: int) -> dict[str, str]:
    """What torch's env:// rendezvous reads."""
    return {
        "RANK": str(placement.rank),
        "WORLD_SIZE": str(job.world_size),
        "LOCAL_RANK": str(placement.local_rank),
        "LOCAL_WORLD_SIZE": str(placement.local_world_size),
        "MASTER_ADDR": job.master_address,
        "MASTER_PORT": str(master_port),
    }


def shared_variables(job: Job) -> dict[str, str]:
    """What every rank is given, whichever launcher starts it."""
    # As torchrun does: ranks that share a machine must not each take all its cores.
    return {"PREFLIGHT_SETTINGS": json.dumps(job.settings), "OMP_NUM_THREADS": "1"}


def direct(job: Job, placements: list[Placement], master_port: int) -> list[Process]:
    """One process a rank, with the variables that torch's env:// rendezvous reads."""
    return [
        {
            "name": f"rank{placement.rank}",
            "argv": ["{python}", "{script}"],
            "environment": {**rank_variables(job, placement, master_port), **shared_variables(job)},
        }
        for placement in placements
    ]


def env(job: Job, placements: list[Placement], master_port: int) -> list[Process]:
    """One shell a rank: the exports that a person types on each machine, then the program."""
    processes = []
    for placement in placements:
        variables = rank_variables(job, placement, master_port)
        exports = "; ".join(f"export {name}={shlex.quote(value)}" for name, value in variables.items())
        argv = ["sh", "-c", f'{exports}; exec "$@"', "sh", "{python}", "{script}"]
        processes.append({"name": f"rank{placement.rank}", "argv": argv, "environment": shared_variables(job)})
    return processes


def torchrun(job: Job, placements: list[Placement], master_port: int) -> list[Process]:
    """One agent a node, that meets the others at rank 0's address and starts the ranks of its node."""
    node = placements[0].node
    argv = [
        "{python}",
        "-m",
        "torch.distributed.run",
        f"--nnodes={len(job.nodes)}",
        f"--node-rank={job.nodes.index(node)}",
        f"--nproc-per-node={len(placements)}",
        f"--max-restarts={job.restarts}",
        "--monitor-interval=0.2",
        "--tee=3",
        *(_meeting_again(job, node, master_port) if job.restarts else _meeting_once(job, master_port)),
        "{script}",
    ]
    # Each life of the ranks gets a store of its own: in a shared one they find what the life before left there.
    fresh = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"} if job.restarts else {}
    return [{"name": node, "argv": argv, "environment": {**shared_variables(job), **fresh}}]


def _meeting_once(job: Job, port: int) -> list[str]:
    """The static rendezvous: ranks are numbered as written; it cannot bring agents together a second time."""
    return [
        "--rdzv-backend=static",
        f"--rdzv-conf=timeout={AGENT_JOIN_SECONDS}",
        f"--master-addr={job.master_address}",
        f"--master-port={port}",
    ]


def _meeting_again(job: Job, node: str, port: int) -> list[str]:
    """The elastic rendezvous: agents agree anew who is there, and number the ranks as they like."""
    address = f"[{job.master_address}]" if ":" in job.master_address else job.master_address
    return [
        "--rdzv-backend=c10d",
        "--rdzv-id=preflight",
        f"--rdzv-endpoint={address}:{port}",
        f"--rdzv-conf=join_timeout={AGENT_JOIN_SECONDS},is_host={int(node == job.nodes[0])}",
    ]


def deepspeed(job: Job, placements: list[Placement], master_port: int) -> list[Process]:
    """torchrun's agents; what makes it DeepSpeed is the engine that the ranks wrap their model in."""
    return torchrun(job, placements, master_port)


def accelerate(job: Job, placements: list[Placement], master_port: int) -> list[Process]:
    """`accelerate launch` on every node, each with a YAML of its own, which differ in machine_rank only."""
    on_cpu = job.settings["backend"] == "gloo"
    return [
        {
            "name": placements[0].node,
            "argv": [
                "{python}",
                "-m",
                "accelerate.commands.launch",
                "--config_file={file:accelerate.yaml}",
                "--monitor_interval=0.2",
                "--tee=3",
                "{script}",
            ],
            "files": {"accelerate.yaml": accelerate_yaml(job, placements[0].node, master_port)},
            # With `use_cpu: true` in the YAML every rank silently becomes a world of one; this variable does it right.
            "environment": {**shared_variables(job), **({"ACCELERATE_USE_CPU": "true"} if on_cpu else {})},
        }
    ]


def accelerate_yaml(job: Job, node: str, master_port: int) -> str:
    """The configuration that `accelerate config` would write on one machine."""
    lines: Mapping[str, str | int] = {
        "compute_environment": "LOCAL_MACHINE",
        "debug": "false",
        "distributed_type": "MULTI_GPU",
        "downcast_bf16": "'no'",
        "enable_cpu_affinity": "false",
        "machine_rank": job.nodes.index(node),
        "main_process_ip": job.master_address,
        "main_process_port": master_port,
        "main_training_function": "main",
        "mixed_precision": "'no'",
        "num_machines": len(job.nodes),
        "num_processes": job.world_size,
        "rdzv_backend": "static",
        "same_network": "true",
        "use_cpu": "false",
    }
    return "".join(f"{key}: {value}\n" for key, value in lines.items())


LAUNCHERS: dict[str, Launcher] = {
    "direct": direct,
    "torchrun": torchrun,
    "accelerate": accelerate,
    "env": env,
    "deepspeed": deepspeed,
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
