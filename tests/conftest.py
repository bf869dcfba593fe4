"""Which fixtures do all tests share, and how do they run?"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import forked, kinds, patience, scratch, second_try, workers
from tests.bench import fault_table
from tests.forks import Forks
from tests.lab.fixtures import lab3, lab_is_possible, make_lab

__all__ = ["lab3", "lab_is_possible", "make_lab"]

HERE = Path(__file__).parent
PART = pytest.StashKey[str]()  # "2/3" is the second of three parts, into which .ci/run takes the long tests apart
SCRATCH = pytest.StashKey[scratch.Scratch]()


def pytest_configure(config: pytest.Config) -> None:
    """Run beside each other where that is quicker, each fork in a network of its own."""
    if config.pluginmanager.hasplugin("preflight-checking"):
        return
    workers.be_patient()
    workers.keep_bytecode(os.environ)
    if "PREFLIGHT_SECOND_TRY" in os.environ:
        config.pluginmanager.register(second_try)
    if hasattr(config, "workerinput"):  # of pytest-xdist, where -n asks for it
        config.option.markexpr = config.workerinput["markexpr"]  # a worker reads the words of the command line anew
        if workers.can_have_own_network():
            workers.enter_own_network()
        return
    kinds.leave_long_out(config)
    if "PREFLIGHT_LONG_PART" in os.environ:
        config.stash[PART] = os.environ.pop("PREFLIGHT_LONG_PART")  # not for sessions that tests start
    config.stash[SCRATCH] = scratch.of_a_run(config.add_cleanup)
    workers.choose(config)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Which tests a worker collects: as many as the others."""
    node.workerinput["markexpr"] = node.config.option.markexpr


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """The process that sessions which tests judge are forks of."""
    started = Forks()
    yield started
    started.close()


@pytest.fixture(name="patience")
def patience_now() -> float:
    """How many times longer than usual a test that gives others some seconds should give them now."""
    return patience.of_this_machine()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A run of the unit tests reads no file that holds none of them."""
    is_of_units = kinds.is_about_units(config.option.markexpr) and collection_path.is_relative_to(HERE)
    return True if is_of_units and kinds.has_no_unit_test(f"{collection_path.relative_to(HERE.parent)}") else None


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Which part of the tests runs, where it is one."""
    return [f"part {config.stash[PART]} of the tests"] if PART in config.stash else []


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Collect without looking for garbage: thousands of tests are made here, and all of them stay."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark every test by what it needs; forks begin with what takes longest and end with what runs alone."""
    for item in items:
        if item.path.is_relative_to(HERE):  # and not one of checks/, with --hosts
            item.add_marker(kinds.kind(item))
            if kinds.is_long(item):
                item.add_marker("long")
    if PART in config.stash:
        left = [item for item in items if kinds.is_of_part(workers.share(item.nodeid), config.stash[PART])]
        config.hook.pytest_deselected(items=[item for item in items if item not in set(left)])
        items[:] = left
    if workers.FORKS in config.stash:
        items[:] = kinds.in_order(items)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run a whole suite in forks."""
    if workers.FORKS not in session.config.stash or session.testsfailed:
        return None
    forked.run(session, session.config.stash[workers.FORKS], workers.enter_own_network, workers.share)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[object]:
    """A fault of the core that was left out where the lab was promised is a failure."""
    report = yield
    if report.skipped and os.environ.get("PREFLIGHT_LAB") == "required" and fault_table.must_run(item.nodeid):
        report.outcome, report.longrepr = "failed", f"not tried with PREFLIGHT_LAB=required: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[bool | None]:
    """Let a fork wait while an exclusive test runs."""
    if workers.FORKS not in item.config.stash:
        return (yield)
    with workers.turn(Path(__file__), Path(workers.__file__), is_exclusive=kinds.is_exclusive(item)):
        return (yield)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say what tests have left in the folder for temporary files, which goes now."""
    left = config.stash[SCRATCH].left() if SCRATCH in config.stash else []
    if left:
        more = f" and {len(left) - 8} more" if left[8:] else ""
        terminalreporter.write_line(f"left by tests for temporary files, and removed: {' '.join(left[:8])}{more}")
