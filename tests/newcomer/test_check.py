"""Does a check with a new fact touch three files only, and work once they are changed? check.diff is such a change."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.newcomer.copy import copied

DIFF = Path(__file__).with_name("check.diff")
CHECK = "kernel.memory_may_be_mapped_often"
# What a site's own test of the new check would be.
TEST = """
import importlib.util

from preflight.testing import healthy, judged

spec = importlib.util.spec_from_file_location("test_kernel", "checks/test_kernel.py")
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
check = module.test_memory_may_be_mapped_often


def test_a_node_that_maps_little_is_named():
    whole = healthy(3).broken(("node1", "node2", "node3"), "kernel", most_mappings=65530)
    assert judged(check, whole).passes
    assert judged(check, whole.broken("node3", "kernel", most_mappings=1024)).fails_on == ("node3",)
    assert "vm.max_map_count is 1024" in judged(check, whole.broken("node3", "kernel", most_mappings=1024)).message


def test_a_made_up_cluster_that_knows_nothing_of_it_is_skipped():
    assert judged(check, healthy(2)).skips_on == ("node1", "node2")
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory) -> Path:
    """A copy of this tree with the change."""
    return copied(tmp_path_factory.mktemp("newcomer"), "check.diff")


def run(tree: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Pytest in the copy, with the copy's own preflight."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    argv = [sys.executable, "-m", "pytest", "-p", "preflight.run.suite.plugin", "-p", "no:cacheprovider", *words]
    return subprocess.run(argv, check=False, cwd=tree, env=environment, capture_output=True, text=True, timeout=120)


def test_three_files_are_touched():
    """What the node reads, how it is called, and the check."""
    touched = re.findall(r"^\+\+\+ b/(.+)$", DIFF.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(touched) == [
        "checks/test_kernel.py",
        "preflight/facts/subjects/kernel.py",
        "preflight/node/subjects/kernel.py",
    ]


def test_the_check_is_judged_on_a_real_node(tree, tmp_path):
    """A real machine is asked for the new fact, and the check judges it by what the kernel says."""
    words = ("--hosts=local", "--preflight-profile=quick", f"--report-dir={tmp_path}")
    done = run(tree, *words, "checks", "-k", CHECK.partition(".")[2])
    assert (tmp_path / "report.json").is_file(), done.stdout + done.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    (finding,) = report["findings"]
    (facts,) = (tmp_path / "facts").glob("*.json")
    value = int(Path("/proc/sys/vm/max_map_count").read_text())
    assert json.loads(facts.read_text())["subjects"]["kernel"]["most_mappings"] == value
    assert (finding["check"], finding["verdict"]) == (CHECK, "fail" if value < 65530 else "pass"), done.stdout
    assert done.returncode == report["exit_code"] == (1 if value < 65530 else 0)


def test_a_broken_cluster_fails_it(tree):
    """With preflight.testing of the copy, which was not changed for it."""
    (tree / "test_own.py").write_text(TEST, encoding="utf-8")
    done = run(tree, "-q", "test_own.py")
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout


def test_facts_that_were_stored_before_are_still_judged(tree, tmp_path):
    """A run of this version has no such fact: not measured, and everything else is judged as before."""
    before = tmp_path / "before"
    run_here = [sys.executable, "-m", "preflight", "run", "--profile=quick", f"--report-dir={before}", "--json"]
    subprocess.run(run_here, check=False, cwd=Path(__file__).parents[2], capture_output=True, timeout=120)
    done = run(tree, f"--from={before}", f"--report-dir={tmp_path / 'after'}", "checks/test_kernel.py")
    findings = json.loads((tmp_path / "after/report.json").read_text())["findings"]
    told = {finding["check"]: finding for finding in findings}
    assert told[CHECK]["verdict"] == "error", done.stdout
    assert told[CHECK]["message"].endswith("not collected by the version that stored it")
    earlier = json.loads((before / "report.json").read_text())["findings"]
    same = {f["check"]: f["verdict"] for f in earlier if f["check"].startswith("kernel.")}
    assert {name: told[name]["verdict"] for name in same} == same
