"""Does the code keep the rules that no reader can check by eye: who imports whom, what is banned, what has a test?"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests import house
from tests.bench.fault_table import TABLE
from tests.house import PACKAGE, ROOT, imported, statements, tree

READERS_OF_NODE = {
    ("reach", "preflight.node.agent.frames"),  # both ends of the wire speak by one codec
    ("reach", "preflight.node.agent.strict"),  # and neither trusts what a program of a user says
    ("diagnose", "preflight.node.sources.rank_files"),  # pickles of the flight recorder, read without running them
}

# Tables of known faults are tested by what their checks make of them; every other module has a test of its own name.
TABLES = {
    "judge/tables/gpus/broken.py": "checks/test_gpu.py",
    "judge/tables/gpus/slowed.py": "checks/test_gpu.py",
    "judge/tables/gpus/parity.py": "checks/test_gpu.py",
    "judge/tables/kernel/fragile.py": "checks/test_kernel.py",
    "judge/tables/kernel/log.py": "checks/test_kernel.py",
    "judge/tables/kernel/parity.py": "checks/test_kernel.py",
    "judge/tables/rdma/ports.py": "checks/test_rdma.py",
    "judge/tables/rdma/choice.py": "checks/test_rdma.py",
    "judge/tables/rdma/parity.py": "checks/test_rdma.py",
    "judge/tables/rdma/counters.py": "checks/test_rdma.py",
}

# Third-party packages that only some of our code may know.
ONLY_IN = {
    "torch": {"job"},
    "numpy": {"job"},
    "accelerate": {"job"},
    "deepspeed": {"job"},
    "pytest": {"run", "cli"},
    "psutil": {"node"},
    "netifaces": {"node"},
    "ClusterShell": {"reach"},
}


def sources(*folders: Path) -> list[Path]:
    return [path for folder in folders for path in sorted(folder.rglob("*.py"))]


OURS = sources(PACKAGE)
CHECKS = sources(ROOT / "checks")
TESTS = sources(ROOT / "tests")
NODE = sources(PACKAGE / "node")
RANKS = PACKAGE / "job" / "ranks"


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def room_of_path(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def broken(rule: Callable[[Path], Iterable[str]], paths: Iterable[Path]) -> list[str]:
    """Where files break a rule that yields what is wrong with one. A rule is one test, as there are 900 files."""
    return [f"{name_of(path)}: {wrong}" for path in paths for wrong in rule(path)]


def test_what_runs_elsewhere_is_apart():
    """The code of nodes and ranks is sent, not imported; it imports its own package and nothing else of ours."""

    def rule(path: Path) -> Iterator[str]:
        room = room_of_path(path)
        here = house.apart_of(house.module_of(path))
        for module in imported(path):
            if not module.startswith("preflight") or (room, module) in READERS_OF_NODE:
                continue
            if room == "__init__" and house.room_of(module):
                yield f"import preflight must cost nothing, and imports {module}"
            if here != house.apart_of(module):
                yield f"{house.module_of(path)} imports {module}"

    assert broken(rule, OURS) == []


def test_no_room_imports_one_beside_or_above_it():
    """One order for the whole program, so that no part can be understood only together with a later one."""
    drawn = house.arrows()
    for room, _ in READERS_OF_NODE:
        drawn[room].discard("node")
    assert house.upward(house.ORDER, drawn) == []
    assert {name for row in house.ORDER for name in row} == house.rooms() - {"node"}


@pytest.mark.parametrize("folder", house.INSIDE)
def test_the_order_holds_inside_the_larger_rooms(folder):
    """A folder of thousands of lines has floors of its own; its __init__ may show all of them."""
    drawn = house.arrows(folder)
    assert house.upward(house.INSIDE[folder], drawn) == []
    assert {name for row in house.INSIDE[folder] for name in row} == set(drawn)


def test_the_house_stays_small():
    """What `ls preflight/` shows fits on a page, and so does every folder; nothing imports itself by a detour."""
    assert len(house.rooms()) <= 13
    assert max(house.floors(house.arrows()).values()) <= 9
    assert house.circles() == []
    modules = Counter(path.parent for path in OURS if path.name != "__init__.py")
    assert {name_of(folder): count for folder, count in modules.items() if count > 15} == {}


def test_packages_of_others_are_known_where_they_belong():
    """No torch outside of the ranks' programs, no pytest below the plugin, one door to each library."""

    def rule(path: Path) -> Iterator[str]:
        for module in imported(path):
            known = ONLY_IN.get(module.split(".")[0])
            if known is not None and room_of_path(path) not in known:
                yield f"{module} is for {known}"

    assert broken(rule, OURS) == []


