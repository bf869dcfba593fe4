"""Tests of preflight.judge.tables.caches; its findings are tested in tests/checks/test_caches.py."""

from __future__ import annotations

import pytest

from preflight.judge.tables import caches


@pytest.mark.parametrize(
    ("path", "python", "is_of"),
    [
        ("/c/py311_cu128/utils/lock", "3.11", True),
        ("/c/py310_cu128/utils/lock", "3.11", False),
        ("/c/py3_cpu/utils/lock", "3.11", False),
        ("/c/utils/lock", "3.11", True),
        ("/c/python_parser/lock", "3.11", True),
    ],
)
def test_a_folder_of_another_python_is_known(path, python, is_of):
    """torch names the folder by Python and CUDA; under TORCH_EXTENSIONS_DIR there is none."""
    assert caches.is_of(path, "/c", python) is is_of


@pytest.mark.parametrize(("seconds", "words"), [(1800, "30 minutes"), (7200, "2 hours"), (200000, "2 days")])
def test_an_age_is_told_in_a_unit_that_fits(seconds, words):
    """Minutes to two hours, hours to two days."""
    assert caches.age_text(seconds) == words
