"""Does what launchers saw end first come before what other ranks printed first?"""

from __future__ import annotations

import pytest

from preflight.diagnose import diagnose
from preflight.diagnose.gather import Gatherer
from preflight.report.formats.diagnosis import diagnosis_text

STEPS = tuple(f"[rank0]: step {n} loss 2.{n}" for n in range(6))
LATER = "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
EARLIER = "[rank1]: OSError: [Errno 28] No space left on device"


def table(rank, second, code=1, node="n1"):
    """An entry of the table of an agent of torchrun."""
    return (
        "Root Cause (first observed failure):",
        "[0]:",
        f"  time      : 2030-01-02_03:04:{second:02}",
        f"  host      : {node}",
        f"  rank      : {rank} (local_rank: 0)",
        f"  exitcode  : {code} (pid: 4711)",
    )


TABLES = {
    "torchrun": table(1, 5) + table(0, 7, node="n2"),
    "torchrun, the later agent first": table(0, 7, node="n2") + table(1, 5),
    "torchrun, ended by its agent": table(0, 5, code=-15) + table(1, 5),
    "torchrun, a watchdog beside it": table(0, 5, code=-6) + table(1, 5),
    "srun": ("srun: error: n1: task 1: Exited with exit code 1", "srun: error: n0: task 0: Exited with exit code 1"),
    "srun, several": ("srun: error: n1: tasks 1,4-7: Exited with exit code 1",),
    "mpirun": ("The first process to do so was:", "", "  Process name: [[7212,1],1]", "  Exit code:    1"),
    "prterun": ("  Process name: prterun-n1-4711@1,1", "  Exit code:    1"),
    "DeepSpeed": (
        "[2030-01-02 03:04:05,310] [ERROR] [launch.py:325:sigkill_handler] ['python', '-u', 'train.py', '--local_rank=1', '--deepspeed'] exits with return code = 1",
    ),
    "Lightning": (
        "[rank: 1] Child process with PID 4711 terminated with code 1. Forcefully terminating all other processes to avoid zombies",
    ),
    "Ray Train": ("[Rank 1 Error Snippet]:",),
    "torch.multiprocessing": ("-- Process 1 terminated with the following error:",),
    "Composer": ("ERROR:composer.cli.launcher:Rank 1 crashed with exit code 1.",),
}


@pytest.mark.parametrize("launcher", TABLES)
def test_what_the_launcher_saw_end_first_is_the_cause(launcher):
    """Ranks print as their buffers are written: the first line in a log is not always of the first one that failed."""
    assert diagnose([*STEPS, LATER, EARLIER, *TABLES[launcher]]).causes[0].cause.name == "disk-full"


@pytest.mark.parametrize("launcher", TABLES)
def test_of_exceptions_that_no_cause_explains_too(launcher):
    """The one of the rank that ended first is told."""
    lines = ("[rank0]: LookupError: later", "[rank1]: ArithmeticError: earlier", *TABLES[launcher])
    assert "ArithmeticError" in diagnose([*STEPS, *lines]).causes[0].cause.meaning


def test_without_a_table_the_first_line_counts():
    """Nothing else shows an order."""
    assert diagnose([*STEPS, LATER, EARLIER]).causes[0].cause.name == "gpu-out-of-memory"


def test_a_task_of_srun_that_starts_several_ranks_is_no_rank():
    """Its number counts nodes."""
    lines = ["0: [rank0]: step 1 loss 2", "1: [rank8]: OSError: [Errno 28] No space left on device", TABLES["srun"][0]]
    gathered = Gatherer()
    gathered.read("log", ((number, line.encode()) for number, line in enumerate(lines, 1)))
    assert gathered.fallen == frozenset()


def test_the_report_names_who_ended_first():
    """It is where to look when no line says why."""
    text = diagnosis_text(diagnose([*table(0, 7, node="n2"), *table(4, 5)]))
    assert "ended first, as the launcher saw it: rank 4" in text


@pytest.mark.parametrize(("saved", "code"), [((), 1), (("checkpoint saved to last.pt",), 0)])
def test_ranks_that_were_only_interrupted_have_not_failed(saved, code):
    """Whatever the launcher calls it; with the state saved nothing is lost."""
    ended = (*table(0, 5, code=-15), *table(1, 5, code=-2))
    lines = (*STEPS, *saved, "[rank1]: KeyboardInterrupt", "ChildFailedError: ", "train.py FAILED", *ended)
    found = diagnose([*lines, "E1128 00:59:39.793000 1 api.py:1002] failed (exitcode: -2) local_rank: 1 (pid: 10)"])
    assert (found.outcome.end.value, found.outcome.by.value, found.outcome.exit_code) == ("was stopped", "user", code)
    assert diagnose([*lines, *table(2, 4, code=-9)]).outcome.end.value == "failed"
