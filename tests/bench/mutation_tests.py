"""Which tests may notice a change of a file of ours, and which of them run the changed line?

A file has a twin, the test file of its name; its room has tests; ALSO lists what tests it from elsewhere. The tests of unit
are run once unchanged while every line that they run is noted: some minutes for judge, launch, diagnose and measure. Tests
that start processes or a lab are left out, so a change that only those would notice counts as a survivor; of the wide
ones, which take tenths of a second and more, those that BROAD and ALSO name are run too, and for code that runs in
processes of its own those that PROCESSES names: what they start is traced as well (tests/bench/tracing). What functions
do while modules are imported, as one that makes rows of a table does, no single test runs: all of the room may notice it.
"""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import types
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from tests import kinds

# One function is traced in one test until all its lines have run, or so many: a long loop comes to the same ones again.
LINES = 5000
STAGE_SECONDS = 12  # of tests are tried on a change in each of the two stages, as long as they took while traced
QUICK_SECONDS = 0.5  # of a test that stands among those that start processes and starts none
PROCESS_SECONDS = 60  # and of tests that start processes in a third one
# What runs in processes of its own, the ranks of a job -> the tests that start some. They are tried last.
PROCESSES: dict[str, tuple[str, ...]] = {
    "preflight/job/ranks/": ("tests/job/ranks",),
    "preflight/job/start/": ("tests/job/ranks",),
}
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
    "preflight/diagnose": (
        "tests/test_found.py::test_logs_tell_what_is_listed",
        "tests/test_found.py::test_ranks_that_hang_are_told_as_listed",
    ),
    "preflight/job": (
        "tests/test_found.py::test_jobs_are_prepared_and_judged_as_listed",
        "tests/test_found.py::test_rehearsals_tell_what_is_listed",
    ),
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
    processes = [place for begin, places in PROCESSES.items() if path.startswith(begin) for place in places]
    return sorted({*own, *ALSO.get(room, ()), *twins_of(path), *processes})


def is_below(test: str, places: Iterable[str]) -> bool:
    """Is a test's node id in one of these files or folders?"""
    return any(test == place or test.startswith((f"{place}::", f"{place}/", f"{place}[")) for place in places)


def starts_processes(test: str) -> bool:
    """Is it in a file of tests that start ranks?"""
    return is_below(test, {place for places in PROCESSES.values() for place in places})


def is_tried(item: pytest.Item, paths: Sequence[str] = ()) -> bool:
    """Is it a test of unit, or another one that is named here for a change of these files?"""
    named = [*BROAD, *(place for places in ALSO.values() for place in places if ".py" in place)]
    kind = kinds.kind(item)
    if kind == "process":
        own = {one for path in paths for begin, some in PROCESSES.items() if path.startswith(begin) for one in some}
        return is_below(item.nodeid, own) and not kinds.is_long(item)
    return not kinds.is_long(item) and (kind == "unit" or (kind == "wide" and is_below(item.nodeid, named)))


@dataclass(frozen=True)
class Map:
    """What the tests did when nothing was changed."""

    seconds: dict[str, float]  # of each test that passed
    ran: dict[str, dict[int, frozenset[str]]]  # file -> line -> tests
    imported: dict[str, frozenset[int]]  # file -> lines of its functions that ran before the first test

    def stages(self, path: str, lines: tuple[int, int], *, is_at_import: bool) -> list[list[str]]:
        """The tests that may notice a change of these lines: first those of the twin, then the others, then processes."""
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
        of_file = {test for tests in of_lines.values() for test in tests}
        slow = {test for test in chosen if starts_processes(test) and self.seconds[test] > QUICK_SECONDS}
        quick, slow = chosen - slow, slow & of_file
        stages = [self.quick(test for test in quick if is_below(test, twins) is of_twin) for of_twin in (True, False)]
        # Beginning with those of the twin, and each after those that are quicker than it is.
        of_processes = sorted(slow, key=lambda test: (not is_below(test, twins), self.seconds[test]))
        stages.append(self.within(of_processes, PROCESS_SECONDS))
        return [stage for stage in stages if stage]

    def quick(self, tests: Iterable[str]) -> list[str]:
        """The quickest of some tests, as many as run within the time that one stage has, and those of BROAD."""
        return self.within(sorted(tests, key=self.seconds.__getitem__), STAGE_SECONDS)

    def within(self, tests: Iterable[str], seconds: float) -> list[str]:
        """The first of these tests, as many as run within this time, and those of BROAD."""
        spent, found = 0.0, []
        for test in tests:
            spent += self.seconds[test]
            if spent <= seconds or not found or is_below(test, BROAD):
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


