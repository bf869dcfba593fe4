"""Tests of preflight.node.calls.hanging."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time

import msgspec
import pytest

from preflight.diagnose.hanging.live import Looked, Process, own_py_spy
from preflight.diagnose.hanging.stuck import compare
from preflight.node.calls import hanging

# A rank as torch would have it: what it waits in is called all_reduce; rank 1 never comes to it.
RANK = """
import os, sys, time
def all_reduce(): time.sleep(60)
def load_batch(): time.sleep(60)
print("up", flush=True)
load_batch() if os.environ["RANK"] == "1" else all_reduce()
"""


def process(pid: int, parent: int, rank: int = -1, command: str = "python train.py") -> dict:
    """A process as `everybody` gives it."""
    return {"pid": pid, "parent": parent, "rank": rank, "command": command, "state": "S"}


def chosen(processes: list[dict], **words) -> list[int]:
    """The ids of those that are ranks."""
    found = hanging.ranks(processes, words.get("match", ""), words.get("pids", set()), words.get("ours", set()))
    return [one["pid"] for one in found]


def test_a_rank_is_told_from_its_launcher_and_its_workers():
    """All have the script in their command lines, and workers inherit the rank's number."""
    processes = [process(1, 0), process(2, 1, 0), process(3, 2, 0), process(4, 1, 1), process(5, 4, 1)]
    assert chosen(processes, match="train.py") == [2, 4]
    assert chosen(processes, pids={1}) == [2, 4]
    assert chosen(processes, pids={4}) == [4]


def test_without_numbers_every_process_of_the_pattern_counts():
    """But none of ours, which have the pattern in their own command lines."""
    processes = [
        process(1, 0),
        process(2, 0),
        process(3, 0, command="preflight diagnose --match train.py"),
        process(4, 0),
    ]
    assert chosen(processes, match="train.py", ours={4}) == [1, 2]


def test_addresses_of_the_kernel_are_read():
    """IPv4, IPv6, and IPv4 in IPv6."""
    assert hanging.address("0100007F:7333") == "127.0.0.1:29491"
    assert hanging.address("0000000000000000FFFF00000100000A:7333") == "10.0.0.1:29491"
    assert hanging.address("00000000000000000000000001000000:0050") == "[::1]:80"


@pytest.mark.parametrize(
    ("output", "kind"),
    [("Error: Permission denied (os error 13)", "denied"), ("", "failed"), ("[]", "failed"), ('{"a": 1}', "failed")],
)
def test_a_stack_that_could_not_be_read_has_a_reason(output, kind):
    """It may not be read as one that is empty."""
    assert hanging.frames(output)["kind"] == kind


def test_the_environment_gives_numbers_and_no_secrets(tmp_path):
    """Only what numbers the rank leaves the node."""
    (tmp_path / "environ").write_text("RANK=3\0HF_TOKEN=secret\0WORLD_SIZE=8\0")
    read = hanging.variables(str(tmp_path / "environ"))
    assert read == {"RANK": "3", "WORLD_SIZE": "8"}
    assert hanging.number({"RANK": "x", "SLURM_PROCID": "4"}, hanging.RANK) == 4


@pytest.mark.process
@pytest.mark.skipif(
    shutil.which("py-spy") is None and not os.path.exists(f"{os.path.dirname(sys.executable)}/py-spy"),
    reason="py-spy is not installed",
)
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may read the stacks of processes that it did not start")
def test_the_rank_that_is_elsewhere_is_named_and_unharmed(tmp_path):
    """Of three that run, the one that never came to the collective; all of them still run afterwards."""
    script = tmp_path / "hanging_job.py"
    script.write_text(RANK)
    jobs = [
        subprocess.Popen(
            [sys.executable, str(script)],
            env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "3"},
            stdout=subprocess.PIPE,
        )
        for rank in range(3)
    ]
    try:
        for job in jobs:
            assert job.stdout is not None
            assert job.stdout.readline() == b"up\n"
        time.sleep(0.2)
        facts = hanging.collect({"proc": "/proc", "match": str(script), "path": os.path.dirname(sys.executable)})
        looked = msgspec.convert(facts, Looked, strict=True)
        stuck = compare({"node1": looked.ranks})
        assert [one.process.rank for one in stuck.guilty] == [1], looked
        assert "load_batch" in stuck.guilty[0].what
        assert "while the others wait in all_reduce" in stuck.verdict
        assert [job.poll() for job in jobs] == [None, None, None]
        assert all(isinstance(one, Process) and one.state == "S" for one in looked.ranks)
    finally:
        for job in jobs:
            job.kill()
            job.communicate()


def test_a_program_that_was_sent_runs_from_memory():
    """And is gone afterwards; without one there is no path."""
    with open("/bin/echo", "rb") as program, hanging.sent_program(program.read()) as path:
        assert subprocess.run([path, "seen"], capture_output=True, text=True, check=True).stdout == "seen\n"
    assert not os.path.exists(path)
    with hanging.sent_program(b"") as path:
        assert path == ""


@pytest.mark.skipif(not shutil.which("py-spy", path=os.path.dirname(sys.executable)), reason="py-spy is not installed")
def test_a_stack_is_read_with_the_py_spy_that_was_sent(tmp_path, monkeypatch):
    """Where neither the job's Python nor the node has one of its own."""
    monkeypatch.setattr(hanging.programs, "find", lambda name, path, root="": "")
    (tmp_path / "train.py").write_text(RANK)
    environment = {**os.environ, "RANK": "0", "WORLD_SIZE": "1"}
    with subprocess.Popen([sys.executable, tmp_path / "train.py"], env=environment, stdout=subprocess.PIPE) as job:
        try:
            job.stdout.readline()
            arguments = {"proc": "/proc", "match": str(tmp_path), "pids": [job.pid], "path": ""}
            without = hanging.collect(arguments)["ranks"][0]["frames"]
            spy = own_py_spy()
            seen = hanging.collect(arguments, spy)["ranks"][0]["frames"]
        finally:
            job.kill()
    assert without["kind"] == "absent"
    assert any(frame.startswith("all_reduce (") for frame in seen)


def test_a_dump_of_the_flight_recorder_is_found_where_the_job_writes_it(tmp_path):
    """One that is older than the process is another job's; without one the pipe is told."""
    prefix = str(tmp_path / "trace_")
    assert hanging.recorder({"TORCH_FR_DUMP_TEMP_FILE": prefix}) == (prefix, "")
    pid = os.getpid()
    assert hanging.dump_of("/proc", pid, 3, prefix, "") == ""
    (tmp_path / "pipe_3.pipe").touch()
    assert hanging.dump_of("/proc", pid, 3, prefix, str(tmp_path / "pipe_")) == str(tmp_path / "pipe_3.pipe")
    (tmp_path / "trace_3").touch()
    os.utime(tmp_path / "trace_3", (1, 1))
    assert hanging.dump_of("/proc", pid, 3, prefix, "") == ""
    os.utime(tmp_path / "trace_3")
    assert hanging.dump_of("/proc", pid, 3, prefix, "") == f"{prefix}3"
