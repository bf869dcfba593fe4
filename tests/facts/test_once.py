"""Is what many checks ask for worked out once, and never kept where the facts are others?"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from preflight.facts.once import Once


@dataclass(frozen=True)
class Held(Once):
    """One fact."""

    fact: int


def test_the_work_is_done_once():
    """The second call gives what the first found."""
    held, calls = Held(3), []
    found = [held.once("square", lambda: calls.append(held.fact) or held.fact**2) for _ in range(2)]
    assert (found, calls) == ([9, 9], [3])


def test_a_copy_with_another_fact_works_it_out_anew():
    """What was found of the one is not said of the other."""
    held = Held(3)
    other = replace(held, fact=4)
    assert [one.once("square", lambda one=one: one.fact**2) for one in (held, other)] == [9, 16]


def test_an_error_is_raised_on_every_call():
    """A check that comes second is told the same as the first."""
    held = Held(0)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            held.once("inverse", lambda: 1 / held.fact)
