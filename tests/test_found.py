"""Is what is found in the launch cases, logs and broken clusters of the tests what tests/data/said/ lists?"""

from __future__ import annotations

import pytest

from preflight.said import joined
from preflight.said import said as sentence
from tests import found as said


@pytest.mark.parametrize("name", said.TABLES)
def test_findings_are_those_of_the_table(name):
    """Verdict, place, values, edits and commands, case by case; `python -m tests.found` writes what is right."""
    listed = (said.FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    assert list(said.TABLES[name]()) == listed.splitlines()


def test_the_table_holds_values_and_no_words():
    """Of a sentence, of those in it and of lists of them; the endings and words that some values are stay out."""
    inner = sentence("{file} sets {option}", "run.sh", "--nnodes")
    text = joined([sentence("{count} node{s}: {why}", 4, "s", inner), sentence("{how}", "none at all")])
    assert list(said.values(text)) == ["4", "run.sh", "--nnodes"]
