"""Which processes does each launcher start on a node, and which words does it put on their command lines?

A launcher is a function of a job, the ranks of one node and the port of the rendezvous. It gives the processes of that
node as `preflight.node.ranks` takes them: one for each rank (``rank3``), or one agent for the node (named after it).
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from preflight.findings import Where
from preflight.hosts import fold
from preflight.launch.reference import Start, Starting
from preflight.launch.table import without_secrets

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
    starting: Starting = field(default_factory=Starting)  # what the user's own files say of it

    @property
    def world_size(self) -> int:
        """How many ranks there are."""
        return len(self.placements)

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes, in rank order."""
        return tuple(dict.fromkeys(placement.node for placement in self.placements))

    @property
    def numbers_freely(self) -> bool:
        """Whether the agents agree among themselves which node has which ranks."""
        return self.restarts > 0 or self.starting.numbers_freely

    def start_of(self, node: str) -> Start:
        """What the user's files say of a node; all of it left open where there are none."""
        return self.starting.of(self.nodes.index(node)) if self.starting.starts else Start("", Where("", 0))

    def address_for(self, node: str) -> str:
        """Where a node looks for rank 0: as its file says, or on the training interface."""
        return self.start_of(node).address or self.master_address


Process = dict[str, Any]
Launcher = Callable[[Job, list[Placement], int], list[Process]]


def rank_variables(job: Job, placement: Placement, master_port: int) -> dict[str, str]:
    """What torch's env:// rendezvous reads."""
    return {
        "RANK": str(placement.rank),
        "WORLD_SIZE": str(job.start_of(placement.node).world_size or job.world_size),
        "LOCAL_RANK": str(placement.local_rank),
        "LOCAL_WORLD_SIZE": str(placement.local_world_size),
        "MASTER_ADDR": job.address_for(placement.node),
        "MASTER_PORT": str(master_port),
    }


def shared_variables(job: Job, node: str) -> dict[str, str]:
    """What every rank of a node is given, whichever launcher starts it."""
    # As torchrun does: ranks that share a machine must not each take all its cores, unless the job's file says so.
    threads = job.start_of(node).environment.get("OMP_NUM_THREADS", "1")
    return {"PREFLIGHT_SETTINGS": json.dumps(job.settings), "OMP_NUM_THREADS": threads}


def direct(job: Job, placements: list[Placement], master_port: int) -> list[Process]:
    """One process a rank, with the variables that torch's env:// rendezvous reads."""
    return [
        {
            "name": f"rank{placement.rank}",
            "argv": ["{python}", "{script}"],
            "environment": {**rank_variables(job, placement, master_port), **shared_variables(job, placement.node)},
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
        environment = shared_variables(job, placement.node)
        processes.append({"name": f"rank{placement.rank}", "argv": argv, "environment": environment})
    return processes


def torchrun(job: Job, placements: list[Placement], master_port: int) -> list[Process]:
    """One agent a node, that meets the others at rank 0's address and starts the ranks of its node."""
    node = placements[0].node
    start = job.start_of(node)
    elastic = job.restarts > 0 or start.rendezvous == "c10d"
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
        *(_meeting_again(job, node, master_port) if elastic else _meeting_once(job, node, master_port)),
        *start.options,
        "{script}",
    ]
    # Each life of the ranks gets a store of its own: in a shared one they find what the life before left there.
    fresh = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"} if job.restarts else {}
    return [{"name": node, "argv": argv, "environment": {**shared_variables(job, node), **fresh}}]


def _meeting_once(job: Job, node: str, port: int) -> list[str]:
    """The static rendezvous: ranks are numbered as written; it cannot bring agents together a second time."""
    return [
        "--rdzv-backend=static",
        f"--rdzv-conf=timeout={AGENT_JOIN_SECONDS}",
        f"--master-addr={job.address_for(node)}",
        f"--master-port={port}",
    ]


def _meeting_again(job: Job, node: str, port: int) -> list[str]:
    """The elastic rendezvous: agents agree anew who is there, and number the ranks as they like."""
    bare, start = job.address_for(node), job.start_of(node)
    address = f"[{bare}]" if ":" in bare else bare
    # By an address of the user's own each node must recognise itself, as it will have to in the job.
    host = "" if start.address else f",is_host={int(node == job.nodes[0])}"
    return [
        "--rdzv-backend=c10d",
        f"--rdzv-id={start.rendezvous_id}",
        f"--rdzv-endpoint={address}:{port}",
        f"--rdzv-conf=join_timeout={AGENT_JOIN_SECONDS}{host}",
    ]


def deepspeed(job: Job, placements: list[Placement], master_port: int) -> list[Process]:
    """torchrun's agents; what makes it DeepSpeed is the engine that the ranks wrap their model in."""
    return torchrun(job, placements, master_port)


def accelerate(job: Job, placements: list[Placement], master_port: int) -> list[Process]:
    """`accelerate launch` on every node, each with a YAML of its own: the user's, or one that we write."""
    node = placements[0].node
    start = job.start_of(node)
    on_cpu = job.settings["backend"] == "gloo"
    config = start.config if start.launcher else accelerate_yaml(job, node, master_port)
    argv = ["{python}", "-m", "accelerate.commands.launch"]
    if config:
        argv.append("--config_file={file:accelerate.yaml}")
    if start.launcher:  # what must be ours stands in the command, which wins over the file
        argv += [*start.options, f"--main_process_port={master_port}"]
        argv += [] if start.address else [f"--main_process_ip={job.master_address}"]
        argv += [] if start.has_node_rank else [f"--machine_rank={job.nodes.index(node)}"]
    return [
        {
            "name": node,
            "argv": [*argv, "--monitor_interval=0.2", "--tee=3", "{script}"],
            "files": {"accelerate.yaml": config} if config else {},
            # With `use_cpu: true` in the YAML every rank silently becomes a world of one; this variable does it right.
            "environment": {**shared_variables(job, node), **({"ACCELERATE_USE_CPU": "true"} if on_cpu else {})},
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


def told(processes: list[Process]) -> str:
    """What is started on a node, for people: each command with its variables and files, secrets hidden."""
    lines = []
    for process in processes:
        variables = [f"{name}={shlex.quote(value)}" for name, value in process["environment"].items()]
        lines.append(" ".join([*variables, shlex.join(process["argv"])]))
        lines += [f"{name}:\n{text}" for name, text in process.get("files", {}).items()]
    return "".join(f"{without_secrets(line)}\n" for line in lines)


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
