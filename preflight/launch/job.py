"""What is a job, and which processes does a launcher start for it on each node?

A launcher gives the processes of every node as `preflight.node.calls.ranks` takes them. The name of a process says
which ranks it speaks for: ``rank3`` for that rank, the node's name for all ranks of the node (an agent), and
`ALL_RANKS` for those of every node (one command that starts them all, run on the first node).
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from preflight.judge.ledger.findings import Where
from preflight.said.redact import without_secrets

ALL_RANKS = "all ranks"


@dataclass(frozen=True)
class Placement:
    """Where one rank runs."""

    rank: int
    node: str
    local_rank: int
    local_world_size: int


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
        """The place of a start that is useless without GPUs, "" where there is none."""
        return next((f"{start.where.file}:{start.where.line}" for start in self.starts if start.needs_gpus), "")

    @property
    def nodes(self) -> int:
        """How many nodes the files start; 0 where they leave it open."""
        return len(self.starts) if len(self.starts) > 1 else sum(start.nodes for start in self.starts)

    def of(self, index: int) -> Start:
        """The start of the node of that number."""
        return self.starts[0] if len(self.starts) == 1 else self.starts[index]


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

    def placements_on(self, node: str) -> list[Placement]:
        """The ranks of a node."""
        return [placement for placement in self.placements if placement.node == node]

    def start_of(self, node: str) -> Start:
        """What the user's files say of a node; all of it left open where there are none."""
        return self.starting.of(self.nodes.index(node)) if self.starting.starts else Start("", Where("", 0))

    def address_for(self, node: str) -> str:
        """The address at which a node looks for rank 0: as its file says, or on the training interface."""
        return self.start_of(node).address or self.master_address


Process = dict[str, Any]


def on_each_node(
    start: Callable[[Job, list[Placement], int], list[Process]],
) -> Callable[[Job, int], dict[str, list[Process]]]:
    """The start of a whole job, for a launcher that is run on every node with the ranks of that node."""

    def start_all(job: Job, master_port: int) -> dict[str, list[Process]]:
        return {node: start(job, job.placements_on(node), master_port) for node in job.nodes}

    return start_all


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


def as_typed(processes: list[Process]) -> str:
    """What is started on a node, for people: each command with its variables and files, secrets hidden."""
    lines = []
    for process in processes:
        variables = [f"{name}={shlex.quote(value)}" for name, value in process["environment"].items()]
        lines.append(" ".join([*variables, shlex.join(process["argv"])]))
        lines += [f"{name}:\n{text}" for name, text in (process.get("files", {}) | process.get("shared", {})).items()]
    return "".join(f"{without_secrets(line)}\n" for line in lines)
