"""Which check stands behind a pytest item, and how is its body kept from ending the run?"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from preflight.judge.check import KINDS, Check
from preflight.run.suite.existing import check_id
from preflight.run.suite.leaving import LEAVE, no_exit
from preflight.said import said
from preflight.said.errors import NotApplicable, NotMeasured, UsageError

# What a check waits for decides how it runs; with `node` beside `cluster` its body is evaluated for every node.
BY_WEIGHT = ("ending", "rehearsal", "training", "bench", "mesh", "node", "cluster")


def id_of(item: pytest.Item) -> str:
    """The check's id: its file and function without ``test_``."""
    return check_id(item.path, item.name)


def id_of_node(nodeid: str) -> str:
    """The same from pytest's own name of an item."""
    path, _, name = nodeid.partition("::")
    return check_id(Path(path), name)


def check_of(item: pytest.Item) -> Check:
    """The check behind an item. Raises UsageError for a class, a parametrization or a fixture built on ours."""
    if not isinstance(item, pytest.Function):
        raise pytest.UsageError(said("{nodeid}: a check is a plain function", item.nodeid))
    if item.cls is not None:
        raise pytest.UsageError(said("{nodeid}: a check is a plain function, not a method of a class", item.nodeid))
    if _is_deferred(inspect.unwrap(item.obj)):
        raise pytest.UsageError(said("{nodeid}: a check is a plain function, not async and without yield", item.nodeid))
    if hasattr(item, "callspec"):
        raise pytest.UsageError(
            said("{nodeid}: a check is not parametrized; its node fixture covers every node", item.nodeid)
        )
    fixtures = item._fixtureinfo  # noqa: SLF001 - pytest has no public name for what a test takes as arguments
    arguments = tuple(fixtures.argnames)
    for name, definitions in fixtures.name2fixturedefs.items():
        built_on = [argument for argument in definitions[-1].argnames if argument in KINDS]
        if built_on:
            reason = said("fixture {name!r} is built on {built_on!r}; use that in the check", name, built_on[0])
            raise pytest.UsageError(said("{nodeid}: {reason}", item.nodeid, reason))
    return _check(id_of(item), item.obj, arguments, list(item.iter_markers()))


def check_of_function(name: str, function: Callable[..., Any]) -> Check:
    """The check that a plain function is, by its arguments and its marks."""
    arguments = tuple(inspect.signature(function).parameters)
    return _check(name, function, arguments, getattr(function, "pytestmark", ()))


def _check(name: str, function: Callable[..., Any], arguments: tuple[str, ...], marks: Iterable[pytest.Mark]) -> Check:
    kind = next((kind for kind in BY_WEIGHT if kind in arguments), "cluster")
    needs = frozenset(str(word) for mark in marks if mark.name == "needs" for word in mark.args)
    advisory = any(mark.name == "advisory" for mark in marks)
    return Check(name, function, arguments, kind, advisory, needs)


def contained(function: Callable[..., Any], *, is_within_no_exit: bool = False) -> Callable[..., Any]:
    """The check with pytest's outcomes and attempts to leave turned into plain exceptions.

    For a body that is evaluated for thousands of nodes, the caller puts `no_exit` around all of them.
    """
    owner = os.getpid()

    def evaluate(arguments: dict[str, Any]) -> Any:
        try:
            return function(**arguments)
        finally:
            if os.getpid() != owner:  # forked: the rest of the run is not its affair
                LEAVE(sys.exc_info()[0] is not None)

    def call(**arguments: Any) -> None:
        try:
            if is_within_no_exit:
                returned = evaluate(arguments)
            else:
                with no_exit():
                    returned = evaluate(arguments)
        except pytest.skip.Exception as skipped:
            raise NotApplicable(str(skipped)) from None
        except (pytest.fail.Exception, pytest.xfail.Exception) as failed:
            raise AssertionError(str(failed)) from None
        except SystemExit as leaving:
            raise RuntimeError(said("it called sys.exit({code!r})", leaving.code)) from None
        if returned is None:
            return
        if inspect.isawaitable(returned) or inspect.isgenerator(returned) or inspect.isasyncgen(returned):
            kind = type(returned).__name__
            if inspect.iscoroutine(returned) or inspect.isgenerator(returned):
                returned.close()  # else Python warns that it was never awaited
            raise NotMeasured(said("the check returned a {kind}, whose body did not run", kind))
        kind = type(returned).__name__
        raise NotMeasured(
            said("the check returned a {kind}, which nobody reads: write assert where it says return", kind)
        )

    call.__doc__ = function.__doc__
    return call


def _is_deferred(function: object) -> bool:
    """Whether calling it runs nothing of its body."""
    return (
        inspect.iscoroutinefunction(function)
        or inspect.isgeneratorfunction(function)
        or inspect.isasyncgenfunction(function)
    )


def refuse_without_asserts(assert_mode: str) -> None:
    """Checks are assert statements. Raises UsageError where an option leaves them out or takes their messages away."""
    if sys.flags.optimize:
        raise UsageError("python -O (PYTHONOPTIMIZE) leaves out assert statements: no check could fail")
    if assert_mode == "plain":
        raise UsageError("--assert=plain: asserts would fail without saying what they compared; leave it out")