def test_what_runs_elsewhere_needs_little():
    """On a node the standard library, psutil and netifaces; in a rank torch and what a job has anyway."""

    def rule(path: Path) -> Iterator[str]:
        known = {"psutil", "netifaces"} if path in NODE else {"torch", "numpy", "accelerate", "deepspeed"}
        allowed = {*sys.stdlib_module_names, *known, "preflight"}
        yield from (f"imports {module}" for module in imported(path) if module.split(".")[0] not in allowed)

    assert broken(rule, [*NODE, *sources(RANKS)]) == []


def test_node_code_is_what_the_oldest_node_understands():
    """Python 3.9: its grammar, annotations that are never evaluated, and no time spent on importing typing."""

    def rule(path: Path) -> Iterator[str]:
        text = path.read_text()
        try:
            ast.parse(text, feature_version=(3, 9))
        except SyntaxError as error:
            yield f"line {error.lineno}: {error.msg}"
        slow = {"typing", "asyncio", "logging", "email", "ssl"} & set(imported(path))
        if slow:
            yield f"imports {sorted(slow)}"
        if path.name != "__init__.py" and "from __future__ import annotations" not in text.splitlines():
            yield "no `from __future__ import annotations`"

    assert broken(rule, NODE) == []


def test_optional_packages_are_imported_where_they_are_used():
    """A node without psutil loads the module all the same, and falls back."""

    def rule(path: Path) -> Iterator[str]:
        for node in tree(path).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            if any(name.startswith(("psutil", "netifaces")) for name in names):
                yield f"line {node.lineno}: imports {names}"

    assert broken(rule, NODE) == []


@cache
def calls(path: Path) -> list[tuple[ast.Call, str]]:
    """Every call in a file, and what it calls, as it is written (os.system)."""
    return [(node, ast.unparse(node.func)) for node in statements(path) if isinstance(node, ast.Call)]


BANNED_CALLS = {"os.system", "os.popen", "eval", "exec", "tempfile.mktemp", "yaml.load", "yaml.unsafe_load", "input"}
BANNED_CALLS |= {"yaml.full_load", "os.abort", "os.spawnl", "pty.spawn"}
BANNED_IMPORTS = {"pickle", "shelve", "dill", "commands", "telnetlib"}
ALLOWED = {("preflight/node/agent/bootstrap.py", "exec")}  # a loader runs the code it was sent: that is what it is for


def test_nothing_dangerous_is_called():
    """No shell between us and a program, no data that is code, no name of a file that another may take first."""

    def rule(path: Path) -> Iterator[str]:
        for node, call in calls(path):
            if call in BANNED_CALLS and (name_of(path), call) not in ALLOWED:
                yield f"line {node.lineno}: {call}"
            for keyword in node.keywords:
                if keyword.arg == "shell" and ast.unparse(keyword.value) != "False":
                    yield f"line {node.lineno}: a shell"
        banned = BANNED_IMPORTS & {module.split(".")[0] for module in imported(path)}
        if banned:
            yield f"imports {sorted(banned)}"

    assert broken(rule, [*OURS, *CHECKS]) == []


