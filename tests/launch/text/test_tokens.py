"""Where do words, operators and here-documents end?"""

from __future__ import annotations

import pytest

from preflight.launch.text.quotes import Broken
from preflight.launch.text.tokens import Tokens


@pytest.mark.parametrize("text", ["a", "a'b c'\"d e\"$f", "x=(1 2)", "<ADDRESS>:1", "a\\ b", "!(a|b)", "{a,b}"])
def test_a_word_goes_to_the_next_blank_or_operator(text):
    """Quotes, arrays and holes are parts of it."""
    for after in (" b", "\n", ";b", "&", "|b", ">x"):
        walk = Tokens(text + after)
        walk.word()
        assert walk.at == len(text)


@pytest.mark.parametrize(
    ("text", "operator"), [("&& b", "&&"), ("<<-E", "<<-"), (";;&", ";;&"), ("<(a)", ""), ("<A>", "")]
)
def test_an_operator_is_the_longest_that_fits(text, operator):
    """What begins a word is none."""
    assert Tokens(text).operator() == operator


def test_a_here_document_ends_at_the_line_that_is_its_ending():
    """Two on one line follow each other; <<- takes tabs away."""
    walk = Tokens("<<A <<-'B'\nx\nA\ny\n\tB\nrest")
    walk.redirections()
    walk.newlines()
    assert walk.text[walk.at :] == "rest"
    assert walk.open_documents == []


def test_what_does_not_belong_is_named():
    """As bash names it."""
    with pytest.raises(Broken, match="`;;` is not expected"):
        Tokens(";; a").unexpected()
