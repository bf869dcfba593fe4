"""How are ranks started without any launcher?"""

from __future__ import annotations

from preflight.launch.job import Job, Placement, Process, rank_variables, shared_variables


def start(job: Job, placements: list[Placement], master_port: int) -> list[Process]:
    """One process a rank, with the variables that torch's env:// rendezvous reads."""
    return [
        {
            "name": f"rank{placement.rank}",
            "argv": ["{python}", "{script}"],
            "environment": {**rank_variables(job, placement, master_port), **shared_variables(job, placement.node)},
        }
        for placement in placements
    ]
