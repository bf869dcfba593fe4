"""How is the user's own start rehearsed from the command line, and what is said and asked before?"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from preflight.cli.run import run_checks
from preflight.errors import UsageError
from preflight.launch.cast import scripts_of

SLURM = "slurm"


def rehearse(values: Mapping[str, Any], command: tuple[str, ...]) -> int:
    """``preflight rehearse``: its exit code."""
    scripts = scripts_of(values["rehearse"])
    if values["hosts"] == SLURM and "SLURM_JOB_ID" not in os.environ and not values["dry_run"]:
        from preflight.cli.submit import submitted

        if len(scripts) != 1 or not scripts[0].is_batch:
            raise UsageError("rehearse --hosts=slurm: without an allocation wanted one file with #SBATCH lines")
        with submitted(scripts[0], seconds=float(values["deadline"] or 300.0)):
            return _run(values, command)
    return _run(values, command)


def _run(values: Mapping[str, Any], command: tuple[str, ...]) -> int:
    return run_checks({**values, "profile": None}, command, subjects=("reach", "rehearse"), section="rehearsal")
