"""Where do quotes and expansions end?"""

from __future__ import annotations

import pytest

from preflight.launch.text.quotes import Broken, Quotes


@pytest.mark.parametrize(
    "text",
    ["'a \"b'", '"a \'b\\" $x ${y:-"z"} `c`"', "$'a\\'b'", "${x//\\}/y}", "$((1 + (2)))", "`a \\` b`", "\\'", "$x"],
)
def test_a_part_ends_where_it_is_closed(text):
    """One quoted text or expansion is one part, whatever stands in it."""
    walk = Quotes(f"{text} rest")
    while walk.at < len(text):
        walk.part()
    assert walk.at == len(text)


@pytest.mark.parametrize(("text", "quote"), [("'a", "'"), ('"a', '"'), ("`a", "`"), ("$'a", "'")])
def test_an_unclosed_quote_is_named(text, quote):
    """With the place where it begins."""
    with pytest.raises(Broken) as caught:
        Quotes(text).part()
    assert quote in caught.value.reason
    assert caught.value.place == 0


def test_of_two_quotes_the_one_that_ran_over_a_line_is_meant():
    """The text that ends right before a letter was meant to end earlier."""
    walk = Quotes('"a\n"b"')
    walk.part()
    walk.part()
    with pytest.raises(Broken) as caught:
        walk.part()
    assert caught.value.place == 0