# Waiting that ends by other means than a time of its own, and why that is enough.
BOUNDED_OTHERWISE = {
    ("preflight/run/folder.py", "stored.result"): "writes files, as the caller would itself",
    ("preflight/reach/session/line.py", "self._has_ended_stderr.wait"): "asyncio.wait_for bounds it",
    ("preflight/reach/session/connection.py", "self._failing.wait"): "asyncio.wait_for bounds it",
    ("preflight/reach/session/starting.py", "starting.result"): "it is done where it is asked",
    ("preflight/reach/session/step.py", "self._process.wait"): "asyncio.wait_for bounds each",
    ("preflight/reach/session/step.py", "process.communicate"): "asyncio.wait_for bounds it",
    ("preflight/reach/session/task.py", "self._gone.wait"): "the line is cut at the deadline of whoever waits",
    ("preflight/job/start/run.py", "trouble.wait"): "its task is cancelled when the job has ended",
    ("preflight/job/start/run.py", "ready.wait"): "its task is cancelled when the job has ended",
    (
        "preflight/job/ranks/bench/operations.py",
        "work.wait",
    ): "the process group has a timeout",
    (
        "preflight/job/ranks/training/checkpoint.py",
        "self.remover.communicate",
    ): "the job has a time limit, after which it is killed",
    ("preflight/launch/launchers/ray/start.py", "subprocess.run"): "it is a rank: the job has a time limit",
}
WAITS = ("wait", "join", "communicate", "result")
# Loops that look again after a moment, each with an end of its own: there is nothing that would wake them.
POLLING = {
    "preflight/node/agent/keeper.py",
    "preflight/node/agent/lock.py",
    "preflight/node/calls/files.py",
    "preflight/node/calls/hanging.py",
    "preflight/cli/rehearsal/submit.py",
    "preflight/node/calls/ranks.py",
    "preflight/node/calls/rehearse.py",
    "preflight/node/sources/shells.py",
    "preflight/node/calls/rdma/write.py",
    "preflight/job/ranks/attendance.py",
    "preflight/reach/session/starting.py",
    "preflight/job/ranks/meeting.py",
    "preflight/job/ranks/rank/traces.py",
    "preflight/job/ranks/rank/world.py",
    "preflight/job/ranks/training/checkpoint.py",
    "preflight/launch/launchers/ray/start.py",
}


def test_nothing_waits_without_a_bound():
    """A thread, a process and a result are waited for with a time limit, and no sleep stands for a signal."""

    def rule(path: Path) -> Iterator[str]:
        for node, call in calls(path):
            if (name_of(path), call) in BOUNDED_OTHERWISE:
                continue
            is_wait = "." in call and call.rpartition(".")[2] in WAITS and not node.args
            has_limit = any(keyword.arg in ("timeout", "seconds") for keyword in node.keywords)
            has_limit = len(node.args) == 4 if call == "select.select" else has_limit
            if (is_wait or call in {"subprocess.run", "select.select"}) and not has_limit:
                yield f"line {node.lineno}: {call} without a time limit"
            if call == "time.sleep" and name_of(path) not in POLLING:
                yield f"line {node.lineno}: a sleep"

    assert broken(rule, [*OURS, *CHECKS]) == []


def test_checkpoints_are_read_as_data():
    """torch.load runs whatever a file says unless it is told that there are weights in it and nothing else."""

    def rule(path: Path) -> Iterator[str]:
        for node, call in calls(path):
            given = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
            if call == "torch.load" and given.get("weights_only") != "True":
                yield f"line {node.lineno}"

    assert broken(rule, OURS) == []


def test_checks_read_facts_and_nothing_else():
    """No program, no connection, no file, no try: whatever they need arrives as a fixture."""
    known = {
        "pytest",
        "preflight",
        "__future__",
        "itertools",
        "collections",
        "ipaddress",
        "statistics",
        "math",
        "re",
        "shlex",
        "typing",
    }

    def rule(path: Path) -> Iterator[str]:
        yield from (f"imports {module}" for module in imported(path) if module.split(".")[0] not in known)
        yield from (f"line {node.lineno}: a try" for node in ast.walk(tree(path)) if isinstance(node, ast.Try))

    assert broken(rule, CHECKS) == []


def functions(path: Path) -> list[ast.FunctionDef]:
    return [n for n in ast.walk(tree(path)) if isinstance(n, ast.FunctionDef) and n.name.startswith("test_")]


