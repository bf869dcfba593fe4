"""Is a value of a launch file known apart from one that is unknown and from one that is not given?"""

from __future__ import annotations

import pytest

from preflight.judge.ledger.findings import Where
from preflight.launch.field import Sourced, Unknown, firm, shown, value_of, whole, words, written

UNKNOWN = Unknown("$N", "n.sh", 3)


@pytest.mark.parametrize(
    ("origin", "is_firm", "is_written"), [("written", 8, True), ("tool", 8, False), ("environment", None, True)]
)
def test_a_value_counts_by_where_it_comes_from(origin, is_firm, is_written):
    """A default of the environment may be replaced; the tool's own was not written by anybody."""
    field = Sourced(8, "n.sh", 3, origin)
    assert (value_of(field), firm(field), written(field)) == (8, is_firm, is_written)
    assert field.where == Where("n.sh", 3)


def test_what_is_unknown_was_written_and_what_is_not_given_was_not():
    """Neither has a value; a rule that compares leaves both alone."""
    assert (value_of(UNKNOWN), firm(UNKNOWN), written(UNKNOWN)) == (None, None, True)
    assert (value_of(None), firm(None), written(None)) == (None, None, False)
    assert UNKNOWN.where == Where("n.sh", 3)


@pytest.mark.parametrize(
    ("field", "text"), [(Sourced(0, "n.sh", 3), "0"), (Sourced("", "n.sh", 3), ""), (UNKNOWN, "$N"), (None, "not set")]
)
def test_a_field_is_shown_as_it_is_written(field, text):
    """0 and the empty text are values."""
    assert shown(field) == text


def test_a_table_of_names_is_read_over_its_lines():
    """Blanks and ends of lines part them."""
    assert words("  a b\n  c\n") == ("a", "b", "c")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("007", 7),
        ("999999999", 999999999),
        ("1000000000", None),
        *((no, None) for no in ("", "-1", " 1", "²", "٣", "8x")),
    ],
)
def test_a_whole_number_is_digits_alone(text, number):
    """And not so many that it counts nothing."""
    assert whole(text) == number
