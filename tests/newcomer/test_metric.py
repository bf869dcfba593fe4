"""Does a new figure of the benchmark take three files, and then stand in every report?"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.newcomer.copy import copied
from tests.report.readers import Page, prometheus

FILES = ["preflight/report/columns.py", "preflight/facts/results/bench.py", "preflight/job/ranks/bench/figures.py"]


def test_the_change_is_three_files_of_the_package():
    """The workload measures, the result holds, the column shows: nothing else has to know."""
    lines = Path(__file__).with_name("metric.diff").read_text(encoding="utf-8").splitlines()
    assert [line.removeprefix("+++ b/") for line in lines if line.startswith("+++ ")] == FILES


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """The folder and the output of a benchmark of two ranks on this machine, run from the changed copy."""
    tmp_path = tmp_path_factory.mktemp("metric")
    folder = tmp_path / "run"
    words = ["bench", "--hosts=local", "--ranks-per-node=2", "-b", "1M", "--iters=6", f"--report-dir={folder}"]
    done = subprocess.run(
        [sys.executable, "-m", "preflight", *words],
        cwd=copied(tmp_path, "metric.diff"),
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert (folder / "report.json").is_file(), done.stdout + done.stderr
    assert done.returncode == json.loads((folder / "report.json").read_text())["exit_code"], done.stderr
    return folder, done.stdout


def test_the_new_figure_was_measured_by_the_ranks(measured):
    """report.json has it, as long as the slowest operation or longer than most of them."""
    folder, _ = measured
    (result,) = json.loads((folder / "report.json").read_text())["bench"]["results"]
    assert result["seconds_most"] >= result["seconds_p95"] > 0


def test_the_new_figure_stands_in_every_report(measured):
    """The table of nccl-tests, report.md, report.html and report.prom."""
    folder, printed = measured
    (result,) = json.loads((folder / "report.json").read_text())["bench"]["results"]
    figure = f"{result['seconds_most'] * 1e3:.2f}"
    assert f"slowest {figure} ms" in printed
    assert f" {figure} " in (folder / "report.md").read_text(encoding="utf-8")
    page = " ".join(Page((folder / "report.html").read_text(encoding="utf-8")).text().split())
    assert "slowest (ms)" in page
    assert f" {figure} " in page
    families = prometheus((folder / "report.prom").read_text(encoding="utf-8"))
    (seconds,) = families["preflight_collective_slowest_seconds"].values()
    assert seconds == pytest.approx(result["seconds_most"])
