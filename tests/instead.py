"""Something else stands in the place of what a rank finds around it, while the listings of tests/job ask what it does.

torch's calls into a GPU or to other ranks, the kernel, a clock, the parts that a step is put together from: what the
code asks of them, and in which order, is listed. What the parts themselves do is shown by tests that run them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import pytest

NOTHING: Any = object()


class Noted:
    """Whatever is called: it notes with what, and gives the same each time, or raises."""

    def __init__(self, gives: Any = None, *, does: Any = None) -> None:
        self.gives = gives
        self.does = does
        self.words: tuple[Any, ...] = ()  # of the last call
        self.named: dict[str, Any] = {}

    def __call__(self, *words: Any, **named: Any) -> Any:
        """Called."""
        self.words, self.named = words, named
        is_error = isinstance(self.does, type) and issubclass(self.does, BaseException)
        if is_error or isinstance(self.does, BaseException):
            raise self.does
        return self.does(*words, **named) if callable(self.does) else self.gives


class Asked:
    """Whatever has methods: each call of one is noted."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *words, **named: self.said.append(f"{name} {words} {named}")


@contextmanager
def instead(owner: Any, name: str, value: Any = NOTHING, *, gives: Any = None, does: Any = None) -> Iterator[Any]:
    """A value, or a function that gives this or does that, under a name of a module, a class or an object."""
    held = Noted(gives, does=does) if value is NOTHING else value
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, held, raising=False)
        yield held


@contextmanager
def instead_of(owner: Any, **values: Any) -> Iterator[None]:
    """Several of one owner."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in values.items():
            patch.setattr(owner, name, value, raising=False)
        yield


@contextmanager
def entries(place: str, values: Mapping[str, Any], *, clear: bool = False) -> Iterator[None]:
    """Entries of os.environ, sys.modules or another mapping of a module: beside those that are there, or alone."""
    module, _, name = place.rpartition(".")
    mapping = getattr(import_module(module), name)
    before = dict(mapping)
    try:
        for key in list(mapping) if clear else ():
            del mapping[key]
        mapping.update(values)
        yield
    finally:  # what came meanwhile goes as well
        for key in mapping.keys() - before.keys():
            del mapping[key]
        mapping.update(before)
