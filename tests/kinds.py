"""What does a test need to run: nothing but Python, processes of its own, or several hosts? And when does it begin?"""

from collections.abc import Sequence

import pytest

# What starts Python, torch or a browser again and again, and takes seconds for it: what takes longest stands first.
PROCESSES = (
    "tests/judge/test_session.py",
    "tests/workloads/",
    "tests/report/test_html_browser.py",
    "tests/cuda/",
    "tests/cli/test_main.py",
    "tests/cli/test_streams.py",
    "tests/cli/test_run.py",
    "tests/diagnose/test_jobs.py",
    "tests/judge/test_stopping.py",
    "tests/judge/test_leaving.py",
    "tests/newcomer/",
    "tests/e2e/",
    "tests/device/",
    "tests/judge/test_launch_files.py",
    "tests/run/test_folder.py",
    "tests/run/test_notify.py",
    "tests/session/test_connection.py",
    "tests/session/test_fleet.py",
    "tests/session/test_hostile_nodes.py",
    "tests/test_hooks.py",
    "tests/test_plugin.py",
    "tests/testing/test_judged.py",
)


def kind(item: pytest.Item) -> str:
    """One of the markers unit, process and lab."""
    if "lab_is_possible" in getattr(item, "fixturenames", ()):
        return "lab"
    return "process" if item.nodeid.startswith(PROCESSES) else "unit"


def is_exclusive(item: pytest.Item) -> bool:
    """Must no other test run meanwhile?"""
    return item.get_closest_marker("exclusive") is not None


def in_order(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """The tests as workers take them: what takes long first, and what must run alone at the end.

    A test of the lab waits half of its time, and what starts processes never does: both are dealt out in turn, so that
    the processors have work meanwhile.
    """
    of_kind: dict[str, list[pytest.Item]] = {"process": [], "lab": [], "unit": [], "exclusive": []}
    for item in items:
        of_kind["exclusive" if is_exclusive(item) else kind(item)].append(item)
    of_kind["process"].sort(key=_seat_among_processes)
    dealt = [
        (place / len(of_kind[name]), item) for name in ("process", "lab") for place, item in enumerate(of_kind[name])
    ]
    dealt.sort(key=lambda turn: turn[0])
    return [*(item for _, item in dealt), *of_kind["unit"], *of_kind["exclusive"]]


def _seat_among_processes(item: pytest.Item) -> int:
    return next(seat for seat, path in enumerate(PROCESSES) if item.nodeid.startswith(path))
