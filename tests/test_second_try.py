"""Does CI count and name what passed only on the second try, and forgive no more than three in ten runs?"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house import ROOT

FLAKY = """
import pathlib, pytest

@pytest.mark.parametrize("number", range({count}))
def test_of_a_busy_machine(number):
    seen = pathlib.Path(f"seen{{number}}")
    before = seen.exists()
    seen.touch()
    assert before and {holds}
"""
SCRIPT = f"""
set -euo pipefail
source {ROOT}/.ci/second-try.sh
.venv/bin/pytest -q . || again $? .
.venv/bin/pytest -q . || again $? .
remember
"""


@pytest.fixture
def ci(tmp_path):
    """Runs the end of `.ci/run` in a clone with some tests of which each fails once."""
    history = tmp_path / "history"

    def run(count: int, *, holds: bool = True, name: str = "clone") -> tuple[int, list[str]]:
        clone = tmp_path / name
        (clone / ".venv/bin").mkdir(parents=True)
        (clone / ".venv/bin/python").symlink_to(sys.executable)
        program = clone / ".venv/bin/pytest"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m pytest "$@"\n')
        program.chmod(0o755)
        (clone / "conftest.py").write_text("from tests.second_try import *\n")
        (clone / "test_flaky.py").write_text(FLAKY.format(count=count, holds=holds))
        env = {**os.environ, "PYTHONPATH": str(ROOT), "PREFLIGHT_CI_HISTORY": str(history)}
        env.pop("PYTEST_XDIST_WORKER", None)
        done = subprocess.run(
            ["bash", "-c", SCRIPT], cwd=clone, env=env, capture_output=True, text=True, timeout=120, check=False
        )
        return done.returncode, done.stdout.splitlines()

    return run


def tallies(lines: list[str]) -> list[str]:
    """What was counted, once for each pytest."""
    return [line.partition(": ")[2] for line in lines if line.startswith("passed only on the second try")]


def test_what_passed_only_on_the_second_try_is_counted_and_named(ci):
    """By every pytest from then on, the last of them too, whose own last line comes after it."""
    code, lines = ci(2)
    names = "test_flaky.py::test_of_a_busy_machine[0], test_flaky.py::test_of_a_busy_machine[1]"
    assert code == 0
    assert tallies(lines) == ["0", f"2 ({names})", f"2 ({names})"]
    assert "passed in" in lines[-1]


def test_what_fails_twice_has_failed_and_is_not_counted(ci):
    """The tally is of what passed."""
    code, lines = ci(1, holds=False)
    assert code == 1
    assert tallies(lines) == ["0", "0"]
    assert "failed in" in lines[-1]


def test_more_than_three_are_not_tried_again(ci):
    """Within one run."""
    code, lines = ci(4)
    assert code == 1
    assert tallies(lines) == ["0"]


def test_more_than_three_in_ten_runs_are_a_failure(ci, tmp_path):
    """Where a history is kept; the tenth run before does not count any more."""
    assert ci(2, name="first")[0] == 0
    assert ci(2, name="second")[0] == 1
    assert ci(1, name="third")[0] == 0
    assert ci(1, name="fourth")[0] == 1
    history = Path(tmp_path / "history")
    assert [line.split()[1] for line in history.read_text().splitlines()] == ["2", "1"]
    history.write_text("".join(f"2026-01-01T00:00:00Z {count}\n" for count in (3, 0, 0, 0, 0, 0, 0, 0, 0, 0)))
    assert ci(1, name="fifth")[0] == 0


def test_ci_runs_every_pytest_with_the_tally():
    """The main run and the long one: the tests take it from what second-try.sh sets before them."""
    text = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert text.count(".venv/bin/pytest ") == 2
    assert text.index("source .ci/second-try.sh\n") < text.index(".venv/bin/pytest ")
    assert 'export PREFLIGHT_SECOND_TRY=""\n' in (ROOT / ".ci/second-try.sh").read_text(encoding="utf-8")
    assert text.endswith("\nremember\n")
