"""Runs `preflight launch check` for each line of its input in one process, and prints each exit code.

    python -m tests.e2e.asking        # lines of a folder and words; what was found is in its found.json

The owners of launch files take seconds to import: they answer in forks of this process, which has imported them. That
they answer in a process of their own too is shown in tests/launch/owners.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import signal
import sys
import tempfile
import types
from collections.abc import Sequence
from pathlib import Path

from preflight.cli.main import run
from preflight.launch.owners import ask

PRELOADED = ("torch.distributed.run", "accelerate.commands.launch", "accelerate.utils.launch")


def answer_in_fork(argv: Sequence[str], given: str, seconds: float) -> str:
    """What the program of `python -c PROGRAM` prints, run in a fork that has its input, its folder and no terminal."""
    with tempfile.TemporaryDirectory() as folder:
        said, told = Path(folder, "given"), Path(folder, "told")
        said.write_text(given, encoding="utf-8")
        if (child := os.fork()) == 0:
            try:
                signal.alarm(round(seconds))  # ends it as `ask` would
                os.dup2(os.open(said, os.O_RDONLY), 0)
                os.dup2(os.open(told, os.O_CREAT | os.O_WRONLY), 1)
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
                os.environ.update(TMPDIR=folder, HF_HOME=folder, HF_HUB_OFFLINE="1", CUDA_VISIBLE_DEVICES="")
                tempfile.tempdir = None
                os.chdir(folder)
                program = types.ModuleType("owners")
                exec(argv[2], program.__dict__)
                program.main()
            finally:
                sys.stdout.flush()
                os._exit(0)
        os.waitpid(child, 0)
        return told.read_text(encoding="utf-8")


def main() -> None:
    """Answer until the input ends."""
    for name in PRELOADED:
        importlib.import_module(name)
    ask._run = answer_in_fork
    for line in sys.stdin:
        folder, *words = line.split()
        os.chdir(folder)
        with contextlib.redirect_stdout(io.StringIO()):
            code = run(["launch", "check", *words, "--json=found.json", "launch/*"])
        print(code, flush=True)


if __name__ == "__main__":
    main()
