"""Does the code keep the rules that no reader can check by eye: who imports whom, what is banned, what has a test?"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "preflight"

# Every module or package of ours, once. Each row may import the rows above it and itself only within a package.
ORDER = (
    ("errors", "findings", "arguments", "symptoms", "nccl_log"),
    ("hosts", "sweep"),
    ("gates", "waivers"),
    ("settings",),
    ("facts",),
    ("transport", "payload", "launch", "report", "slow", "mesh"),
    ("launchers",),
    ("bandwidth", "options", "outcome", "progress", "scope", "session"),
    ("fleet", "jobs"),
    ("stages",),
    ("crew",),
    ("run", "stored"),
    ("judge", "launching", "history"),
    ("asked",),
    ("reporting",),
    ("items",),
    ("checking",),
    ("plugin",),
    ("verbs",),
    ("cli",),
    ("__main__",),
)
ROW_OF = {name: row for row, names in enumerate(ORDER) for name in names}
APART = {"node", "workloads"}  # they run elsewhere: nothing of ours but their own package, and nobody imports them
READERS_OF_NODE = {("session", "preflight.node.frames")}  # both ends of the wire speak by one codec

# Modules whose tests stand in the file of another: they are too thin for one of their own.
TOGETHER = {
    "__main__.py": "test_cli.py",
    "asked.py": "test_options.py",
    "gates.py": "test_judge.py",
    "facts/gpu_rows.py": "checks/test_gpu.py",
    "facts/kernel_rows.py": "checks/test_kernel.py",
    "facts/rdma_rows.py": "checks/test_rdma.py",
    "fleet.py": "test_session.py",
    "facts/files.py": "checks/test_files.py",
    "facts/machine.py": "checks/test_software.py",
    "facts/variable_rows.py": "checks/test_environment.py",
    "launch/accelerate.py": "launch/test_accelerate_file.py",
    "launch/arithmetic.py": "launch/test_shell.py",
    "launch/check.py": "launch/test_field.py",
    "launch/commands.py": "launch/test_shell.py",
    "launch/detect.py": "launch/test_read.py",
    "launch/environment.py": "launch/test_shell.py",
    "launch/expansion.py": "launch/test_shell.py",
    "launch/files.py": "launch/test_read.py",
    "launch/jobs.py": "launch/test_ranks.py",
    "launch/layout.py": "launch/test_write.py",
    "launch/located.py": "launch/test_read.py",
    "launch/marks.py": "launch/test_read.py",
    "launch/options.py": "launch/test_shell.py",
    "launch/plan.py": "launch/test_read.py",
    "launch/pods.py": "launch/test_kubernetes.py",
    "launch/programs.py": "launch/test_shell.py",
    "launch/slurm.py": "launch/test_read.py",
    "launch/statements.py": "launch/test_shell.py",
    "launch/syntax.py": "launch/test_shell.py",
    "launch/torchrun.py": "launch/test_shell.py",
    "node/lock.py": "node/test_keeper.py",
    "node/worker.py": "node/test_keeper.py",
    "stages/bench.py": "whole/test_bandwidth.py",
    "stages/devices.py": "workloads/test_devices.py",
    "stages/files.py": "node/test_files.py",
    "stages/trust.py": "node/test_trust.py",
    "items.py": "test_checking.py",
    "plugin.py": "test_checking.py",
    "transport/local.py": "test_transport.py",
    "transport/ssh.py": "test_transport.py",
}

# Third-party packages that only some of our code may know.
ONLY_IN = {
    "torch": {"workloads"},
    "numpy": {"workloads"},
    "accelerate": {"workloads"},
    "deepspeed": {"workloads"},
    "pytest": {"plugin", "checking", "items", "verbs"},
    "psutil": {"node"},
    "netifaces": {"node"},
    "ClusterShell": {"hosts"},
}


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def sources(*folders: Path) -> list[Path]:
    return [path for folder in folders for path in sorted(folder.rglob("*.py"))]


OURS = sources(PACKAGE)
CHECKS = sources(ROOT / "checks")
TESTS = sources(ROOT / "tests")
NODE = sources(PACKAGE / "node")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def unit_of(module: str) -> str:
    """The module or package of ours that a dotted name is in: "facts" of "preflight.facts.node"."""
    return module.split(".")[1] if "." in module else ""


def unit_of_path(path: Path) -> str:
    parts = path.relative_to(PACKAGE).parts
    return parts[0].removesuffix(".py")


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Everything below a node that is there at run time."""
    for child in ast.iter_child_nodes(node):
        is_typing = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
        if not is_typing:
            yield child
            yield from statements(child)


