"""Does every run leave its files, and does `preflight report` give each format, with the right exit code?"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from xml.etree import ElementTree as ET

import pytest
from junitparser import JUnitXml
from prometheus_client.parser import text_string_to_metric_families

from preflight.cli import main
from preflight.report import FILES, FORMATS
from preflight.report.formats.junit import junit_text
from preflight.report.formats.metrics import metrics_text
from preflight.report.json import read_json, write_json
from preflight.report.material import Material
from tests.report.readers import Page, prometheus


@pytest.fixture
def folder(tmp_path, planted):
    """The folder of the planted run, with its report alone."""
    write_json(tmp_path / "report.json", planted)
    return tmp_path


@pytest.mark.parametrize("name", FORMATS)
def test_each_format_of_a_finished_run_ends_with_0(folder, capsysbinary, name):
    """What is printed is there, whatever its verdict; only nagios has codes of its own, where a fail is 2."""
    assert main.run(["report", str(folder), "--format", name]) == (2 if name == "nagios" else 0)
    assert capsysbinary.readouterr().out.decode("utf-8")


def test_the_script_of_fixes_is_run_where_and_behind_it_goes_on(folder):
    """`report RUN --format=fix > f && sh f`."""
    typed = f"{sys.executable} -m preflight report {folder} --format=fix > {folder}/f && sh -n {folder}/f"
    assert subprocess.run(typed, shell=True, timeout=60, check=False).returncode == 0
    assert "Read it before you run it." in (folder / "f").read_text(encoding="utf-8")


def test_a_format_that_nobody_knows_is_a_usage_error(folder, capsys):
    """4, and the line names those there are."""
    assert main.run(["report", str(folder), "--format", "pdf"]) == 4
    assert "prometheus" in capsys.readouterr().err


def test_report_json_alone_has_a_page(folder, capsysbinary):
    """Without facts and logs, and without their sections."""
    assert main.run(["report", str(folder / "report.json"), "--format", "html"]) == 0
    page = Page(capsysbinary.readouterr().out.decode())
    assert "NO-GO" in page.text()
    assert "What each node is" not in page.text()


def test_a_run_leaves_every_file_and_appends_to_the_summary_of_the_job(tmp_path):
    """Each is read back by its own parser; the page has the facts; what other steps wrote stays."""
    step = tmp_path / "summary.md"
    step.write_text("before\n")
    folder = tmp_path / "run"
    words = [sys.executable, "-m", "preflight", "run", "--profile=quick", f"--report-dir={folder}"]
    done = subprocess.run(
        words,
        env={**os.environ, "GITHUB_STEP_SUMMARY": str(step)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == read_json(folder / "report.json").exit_code, done.stderr
    assert {path.name for path in folder.iterdir()} >= set(FILES.values())
    page = Page((folder / "report.html").read_text(encoding="utf-8"))
    assert "kernel same" in " ".join(page.text().split())
    ET.parse(folder / "junit.xml")
    assert prometheus((folder / "report.prom").read_text(encoding="utf-8"))["preflight_run_finished"] == {(): 1}
    with (folder / "matrix.csv").open(encoding="utf-8", newline="") as stream:
        assert next(csv.reader(stream)) == ["check", "verdict", "local"]
    assert step.read_text(encoding="utf-8") == f"before\n{(folder / 'report.md').read_text(encoding='utf-8')}\n"
    again = subprocess.run(
        [sys.executable, "-m", "preflight", "report", str(folder), "--format", "html"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "What each node is" in Page(again.stdout).text()
    nodes = subprocess.run(
        [sys.executable, "-m", "preflight", "report", str(folder), "--format=nodes"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert set(json.loads(nodes.stdout)["worst"]) == {"local"}


def test_prometheus_own_client_reads_the_metrics(hostile_report):
    """Every family is a gauge with the node's name as one label, whatever the name holds."""
    families = {
        family.name: family for family in text_string_to_metric_families(metrics_text(Material(hostile_report)))
    }
    assert {family.type for family in families.values()} == {"gauge"}
    assert len(families["preflight_node_reached"].samples) == len(hostile_report.nodes)
    (code,) = families["preflight_exit_code"].samples
    assert code.value == hostile_report.exit_code


def test_a_junit_library_reads_the_results(hostile_report):
    """It counts the cases as we do."""
    read = JUnitXml.fromstring(junit_text(hostile_report).encode())
    read_counts = (read.tests, read.failures, read.errors)
    read.update_statistics()
    assert (read.tests, read.failures, read.errors) == read_counts
    assert read.failures >= 1
    assert read.errors >= 1
