"""Which tests may notice a change of a file of ours, and which of them run the changed line?

A file has a twin, the test file of its name; its room has tests; ALSO lists what tests it from elsewhere. The tests of unit,
and the twins whatever they need, are run once unchanged while every line that they run is noted.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import types
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import kinds

ALSO: dict[str, tuple[str, ...]] = {
    "checks": ("tests/judge", "tests/testing"),
    "preflight/judge": ("tests/checks", "tests/testing"),
    "preflight/plugin.py": ("tests/judge",),
}


def room_of(path: str) -> str:
    """preflight/launch of preflight/launch/plan.py, preflight/redact.py and checks as they are."""
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
    return any(test.startswith((f"{place}::", f"{place}/")) for place in places)


@dataclass(frozen=True)
class Map:
    """What the tests did when nothing was changed."""

    seconds: dict[str, float]  # of each test that passed
    ran: dict[str, dict[int, frozenset[str]]]  # file -> line -> tests

    def stages(self, path: str, lines: tuple[int, int], *, is_at_import: bool) -> list[list[str]]:
        """The tests that may notice a change of these lines: first those of the twin, then the others."""
        twins = twins_of(path)
        of_lines = self.ran.get(path, {})
        wanted = of_lines if is_at_import else range(lines[0], lines[1] + 1)
        chosen = {test for line in wanted for test in of_lines.get(line, ())}
        for test in self.seconds:
            in_twin = is_below(test, twins)
            starts_processes = test.startswith(kinds.PROCESSES)  # what they run is not seen here
            if (in_twin and (starts_processes or is_at_import)) or (is_at_import and is_below(test, tests_of(path))):
                chosen.add(test)
        stages = [[test for test in chosen if is_below(test, twins) is of_twin] for of_twin in (True, False)]
        return [stage for stage in stages if stage]

    def store(self, file: Path) -> None:
        """Write it down."""
        ran = {path: {line: sorted(tests) for line, tests in lines.items()} for path, lines in self.ran.items()}
        file.write_text(json.dumps({"seconds": self.seconds, "ran": ran}))

    @classmethod
    def stored(cls, file: Path) -> Map:
        """As it was written down."""
        told = json.loads(file.read_text())
        ran = {path: {int(line): frozenset(tests) for line, tests in of.items()} for path, of in told["ran"].items()}
        return cls(told["seconds"], ran)


class Tracer:
    """A plugin that runs the tests of unit, and of the twins, and notes what each runs of some files."""

    def __init__(self, root: Path, paths: Sequence[str]) -> None:
        self.names = {str(root / path): path for path in paths}
        self.twins = {twin for path in paths for twin in twins_of(path) if twin.endswith(".py")}
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()
        self.ran: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out the lab, what takes long, and processes that no twin starts."""
        items[:] = [
            item
            for item in items
            if (kinds.kind(item) == "unit" or (kinds.kind(item) == "process" and is_below(item.nodeid, self.twins)))
            and not kinds.is_long(item)
        ]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        """Trace one test."""
        seen: set[tuple[str, int]] = set()
        names = self.names

        def lines(frame: types.FrameType, event: str, _: object) -> object:
            if event == "line":
                seen.add((frame.f_code.co_filename, frame.f_lineno))
            return lines

        def calls(frame: types.FrameType, _event: str, _: object) -> object:
            return lines if frame.f_code.co_filename in names else None

        begun = time.monotonic()
        threading.settrace(calls)
        sys.settrace(calls)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
            self.seconds[item.nodeid] = time.monotonic() - begun
            for file, line in seen:
                self.ran[names[file]][line].add(item.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test that fails, or is skipped, unchanged would tell nothing."""
        if not report.passed:
            self.failed.add(report.nodeid)

    def map(self) -> Map:
        """What was seen."""
        passed = {test: spent for test, spent in self.seconds.items() if test not in self.failed}
        ran = {path: {line: frozenset(t) & passed.keys() for line, t in of.items()} for path, of in self.ran.items()}
        return Map(passed, ran)
