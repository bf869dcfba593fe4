"""What comes of the launch files that the tests of this folder make, in full? ``python -m tests.found`` writes it down.

A test asks for what it is about: the name of a rule, or one field. What else is told of the same files (places, words,
fixes, edits), and all that is read of them, stands in tests/data/said/asked.txt, and each test is held to it. All its
findings are there in order. Of the starts that it reads and the files that it writes it is told how many lines and
values they have: which ones there are is listed once for each file of tests, for most begin with the same few files.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, wraps
from types import ModuleType
from typing import Any
from zlib import crc32

import pytest

from preflight.judge.ledger.findings import Finding
from preflight.launch.diff import fixed
from preflight.launch.job import Process, as_typed
from preflight.launch.launchers import start_job
from preflight.launch.manifests.dump import yaml_of
from preflight.launch.manifests.rehearsal import Rehearsing, rehearsing
from preflight.launch.plan import LaunchFiles
from preflight.launch.read import read_files, read_texts
from preflight.launch.rules.check import check_files, check_texts
from preflight.launch.seats import folded, ranks_table
from preflight.launch.start import starting_of
from preflight.launch.write import write_files
from preflight.said.errors import UsageError
from tests import kinds
from tests.house import ROOT
from tests.launch import told

FILE = ROOT / "tests" / "data" / "said" / "asked.txt"
FOLDER = "tests/launch/"
SHOWN = 30  # letters of the row of a test
LINES, VALUES = "=== lines", "=== values"


@dataclass
class Heard:
    """What was told and read while one test ran."""

    folder: str = ""  # of the test, whose name is another one each time
    findings: dict[str, None] = field(default_factory=dict)
    lines: dict[str, None] = field(default_factory=dict)
    values: dict[tuple[str, str], None] = field(default_factory=dict)  # of what, and one of them

    def hear(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, and what it gives is heard."""

        @wraps(function)
        def heard(*args: Any, **more: Any) -> Any:
            try:
                given = function(*args, **more)
            except UsageError as error:
                self.tell([f"refused: {error}"])
                raise
            HEARD[function](self, given)
            return given

        return heard

    def tell(self, lines: Iterable[str]) -> None:
        """Findings, or that a file was refused."""
        self.findings.update(dict.fromkeys(self.placed(line) for line in lines))

    def placed(self, line: str) -> str:
        """One line, without the folder of the test."""
        line = line.replace("\n", " / ")
        return line.replace(self.folder, "FOLDER") if self.folder else line

    def read(self, files: LaunchFiles) -> None:
        """The starts and what they lead to, and the values of each."""
        for line in map(self.placed, told.of_files(files)):
            what, *words = line.split()
            if line.startswith((" ", "hosts ", "batch ", "variables ")):
                self.values.update(dict.fromkeys(named(what, word) for word in words))
            else:
                self.lines[line] = None

    def judged(self, given: tuple[Iterable[Finding], LaunchFiles]) -> None:
        """Findings, and what was read."""
        self.found(given[0])
        self.read(given[1])

    def found(self, findings: Iterable[Finding]) -> None:
        """Findings."""
        self.tell(line for one in findings for line in as_told(one))

    def written(self, texts: Mapping[str, str]) -> None:
        """Files that were written, or put right."""
        lines = (f"{name}: {line}" for name, text in texts.items() for line in text.split("\n") if line)
        self.lines.update(dict.fromkeys(map(self.placed, lines)))

    def rehearsed(self, found: Rehearsing) -> None:
        """The manifest that rehearses one."""
        self.tell([f"{found.name} in {found.namespace}, {found.seconds} s, without {found.left_out}"])
        self.written({"rehearsed": yaml_of(found.documents)})

    def started(self, processes: Mapping[str, list[Process]]) -> None:
        """What is started on each node."""
        self.written({node: as_typed(some) for node, some in processes.items()})

    def told(self, name: str) -> list[str]:
        """The lines that stand under the name of the test; none where it judged and read nothing."""
        if not self.findings and not self.lines and not self.values:
            return []
        return [f"=== {name}: {len(self.lines)} lines, {len(self.values)} values", *self.findings]


# What these tests call, and how it is heard.
HEARD: dict[Callable[..., Any], Callable[[Heard, Any], None]] = {
    check_files: Heard.found,
    check_texts: Heard.judged,
    fixed: lambda heard, given: heard.written(given.texts),
    ranks_table: lambda heard, given: heard.tell(map(" ".join, folded(given))),
    read_files: Heard.read,
    read_texts: Heard.read,
    rehearsing: Heard.rehearsed,
    start_job: Heard.started,
    starting_of: lambda heard, given: heard.tell(map(told.of_start, given.starts)),
    write_files: Heard.written,
}


def as_told(finding: Finding) -> Iterator[str]:
    """A finding, how it is put right, and its edits."""
    places = [f"{where.file}:{where.line}" for where in finding.where]
    on = [f"on {','.join(finding.nodes)}"] * bool(finding.nodes)
    told_first = [str(finding.verdict), finding.check.removeprefix("launch."), *places, *on]
    yield f"{' '.join(told_first)}: {finding.message}"
    yield from [f"  fix: {finding.fix}"] * bool(finding.fix)
    for edit in finding.edits:
        yield f"  {edit.file}:{edit.first}-{edit.last}{'' if edit.is_sure else ' perhaps'} -> {' / '.join(edit.lines)}"


