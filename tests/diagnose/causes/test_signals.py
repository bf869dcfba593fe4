"""Is a process that a signal ended told as such, in whatever words the launcher says it?"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from preflight.diagnose import diagnose

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
    "2026-11-27 10:00:00,123 INFO exited: trainer (exit status {code}; not expected)",
    "trainer-1 exited with code {code}",
    "    traceback : Signal {number} ({name}) received by PID 87",
)


def lines() -> Iterator[tuple[str, str]]:
    """Cause and line, for each signal in the words of each launcher."""
    for number, name, words, cause in SIGNALS:
        for line in LINES:
            yield cause, line.format(number=number, name=name, words=words, code=128 + number)


@pytest.mark.parametrize("line", LINES)
def test_the_signal_is_known_in_the_words_of_every_launcher(line):
    """By its number, its name, its words or the exit code of a shell."""
    for number, name, words, cause in SIGNALS:
        diagnosis = diagnose([line.format(number=number, name=name, words=words, code=128 + number)])
        assert [*diagnosis.causes, *diagnosis.consequences][0].cause.name == cause, (line, name)


def test_the_node_that_srun_or_mpirun_names_is_told():
    """Where the line says on which node the process ran."""
    for line in LINES:
        if "node7" in line:
            diagnosis = diagnose([line.format(number=9, name="SIGKILL", words="Killed", code=137)])
            assert diagnosis.causes[0].nodes == ("node7",)
