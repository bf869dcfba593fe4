"""What does a test need to run: nothing but Python, processes of its own, or several hosts?"""

import pytest

# What starts Python, torch or a browser again and again, and takes seconds for it.
PROCESSES = (
    "tests/cli/test_main.py",
    "tests/cuda/",
    "tests/device/",
    "tests/e2e/",
    "tests/judge/test_launch_files.py",
    "tests/judge/test_launch_files.py",
    "tests/judge/test_leaving.py",
    "tests/judge/test_session.py",
    "tests/report/test_html_browser.py",
    "tests/newcomer/",
    "tests/session/test_connection.py",
    "tests/test_plugin.py",
    "tests/testing/test_judged.py",
    "tests/session/test_fleet.py",
    "tests/session/test_hostile_nodes.py",
    "tests/workloads/",
)


def kind(item: pytest.Item) -> str:
    """One of the markers unit, process and lab."""
    if "lab_is_possible" in getattr(item, "fixturenames", ()):
        return "lab"
    return "process" if item.nodeid.startswith(PROCESSES) else "unit"


def place(item: pytest.Item) -> int:
    """Where a test stands among all, which keep their order otherwise: long ones first, exclusive ones last."""
    if is_exclusive(item):
        return 3
    return ("process", "lab", "unit").index(kind(item))


def is_exclusive(item: pytest.Item) -> bool:
    """Must no other test run meanwhile?"""
    return item.get_closest_marker("exclusive") is not None
