"""Is the exit code that of the verdict, whoever reads what is printed?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from preflight.testing import healthy
from tests.run.test_stored import written


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """The folder of a good run."""
    folder = tmp_path_factory.mktemp("stored")
    return written(healthy(2), folder)


def code_of(words: str, *, shell: str) -> tuple[int, str]:
    """The exit code of a verb that a shell starts with its streams like that, and what is left on standard error."""
    line = shell.replace("VERB", f"{sys.executable} -m preflight {words}")
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line}"], capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "shell",
    [
        "VERB",
        "VERB >&-",
        "VERB 2>&-",
        "VERB <&- >&- 2>&-",
        "VERB > /dev/full",
        "VERB > /dev/full 2>&1",
        "VERB | true",
        "VERB 2>&1 | true",
    ],
)
@pytest.mark.parametrize("words", ["report {}", "report {} --json"])
def test_a_stream_that_takes_nothing_changes_no_exit_code(stored, shell, words):
    """Closed, full or a pipe that nobody reads: a good run is 0, and no traceback is shown where one could be."""
    code, said = code_of(words.format(stored), shell=shell)
    assert (code, said) == (0, "")


@pytest.mark.parametrize("shell", ["VERB >&- 2>&-", "VERB > /dev/full", "VERB | true"])
def test_a_run_ends_with_its_verdict_although_nobody_listens(stored, tmp_path, shell):
    """The report is written, and holds nothing of what could not be printed."""
    report = tmp_path / "report"
    words = f"run --from={stored} --profile=quick --report-dir={report}"
    wanted, _ = code_of(words, shell="VERB")
    first = (report / "report.json").read_bytes()
    assert wanted in {0, 1, 3}
    code, said = code_of(words, shell=shell)
    assert (code, said) == (wanted, "")
    assert (report / "report.json").read_bytes()[:20] == first[:20]


def test_what_is_printed_never_ends_up_in_a_file(stored, tmp_path):
    """A closed descriptor's number is not given to the next file that is opened."""
    target = tmp_path / "out.json"
    code, _ = code_of(f"report {stored} --json={target}", shell="VERB >&-")
    assert code == 0
    assert target.read_text().startswith("{")
    assert os.path.getsize(target) > 100


ON_A_SMALL_DISK = """
mount -t tmpfs -o size={size} none "$1" || exit 77
shift; "$@"; code=$?
cat "{folder}/report/report.json" > "{folder}.json"; exit $code
"""


@pytest.mark.parametrize("size", ["8k", "64k", "200k"])
def test_a_report_that_finds_no_room_is_told_and_never_green(tmp_path, size):
    """What stands on the full disk says that it is not finished, with the code that the run ends with."""
    folder = tmp_path / "disk"
    folder.mkdir()
    verb = [sys.executable, "-m", "preflight", "run", "--hosts=local", "--profile=quick"]
    script = ON_A_SMALL_DISK.format(size=size, folder=folder)
    words = ["unshare", "--mount", "sh", "-c", script, "sh", str(folder), *verb, f"--report-dir={folder}/report"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    if "Operation not permitted" in done.stderr or done.returncode == 77:
        pytest.skip("a disk of one's own needs root")
    assert done.returncode == 3, done.stdout + done.stderr
    assert "No space left on device" in done.stdout + done.stderr
    document = json.loads(Path(f"{folder}.json").read_text())
    assert (document["finished"], document["verdict"], document["exit_code"]) == (False, "error", 3)