def test_every_check_says_what_why_and_how_to_mend():
    """Its docstring is what a user reads: a sentence, a reason, and `Fix:`."""

    def rule(path: Path) -> Iterator[str]:
        for function in functions(path):
            text = ast.get_docstring(function) or ""
            first, _, rest = text.partition("\n")
            reason, found, fix = rest.partition("Fix:")
            if not first.endswith("."):
                yield f"{function.name}: {first!r}"
            if not found:
                yield f"{function.name}: no Fix:"
            if not reason.strip():
                yield f"{function.name}: not a word why"
            if found and not fix.strip():
                yield f"{function.name}: an empty fix"

    assert broken(rule, CHECKS) == []


def test_every_test_says_what_it_shows():
    """In a sentence, of behaviour; and there is something in the file to be shown."""

    def rule(path: Path) -> Iterator[str]:
        if not functions(path):
            yield "a file of tests without a test"
        for function in functions(path):
            text = ast.get_docstring(function) or ""
            if not text.partition("\n")[0].rstrip().endswith((".", "?")):
                yield f"{function.name}: {text!r}"

    assert broken(rule, [path for path in TESTS if path.name.startswith("test_")]) == []


def test_every_module_has_a_twin_among_the_tests():
    """`preflight/facts/node.py` is tested in `tests/facts/test_node.py`, where everybody looks first."""

    def rule(path: Path) -> Iterator[str]:
        inner = path.relative_to(PACKAGE)
        twin = TABLES.get(str(inner), str(inner.with_name(f"test_{inner.name}")))
        if not (ROOT / "tests" / twin).is_file():
            yield f"tests/{twin} is missing"

    assert broken(rule, [path for path in OURS if path.name != "__init__.py"]) == []


def test_only_tables_are_tested_by_their_checks():
    """No module but a table leaves its tests to another file, and none that has tests of its own."""
    for name, twin in TABLES.items():
        path = Path(name)
        assert (PACKAGE / path).is_file(), f"{name} is excused and not there"
        assert path.parts[:2] == ("judge", "tables"), f"{name} is no table"
        assert Path(twin).parent.name == "checks", f"{twin} is no test of a check"
        assert not (ROOT / "tests" / path.with_name(f"test_{path.name}")).exists(), f"{name} needs no excuse"


def test_no_module_of_ours_is_patched():
    """Fakes are given, not slipped under: a patched function proves nothing about the one that is there.

    Listings of what is asked of torch, the kernel and other parts (tests.instead) show just that, and stand in no test.
    """
    patching = re.compile(r"mock\.patch|from unittest|import unittest")
    assert [name_of(path) for path in TESTS if path != Path(__file__) and patching.search(path.read_text())] == []
    tests = [path for path in TESTS if path.name.startswith("test_") and path != Path(__file__)]
    assert [name_of(path) for path in tests if "tests.instead" in path.read_text()] == []


# Written so that the patterns do not find themselves.
PRIVATE = re.compile(r"/wor[k]/|/opt/ven[v]|/far[m]/|\.pyen[v]|/User[s]/|/tmp/setu[p]")
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / ".github").rglob("*.*"))]
TEXTS = [*PAGES, ROOT / "pyproject.toml", ROOT / "constraints.txt", *sorted((ROOT / ".ci").glob("*"))]


def test_no_file_knows_the_machine_it_was_written_on():
    """A path of somebody's own works nowhere else."""

    def rule(path: Path) -> list[str]:
        return PRIVATE.findall(path.read_text(encoding="utf-8")) if path.is_file() else []

    assert broken(rule, [*OURS, *CHECKS, *TESTS, *TEXTS]) == []


def test_every_fault_names_tests_that_exist_or_why_there_is_none():
    """The table of faults is no list of wishes."""
    assert len(TABLE) == 129
    for name, fault in TABLE.items():
        assert bool(fault.tests) != bool(fault.why_not), name
        for named in fault.tests:
            path, _, function = named.partition("::")
            assert (ROOT / path).is_file(), f"{name}: {path}"
            functions = {one.name for one in statements(ROOT / path) if isinstance(one, ast.FunctionDef)}
            assert not function or function.partition("[")[0] in functions, f"{name}: {named}"
