"""Is every check of the files asked for known, whether pytest collects it or not?"""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

from preflight.run.suite.existing import PASSED_OVER, checks_folder, deselected_by, existing, hidden, why_not_collected
from tests.checks.samples import checks

NOTHING = Namespace(keyword="", markexpr="", deselect=None, lf=False, ignore=None, ignore_glob=None)


def with_options(**given) -> Namespace:
    """pytest's options, of which some are given."""
    return Namespace(**{**vars(NOTHING), **given})


def test_the_checks_of_a_folder_are_found_without_importing_them(tmp_path):
    """Functions of the files that pytest would take, however deep; no helper, no method, no folder of a tool."""
    (tmp_path / "test_a.py").write_text(
        "import nowhere\ndef test_one(node): ...\nasync def test_two(node): ...\ndef helper(): ...\n"
        "if nowhere.x:\n    def test_three(node): ...\nelse:\n    def test_four(node): ...\n"
        "try:\n    pass\nexcept OSError:\n    def test_five(node): ...\n"
        "class TestX:\n    def test_method(self): ...\n"
    )
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "rack_test.py").write_text("def test_six(node): ...")
    (tmp_path / "more" / "other.py").write_text("def test_not_collected(node): ...")
    (tmp_path / "test_broken.py").write_text("def test_seven(:")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "test_of_others.py").write_text("def test_eight(node): ...")
    assert set(existing(["."], tmp_path)) == {"a.one", "a.two", "a.three", "a.four", "a.five", "rack_test.six"}
    assert existing(["more/rack_test.py"], tmp_path) == {"rack_test.six": tmp_path / "more" / "rack_test.py"}


def test_only_what_is_asked_for_is_found(tmp_path):
    """A file by any name, one function of it, and nothing for a path that is not there."""
    (tmp_path / "mine.py").write_text("def test_one(node): ...\ndef test_two(node): ...")
    assert set(existing(["mine.py"], tmp_path)) == {"mine.one", "mine.two"}
    assert set(existing(["mine.py::test_two"], tmp_path)) == {"mine.two"}
    assert existing(["nowhere"], tmp_path) == {}


def test_a_check_that_a_later_one_of_its_name_hides_is_found(tmp_path):
    """Python keeps the last alone; two branches of which one is taken are no double."""
    (tmp_path / "test_a.py").write_text("def test_one(node): ...\ndef test_two(node): ...\ndef test_one(node): ...\n")
    (tmp_path / "test_b.py").write_text("if 1:\n    def test_one(node): ...\nelse:\n    def test_one(node): ...\n")
    assert hidden(["."], tmp_path) == {"a.one": "test_a.py::test_one of line 3"}
    assert hidden([str(checks_folder())], tmp_path) == {}


def test_our_own_checks_are_those_that_pytest_collects():
    """Each under the id that it has everywhere else."""
    assert set(existing([str(checks_folder())], Path())) == set(checks())


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"keyword": "mtu"}, "-k"),
        ({"markexpr": "advisory"}, "-m"),
        ({"keyword": "mtu", "deselect": ["a"]}, "-k or --deselect"),
        ({"lf": True}, "--lf"),
        ({}, "left out by a plugin or conftest"),
    ],
)
def test_what_deselected_a_check_is_named(given, reason):
    """As the user wrote it."""
    assert deselected_by(with_options(**given)) == reason


@pytest.mark.parametrize(
    ("given", "skipped", "reason"),
    [
        ({"ignore": ["checks/test_a.py"]}, {}, "--ignore"),
        ({"ignore": ["checks"]}, {}, "--ignore"),
        ({"ignore": ["checks/test_b.py"]}, {}, "not collected"),
        ({"ignore_glob": ["checks/*_a.py"]}, {}, "--ignore-glob"),
        ({"lf": True}, {}, "--lf"),
        ({}, {"checks/test_a.py": "skipped: no torch"}, "skipped: no torch"),
        ({}, {"checks": "skipped: no GPU"}, "skipped: no GPU"),
        ({}, {"other": "skipped: no GPU"}, "not collected"),
    ],
)
def test_why_a_file_was_not_collected_is_said_where_it_is_known(tmp_path, given, skipped, reason):
    """By its own skip or its folder's, by an option, or plainly not."""
    reasons = {tmp_path / name: why for name, why in skipped.items()}
    assert why_not_collected(tmp_path / "checks" / "test_a.py", reasons, with_options(**given), tmp_path) == reason


def test_the_folders_passed_over_are_those_of_pytest(pytestconfig):
    """As this pytest has them where nothing is set."""
    assert set(PASSED_OVER) - {"__pycache__"} == set(pytestconfig.getini("norecursedirs"))