class AnotherModule:
    """What stands for the next test, so that what a module prepares is taken down after each."""

    def __init__(self, session: pytest.Session) -> None:
        self.session = session

    def listchain(self) -> list[pytest.Collector]:
        """What is kept."""
        return [self.session]


class Tracer:
    """A plugin that runs the tests that are tried, and notes what each runs of some files."""

    def __init__(self, root: Path, paths: Sequence[str]) -> None:
        self.root = root
        self.paths = paths
        self.names = {str(root / path): path for path in paths}
        self.started = tempfile.TemporaryDirectory()  # what processes that tests start write of their lines
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
        items[:] = [item for item in items if is_tried(item, self.paths)]
        start, folder = subprocess.Popen.__init__, self.root / "tests" / "bench" / "tracing"

        def traced(process: Any, *words: Any, env: Any = None, **more: Any) -> None:
            given = dict(os.environ if env is None else env)
            path = filter(None, [str(folder), given.get("PYTHONPATH", "")])
            own = {"PYTHONPATH": os.pathsep.join(path), "TRACED_LINES": self.started.name}
            start(process, *words, env={**given, **own}, **more)

        subprocess.Popen.__init__ = traced  # type: ignore[method-assign]

    def traced(self) -> set[tuple[str, int, bool]]:
        """File and line of what runs from here on, and whether a function that was called does it."""
        seen: set[tuple[str, int, bool]] = set()
        names = self.names
        left: dict[types.CodeType, set[int]] = {}  # of each function the lines that have not run
        noted: Counter[types.CodeType] = Counter()

        def lines(frame: types.FrameType, event: str, _: object) -> object:
            if event == "line":
                code = frame.f_code
                seen.add((code.co_filename, frame.f_lineno, bool(code.co_flags & inspect.CO_OPTIMIZED)))
                left[code].discard(frame.f_lineno)
                noted[code] += 1
                frame.f_trace_lines = noted[code] < LINES
            return lines

        def calls(frame: types.FrameType, _event: str, _: object) -> object:
            code = frame.f_code
            if code.co_filename not in names:
                return None
            if code not in left:
                own = {line for _, _, line in code.co_lines() if line}
                left[code] = own - {code.co_firstlineno} or own  # a lambda has but one line
            return lines if left[code] and noted[code] < LINES else None

        threading.settrace(calls)
        sys.settrace(calls)
        return seen

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool:
        """Trace one test, with all that its module prepares: nothing of that is left for the next one."""
        # Others that use the machine meanwhile do not count, where the test does all by itself.
        clock = time.monotonic if starts_processes(item.nodeid) else time.process_time
        begun = clock()
        seen = self.traced()
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        try:
            runtestprotocol(item, nextitem=AnotherModule(item.session))  # type: ignore[arg-type]
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        self.seconds[item.nodeid] = clock() - begun
        lines = {(self.names[file], line) for file, line, _ in seen} | set(self.of_processes())
        for path, line in lines:
            self.ran[path][line].add(item.nodeid)
        return True

    def of_processes(self) -> Iterator[tuple[str, int]]:
        """File and line of what ran in processes since this was asked."""
        for file in Path(self.started.name).iterdir():
            for told in file.read_text().splitlines():
                name, _, line = told.rpartition(":")
                module = name.replace(".", "/")
                for path in (name, f"{module}.py", f"{module}/__init__.py"):
                    if path in self.paths:
                        yield path, int(line)
            file.unlink()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test that fails, or is skipped, unchanged would tell nothing."""
        if not report.passed:
            self.failed.add(report.nodeid)

    def map(self) -> Map:
        """What was seen."""
        passed = {test: spent for test, spent in self.seconds.items() if test not in self.failed}
        ran = {path: {line: frozenset(t) & passed.keys() for line, t in of.items()} for path, of in self.ran.items()}
        return Map(passed, ran, {path: frozenset(lines) for path, lines in self.imported.items()})