def imported(path: Path) -> Iterator[str]:
    """Dotted names of the modules that a file imports at run time, functions included."""
    for node in statements(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)}:{node.lineno}: a relative import"
            module = str(node.module)
            for alias in node.names:
                inner = ROOT / module.replace(".", "/") / alias.name
                is_module = inner.with_suffix(".py").is_file() or inner.is_dir()
                yield f"{module}.{alias.name}" if module.startswith("preflight") and is_module else module


@pytest.mark.parametrize("path", OURS, ids=name_of)
def test_modules_import_only_what_stands_above_them(path):
    """One order for the whole program, so that no part can be understood only together with a later one."""
    unit = unit_of_path(path)
    ours = [module for module in imported(path) if module.startswith("preflight")]
    for module in ours:
        target = unit_of(module)
        if target in {"", unit} or (unit, module) in READERS_OF_NODE:
            continue
        assert unit not in APART, f"{unit} runs elsewhere and must not import {module}"
        assert target not in APART, f"{module} runs elsewhere: it is sent, not imported"
        if unit == "__init__":
            pytest.fail(f"import preflight must cost nothing, and imports {module}")
        assert unit in ROW_OF, f"{unit}: give it a place in ORDER"
        assert target in ROW_OF, f"{target}: give it a place in ORDER"
        assert ROW_OF[target] < ROW_OF[unit], f"{unit} imports {module}, which stands beside or below it"


def test_every_module_has_its_place_in_the_order():
    """One that was added is placed, one that is gone is not kept."""
    units = {unit_of_path(path) for path in OURS} - APART - {"__init__"}
    assert units == set(ROW_OF)


@pytest.mark.parametrize("path", OURS, ids=name_of)
def test_packages_of_others_are_known_where_they_belong(path):
    """No torch outside of the ranks' programs, no pytest below the plugin, one door to each library."""
    for module in imported(path):
        known = ONLY_IN.get(module.split(".")[0])
        assert known is None or unit_of_path(path) in known, f"{module} is for {known}"


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
BANNED_IMPORTS = {"pickle", "shelve", "dill", "commands", "telnetlib"}
ALLOWED = {("preflight/node/bootstrap.py", "exec")}  # a loader runs the code it was sent: that is what it is for


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
    twin = TOGETHER.get(str(inner), str(inner.with_name(f"test_{inner.name}")))
    assert (ROOT / "tests" / twin).is_file(), f"tests/{twin} is missing"


def test_no_module_of_ours_is_patched():
    """Fakes are given, not slipped under: a patched function proves nothing about the one that is there."""
    patching = re.compile(r"mock\.patch|from unittest|import unittest")
    assert [name_of(path) for path in TESTS if path != Path(__file__) and patching.search(path.read_text())] == []


# Written so that the patterns do not find themselves.
PRIVATE = re.compile(r"/wor[k]/|/opt/ven[v]|/far[m]/|\.pyen[v]|/User[s]/|/tmp/setu[p]")
TEXTS = [ROOT / "README.md", ROOT / "pyproject.toml", ROOT / "constraints.txt", *sorted((ROOT / ".ci").glob("*"))]


@pytest.mark.parametrize("path", [*OURS, *CHECKS, *TESTS, *TEXTS], ids=name_of)
def test_no_file_knows_the_machine_it_was_written_on(path):
    """A path of somebody's own works nowhere else."""
    if path.is_file():
        assert PRIVATE.findall(path.read_text(encoding="utf-8")) == []
