"""Is the table of causes whole, and can each of its patterns be looked up?"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections import Counter
from collections.abc import Iterator

import pytest

import preflight.diagnose
from preflight.diagnose.cause import key_word
from preflight.diagnose.causes import CAUSES
from preflight.diagnose.derived.hangs import PLACED
from preflight.diagnose.derived.plugins import LOST
from preflight.diagnose.hanging.dumps import ELSEWHERE
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
        assert cause.patterns or cause.name in PLACED | {LOST, ELSEWHERE}, cause.name
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


def named_in(value: object) -> Iterator[str]:
    """The texts of a constant, however deep."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (tuple, list, set, frozenset, dict)):
        for one in (*value.keys(), *value.values()) if isinstance(value, dict) else value:
            yield from named_in(one)


def test_what_tables_call_a_cause_is_one():
    """A set of names, or a table by them: one that is misspelt would never be found in it."""
    names = {cause.name for cause in CAUSES} | {"program-error", "no-cause-known"}
    wrong, seen = {}, 0
    for module in pkgutil.walk_packages(preflight.diagnose.__path__, "preflight.diagnose."):
        for constant, value in vars(importlib.import_module(module.name)).items():
            if constant.isupper() and isinstance(value, (tuple, list, set, frozenset, dict)):
                held = {one for one in named_in(value) if re.fullmatch(r"\w+(-\w+)+", one)}
                seen += bool(held & names)
                if held & names and not held <= names:
                    wrong[module.name, constant] = held - names
    assert wrong == {}
    assert seen > 20


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
