"""Does any command depend on how a sentence is written?"""

from __future__ import annotations

from typing import get_args, get_type_hints

import pytest

from preflight.facts.subjects.network import Rule
from preflight.judge.commands import ROWS
from preflight.judge.tables.rdma import choice
from preflight.said import said, values_in
from tests.checks.samples import judge
from tests.judge.commands.test_every_check import commands_of, rows
from tests.judge.commands.typed import as_root
from tests.shares import shares
from tests.wording import commands_read_other_words, templates_say_other_words


@pytest.fixture
def wording():
    """Both wordings are compared here."""


@pytest.mark.parametrize("share", shares(4))
@pytest.mark.parametrize("make", [lambda run: run, as_root], ids=["user", "root"])
def test_a_word_changed_changes_no_command(monkeypatch, make, share):
    """Every broken cluster of the checks' own tests gives the same commands by the same rows, and some do."""
    plants = [(row.name, make(row.run)) for row in share.of(rows())]
    before = [(name, commands_of(name, run)) for name, run in plants]
    commands_read_other_words(monkeypatch)
    after = [(name, commands_of(name, run)) for name, run in plants]
    assert [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]] == []
    assert len({command.row for _, commands in before for command in commands}) > (60 if share.is_rest else 20)


@pytest.mark.parametrize("share", shares(4))
def test_templates_may_say_what_they_like(monkeypatch, share):
    """With the words of every template changed as sentences are made, verdicts, nodes and commands are the same."""
    plants = [(row.name, as_root(row.run)) for row in share.of(rows())]

    def looked():
        found = [judge(name, run) for name, run in plants]
        return [
            [(one.verdict, one.nodes, [(c.node, c.now, c.row) for c in one.commands]) for one in each] for each in found
        ]

    before = looked()
    templates_say_other_words(monkeypatch)
    assert "node" not in said("the node {name}", "x")
    assert [names for names in zip(plants, before, looked(), strict=True) if names[1] != names[2]] == []


def test_every_row_is_for_something_that_is_said():
    """What a key names after its check is what some finding is about: a fault that is renamed takes its row along."""
    said_of = {
        f"{row.name}: {about}"
        for row in rows()
        for finding in judge(row.name, row.run)
        for about in values_in(finding.message, "about")
    }
    said_of |= {f"rdma.choice_of_ports_is_sound: {fault.name}" for fault in choice.NODES}
    by_tool = {key for key in ROWS if key.rpartition(": ")[2] in get_args(get_type_hints(Rule)["tool"])}
    keyed = {key for key in ROWS if ": " in key}
    assert keyed - by_tool <= said_of
    assert len(by_tool) == 12  # test_filters has a plant for each tool
