"""Which tests may notice a change of a file of ours, and which of them run the changed line?

A file has a twin, the test file of its name; its room has tests; ALSO lists what tests it from elsewhere. The tests of unit
are run once unchanged while every line that they run is noted: some minutes for judge, launch, diagnose and measure. Tests
that start processes or a lab are left out, so a change that only those would notice counts as a survivor; of the wide
ones, which take tenths of a second and more, those that BROAD and ALSO name are run too. What functions
do while modules are imported, as one that makes rows of a table does, no single test runs: all of the room may notice it.
"""

from __future__ import annotations

import inspect
import json
import sys
import threading
import time
import types
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import kinds

CALLS = 30  # of one function in one test are traced: later ones run hardly a new line, and each costs time
LINES = 5000  # that these calls run are noted: a long loop comes to the same ones again
STAGE_SECONDS = 12  # of tests are tried on a change in each of the two stages, as long as they took while traced
# What walks over all cases or all rows of tables is tried in any case: which of them a change is in, no traced line says.
BROAD = (
    "tests/diagnose/causes/test_examples.py",
    "tests/diagnose/test_cause.py",
    "tests/judge/tables/test_faults.py",
    "tests/launch/test_truth.py",
    "tests/launch/test_words.py",
    "tests/test_found.py",
)
# Which call a function more often than its calls are traced: they are tried on each line of a file that they run.
OF_MANY_CASES = tuple(
    f"tests/test_found.py::test_launch_files_hold_what_is_listed[{name}-" for name in ("launch", "starts")
)
ALSO: dict[str, tuple[str, ...]] = {
    "checks": ("tests/judge", "tests/testing"),
    "preflight/diagnose": ("tests/test_found.py::test_logs_tell_what_is_listed",),
    "preflight/job": ("tests/test_found.py::test_rehearsals_tell_what_is_listed",),
    "preflight/judge": (
        "tests/checks",
        "tests/job/measure/test_blame_of_streams.py",
        "tests/test_found.py::test_broken_clusters_are_told_what_is_listed",
        "tests/test_found.py::test_checks_speak_of_a_fact_that_is_planted_as_listed",
        "tests/testing",
    ),
    "preflight/launch": ("tests/launch/test_lost.py", "tests/test_found.py::test_launch_files_hold_what_is_listed"),
    "preflight/run/suite/plugin.py": ("tests/judge",),
}


def room_of(path: str) -> str:
    """preflight/launch of preflight/launch/plan.py, preflight/said/redact.py and checks as they are."""
    parts = path.split("/")
    return "checks" if parts[0] == "checks" else "/".join(parts[:2])


def twins_of(path: str) -> list[str]:
    """The test files of a file's name, those of the folder it is in where it has none of its own."""
    parts = path.removesuffix(".py").removesuffix("/__init__").split("/")
    below = ["checks", *parts[1:]] if parts[0] == "checks" else parts[1:]
    while below:
        folder, name = Path("tests", *below[:-1]), below[-1].removeprefix("test_")
        found = [str(one) for one in (folder / f"test_{name}.py", folder / name) if one.exists()]
        if found:
            return found
        below = below[:-1]
    return []


def tests_of(path: str) -> list[str]:
    """All files and folders of tests that may notice a change of it."""
    room = room_of(path)
    name = room.removeprefix("preflight/").removesuffix(".py")
    own = [one for one in (f"tests/{name}", f"tests/test_{name}.py") if Path(one).exists()]
    return sorted({*own, *ALSO.get(room, ()), *twins_of(path)})


def is_below(test: str, places: Iterable[str]) -> bool:
    """Is a test's node id in one of these files or folders?"""
    return any(test == place or test.startswith((f"{place}::", f"{place}/", f"{place}[")) for place in places)


def is_tried(item: pytest.Item) -> bool:
    """Is it a test of unit, or a wide one that is named here, and no long one?"""
    named = [*BROAD, *(place for places in ALSO.values() for place in places if ".py" in place)]
    kind = kinds.kind(item)
    return not kinds.is_long(item) and (kind == "unit" or (kind == "wide" and is_below(item.nodeid, named)))


