"""How is a Python on a node reached where every rank of a job runs preflight? Its rank starts one that connects to us.

The nodes have met in torch's store already (job/ranks/meeting): what was found there stands in PREFLIGHT_MEETING.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from preflight.reach.transport.reach import TASK_LOADER, TASK_PROGRAM, Found, Gathering
from preflight.said import said

if TYPE_CHECKING:
    from preflight.reach.host import Host
    from preflight.reach.transport.reach import Reach

MEETING = "PREFLIGHT_MEETING"
# Hands the program of a task to whoever holds the store, and lives as long as that one or the run does.
HAND_ON = """
import json, os, socket, sys
door = socket.socket(socket.AF_UNIX)
door.connect(sys.argv[1])
door.sendall((json.dumps([os.environ[sys.argv[2]], sys.argv[3]]) + chr(10)).encode())
door.recv(1)
"""
ABSENT = (
    "rank {rank} did not join within the time for it; start the same command there, with the MASTER_ADDR, MASTER_PORT "
    "and WORLD_SIZE of the others, and let it reach that port"
)
SILENT = "its rank met the others, but did not connect back"


@dataclass(frozen=True)
class Torchrun:
    """The nodes of the job around us, each by the rank that runs on it."""

    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    name = "torchrun"
    form = "torchrun"
    starting_seconds = 0.0

    def named(self, rest: str) -> tuple[Found, ...]:
        """The nodes in the order of their ranks, those that never came among them."""
        if rest:
            raise ValueError("the ranks themselves say which nodes there are: wanted 'torchrun' alone")
        found = self._meeting()
        held = [node["name"] for _, node in found["nodes"]]
        rows = {
            rank: Found(
                node["name"] if held.count(node["name"]) == 1 else f"{node['name']}-rank{rank}", node["address"]
            )
            for rank, node in found["nodes"]
        }
        rows |= {rank: Found(f"rank{rank}", f"rank{rank}", ABSENT.format(rank=rank)) for rank in found["absent"]}
        return tuple(row for _, row in sorted(rows.items()))

    def argv(self, host: Host, reach: Reach) -> list[str]:
        """The loader itself for the first node; any other is reached only by its own rank."""
        first = self._meeting()["nodes"][0][1]
        if host.address == first["address"]:
            return reach.loader(host, python=sys.executable)
        return [sys.executable, "-I", "-c", f"import sys; sys.exit({SILENT!r})"]

    def gathering(self, hosts: Sequence[Host], reach: Reach) -> Gathering | None:
        """All that came, by one word in the store; they run their own interpreter."""
        del reach
        met = self._meeting()
        leads = {node["master"] for _, node in met["nodes"]}
        if any(host.trouble for host in hosts):
            hosts = [host for host in hosts if not host.trouble]
        return Gathering(
            argv=(sys.executable, "-I", "-c", HAND_ON, met["door"], TASK_PROGRAM, TASK_LOADER),
            controller=("PREFLIGHT_CONTROLLER",),
            address="PREFLIGHT_ADDRESS",
            number="PREFLIGHT_NUMBER",
            listen_at=leads.pop() if len(leads) == 1 else "",
        )

    def explain(self, node: str, code: int, stderr: str) -> str:
        """Why a rank that met the others is not there."""
        del node, code
        return said("{SILENT}: look at what it printed", SILENT) if SILENT in stderr else ""

    def is_worth_a_retry(self, _stderr: str) -> bool:
        """Never: a node that did not come does not come a moment later."""
        return False

    def log_in_hint(self, node: str) -> str:
        """The same program on the node."""
        return said("look at what the rank on {node} printed; each node runs the same command", node)

    def _meeting(self) -> dict[str, Any]:
        text = self.environment.get(MEETING, "")
        if not text:
            raise ValueError(
                "no job around it: start `preflight run --hosts=torchrun` by torchrun (-m preflight), by srun, or on "
                "every node with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set"
            )
        found: dict[str, Any] = json.loads(text)
        return found
