"""Does the code keep the rules that no reader can check by eye: who imports whom, what is banned, what has a test?"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests import house
from tests.bench.fault_table import TABLE
from tests.house import PACKAGE, ROOT, imported, statements, tree

READERS_OF_NODE = {
    ("session", "preflight.node.agent.frames"),  # both ends of the wire speak by one codec
    ("diagnose", "preflight.node.sources.rank_files"),  # pickles of the flight recorder, read without running them
}

# Tables of known faults are tested by what their checks make of them; every other module has a test of its own name.
TABLES = {
    "tables/gpu_faults.py": "checks/test_gpu.py",
    "tables/kernel_faults.py": "checks/test_gpu.py",
    "tables/rdma_faults.py": "checks/test_rdma.py",
}

# Third-party packages that only some of our code may know.
ONLY_IN = {
    "torch": {"workloads"},
    "numpy": {"workloads"},
    "accelerate": {"workloads"},
    "deepspeed": {"workloads"},
    "pytest": {"plugin", "judge", "cli"},
    "psutil": {"node"},
    "netifaces": {"node"},
    "ClusterShell": {"hosts"},
}


def sources(*folders: Path) -> list[Path]:
    return [path for folder in folders for path in sorted(folder.rglob("*.py"))]


OURS = sources(PACKAGE)
CHECKS = sources(ROOT / "checks")
TESTS = sources(ROOT / "tests")
NODE = sources(PACKAGE / "node")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def room_of_path(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", OURS, ids=name_of)
def test_what_runs_elsewhere_is_apart(path):
    """The code of nodes and ranks is sent, not imported; it imports its own package and nothing else of ours."""
    room = room_of_path(path)
    for module in imported(path):
        if not module.startswith("preflight") or (room, module) in READERS_OF_NODE:
            continue
        target = house.room_of(module)
        assert room != "__init__" or not target, f"import preflight must cost nothing, and imports {module}"
        assert room == target or not {room, target} & house.APART, f"{room} imports {module}"


def test_no_room_imports_one_beside_or_above_it():
    """One order for the whole program, so that no part can be understood only together with a later one."""
    drawn = house.arrows()
    for room, _ in READERS_OF_NODE:
        drawn[room].discard("node")
    assert house.upward(house.ORDER, drawn) == []
    assert {name for row in house.ORDER for name in row} == house.rooms() - house.APART


@pytest.mark.parametrize("folder", house.INSIDE)
def test_the_order_holds_inside_the_larger_rooms(folder):
    """A folder of thousands of lines has floors of its own; its __init__ may show all of them."""
    drawn = house.arrows(folder)
    assert house.upward(house.INSIDE[folder], drawn) == []
    assert {name for row in house.INSIDE[folder] for name in row} == set(drawn)


def test_the_house_stays_small():
    """What `ls preflight/` shows fits on a page, and so does every folder; nothing imports itself by a detour."""
    assert len(house.rooms()) <= 24
    assert max(house.floors(house.arrows()).values()) <= 13
    assert house.circles() == []
    modules = Counter(path.parent for path in OURS if path.name != "__init__.py")
    assert {name_of(folder): count for folder, count in modules.items() if count > 15} == {}


@pytest.mark.parametrize("path", OURS, ids=name_of)
def test_packages_of_others_are_known_where_they_belong(path):
    """No torch outside of the ranks' programs, no pytest below the plugin, one door to each library."""
    for module in imported(path):
        known = ONLY_IN.get(module.split(".")[0])
        assert known is None or room_of_path(path) in known, f"{module} is for {known}"


@pytest.mark.parametrize("path", [*NODE, *sources(PACKAGE / "workloads")], ids=name_of)
def test_what_runs_elsewhere_needs_little(path):
    """On a node the standard library, psutil and netifaces; in a rank torch and what a job has anyway."""
    known = {"psutil", "netifaces"} if path in NODE else {"torch", "numpy", "accelerate", "deepspeed"}
    for module in imported(path):
        top = module.split(".")[0]
        assert top in {*sys.stdlib_module_names, *known, "preflight"}, module


@pytest.mark.parametrize("path", NODE, ids=name_of)
def test_node_code_is_what_the_oldest_node_understands(path):
    """Python 3.9: its grammar, annotations that are never evaluated, and no time spent on importing typing."""
    ast.parse(path.read_text(), feature_version=(3, 9))
    assert not {"typing", "asyncio", "logging", "email", "ssl"} & set(imported(path))
    if path.name != "__init__.py":
        assert "from __future__ import annotations" in path.read_text().splitlines()


