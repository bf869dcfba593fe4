"""Is a launcher really added by a file and a line of the registry? A small one is, to a copy of the program."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.newcomer.copy import copied, touched

SCRIPT = """export MASTER_ADDR=10.0.0.1 MASTER_PORT=29500 WORLD_SIZE=2
RANK={0} LOCAL_RANK=0 taskset -c 0-15 python train.py
"""


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """The copy with the launcher of launcher.diff."""
    return copied(tmp_path_factory.mktemp("launcher"), "launcher.diff")


def preflight(house: Path, *words: str, code: int = 0) -> str:
    """What the copy prints; it must end with that code."""
    done = subprocess.run(
        [sys.executable, "-m", "preflight", *words], cwd=house, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_two_files_are_touched():
    """Its own, and the registry."""
    assert touched("launcher.diff") == [
        "preflight/launch/launchers/__init__.py",
        "preflight/launch/launchers/taskset.py",
    ]


def test_help_and_usage_errors_name_it(house):
    """Both draw their lists from the registry."""
    assert "env, taskset, deepspeed" in " ".join(preflight(house, "train", "--help-all").split())
    assert "taskset" in preflight(house, "train", "--launcher=horovod", code=4)


def test_its_command_lines_are_read_and_judged(house):
    """With the rules that every launcher has: two files of rank 0 are found."""
    for name, rank in (("a.sh", 0), ("b.sh", 0), ("c.sh", 1)):
        (house / name).write_text(SCRIPT.format(rank))
    answer = json.loads(preflight(house, "launch", "check", "a.sh", "c.sh", "--json"))
    assert [plan["launcher"] for plan in answer["plan"]["launches"]] == ["taskset", "taskset"]
    assert [seat["rank"] for seat in answer["plan"]["ranks"]] == [0, 1]
    assert "RANK 0 is given 2 times: a.sh:2, b.sh:2" in preflight(house, "launch", "check", "a.sh", "b.sh", code=1)


@pytest.mark.skipif(
    not shutil.which("taskset") or len(os.sched_getaffinity(0)) < 2, reason="taskset and two cores are wanted"
)
def test_it_starts_the_reference_job(house):
    """Two ranks that train, each on cores of its own."""
    report = house / "report"
    preflight(house, "train", "--hosts=local", "--launcher=taskset", "--backend=gloo", f"--report-dir={report}")
    training = json.loads((report / "report.json").read_text())["training"]
    assert (training["launcher"], training["world_size"]) == ("taskset", 2)
    assert len(training["ranks"]) == 2
    commands = "".join(path.read_text() for path in (report / "logs").iterdir())
    assert "taskset -c 1-1023:2 " in commands
