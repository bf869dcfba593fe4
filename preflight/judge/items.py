"""Which check stands behind a pytest item, and how is its body kept from ending the run?"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from preflight.errors import NotApplicable
from preflight.judge.judge import KINDS, Check

# What a check waits for decides how it runs; with `node` beside `cluster` its body is evaluated for every node.
BY_WEIGHT = ("ending", "training", "bench", "mesh", "node", "cluster")


def id_of(item: pytest.Item) -> str:
    """The check's id: its file and function without ``test_``."""
    return f"{item.path.stem.removeprefix('test_')}.{item.name.removeprefix('test_')}"


def id_of_node(nodeid: str) -> str:
    """The same from pytest's own name of an item."""
    path, _, name = nodeid.partition("::")
    return f"{Path(path).stem.removeprefix('test_')}.{name.removeprefix('test_')}"


def check_of(item: pytest.Item) -> Check:
    """The check behind an item. Raises UsageError for a class, a parametrization or a fixture built on ours."""
    if not isinstance(item, pytest.Function):
        raise pytest.UsageError(f"{item.nodeid}: a check is a plain function")
    if item.cls is not None:
        raise pytest.UsageError(f"{item.nodeid}: a check is a plain function, not a method of a class")
    if hasattr(item, "callspec"):
        raise pytest.UsageError(f"{item.nodeid}: a check is not parametrized; its node fixture covers every node")
    asked = item._fixtureinfo  # noqa: SLF001 - pytest has no public word for what a test asks for by itself
    arguments = tuple(asked.argnames)
    for name, definitions in asked.name2fixturedefs.items():
        built_on = [argument for argument in definitions[-1].argnames if argument in KINDS]
        if built_on:
            words = f"fixture {name!r} is built on {built_on[0]!r}; use that in the check"
            raise pytest.UsageError(f"{item.nodeid}: {words}")
    kind = next((kind for kind in BY_WEIGHT if kind in arguments), "cluster")
    needs = frozenset(str(word) for mark in item.iter_markers("needs") for word in mark.args)
    advisory = item.get_closest_marker("advisory") is not None
    return Check(id_of(item), item.obj, arguments, kind, advisory, needs)


def contained(function: Callable[..., Any]) -> Callable[..., Any]:
    """The check with pytest's outcomes and attempts to leave turned into plain exceptions."""

    def call(**arguments: Any) -> None:
        try:
            function(**arguments)
        except pytest.skip.Exception as skipped:
            raise NotApplicable(str(skipped)) from None
        except (pytest.fail.Exception, pytest.xfail.Exception) as failed:
            raise AssertionError(str(failed)) from None
        except SystemExit as leaving:
            raise RuntimeError(f"it called sys.exit({leaving.code!r})") from None

    call.__doc__ = function.__doc__
    return call


@contextlib.contextmanager
def no_exit() -> Iterator[None]:
    """While a check runs, os._exit is an error of that check: it would end the run as green."""

    def refuse(code: int) -> None:
        raise RuntimeError(f"it called os._exit({code})")

    leave = os._exit
    os._exit = refuse  # type: ignore[assignment]
    try:
        yield
    finally:
        os._exit = leave