def named(what: str, word: str) -> tuple[str, str]:
    """Of what it is a value: `environment NCCL_DEBUG` and `INFO@2`."""
    name, sign, value = word.partition("=")
    return (f"{what} {name}", value) if sign else (what, word)


@dataclass
class Listed:
    """What is listed for the tests of one file."""

    findings: dict[str, list[str]] = field(default_factory=dict)  # name of a test -> its lines
    lines: dict[str, None] = field(default_factory=dict)
    values: dict[tuple[str, str], None] = field(default_factory=dict)

    def written(self) -> Iterator[str]:
        """As they are written."""
        for told_lines in self.findings.values():
            yield from told_lines
        yield from (LINES, *self.lines, VALUES)
        of: dict[str, list[str]] = defaultdict(list)
        for what, value in self.values:
            of[what].append(value)
        yield from (f"{what}: {' '.join(some)}" for what, some in sorted(of.items()))


def parsed(text: str) -> dict[str, Listed]:
    """The lists of all files, as they were written."""
    found: dict[str, Listed] = {}
    for section in f"\n{text}".removesuffix("\n").split("\n##### ")[1:]:
        file, *lines = section.split("\n")
        found[file] = listed = Listed()
        at = lines.index(LINES), lines.index(VALUES)
        for line in lines[: at[0]]:
            if line.startswith("=== "):
                name = line.removeprefix("=== ").rpartition(": ")[0]
                listed.findings[name] = []
            listed.findings[name].append(line)
        listed.lines = dict.fromkeys(lines[at[0] + 1 : at[1]])
        for line in lines[at[1] + 1 :]:
            what, _, some = line.partition(": ")
            listed.values.update(dict.fromkeys((what, value) for value in some.split(" ")))
    return found


@cache
def lists() -> Mapping[str, Listed]:
    """Those that are written down."""
    return parsed(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}


class Writing:
    """A plugin that writes the lists anew, and holds no test to those that are there."""

    def __init__(self) -> None:
        self.lists: dict[str, Listed] = defaultdict(Listed)

    def take(self, file: str, name: str, heard: Heard) -> None:
        """What a test heard."""
        if lines := heard.told(name):
            listed = self.lists[file]
            listed.findings[name] = lines
            listed.lines.update(heard.lines)
            listed.values.update(heard.values)

    def pytest_sessionfinish(self) -> None:
        """All tests have run."""
        lines = (line for file, listed in self.lists.items() for line in (f"##### {file}", *listed.written()))
        FILE.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")


def write() -> None:
    """Run the tests that are listed, and write the lists."""
    words = ["-q", "-n0", "-p", "no:cacheprovider", "-m", "unit and not long"]
    words += [str(ROOT / FOLDER), f"--ignore={ROOT / FOLDER}/test_listing.py"]
    if pytest.main(words, plugins=[Writing()]):
        raise SystemExit("the tests of launch files fail")


def is_listed(item: pytest.Item) -> bool:
    """Whether a test makes the same files each time, wherever it runs, and few of them."""
    is_made_up = hasattr(getattr(item, "function", None), "hypothesis")
    is_of_this_machine = item.get_closest_marker("skipif") is not None
    if item.nodeid.startswith(f"{FOLDER}test_listing.py"):
        return False
    is_long = kinds.is_long(item) or item.get_closest_marker("long") is not None  # by its name, or as one row of many
    return kinds.kind(item) == "unit" and not is_long and not is_made_up and not is_of_this_machine


def uses(own: ModuleType) -> Iterator[tuple[ModuleType, str, Callable[..., Any]]]:
    """Where a file of tests, or one that prepares what they take, calls what reads and judges."""
    made = [name for name in list(sys.modules) if name.startswith("tests.launch.") and "test_" not in name]
    for name in (own.__name__, *made):
        if name not in (__name__, told.__name__):
            yield from ((sys.modules[name], word, function) for word, function in uses_in(name))


@cache
def uses_in(module: str) -> tuple[tuple[str, Callable[..., Any]], ...]:
    """The functions that read and judge, by the names that they have in a module."""
    held = vars(sys.modules[module]).items()
    return tuple((word, value) for word, value in held if any(value is function for function in HEARD))


def name_of(item: pytest.Item) -> str:
    """A test within its file, with the beginning of its row."""
    name, sign, row = item.nodeid.partition("::")[2].partition("[")
    return name + sign + (row if len(row) <= SHOWN else f"{row[:SHOWN]}... {crc32(row.encode()):08x}]")


def assert_listed(file: str, name: str, heard: Heard) -> None:
    """What a test heard is what stands in the list; `python -m tests.found` writes what is new or another one."""
    listed = lists().get(file, Listed())
    assert heard.told(name) == listed.findings.get(name, [])
    assert [line for line in heard.lines if line not in listed.lines] == []
    assert [value for value in heard.values if value not in listed.values] == []