@pytest.mark.parametrize("path", NODE, ids=name_of)
def test_optional_packages_are_imported_where_they_are_used(path):
    """A node without psutil loads the module all the same, and falls back."""
    for node in tree(path).body:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        assert not {"psutil", "netifaces"} & set(names)
        assert not (isinstance(node, ast.ImportFrom) and str(node.module).startswith(("psutil", "netifaces")))


def called(node: ast.AST) -> str:
    """What a call calls, as it is written (os.system); nothing for what is no call."""
    return ast.unparse(node.func) if isinstance(node, ast.Call) else ""


BANNED_CALLS = {"os.system", "os.popen", "eval", "exec", "tempfile.mktemp", "yaml.load", "yaml.unsafe_load", "input"}
BANNED_CALLS |= {"yaml.full_load", "os.abort", "os.spawnl", "pty.spawn"}
BANNED_IMPORTS = {"pickle", "shelve", "dill", "commands", "telnetlib"}
ALLOWED = {("preflight/node/agent/bootstrap.py", "exec")}  # a loader runs the code it was sent: that is what it is for


@pytest.mark.parametrize("path", [*OURS, *CHECKS], ids=name_of)
def test_nothing_dangerous_is_called(path):
    """No shell between us and a program, no data that is code, no name of a file that another may take first."""
    for node in statements(tree(path)):
        call = called(node)
        assert call not in BANNED_CALLS or (name_of(path), call) in ALLOWED, f"line {node.lineno}: {call}"
        for keyword in getattr(node, "keywords", ()):
            shell = isinstance(node, ast.Call) and keyword.arg == "shell"
            assert not (shell and ast.unparse(keyword.value) != "False"), f"line {node.lineno}: a shell"
    assert not BANNED_IMPORTS & {module.split(".")[0] for module in imported(path)}


# Waiting that ends by other means than a time of its own, and why that is enough.
BOUNDED_OTHERWISE = {
    ("preflight/session/line.py", "self.process.wait"): "the process is killed at the deadline of whoever waits",
    ("preflight/jobs/run.py", "trouble.wait"): "its task is cancelled when the job has ended",
    ("preflight/jobs/run.py", "ready.wait"): "its task is cancelled when the job has ended",
    ("preflight/workloads/collectives.py", "work.wait"): "the process group has a timeout, and the job a time limit",
    ("preflight/workloads/train.py", "self.remover.communicate"): "the job has a time limit, after which it is killed",
    ("preflight/launch/launchers/ray.py", "subprocess.run"): "it is a rank: the job has a time limit",
}
WAITS = ("wait", "join", "communicate", "result")
# Loops that look again after a moment, each with an end of its own: there is nothing that would wake them.
POLLING = {
    "preflight/node/agent/keeper.py",
    "preflight/node/agent/lock.py",
    "preflight/node/calls/files.py",
    "preflight/node/calls/hanging.py",
    "preflight/node/calls/ranks.py",
    "preflight/workloads/collectives.py",
    "preflight/workloads/train.py",
    "preflight/launch/launchers/ray.py",
}


@pytest.mark.parametrize("path", [*OURS, *CHECKS], ids=name_of)
def test_nothing_waits_without_a_bound(path):
    """A thread, a process and a result are waited for with a time limit, and no sleep stands for a signal."""
    for node in statements(tree(path)):
        call = called(node)
        if not isinstance(node, ast.Call) or (name_of(path), call) in BOUNDED_OTHERWISE:
            continue
        is_wait = "." in call and call.rpartition(".")[2] in WAITS and not node.args
        has_limit = any(keyword.arg in ("timeout", "seconds") for keyword in node.keywords)
        assert not is_wait or has_limit, f"line {node.lineno}: {call}() without a time limit"
        assert call != "subprocess.run" or has_limit, f"line {node.lineno}: subprocess.run without a time limit"
        assert call != "select.select" or len(node.args) == 4, f"line {node.lineno}: select without a time limit"
        assert call != "time.sleep" or name_of(path) in POLLING, f"line {node.lineno}: a sleep"


@pytest.mark.parametrize("path", OURS, ids=name_of)
def test_checkpoints_are_read_as_data(path):
    """torch.load runs whatever a file says unless it is told that there are weights in it and nothing else."""
    for node in statements(tree(path)):
        if called(node) == "torch.load" and isinstance(node, ast.Call):
            given = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
            assert given.get("weights_only") == "True", f"line {node.lineno}"


