"""Is what is found in the launch cases, logs and broken clusters of the tests what tests/data/said/ lists?"""

from __future__ import annotations

import pytest

from preflight.said import joined
from preflight.said import said as sentence
from tests import said


@pytest.fixture(scope="module")
def now() -> dict[str, str]:
    """What would be written."""
    return said.texts()


@pytest.mark.parametrize("name", ["commands.txt", "launch.txt", "logs.txt"])
def test_findings_are_those_of_the_table(now, name):
    """Verdict, place, values and edits, case by case; where they are right, `python -m tests.said` writes them."""
    listed = (said.FOLDER / name).read_text(encoding="utf-8")
    assert now[name].splitlines() == listed.splitlines()


def test_the_table_holds_values_and_no_words():
    """Of a sentence, of those in it and of lists of them; the endings and words that some values are stay out."""
    inner = sentence("{file} sets {option}", "run.sh", "--nnodes")
    text = joined([sentence("{count} node{s}: {why}", 4, "s", inner), sentence("{how}", "none at all")])
    assert list(said.values(text)) == ["4", "run.sh", "--nnodes"]
