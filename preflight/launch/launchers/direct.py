"""How are ranks started without any launcher?"""

from __future__ import annotations

from preflight.launch.job import Job, Placement, Process, on_each_node, rank_variables, shared_variables
from preflight.launch.launcher import Launcher


def start_node(job: Job, placements: list[Placement], master_port: int) -> list[Process]:
    """One process a rank, with the variables that torch's env:// rendezvous reads."""
    return [
        {
            "name": f"rank{placement.rank}",
            "argv": ["{python}", "{script}"],
            "environment": {**rank_variables(job, placement, master_port), **shared_variables(job, placement.node)},
        }
        for placement in placements
    ]


DIRECT = Launcher(name="direct", numbers_processes=True, start=on_each_node(start_node))
