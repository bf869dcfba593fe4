"""Is every fault of the core tried by a test that pytest runs, and that leaves itself out nowhere?"""

from __future__ import annotations

import ast
from functools import cache

import pytest

from tests.bench.fault_table import CORE, PLANTED, TABLE, must_run, run_by_pytest, table_text
from tests.bench.faults import CASES
from tests.house import ROOT

LEAVING_OUT = {"pytest.skip", "pytest.importorskip", "pytest.mark.skip", "pytest.mark.skipif"}


@cache
def functions(path: str) -> dict[str, ast.FunctionDef]:
    """Every function of a file."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


def calls(function: ast.FunctionDef) -> set[str]:
    """What it calls, its decorators included."""
    return {ast.unparse(node.func) for node in ast.walk(function) if isinstance(node, ast.Call)}


@pytest.mark.parametrize("name", CORE)
def test_a_fault_of_the_core_is_tried_by_a_test(name):
    """Not only by a long command, and not by one that may leave itself out."""
    tests = [test.partition("::") for test in run_by_pytest(name)]
    assert tests
    tried = [node for path, _, wanted in tests for name, node in functions(path).items() if wanted in {"", name}]
    assert [node.name for node in tried if calls(node) & LEAVING_OUT] == []


def test_what_the_table_names_is_there():
    """Every test of every fault, and of the command that plants exactly those that it is said to plant."""
    named = {test for fault in TABLE.values() for test in fault.tests}
    wanted = {(path, name.partition("[")[0]) for path, _, name in (test.partition("::") for test in named)}
    assert [path for path, name in wanted if name and name not in functions(path)] == []
    assert [path for path, _ in wanted if not (ROOT / path).is_file()] == []
    planted = {name for name, fault in TABLE.items() if PLANTED in fault.tests}
    assert planted == {*(case.id for case in CASES), "F4"}


@pytest.mark.parametrize(
    ("nodeid", "expected"),
    [
        ("tests/e2e/test_orphans.py::test_nothing_outlives_who_ran_the_job[ssh]", True),
        ("tests/said/test_redact.py::test_every_secret_of_a_line_is_hidden", True),
        ("tests/e2e/test_kubernetes.py::test_a_machine_without_kubectl_is_told", True),
        ("tests/e2e/test_training.py::test_a_seed_that_differs_is_told_by_its_shards", False),
        ("tests/said/test_errors.py::test_anything", False),
    ],
)
def test_what_must_run_is_known_by_its_name(nodeid, expected):
    """Of a file that is named without a test, all; else that test with all its parameters."""
    assert must_run(nodeid) == expected


def test_the_table_marks_the_core_and_counts_it():
    """A line each, and the sums below."""
    lines = table_text().splitlines()
    assert sum(line.startswith("core") for line in lines) == len(CORE)
    assert lines[-1].endswith(f"{len(CORE)} of {len(CORE)} of the core by a test")
