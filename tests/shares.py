"""How does a test try some of its cases in every run, and the others with the long tests?

    @pytest.mark.parametrize("share", shares(4))        # one case in four, and with `-m long` the other three
    def test_every_file_is_read(share):
        for file in share.of(FILES): ...

Cases that take seconds together are worth trying all, and not before every commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from _pytest.mark.structures import ParameterSet

Case = TypeVar("Case")


@dataclass(frozen=True)
class Share:
    """One case in so many, or all the others."""

    one_in: int
    is_rest: bool

    def of(self, cases: Iterable[Case]) -> list[Case]:
        """The cases of this share, in their order; the first case belongs to the small one."""
        return [case for place, case in enumerate(cases) if (place % self.one_in > 0) is self.is_rest]


def shares(one_in: int) -> list[ParameterSet]:
    """The small share for every run, and the rest for the long tests."""
    some, rest = Share(one_in, is_rest=False), Share(one_in, is_rest=True)
    return [pytest.param(some, id=f"one in {one_in}"), pytest.param(rest, id="the others", marks=pytest.mark.long)]


def some_first(cases: Iterable[Any], always: int | Sequence[Any] = 1) -> list[ParameterSet]:
    """Cases as parameters, a tuple for several: the first so many, or those named, always; the others are long."""
    held = list(cases)
    named = held[:always] if isinstance(always, int) else list(always)
    marks = {True: [], False: [pytest.mark.long]}
    return [pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=marks[case in named]) for case in held]
