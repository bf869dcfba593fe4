"""Do tests that run in forks end as they do in one process?"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CONFTEST = """
import pytest
from tests import forked
@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    forked.run(session, 2, lambda: None)
    return True
"""
TESTS = """
import os
import pytest
@pytest.fixture(scope="session")
def held():
    yield os.getpid()
    print("torn down")
def test_well(held):
    print("not shown")
@pytest.mark.parametrize("number", [1, 2])
def test_wrong(held, number):
    print("shown", number)
    assert number == 1
def test_left_out():
    pytest.skip("no reason")
"""
KILLED = """
import os, signal
def test_end():
    os.kill(os.getpid(), signal.SIGKILL)
"""


def ran(folder, *words, **files):
    """A pytest of these files -> its exit code, and what it prints."""
    for name, text in {"conftest": CONFTEST, **files}.items():
        (folder / f"{name}.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", str(folder), *words, str(folder)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_every_test_is_told_once_with_what_it_printed(tmp_path):
    """Of three files: passed, failed and left out, and what a failed one said."""
    code, printed = ran(tmp_path, **{f"test_{name}": TESTS for name in "abc"})
    assert code == pytest.ExitCode.TESTS_FAILED
    assert "3 failed, 6 passed, 3 skipped" in printed
    assert printed.count("shown 2") == 3
    assert "not shown" not in printed


def test_enough_failures_end_it(tmp_path):
    """As with one process: --exitfirst."""
    code, printed = ran(tmp_path, "-x", **{f"test_{name}": TESTS for name in "abcdefgh"})
    assert code == pytest.ExitCode.TESTS_FAILED
    assert "stopping after 1 failures" in printed


def test_a_fork_that_is_killed_is_never_green(tmp_path):
    """Nobody knows what its tests would have said."""
    code, printed = ran(tmp_path, test_a=TESTS, test_b=KILLED)
    assert code == pytest.ExitCode.INTERNAL_ERROR
    assert "a process that ran tests ended with -9" in printed
