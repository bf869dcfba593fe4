"""Does any command depend on how a sentence is written?"""

from __future__ import annotations

import pytest

from tests.judge.commands.test_every_check import commands_of, rows
from tests.judge.commands.typed import as_root
from tests.wording import commands_read_other_words


@pytest.fixture
def wording():
    """Both wordings are compared here."""


@pytest.mark.parametrize("make", [lambda run: run, as_root], ids=["user", "root"])
def test_a_word_changed_changes_no_command(monkeypatch, make):
    """Every broken cluster of the checks' own tests gives the same commands by the same rows, and some do."""
    plants = [(row.name, make(row.run)) for row in rows()]
    before = [(name, commands_of(name, run)) for name, run in plants]
    commands_read_other_words(monkeypatch)
    after = [(name, commands_of(name, run)) for name, run in plants]
    assert [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]] == []
    assert len({command.row for _, commands in before for command in commands}) > 60