@dataclass(frozen=True)
class Map:
    """What the tests did when nothing was changed."""

    seconds: dict[str, float]  # of each test that passed
    ran: dict[str, dict[int, frozenset[str]]]  # file -> line -> tests
    imported: dict[str, frozenset[int]]  # file -> lines of its functions that ran before the first test

    def stages(self, path: str, lines: tuple[int, int], *, is_at_import: bool) -> list[list[str]]:
        """The tests that may notice a change of these lines: first those of the twin, then the others."""
        stages = self._stages(path, lines, is_at_import=is_at_import)
        if not is_at_import and not self.imported.get(path, frozenset()).isdisjoint(range(lines[0], lines[1] + 1)):
            stages += self._stages(path, lines, is_at_import=True)
        return stages

    def _stages(self, path: str, lines: tuple[int, int], *, is_at_import: bool) -> list[list[str]]:
        twins = twins_of(path)
        of_lines = self.ran.get(path, {})
        wanted = of_lines if is_at_import else range(lines[0], lines[1] + 1)
        chosen = {test for line in wanted for test in of_lines.get(line, ())}
        chosen.update(test for test in set().union(*of_lines.values()) if test.startswith(OF_MANY_CASES))
        for test in self.seconds:
            in_twin = is_below(test, twins)
            if is_at_import and (in_twin or is_below(test, tests_of(path))):
                chosen.add(test)
        stages = [self.quick(test for test in chosen if is_below(test, twins) is of_twin) for of_twin in (True, False)]
        return [stage for stage in stages if stage]

    def quick(self, tests: Iterable[str]) -> list[str]:
        """The quickest of some tests, as many as run within the time that one stage has, and those of BROAD."""
        spent, found = 0.0, []
        for test in sorted(tests, key=self.seconds.__getitem__):
            spent += self.seconds[test]
            if spent <= STAGE_SECONDS or not found or is_below(test, BROAD):
                found.append(test)
        return found

    def store(self, file: Path) -> None:
        """Write it down, each test as its place in the list of seconds."""
        place = {test: number for number, test in enumerate(self.seconds)}
        ran = {
            path: {line: sorted(place[test] for test in tests) for line, tests in lines.items()}
            for path, lines in self.ran.items()
        }
        imported = {path: sorted(lines) for path, lines in self.imported.items()}
        file.write_text(json.dumps({"seconds": self.seconds, "ran": ran, "imported": imported}))

    @classmethod
    def stored(cls, file: Path) -> Map:
        """As it was written down."""
        held = json.loads(file.read_text())
        tests = list(held["seconds"])
        ran = {
            path: {int(line): frozenset(tests[number] for number in numbers) for line, numbers in lines.items()}
            for path, lines in held["ran"].items()
        }
        return cls(held["seconds"], ran, {path: frozenset(lines) for path, lines in held["imported"].items()})


class Tracer:
    """A plugin that runs the tests that are tried, and notes what each runs of some files."""

    def __init__(self, root: Path, paths: Sequence[str]) -> None:
        self.names = {str(root / path): path for path in paths}
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()
        self.ran: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        self.imported: dict[str, set[int]] = defaultdict(set)
        self.while_imported: set[tuple[str, int, bool]] = set()

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_parse(self) -> None:
        """Trace what runs from here on: the next thing is that conftest.py imports modules of ours."""
        self.while_imported = self.traced()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """All is imported. Leave out the lab, processes and what takes long."""
        sys.settrace(None)
        for file, line, is_in_function in self.while_imported:
            if is_in_function:
                self.imported[self.names[file]].add(line)
        items[:] = [item for item in items if is_tried(item)]

    def traced(self) -> set[tuple[str, int, bool]]:
        """File and line of what runs from here on, and whether a function that was called does it."""
        seen: set[tuple[str, int, bool]] = set()
        names = self.names
        called: Counter[types.CodeType] = Counter()

        noted: Counter[types.CodeType] = Counter()

        def lines(frame: types.FrameType, event: str, _: object) -> object:
            if event == "line":
                code = frame.f_code
                seen.add((code.co_filename, frame.f_lineno, bool(code.co_flags & inspect.CO_OPTIMIZED)))
                noted[code] += 1
                frame.f_trace_lines = noted[code] < LINES
            return lines

        def calls(frame: types.FrameType, _event: str, _: object) -> object:
            code = frame.f_code
            if code.co_filename not in names or called[code] == CALLS:
                return None
            called[code] += 1
            return lines

        threading.settrace(calls)
        sys.settrace(calls)
        return seen

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        """Trace one test."""
        begun = time.process_time()  # others that use the machine meanwhile do not count
        seen = self.traced()
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
            self.seconds[item.nodeid] = time.process_time() - begun
            for file, line, _ in seen:
                self.ran[self.names[file]][line].add(item.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test that fails, or is skipped, unchanged would tell nothing."""
        if not report.passed:
            self.failed.add(report.nodeid)

    def map(self) -> Map:
        """What was seen."""
        passed = {test: spent for test, spent in self.seconds.items() if test not in self.failed}
        ran = {path: {line: frozenset(t) & passed.keys() for line, t in of.items()} for path, of in self.ran.items()}
        return Map(passed, ran, {path: frozenset(lines) for path, lines in self.imported.items()})
