"""How is the user's own start rehearsed from the command line, and what is said and asked before?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from preflight.cli.run import run_checks


def rehearse(values: Mapping[str, Any], command: tuple[str, ...]) -> int:
    """``preflight rehearse``: its exit code."""
    return run_checks({**values, "profile": None}, command, subjects=("reach", "rehearse"), section="rehearsal")
