"""Does any edit depend on how a sentence is written?"""

from __future__ import annotations

import pytest

from preflight.launch.rules.check import check_texts
from tests.launch import truth
from tests.shares import shares
from tests.wording import PROSE, fixes_read_other_words


@pytest.fixture
def wording():
    """Both wordings are compared here."""


def fixes(cases):
    """What is proposed for each case: rule, lines, fix without its prose, and edits of every finding."""
    return {
        case.name: sorted(
            (one.check, str(one.where), PROSE.sub("zzz", one.fix), str(one.edits)) for one in check_texts(case.texts)[0]
        )
        for case in cases
    }


@pytest.mark.parametrize("share", shares(6))
def test_a_word_changed_changes_no_edit(monkeypatch, share):
    """Every case of the launch rules gets the same fixes and edits, and some of them have any."""
    texts = (truth.FOLDER.parent / "launch_rules.txt").read_text()
    cases = share.of([*truth.parsed(texts, "launch_rules.txt"), *truth.cases()])
    before = fixes(cases)
    fixes_read_other_words(monkeypatch, prose=True)
    after = fixes(cases)
    assert {name: (held, after[name]) for name, held in before.items() if held != after[name]} == {}
    assert sum(edits != "()" for found in before.values() for *_, edits in found) > (20 if share.is_rest else 3)
