"""Do tests that run in forks end as they do in one process?"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import forked

ROOT = Path(__file__).parent.parent
CONFTEST = """
import pytest
from tests import forked
@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    forked.run(session, 2, lambda: None, lambda nodeid: nodeid.split("::")[0])
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
HOLDS = """
import pathlib
import time
import pytest
HERE = pathlib.Path(__file__).parent
@pytest.fixture(scope="session")
def held():
    yield
    (HERE / "torn_down").touch()
def test_long(held):
    (HERE / "held").touch()
    time.sleep(50)
"""
FAILS = """
import pathlib
import time
HERE = pathlib.Path(__file__).parent
def test_wrong():
    while not (HERE / "held").exists():
        time.sleep(0.01)
    assert False
"""
BREAKS = """
import pytest
@pytest.fixture(scope="module")
def held():
    yield
    raise OSError("cannot be removed")
def test_first(held):
    pass
def test_last(held):
    pass
"""
LITTLE = [
    ("setup", "passed", 0.0, True),
    ("setup", "passed", 3.0, False),
    ("setup", "skipped", 0.0, False),
    ("call", "passed", 0.0, False),
    ("teardown", "failed", 0.0, False),
    ("teardown", "passed", 0.0, True),
]
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
        timeout=240,
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


def test_what_was_prepared_is_torn_down_where_the_run_is_stopped(tmp_path):
    """By a failure in one fork, while the other is in the middle of a test."""
    code, printed = ran(tmp_path, "-x", test_a=FAILS, test_b=HOLDS)
    assert code == pytest.ExitCode.TESTS_FAILED
    assert "1 failed" in printed
    assert (tmp_path / "torn_down").exists()


def test_what_fails_as_it_is_torn_down_after_a_file_is_told(tmp_path):
    """With the last test that had it."""
    code, printed = ran(tmp_path, test_a=BREAKS, test_b=TESTS)
    assert code == pytest.ExitCode.TESTS_FAILED
    assert "ERROR at teardown of test_last" in printed
    assert "1 failed, 4 passed, 1 skipped, 1 error" in printed


@pytest.mark.parametrize(("when", "outcome", "duration", "is_little"), LITTLE)
def test_what_failed_took_long_or_was_the_test_itself_is_told(when, outcome, duration, is_little):
    """Nothing else of a test's three reports."""
    assert forked.says_little(when, outcome, duration) is is_little


def test_a_fork_that_is_killed_is_never_green(tmp_path):
    """Nobody knows what its tests would have said."""
    code, printed = ran(tmp_path, test_a=TESTS, test_b=KILLED)
    assert code == pytest.ExitCode.INTERNAL_ERROR
    assert "a process that ran tests ended with -9" in printed
