"""Does a program count on tasks of Slurm that nobody starts?"""

from __future__ import annotations

import re
from collections.abc import Iterable

from preflight.judge.ledger.findings import Finding, Where
from preflight.launch.field import Sourced
from preflight.launch.plan import fail
from preflight.launch.slips.source import counted_by_slurm
from preflight.said import said

OF_A_TASK = re.compile(r"\$\{?(SLURM_(?:NODEID|PROCID|LOCALID))\b")


def taken_from_slurm(
    text: str, program: str, nodes: Sourced[int], where: Where, command: Iterable[str]
) -> Iterable[Finding]:
    """A program of the batch script itself that takes its place and the job's size from Slurm's variables."""
    own = counted_by_slurm(text)
    if own:
        message = said(
            "{program} takes {own} of Slurm for its place in the job; the batch script runs it on the first of "
            "{value} nodes only, as number 0, and no srun starts the others",
            program,
            own,
            nodes.value,
        )
        yield fail("every_node_is_started", message, where, nodes.where, fix=f"srun {' '.join(command)}")
