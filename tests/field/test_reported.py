"""Is the table of reported failures whole, and is every test that it names there?"""

from __future__ import annotations

import ast
import json
from collections import Counter
from functools import cache

import pytest

from tests.bench.field import Outcomes, became
from tests.field.reported import DOUBTFUL, FIRST, LAST, ROWS, Row
from tests.field.test_diagnose import SHARED
from tests.house import ROOT

REPORTED = SHARED / "field-failures-2.jsonl"
NAMES = [f"G{number:03}" for number in range(FIRST, LAST + 1)]


@cache
def functions(path: str) -> dict[str, ast.FunctionDef]:
    """The tests of a file."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


@cache
def words_of(path: str) -> frozenset[str]:
    """Every text that stands in a file by itself."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(
        node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def test_every_row_stands_once():
    """All whose cause is known, and no other."""
    assert Counter(row.id for row in ROWS) == Counter(name for name in NAMES if name not in DOUBTFUL)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_a_row_has_its_tests_or_says_why_not(row):
    """Each test is there under that name; a row that no fail tells has a reason."""
    assert bool(row.tests) == bool(row.verdict)
    assert bool(row.why) == (row.verdict != "fail")
    for test in row.tests:
        path, _, name = test.partition("::")
        name, bracket, case = name.removesuffix("]").partition("[")
        assert name in functions(path), test
        is_parametrized = "parametrize" in ast.unparse(functions(path)[name]).partition("def ")[0]
        has_starts = any(ast.unparse(one) == "starts" for one in functions(path)[name].decorator_list)
        assert not bracket or ((is_parametrized or has_starts) and case.partition("-")[0] in words_of(path)), test


@pytest.mark.skipif(not REPORTED.is_file(), reason="the reported failures are not beside this project")
def test_the_rows_are_those_that_were_reported():
    """None is left out, and none is made up."""
    found = [json.loads(line)["id"] for line in REPORTED.read_text(encoding="utf-8").splitlines()]
    assert sorted(name for name in found if name.startswith("G")) == NAMES


@pytest.mark.parametrize(
    ("held", "word"),
    [
        ({"a.py::test_it[one]": ("passed", ""), "a.py::test_it[two]": ("passed", "")}, "caught"),
        ({"a.py::test_it[one]": ("passed", ""), "a.py::test_it[two]": ("failed", "")}, "NOT SHOWN"),
        ({"a.py::test_it": ("skipped", "the lab needs root")}, "NOT SHOWN"),
        ({"a.py::test_it_all": ("passed", "")}, "NOT SHOWN"),
    ],
)
def test_a_row_counts_only_where_all_of_its_tests_have_passed(held, word):
    """One that failed, left itself out or did not run shows nothing."""
    outcomes = Outcomes()
    outcomes.of.update(held)
    assert became(Row("G000", "fail", ("a.py::test_it",)), outcomes)[0] == word
