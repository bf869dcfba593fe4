"""What does a test need: a moment of Python, seconds of it, processes, or several hosts? And when does it begin?"""

import zlib
from collections.abc import Sequence
from pathlib import Path

import pytest

DATA = Path(__file__).parent / "data"
# What starts Python, torch or a browser again and again, and takes seconds for it: what takes longest stands first.
PROCESSES = (
    "tests/run/suite/test_session.py",
    "tests/job/ranks/",
    "tests/report/test_html_browser.py",
    "tests/cuda/",
    "tests/cli/test_main.py",
    "tests/cli/test_streams.py",
    "tests/cli/test_run.py",
    "tests/diagnose/test_jobs.py",
    "tests/run/suite/test_stopping.py",
    "tests/run/suite/test_leaving.py",
    "tests/newcomer/",
    "tests/e2e/",
    "tests/device/",
    "tests/run/suite/test_launch_files.py",
    "tests/run/test_folder.py",
    "tests/run/test_notify.py",
    "tests/reach/session/test_connection.py",
    "tests/reach/session/test_fleet.py",
    "tests/reach/session/test_hostile_nodes.py",
    "tests/cli/test_facts.py",
    "tests/cli/test_launch.py",
    "tests/cli/test_together.py",
    "tests/job/collect/test_subjects.py",
    "tests/node/agent/test_keeper.py",
    "tests/node/agent/test_lock.py",
    "tests/node/calls/",
    "tests/node/subjects/test_environment.py",
    "tests/run/test_history.py",
    "tests/run/test_turns.py",
    "tests/test_docs.py",
    "tests/test_figures.py",
    "tests/test_forked.py",
    "tests/test_hooks.py",
    "tests/test_mutation.py::test_lines_of_a_process",
    "tests/run/suite/test_plugin.py",
    "tests/test_scratch.py",
    "tests/test_second_try.py",
    "tests/testing/test_judged.py",
    "tests/judge/test_tampering.py",
    "tests/cli/test_spoken.py",
    "tests/diagnose/test_read.py::test_a_log_is_read_from_a_pipe_in_every_form",
    "tests/diagnose/test_read.py::test_what_unpacks_to_far_more_takes_bounded_memory",
    "tests/reach/session/test_pulse.py",
    "tests/reach/session/test_step.py",
    "tests/cli/test_explain.py",
    "tests/launch/owners/test_ask.py",
    "tests/launch/launchers/accelerate/test_schema.py",
    "tests/launch/test_refused.py::test_torchruns_options_are_those_of_its_own_parser",
    "tests/launch/test_fuzz.py::test_what_grows_as_it_is_expanded_is_bounded_while_it_does",
    "tests/node/sources/gpus/test_amd_health.py",
    "tests/reach/transport/test_ray_driver.py",
)

LONG, WIDE = (
    tuple(line for line in (DATA / name).read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    for name in ("long.txt", "wide.txt")
)


def kind(item: pytest.Item) -> str:
    """One of the markers unit, wide, process and lab."""
    if "lab_is_possible" in getattr(item, "fixturenames", ()):
        return "lab"
    if item.nodeid.startswith(PROCESSES):
        return "process"
    return "wide" if item.nodeid.startswith(WIDE) else "unit"


def has_no_unit_test(path: str) -> bool:
    """Whether a file or folder, from the root, holds tests that start processes and no others."""
    return path.startswith(PROCESSES) or f"{path}/" in PROCESSES


def leave_long_out(config: pytest.Config) -> None:
    """Let a run of the whole suite, or of a kind of it, do without what is marked `long` and not asked for."""
    option = config.option
    is_part = config.args_source is pytest.Config.ArgsSource.ARGS or option.keyword or config.getoption("lf", False)
    if not is_part and "long" not in option.markexpr:
        option.markexpr = f"({option.markexpr}) and not long" if option.markexpr else "not long"


def is_about_units(words: str) -> bool:
    """Whether a run of these markers takes no test that starts processes."""
    return words in ("unit", "(unit) and not long")


def is_long(item: pytest.Item) -> bool:
    """Is it one more sample of what other tests show?"""
    return item.nodeid.startswith(LONG)


def is_of_part(name: str, part: str) -> bool:
    """Is what one fork takes at once of this part of the long tests, as "2/3" names the second of three?"""
    number, of = map(int, part.split("/"))
    return zlib.crc32(name.encode()) % of == number - 1


def is_exclusive(item: pytest.Item) -> bool:
    """Must no other test run meanwhile?"""
    return item.get_closest_marker("exclusive") is not None


def in_order(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """The tests as workers take them: what takes long first, and what must run alone at the end.

    A test of the lab waits half of its time, and what starts processes never does: both are dealt out in turn, so that
    the processors have work meanwhile.
    """
    of_kind: dict[str, list[pytest.Item]] = {"process": [], "lab": [], "wide": [], "unit": [], "exclusive": []}
    for item in items:
        of_kind["exclusive" if is_exclusive(item) else kind(item)].append(item)
    of_kind["process"].sort(key=_seat_among_processes)
    dealt = [
        (place / len(of_kind[name]), item) for name in ("process", "lab") for place, item in enumerate(of_kind[name])
    ]
    dealt.sort(key=lambda turn: turn[0])
    return [*(item for _, item in dealt), *of_kind["wide"], *of_kind["unit"], *of_kind["exclusive"]]


def _seat_among_processes(item: pytest.Item) -> int:
    return next(seat for seat, path in enumerate(PROCESSES) if item.nodeid.startswith(path))
