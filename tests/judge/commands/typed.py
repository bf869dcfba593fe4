"""What would an operator be given to type for a broken cluster?"""

from __future__ import annotations

from preflight.testing import FakeRun
from tests.checks.samples import judge


def as_root(run: FakeRun) -> FakeRun:
    """The same nodes with root as the job's user."""
    return run.broken(run.names, "identity", user_id=0)


def typed(run: FakeRun, check: str, *, lasting: bool = False) -> dict[str, str]:
    """Node -> the command that one check of ours gives for it."""
    return {
        command.node: command.lasting if lasting else command.now
        for finding in judge(check, run)
        for command in finding.commands
    }
