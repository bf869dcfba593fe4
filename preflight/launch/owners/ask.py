"""How do the owners of launch files read them, in a process that starts nothing and ends by itself?"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from preflight.launch.owners.questions import Answer, Question

SECONDS = 30.0
PROGRAM = Path(__file__).parents[2] / "job" / "ranks" / "owners.py"


def ask(asked: Sequence[Question], python: str, *, seconds: float = SECONDS) -> tuple[Answer, ...]:
    """The answers of owners that this Python has; of the others, and of those that take too long, none."""
    if not asked:
        return ()
    given = json.dumps([{**asdict(question), "places": (), "id": number} for number, question in enumerate(asked)])
    answers = []
    for line in _run([python, "-c", PROGRAM.read_text(encoding="utf-8")], given, seconds).splitlines():
        with contextlib.suppress(ValueError, KeyError, IndexError, TypeError):  # what an owner prints is not ours
            answer: dict[str, Any] = json.loads(line)
            question = asked[int(answer["id"])]
            answers.append(Answer(question, str(answer["owner"]), str(answer["version"]), str(answer["refused"])))
    return tuple(answers)


def _run(argv: Sequence[str], given: str, seconds: float) -> str:
    """What a program prints until it ends or its time is over, started in an empty folder; "" where it is not there."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "TMPDIR": folder,
            "HF_HOME": folder,
            "CUDA_VISIBLE_DEVICES": "",
            "HF_HUB_OFFLINE": "1",
        }
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=folder,
                env=environment,
                start_new_session=True,
            )
        except OSError:
            return ""
        try:
            return process.communicate(given.encode(), timeout=seconds)[0].decode("utf-8", "replace")
        except subprocess.TimeoutExpired:
            pass
        finally:
            with contextlib.suppress(ProcessLookupError):  # whatever it left, and itself where its time is over
                os.killpg(process.pid, signal.SIGKILL)
        return process.communicate(timeout=seconds)[0].decode("utf-8", "replace")
