"""Is a process that a signal ended reported as such, in whatever words the launcher says it?"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from preflight.diagnose import diagnose

CRASHED = (4, 7, 11)
SIGNALS = (
    (4, "SIGILL", "Illegal instruction", "illegal-instruction"),
    (6, "SIGABRT", "Aborted", "aborted"),
    (7, "SIGBUS", "Bus error", "bus-error"),
    (9, "SIGKILL", "Killed", "killed-by-signal-9"),
    (11, "SIGSEGV", "Segmentation fault", "segmentation-fault"),
    (15, "SIGTERM", "Terminated", "rank-failed-elsewhere"),
)
LINES = (
    "ERROR:composer.cli.launcher:Rank 2 crashed with exit code -{number}.",
    "[rank: 3] Child process with PID 170 terminated with code -{number}. Forcefully terminating all other processes",
    "torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal {name}",
    "subprocess.CalledProcessError: Command '['python', 'train.py']' died with <Signals.{name}: {number}>.",
    "subprocess.CalledProcessError: Command '['python', 'train.py']' returned non-zero exit status {code}.",
    "srun: error: node7: tasks 6-7: {words}",
    "srun: error: node7: task 6: {words} (core dumped)",
    "srun: error: node7: task 6: Exited with exit code {code}",
    "command terminated with exit code {code}",
    "      Exit Code:    {code}",
    "run.sh: line 12: 2324239 {words}                 (core dumped) python train.py",
    "prterun noticed that process rank 3 with PID 1234 on node node7 exited on signal {number} ({words}).",
    "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: {words} (signal {number})",
    "=   KILLED BY SIGNAL: {number} ({words})",
    "torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -{number}) local_rank: 0 (pid: 87)",
    "[launch.py:321:sigkill_handler] ['python', 'train.py'] exits with return code = -{number}",
    "AlgorithmError: ExecuteUserScriptError: ExitCode -{number}",
    "Rank 0 scheduler is dead. Exit code: -{number}",
    "python exited with code {code}",
    "2026-11-27 10:00:00,123 INFO exited: trainer (exit status {code}; not expected)",
    "trainer-1 exited with code {code}",
    "    traceback : Signal {number} ({name}) received by PID 87",
    "Signal {number} ({name}) received by PID 4411 (TID 0x7f3b2c) from PID 0",
    "<SpawnProcess name='SpawnProcess-3' pid=4411 parent=4399 stopped exitcode=-{name}>",
    "The exit codes of the workers are {{{name}(-{number})}}",
)
CRASH_LINES = (
    "Fatal Python error: {words}",
    "[node7:4411:0:4519] Caught signal {number} ({words}: address not mapped to object at address 0x8)",
    "[node7:mpi_rank_3][error_sighandler] Caught error: {words} (signal {number})",
    "[node7:04411] Signal: {words} ({number})",
    "{words} (core dumped)",
    "*** {name} received at time=1772101884 on cpu 3 ***",
)


def examples() -> Iterator[tuple[str, str]]:
    """Cause and line, for every signal and everything that reports it."""
    for number, name, words, cause in SIGNALS:
        for line in (*LINES, *(CRASH_LINES if number in CRASHED else ())):
            yield cause, line.format(number=number, name=name, words=words, code=128 + number)


@pytest.mark.parametrize(("cause", "line"), list(examples()))
def test_the_signal_is_known_in_the_words_of_every_launcher(cause, line):
    """By its number, its name, its words or the exit code of a shell."""
    diagnosis = diagnose([line])
    assert [*diagnosis.causes, *diagnosis.consequences][0].cause.name == cause


def test_the_node_that_srun_or_mpirun_names_is_reported():
    """Where the line says on which node the process ran."""
    for line in LINES:
        if "node7" in line:
            diagnosis = diagnose([line.format(number=9, name="SIGKILL", words="Killed", code=137)])
            assert diagnosis.causes[0].nodes == ("node7",)
