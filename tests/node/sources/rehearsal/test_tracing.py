"""Does bash write down each line and status, and is the script none the wiser?"""

from __future__ import annotations

import os
import subprocess

import pytest

from preflight.node.sources.rehearsal import tracing

SCRIPT = """set -u
first() {
  false
  echo "$?" "$_"
}
trap 'echo bye' EXIT
first || :
echo a b
echo "$_"
missing-program 2>/dev/null
exit 4
"""


@pytest.fixture
def run(tmp_path):
    """Run a script with the trace -> how it ended, and (line, status of the command before) of each row."""

    def run_script(text, **more):
        path = tmp_path / "run.sh"
        path.write_text(text)
        environment = {**os.environ, "BASH_ENV": tracing.write(str(tmp_path)), **more}
        done = subprocess.run(["bash", str(path)], env=environment, capture_output=True, text=True, check=False)
        lines = (tmp_path / "trace").read_bytes().splitlines()
        rows = [tracing.row(line) for line in lines]
        return done, [(row[4], row[0]) for row in rows if row and row[2] == 0 and row[5] == str(path)]

    return run_script


def test_lines_and_statuses_are_those_of_the_script(run):
    """Functions too; the status stands at the command that follows."""
    done, rows = run(SCRIPT)
    assert [line for line, _ in rows[:7]] == [1, 6, 7, 2, 3, 4, 8]
    assert rows[5] == (4, 1)
    assert (11, 127) in rows
    assert done.returncode == 4


def test_the_script_behaves_as_without_it(run, tmp_path):
    """Its output, its code, $?, $_ and its traps."""
    done, _ = run(SCRIPT)
    plain = subprocess.run(["bash", str(tmp_path / "run.sh")], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == (plain.stdout, plain.stderr, plain.returncode)


def test_a_file_of_a_module_system_is_read_first(run, tmp_path):
    """Which is what BASH_ENV is for there."""
    (tmp_path / "modules").write_text("module() { echo loaded $1; }\n")
    done, _ = run("module load cuda\n", PREFLIGHT_BASH_ENV=str(tmp_path / "modules"))
    assert done.stdout == "loaded load\n"


@pytest.mark.parametrize("line", [b"", b"0 1 2", b"x 1 0 1.0 3 run.sh", b"0 1 0 1.0 x run.sh"])
def test_a_line_that_is_none_of_ours_is_passed_over(line):
    """Another program may write there."""
    assert tracing.row(line) == []
    assert tracing.row(b"127 7 0 12,5 3 /a b") == [127, 7, 0, 12.5, 3, "/a b"]
