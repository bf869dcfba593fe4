"""What does each rank of a job do, where all of them run preflight? The first judges; all leave with its exit code."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping

from preflight.errors import PreflightError
from preflight.hosts import parse_hosts
from preflight.transport.torchrun import MEETING

HOSTS = "torchrun"
NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
PROGRAM = (sys.executable, "-m", "preflight.workloads.meeting")
TELL_SECONDS = 20.0
STEPS_OF_SLURM = 0xFFFFFFF0  # steps with higher numbers are the batch script, an interactive shell: no ranks
PORTS = range(20_000, 30_000)  # below those that Linux gives to connections


def words_of_rank(environment: Mapping[str, str]) -> list[str]:
    """What no word after ``python -m preflight`` means on a rank of a job: a run of that job's nodes."""
    return ["run", f"--hosts={HOSTS}"] if all(environment.get(name) for name in NEEDED) else []


def is_asked(hosts: str | None, environment: Mapping[str, str]) -> bool:
    """Whether the nodes are those of the ranks that run this command."""
    return hosts == HOSTS and bool(rank_variables(environment)) and MEETING not in environment


def rank_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of this rank, as a launcher set them, or as a step of srun implies them; none outside of a job."""
    if all(environment.get(name) for name in NEEDED):
        return {name: environment[name] for name in NEEDED}
    return _of_step(environment)


def _of_step(environment: Mapping[str, str]) -> dict[str, str]:
    """Of a task of srun: ranks node by node, whatever the distribution; the first node of the step has rank 0.

    MASTER_ADDR and MASTER_PORT are what a job script exported; else that node, and a port by the job's number. Raises
    UsageError where Slurm's list of nodes cannot be read.
    """
    names = ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_NODEID", "SLURM_LOCALID", "SLURM_STEP_NUM_NODES")
    given = [environment.get(name, "") for name in names]
    nodelist = environment.get("SLURM_STEP_NODELIST", "")
    if not nodelist or not all(text.isdigit() for text in given):
        return {}
    job, step, node, local, nodes = map(int, given)
    if step >= STEPS_OF_SLURM:
        return {}
    tasks = re.findall(r"(?:^|,)(\d+)", environment.get("SLURM_STEP_TASKS_PER_NODE", ""))  # "2(x3),1"
    width = max(map(int, tasks), default=1)
    return {
        "RANK": str(node * width + local),
        "WORLD_SIZE": str(nodes * width),
        "LOCAL_RANK": str(local),
        "LOCAL_WORLD_SIZE": str(width),
        "MASTER_ADDR": environment.get("MASTER_ADDR") or parse_hosts(nodelist)[0].address,
        "MASTER_PORT": environment.get("MASTER_PORT") or str(PORTS[(job + step) % len(PORTS)]),
    }


def run_as_rank(run: Callable[[], int]) -> int:
    """`run` on rank 0 once the nodes have met; on every other rank, what rank 0 asks for. The exit code of rank 0."""
    os.environ.update(rank_variables(os.environ))
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
