"""How is a run kept from being ended, as if all were well, by the code it runs?

A conftest, a fixture or a check may call sys.exit, os._exit or os.execv. The exit code must not be 0 after that, since
checks were left out. Where the processes that they fork end is their own affair.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import posix
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import Any, NoReturn

import pytest

from preflight.judge.ledger.findings import EXIT_NOT_MEASURED
from preflight.said import said

# The words of a command line by which pytest is to judge nodes; the verbs of preflight load the plugin by name.
OPTIONS = {"--hosts", "--from", "--preflight-hosts", "--preflight-from", "-ppreflight.run.suite.leaving"}
LEAVE = os._exit  # the real one
WAYS_OUT = {name: getattr(os, name) for name in ("_exit", "execv", "execve")}  # what all others of os come down to


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(args: list[str]) -> Generator[None, object, object]:
    """A conftest that leaves while it is imported does so before there is a session or a report."""
    if not asks_to_judge(args):
        return (yield)
    with no_exit("a conftest"):
        try:
            return (yield)
        except (SystemExit, pytest.exit.Exception) as leaving:
            print(
                said("preflight: a conftest left while it was imported ({leaving}): no check was run", leaving),
                file=sys.stderr,
            )
            raise SystemExit(EXIT_NOT_MEASURED) from None


def asks_to_judge(words: Iterable[str]) -> bool:
    """Whether a command line of pytest has it judge nodes."""
    return any(word.partition("=")[0] in OPTIONS for word in words)


@contextlib.contextmanager
def no_exit(who: str = "it") -> Iterator[None]:
    """Within this block os._exit and os.exec are errors of whoever calls them.

    A forked child is free, and ends where it would get out of the block.
    """
    owner = os.getpid()

    def refuse(name: str, status: object) -> NoReturn:
        raise RuntimeError(said("{who} called os.{name}({status!r})", who, name, status))

    with _ways_out(refuse):
        try:
            yield
        except BaseException:
            if os.getpid() != owner:
                LEAVE(1)
            raise
    if os.getpid() != owner:
        LEAVE(0)


@contextlib.contextmanager
def never_green() -> Iterator[None]:
    """Within this block os._exit and os.exec end the process with 3: the report on the disk says unfinished."""

    def report_error(name: str, status: object) -> NoReturn:
        words = said("os.{name}({status!r}) was called outside of a check: the run is not finished", name, status)
        print(said("preflight: {words}", words), file=sys.stderr, flush=True)
        LEAVE(EXIT_NOT_MEASURED)

    with _ways_out(report_error):
        yield


def keep(code: int) -> None:
    """From here on this process ends with this code, whatever hook, plugin or function at exit wants another."""

    def leave(_name: str, _status: object) -> NoReturn:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        LEAVE(code)

    def end() -> None:
        atexit.unregister(end)
        # What was registered before this would be lost: what others clean up at the end.
        atexit._run_exitfuncs()  # noqa: SLF001 - there is no other way to them
        leave("_exit", code)

    _place({name: _guard(name, WAYS_OUT[name], leave) for name in WAYS_OUT})
    atexit.register(end)


@contextlib.contextmanager
def _ways_out(leave: Callable[[str, object], NoReturn]) -> Iterator[None]:
    """Put a guard in the place of every function that ends this process, in each module that has it.

    ``from os import _exit`` keeps the guard that stood there then; so each asks the one that stands there now.
    """
    before = {name: getattr(os, name) for name in WAYS_OUT}
    guards = {name: _guard(name, WAYS_OUT[name], leave) for name in WAYS_OUT}
    _place(guards)
    try:
        yield
    finally:
        _place(before)


def _place(functions: Mapping[str, Callable[..., Any]]) -> None:
    for name, function in functions.items():
        setattr(os, name, function)
        setattr(posix, name, function)


def _guard(name: str, real: Callable[..., Any], leave: Callable[[str, object], NoReturn]) -> Callable[..., Any]:
    owner = os.getpid()

    def guard(*arguments: Any) -> Any:
        if os.getpid() != owner:
            return real(*arguments)  # in a forked child
        standing = getattr(os, name)
        if standing is guard:
            leave(name, arguments[0] if arguments else "")
        return standing(*arguments)

    return guard
