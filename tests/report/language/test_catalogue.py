"""Has what is said in Chinese the sense of the English, with the same placeholders, commands and names in it?"""

from __future__ import annotations

import random
import re

import pytest
from babel.messages.pofile import read_po

from preflight.report.language.catalogue import FOLDER, catalogue
from tests import catalogue as sources
from tests.shares import some_first

CHINESE = catalogue("zh")
PLACEHOLDER = re.compile(r"\{(\w+)\}")
CODE = re.compile(r"`[^`]*`")  # what is typed is no noun
ENDING = re.compile(r"s\d*")  # of a plural, which Chinese does without
NAME = re.compile(r"\b(?:[A-Z]+_[A-Z0-9_]+)\b")


@pytest.fixture(scope="module")
def msgids() -> list[str]:
    """What checks and package say today."""
    return list(sources.sentences())


@pytest.mark.long
def test_most_sentences_have_their_chinese(msgids: list[str]):
    """What has none yet is shown in English, and `python -m tests.catalogue` prints it; a contributor owes none."""
    missing = [msgid for msgid in msgids if msgid not in CHINESE]
    assert len(missing) <= 0.1 * len(msgids), missing


def test_placeholders_are_the_same():
    """All but the ending of a plural, which Chinese has not."""
    wrong = {
        msgid: told
        for msgid, told in CHINESE.items()
        if {name for name in PLACEHOLDER.findall(msgid) if not ENDING.fullmatch(name)}
        != {name for name in PLACEHOLDER.findall(told) if not ENDING.fullmatch(name)}
    }
    assert wrong == {}


def test_commands_and_variables_are_the_same():
    """What is typed is English in every language: code between backticks, and names such as NCCL_DEBUG."""
    codes = {msgid: told for msgid, told in CHINESE.items() if msgid.count("`") != told.count("`")}
    assert codes == {}
    wanted = ((msgid, told, re.findall(r"`[^`]*`", msgid)) for msgid, told in CHINESE.items())
    assert [msgid for msgid, told, code in wanted if not all(piece in told for piece in code)] == []
    assert [msgid for msgid, told in CHINESE.items() if set(NAME.findall(msgid)) - set(NAME.findall(told))] == []


def test_the_file_is_read_as_babel_reads_it():
    """Our reader is twenty lines; babel's is the judge of them."""
    with (FOLDER / "zh.po").open("rb") as file:
        judged = {str(entry.id): str(entry.string) for entry in read_po(file) if entry.id and entry.string}
    assert judged == CHINESE
    assert catalogue("tlh") == {}


@pytest.mark.parametrize("seed", some_first(range(50), 4))
def test_a_noun_changed_in_english_costs_no_translation(seed: int):
    """Of one template at random: its own row keeps its Chinese, and every other row is as it was."""
    choice = random.Random(seed)
    before = sources.read(sources.ZH)
    rows = {str(row.id): str(row.string) for row in before if row.id and row.string}
    nouns = {row: re.findall(r"(?<!\{)\b[a-z]{4,}\b(?!\})", CODE.sub("", PLACEHOLDER.sub("", row))) for row in rows}
    candidates = sorted(row for row, words in nouns.items() if PLACEHOLDER.search(row) and len(words) >= 4)
    old = choice.choice(candidates)
    word = choice.choice(nouns[old])
    new = re.sub(rf"(?<!\{{)\b{word}\b(?!\}})", "turbine", old, count=1)
    near = choice.sample(sorted(rows), 200)
    wanted = [sources.Sentence(row, [("x.py", 1)]) for row in dict.fromkeys([new, *near]) if row != old]
    after = {str(row.id): str(row.string) for row in sources.catalogue(before, wanted) if row.id}
    assert after[new] == rows[old]
    assert all(after[row] == rows[row] for row in near if row != old)
