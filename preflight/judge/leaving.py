"""How is a run kept from being ended, as if all were well, by the code it runs?

A conftest, a fixture or a check may call sys.exit or os._exit. The exit code must not be 0 after that, since checks
were left out. Where the processes that they fork end is their own affair.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Generator, Iterator
from typing import NoReturn

import pytest

EXIT_NOT_MEASURED = 3
# The words of a command line by which pytest is to judge nodes; the verbs of preflight load the plugin by name.
OPTIONS = {"--hosts", "--from", "--preflight-hosts", "--preflight-from", "-ppreflight.plugin"}
LEAVE = os._exit  # the real one


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(args: list[str]) -> Generator[None, object, object]:
    """A conftest that leaves while it is imported does so before there is a session or a report."""
    if not any(word.partition("=")[0] in OPTIONS for word in args):
        return (yield)
    with no_exit("a conftest"):
        try:
            return (yield)
        except (SystemExit, pytest.exit.Exception) as leaving:
            print(f"preflight: a conftest left while it was imported ({leaving}): no check was run", file=sys.stderr)
            raise SystemExit(EXIT_NOT_MEASURED) from None


@contextlib.contextmanager
def no_exit(who: str = "it") -> Iterator[None]:
    """Within this block os._exit is an error of whoever calls it; a forked child that gets out of the block ends."""
    leave, owner = os._exit, os.getpid()

    def refuse(status: int) -> NoReturn:
        if os.getpid() != owner:
            LEAVE(status)
        raise RuntimeError(f"{who} called os._exit({status})")

    os._exit = refuse
    try:
        yield
    except BaseException:
        if os.getpid() != owner:
            LEAVE(1)
        raise
    finally:
        os._exit = leave
    if os.getpid() != owner:
        LEAVE(0)


@contextlib.contextmanager
def never_green() -> Iterator[None]:
    """Within this block os._exit ends the process, but not with 0: the report on the disk says unfinished."""
    leave, owner = os._exit, os.getpid()

    def report_error(status: int) -> NoReturn:
        if os.getpid() != owner:
            LEAVE(status)
        print(f"preflight: os._exit({status}) was called outside of a check: the run is not finished", file=sys.stderr)
        LEAVE(status or EXIT_NOT_MEASURED)

    os._exit = report_error
    try:
        yield
    finally:
        os._exit = leave
