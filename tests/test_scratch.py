"""Does nothing of a run of tests stay in the folder for temporary files?"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.scratch import Scratch

PROGRAM = """
import os, subprocess, sys, tempfile
from tests.scratch import Scratch
scratch = Scratch()
scratch.move_in()
tempfile.mkdtemp()
subprocess.run(["sh", "-c", "mktemp; mkdir ~/made; mkdir $TORCHINDUCTOR_CACHE_DIR"], check=True, stdout=-3)
print(len(scratch.left()), flush=True)
sys.stdin.read()
scratch.remove()
"""


@pytest.fixture
def running(tmp_path):
    """A program that has moved in below an empty folder, and left two things and a home."""
    words = [sys.executable, "-c", PROGRAM]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parents[1], env=environment
    ) as process:
        assert process.stdout.readline() == b"2\n"
        yield process
        process.kill()


def is_empty_soon(folder):
    """Within the time that a busy machine may take."""
    until = time.monotonic() + 60
    while time.monotonic() < until and list(folder.iterdir()):
        time.sleep(0.05)
    return not list(folder.iterdir())


def test_a_run_that_ends_takes_all_of_it_along(running, tmp_path):
    """What Python's tempfile makes, and what programs do that it starts."""
    assert len(list(tmp_path.iterdir())) == 1
    running.communicate(timeout=60)
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_is_killed_takes_all_of_it_along(running, tmp_path):
    """Nobody is left to clean up but the process that waits for that."""
    running.send_signal(signal.SIGKILL)
    assert is_empty_soon(tmp_path)


def test_what_was_left_is_told(tmp_path, monkeypatch):
    """The home is meant to be there."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PYTEST_DEBUG_TEMPROOT", str(tmp_path))
    monkeypatch.setenv("PIP_CONFIG_FILE", "")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "")
    scratch = Scratch()
    scratch.move_in()
    assert scratch.left() == []
    (scratch.path / "core").touch()
    assert scratch.left() == ["core"]
    scratch.remove()
    assert not scratch.path.exists()
