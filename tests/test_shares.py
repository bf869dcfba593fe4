"""Is every case in exactly one share, and the small one in every run?"""

from __future__ import annotations

import pytest

from tests.shares import shares, some_first


@pytest.mark.parametrize("one_in", [1, 2, 7])
@pytest.mark.parametrize("count", [0, 1, 13])
def test_every_case_is_in_one_share(one_in, count):
    """The small share has the first case, and the rest is long."""
    some, rest = shares(one_in)
    of_some, of_rest = some.values[0].of(range(count)), rest.values[0].of(range(count))
    assert sorted(of_some + of_rest) == list(range(count))
    assert of_some == list(range(0, count, one_in))
    assert ([mark.name for mark in some.marks], [mark.name for mark in rest.marks]) == ([], ["long"])


def test_the_first_or_the_named_parameters_are_tried_always():
    """Each is there once, in its order."""
    for always, wanted in ((1, "a"), (2, "ab"), (["b", "c"], "bc")):
        found = some_first("abcd", always)
        assert [one.values[0] for one in found] == [*"abcd"]
        assert "".join(one.values[0] for one in found if not one.marks) == wanted
