"""Tests of preflight.node.sources.gpus.printed_json."""

import pytest

from preflight.node.sources.gpus.printed_json import value_at


def test_a_value_between_other_words_is_read_to_its_end():
    """What stands before and after it is left alone."""
    text = 'warning\n{"a": [1, 2.5]}\ndone'
    assert value_at(text, 8) == ({"a": [1, 2.5]}, 23)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"gpu": 1e999}', "[NaN]", "[-Infinity]", '{"a"', "", "[1,"])
def test_whatever_is_broken_is_a_value_error(text):
    """Also what nests without end, and a number that is none."""
    with pytest.raises(ValueError, match=r"."):
        value_at(text, 0)
