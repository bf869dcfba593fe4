"""What does each rank of a job do, where all of them run preflight? The first judges; all leave with its exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping

from preflight.errors import PreflightError
from preflight.transport.torchrun import MEETING

HOSTS = "torchrun"
NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
PROGRAM = (sys.executable, "-m", "preflight.workloads.meeting")
TELL_SECONDS = 20.0


def words_of_rank(environment: Mapping[str, str]) -> list[str]:
    """What no word after ``python -m preflight`` means on a rank of a job: a run of that job's nodes."""
    return ["run", f"--hosts={HOSTS}"] if all(environment.get(name) for name in NEEDED) else []


def is_asked(hosts: str | None, environment: Mapping[str, str]) -> bool:
    """Whether the nodes are those of the ranks that run this command."""
    return hosts == HOSTS and all(environment.get(name) for name in NEEDED) and MEETING not in environment


def run_as_rank(run: Callable[[], int]) -> int:
    """`run` on rank 0 once the nodes have met; on every other rank, what rank 0 asks for. The exit code of rank 0."""
    if os.environ["RANK"] != "0":
        sys.stdout.flush()
        os.execv(PROGRAM[0], [*PROGRAM, "serve"])  # noqa: S606 - a list of words, and what the launcher watches stays one process
    with subprocess.Popen([*PROGRAM, "lead"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as lead:
        assert lead.stdin is not None
        assert lead.stdout is not None
        code = 3
        try:
            found = lead.stdout.readline()
            told = json.loads(found) if found else {"error": "torch is not there, or its store broke"}
            if "error" in told:
                raise PreflightError(f"the ranks did not meet: {told['error']}")
            os.environ[MEETING] = found
            for name in NEEDED:  # the meeting holds the port; the job's own are not asked about here
                os.environ.pop(name, None)
            code = run()
        finally:
            try:
                lead.communicate(f"{code}\n", timeout=TELL_SECONDS)
            except subprocess.TimeoutExpired:
                lead.kill()
    return code
