"""Is the table of causes whole, and can each of its patterns be looked up?"""

from __future__ import annotations

import re
from collections import Counter

import pytest

from preflight.diagnose.cause import key_word
from preflight.diagnose.causes import CAUSES
from preflight.diagnose.derived.hangs import PLACED
from preflight.diagnose.derived.plugins import LOST
from tests.house import ROOT

CHECKS = {
    f"{path.stem.removeprefix('test_')}.{name}"
    for path in (ROOT / "checks").glob("test_*.py")
    for name in re.findall(r"^def test_(\w+)", path.read_text(), re.MULTILINE)
}


def test_every_cause_is_whole():
    """A name of its own, words, a meaning, a fix and a source; its check is one of ours."""
    assert [name for name, count in Counter(cause.name for cause in CAUSES).items() if count > 1] == []
    assert len(CAUSES) >= 150
    for cause in CAUSES:
        assert cause.patterns or cause.name in PLACED | {LOST}, cause.name
        assert cause.meaning, cause.name
        assert cause.fix, cause.name
        assert cause.source, cause.name
        assert cause.check in {"", *CHECKS}, cause.check


def test_every_pattern_has_a_word_to_be_looked_up_by():
    """In lower case, without alternatives at its top."""
    for cause in CAUSES:
        for pattern in (*cause.patterns, *cause.unless):
            words = re.sub(r"\\[A-Z]|\(\?P<", "", pattern)
            assert words == words.lower(), pattern
            re.compile(pattern)
        assert all(key_word(pattern) for pattern in cause.patterns)


@pytest.mark.parametrize(
    ("pattern", "word"),
    [
        (r"cuda out of memory", "out"),
        (r"call to ibv_modify_qp failed", "modify"),
        (r"exitcode\s*: -9\b", "exitcode"),
        (r"workers? died unexpectedly", "died"),
        (r"\d+/\d+ clients joined", "clients"),
        (r"(?:a|b) gone", "gone"),
    ],
)
def test_the_word_is_one_that_every_line_has(pattern, word):
    """Whole, and as rare as can be: no part of a longer word, nothing that may be absent."""
    assert key_word(pattern) == word


@pytest.mark.parametrize("pattern", [r"a|b", r"\w+", r"(?:only|groups)"])
def test_what_cannot_be_looked_up_is_refused(pattern):
    """A pattern without a word of its own would be tried on every line of a gigabyte."""
    with pytest.raises(ValueError):
        key_word(pattern)
