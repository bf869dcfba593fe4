"""Does a new format of the report take one file and its word, and is it then written and printed?"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.newcomer.copy import copied

FILES = ["preflight/report/__init__.py", "preflight/report/formats/ndjson.py"]


def test_the_change_is_one_file_and_the_table_of_formats():
    """No verb, no option and no page has to know of it."""
    lines = Path(__file__).with_name("report_format.diff").read_text(encoding="utf-8").splitlines()
    assert [line.removeprefix("+++ b/") for line in lines if line.startswith("+++ ")] == FILES


def test_a_run_leaves_the_new_format_and_report_prints_it(tmp_path):
    """Every finding is a line, in the file of the run and on the screen."""
    tree, folder = copied(tmp_path, "report_format.diff"), tmp_path / "run"

    def preflight(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "preflight", *words],
            cwd=tree, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    ran = preflight("run", "--profile=quick", f"--report-dir={folder}")
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert ran.returncode == report["exit_code"], ran.stdout + ran.stderr
    printed = preflight("report", str(folder), "--format", "ndjson")
    assert printed.returncode == report["exit_code"], printed.stderr
    assert printed.stdout == (folder / "findings.ndjson").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in printed.stdout.splitlines()]
    assert [line["check"] for line in lines] == [finding["check"] for finding in report["findings"]]
    assert {line["run"] for line in lines} == {report["run"]["id"]}
    assert "ndjson" in preflight("report", str(folder), "--format", "pdf").stderr
