"""What does each rank of a job do, where all of them run preflight? The first judges; all leave with its exit code."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping

from preflight import __version__
from preflight.cli.clouds import rank_of_cloud
from preflight.reach.hosts import parse_hosts
from preflight.reach.transport.torchrun import MEETING
from preflight.said import said
from preflight.said.errors import PreflightError, UsageError

HOSTS = "torchrun"
NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
PROGRAM = (sys.executable, "-m", "preflight.job.ranks.meeting")
TELL_SECONDS = 20.0
JOIN_SECONDS = 60.0
# Of a rank of MPI: its rank, their number, its rank on its node and the number there. Hydra says MPI_LOCAL..., and
# srun --mpi=pmi2, whose ranks are those of a step, does not.
MPI = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"),
)
ONE_A_NODE = "mpirun --map-by ppr:1:node (Open MPI) or mpiexec -ppn 1 (Hydra)"
STEPS_OF_SLURM = 0xFFFFFFF0  # steps with higher numbers are the batch script, an interactive shell: no ranks
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PORTS = range(20_000, 30_000)  # below those that Linux gives to connections


def words_of_rank(environment: Mapping[str, str]) -> list[str]:
    """What no word after ``python -m preflight`` means on a rank of a job: a run of that job's nodes."""
    is_rank = all(environment.get(name) for name in NEEDED) or _of_mpi(environment)
    return ["run", f"--hosts={HOSTS}"] if is_rank else []


def is_asked(hosts: str | None, environment: Mapping[str, str]) -> bool:
    """Whether the nodes are those of the ranks that run this command."""
    return hosts == HOSTS and bool(rank_variables(environment)) and MEETING not in environment


def rank_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of this rank, as a launcher set them, or as mpirun, srun or a cloud imply; none outside of a job.

    Raises UsageError where they are no rank of a world, or no port.
    """
    if all(environment.get(name) for name in NEEDED):
        given = {name: environment[name] for name in NEEDED}
        for name in ("RANK", "WORLD_SIZE", "MASTER_PORT"):
            if not re.fullmatch("[0-9]{1,6}", given[name]):
                raise UsageError(said("{name}={given}: wanted a number", name, given[name]))
        if int(given["RANK"]) >= int(given["WORLD_SIZE"]):
            last = int(given["WORLD_SIZE"]) - 1
            raise UsageError(
                said(
                    "RANK={given} with WORLD_SIZE={given2}: ranks are 0 to {last}",
                    given["RANK"],
                    given["WORLD_SIZE"],
                    last,
                )
            )
        return given
    return _of_mpi(environment) or _of_step(environment) or rank_of_cloud(environment)


def _of_mpi(environment: Mapping[str, str]) -> dict[str, str]:
    """Of a rank of mpirun: Open MPI's, Hydra's (MPICH, Intel MPI) or MVAPICH's.

    MASTER_ADDR and MASTER_PORT are what the user handed on; else the machine of mpirun, where Open MPI tells it and
    rank 0 runs there, and a port by the number of the job. Raises UsageError where that is nowhere, or ranks go round
    the nodes.
    """
    found = next((names for names in MPI if all(environment.get(name, "").isdigit() for name in names)), None)
    if found is None:
        return {}
    rank, size, local, width = (int(environment[name]) for name in found)
    if size < 1 or width < 1 or rank % width != local:
        raise UsageError(
            said("rank {rank} is one of {width} on its node: start one a node, {ONE_A_NODE}", rank, width, ONE_A_NODE)
        )
    address = environment.get("MASTER_ADDR", "")
    uri = environment.get("OMPI_MCA_orte_hnp_uri", "")
    at = re.search(r"tcp://([0-9.]+)", uri)
    if not address and (at is None or (rank == 0 and environment.get("OMPI_MCA_orte_local_daemon_uri") != uri)):
        raise UsageError("mpirun does not say where rank 0 runs: pass it on with mpirun -x MASTER_ADDR=<its address>")
    job = re.sub(r"\D", "", environment.get("PMIX_NAMESPACE", uri.partition(".")[0]))[-9:] or "0"
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_RANK": str(local),
        "LOCAL_WORLD_SIZE": str(width),
        "MASTER_ADDR": address or (at[1] if at else ""),
        "MASTER_PORT": environment.get("MASTER_PORT") or str(PORTS[int(job) % len(PORTS)]),
    }


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


def run_as_rank(run: Callable[[], int], *, seconds: float) -> int:
    """`run` on rank 0 once the nodes have met; on every other rank, what rank 0 asks for. The exit code of rank 0.

    `run` takes so many seconds at most; the ranks have no longer to come, and a minute where nothing else is said.
    """
    os.environ.update(rank_variables(os.environ))
    words = [__version__, f"{join_seconds(os.environ, seconds):g}", f"{seconds:g}"]
    if os.environ["RANK"] != "0":
        sys.stdout.flush()
        os.execv(PROGRAM[0], [*PROGRAM, "serve", *words])  # noqa: S606 - a list of words, and what the launcher watches stays one process
    with subprocess.Popen([*PROGRAM, "lead", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as lead:
        assert lead.stdin is not None
        assert lead.stdout is not None
        code = 3
        try:
            with _ended_by_signals(lead):
                found = lead.stdout.readline()
            answer = json.loads(found) if found else {"error": "torch is not there, or its store broke"}
            if "error" in answer:
                raise PreflightError(said("the ranks did not meet: {answer}", answer["error"]))
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


def join_seconds(environment: Mapping[str, str], seconds: float) -> float:
    """How long the ranks have to come. Raises UsageError where PREFLIGHT_JOIN_SECONDS is no number of seconds."""
    text = environment.get("PREFLIGHT_JOIN_SECONDS", "")
    if not text:
        return min(JOIN_SECONDS, seconds)
    if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,3})?", text) or not float(text):
        raise UsageError(said("PREFLIGHT_JOIN_SECONDS={text}: wanted a number of seconds", text))
    return float(text)


@contextlib.contextmanager
def _ended_by_signals(lead: subprocess.Popen[str]) -> Iterator[None]:
    """A signal ends us and the meeting at once, also where we are the first process of a container."""

    def end(number: int, _frame: object) -> None:
        lead.kill()
        sys.exit(128 + number)

    before = {name: signal.signal(name, end) for name in SIGNALS if signal.getsignal(name) is not signal.SIG_IGN}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