@pytest.mark.parametrize("path", CHECKS, ids=name_of)
def test_checks_read_facts_and_nothing_else(path):
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
        "typing",
    }
    for module in imported(path):
        assert module.split(".")[0] in known, module
    assert not [node for node in ast.walk(tree(path)) if isinstance(node, ast.Try)]


def functions(path: Path) -> list[ast.FunctionDef]:
    return [n for n in ast.walk(tree(path)) if isinstance(n, ast.FunctionDef) and n.name.startswith("test_")]


@pytest.mark.parametrize("path", CHECKS, ids=name_of)
def test_every_check_says_what_why_and_how_to_mend(path):
    """Its docstring is what a user reads: a sentence, a reason, and `Fix:`."""
    for function in functions(path):
        text = ast.get_docstring(function) or ""
        first, _, rest = text.partition("\n")
        assert first.endswith("."), f"{function.name}: {first!r}"
        reason, found, fix = rest.partition("Fix:")
        assert found, f"{function.name}: no Fix:"
        assert reason.strip(), f"{function.name}: not a word why"
        assert fix.strip(), f"{function.name}: an empty fix"


@pytest.mark.parametrize("path", [path for path in TESTS if path.name.startswith("test_")], ids=name_of)
def test_every_test_says_what_it_shows(path):
    """In a sentence, of behaviour; and there is something in the file to be shown."""
    assert functions(path), "a file of tests without a test"
    for function in functions(path):
        text = ast.get_docstring(function) or ""
        assert text.partition("\n")[0].rstrip().endswith((".", "?")), f"{function.name}: {text!r}"


@pytest.mark.parametrize("path", [path for path in OURS if path.name != "__init__.py"], ids=name_of)
def test_every_module_has_a_twin_among_the_tests(path):
    """`preflight/facts/node.py` is tested in `tests/facts/test_node.py`, where everybody looks first."""
    inner = path.relative_to(PACKAGE)
    twin = TABLES.get(str(inner), str(inner.with_name(f"test_{inner.name}")))
    assert (ROOT / "tests" / twin).is_file(), f"tests/{twin} is missing"


def test_only_tables_are_tested_by_their_checks():
    """No module but a table leaves its tests to another file, and none that has tests of its own."""
    for name, twin in TABLES.items():
        path = Path(name)
        assert (PACKAGE / path).is_file(), f"{name} is excused and not there"
        assert path.parent.name == "tables", f"{name} is no table"
        assert Path(twin).parent.name == "checks", f"{twin} is no test of a check"
        assert not (ROOT / "tests" / path.with_name(f"test_{path.name}")).exists(), f"{name} needs no excuse"


def test_no_module_of_ours_is_patched():
    """Fakes are given, not slipped under: a patched function proves nothing about the one that is there."""
    patching = re.compile(r"mock\.patch|from unittest|import unittest")
    assert [name_of(path) for path in TESTS if path != Path(__file__) and patching.search(path.read_text())] == []


# Written so that the patterns do not find themselves.
PRIVATE = re.compile(r"/wor[k]/|/opt/ven[v]|/far[m]/|\.pyen[v]|/User[s]/|/tmp/setu[p]")
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / ".github").rglob("*.*"))]
TEXTS = [*PAGES, ROOT / "pyproject.toml", ROOT / "constraints.txt", *sorted((ROOT / ".ci").glob("*"))]


@pytest.mark.parametrize("path", [*OURS, *CHECKS, *TESTS, *TEXTS], ids=name_of)
def test_no_file_knows_the_machine_it_was_written_on(path):
    """A path of somebody's own works nowhere else."""
    if path.is_file():
        assert PRIVATE.findall(path.read_text(encoding="utf-8")) == []


def test_every_fault_names_tests_that_exist_or_why_there_is_none():
    """The table of faults is no list of wishes."""
    assert len(TABLE) == 129
    for name, fault in TABLE.items():
        assert bool(fault.tests) != bool(fault.why_not), name
        for named in fault.tests:
            path, _, function = named.partition("::")
            assert (ROOT / path).is_file(), f"{name}: {path}"
            functions = {one.name for one in statements(tree(ROOT / path)) if isinstance(one, ast.FunctionDef)}
            assert not function or function in functions, f"{name}: {named}"
