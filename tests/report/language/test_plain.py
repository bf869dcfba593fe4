"""Is a text without values found in the catalogue, whole or as a list?"""

from __future__ import annotations

import pytest

from preflight.report.language import Language
from preflight.report.language.catalogue import catalogue
from preflight.said import joined, said

CHINESE = Language("zh")


@pytest.fixture(scope="module")
def two() -> tuple[str, str]:
    """Two texts without values that have a translation."""
    plain = [
        text for text in catalogue("zh") if text.isascii() and not set("{,;:.`") & set(text) and " and " not in text
    ]
    return plain[10], plain[40]


def test_a_text_is_said_whole_and_with_a_full_stop(two):
    """What stands before and after it stays."""
    text = two[0].removesuffix(".")
    assert CHINESE.say(f"  {two[0]}").strip() == catalogue("zh")[two[0]]
    assert CHINESE.say(text) == catalogue("zh").get(text, text)


@pytest.mark.parametrize(("cut", "sign"), [("; ", "；"), (", ", "，"), ("\n", "\n")])
def test_a_list_is_said_by_its_parts(two, cut, sign):
    """A name among them stays what it is."""
    said_there = [catalogue("zh")[text] for text in two]
    assert CHINESE.say(cut.join([*two, "node7"])) == sign.join([*said_there, "node7"])


@pytest.mark.parametrize("text", ["", "node7", "touch BROKEN; rm -r x, y", "a: b, c and d", "{x} {{y}}"])
def test_what_the_catalogue_does_not_know_stays(text):
    """Text of a node or a tool is never cut to pieces."""
    assert CHINESE.say(text) == text


def test_values_side_by_side_are_said_with_the_signs_of_the_language(two):
    """A sentence that has no words of its own needs no row."""
    text = said("{what}: {message}", two[0], joined(["9000", two[1]], ", "))
    assert CHINESE.say(text) == f"{catalogue('zh')[two[0]]}：9000，{catalogue('zh')[two[1]]}"


def test_documents_are_said_by_paragraph():
    """And what follows Fix."""
    text = "Every node can resolve the hostname of every other node.\n\nnobody said this\nFix: nor this"
    assert CHINESE.document(text).endswith(
        "nobody said this\n修复: nor this"
    ) or "nobody said this" in CHINESE.document(text)
