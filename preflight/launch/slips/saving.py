"""Do several nodes write and rename the same files, as their program saves on the first process of each?"""

from __future__ import annotations

import ast
import itertools
import os
import posixpath
import re
from collections.abc import Iterable

from preflight.facts.cluster import Cluster
from preflight.facts.node import NodeFacts
from preflight.judge.ledger.findings import Finding, Where
from preflight.launch.field import Sourced, value_of
from preflight.launch.plan import LaunchFiles, Plan, fail, warn
from preflight.launch.slips.source import parsed
from preflight.reach.hosts import fold
from preflight.said import said
from preflight.said.errors import FactMissing

SAVING = frozenset({"save", "rename", "replace", "move", "copyfile", "save_pretrained", "save_file"})
RENAMING = frozenset({"rename", "replace", "move"})
MODULES = frozenset({"torch", "os", "shutil", "safetensors", "model", "checkpointer"})
OUTPUT = re.compile(r"--?\w*(out|save|ckpt|checkpoint|work)\w*", re.IGNORECASE)
FIX = "Save on global rank 0 alone: `if dist.get_rank() == 0:`."


def of_each_node(plan: Plan, tree: ast.Module, file: str) -> Iterable[Finding]:
    """`if local_rank == 0: torch.save(...)`: one process of every node writes, into one folder where it is shared."""
    line = _line(tree, SAVING) if plan.spans_nodes else 0
    if line:
        message = said(
            "{file} saves on local rank 0, of every node: in a folder that the nodes share they write and rename "
            "the same files",
            file,
        )
        yield warn("program_keeps_what_it_is_given", message, Where(file, line), plan.where, fix=FIX)


def nodes_rename_files_of_their_own(files: LaunchFiles, cluster: Cluster) -> Iterable[Finding]:
    """Where one process of every node renames what it has saved, no two nodes do so in one folder of a file server."""
    programs = {os.path.basename(name): name for name in files.programs}
    told: set[str] = set()
    for plan in files.plans:
        name = programs.get(os.path.basename(value_of(plan.program) or ""), "")
        tree = parsed(files.programs[name]) if name and name not in told and plan.spans_nodes else None
        line = _line(tree, RENAMING) if tree is not None else 0
        for path in _outputs(plan) if line else ():
            nodes, source = _sharing(path, cluster)
            if nodes:
                told.add(name)
                message = said(
                    "{name} saves and renames on local rank 0 of every node, and {path} is {source} on {nodes}: the "
                    "first one renames the file, and for the others it is gone (FileNotFoundError)",
                    name,
                    path,
                    source,
                    fold(nodes),
                )
                where = Where(name, line)
                yield fail("program_keeps_what_it_is_given", message, where, plan.where, fix=FIX, nodes=nodes)
                break


def _outputs(plan: Plan) -> list[str]:
    """The folders that options name for what is written; where it is started, a program need not write."""
    words = [value_of(word) or "" if isinstance(word, Sourced) else "" for word in plan.arguments]
    pairs = [word.partition("=")[::2] for word in words] + list(itertools.pairwise(words))
    named = [value for option, value in pairs if OUTPUT.fullmatch(option) and value and not value.startswith("-")]
    paths = [posixpath.normpath(posixpath.join(plan.folder, value)) for value in named]
    return [path for path in dict.fromkeys(paths) if path.startswith("/")]


def _sharing(path: str, cluster: Cluster) -> tuple[tuple[str, ...], str]:
    """The nodes on which a path is on one file system of the network, and its source; none where it is each one's."""
    held: dict[str, list[str]] = {}
    for node in cluster:
        source = _source(path, node)
        if source:
            held.setdefault(source, []).append(node.name)
    source = max(held, key=lambda one: len(held[one]), default="")
    nodes = tuple(held.get(source, ()))
    return (nodes, source) if len(nodes) > 1 else ((), "")


def _source(path: str, node: NodeFacts) -> str:
    try:
        mounts = [mount for mount in node.files.mounts if f"{path}/".startswith(f"{mount.path.rstrip('/')}/")]
    except FactMissing:
        return ""
    return max(mounts, key=lambda mount: len(mount.path)).source if mounts else ""


def _line(tree: ast.Module, names: frozenset[str]) -> int:
    """Where the first process of each node saves by one of these methods; 0 where it does not."""
    saving = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and _saves(node, set(), names)}
    return next(
        (
            node.lineno
            for node in ast.walk(tree)
            if isinstance(node, ast.If)
            and _is_first_of_a_node(node.test)
            and any(_saves(one, saving, names) for one in node.body)
        ),
        0,
    )


def _saves(tree: ast.AST, functions: set[str], names: frozenset[str]) -> bool:
    """Whether something below writes a checkpoint, or calls a function of the program that does."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return any(
        (isinstance(call.func, ast.Name) and call.func.id in functions)
        or (
            isinstance(call.func, ast.Attribute)
            and call.func.attr in names
            and ast.unparse(call.func.value).partition(".")[0] in MODULES
        )
        for call in calls
    )


def _is_first_of_a_node(test: ast.expr) -> bool:
    """``local_rank == 0``, of whatever it is an attribute; not together with another condition."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], ast.Eq):
        return False
    right = test.comparators[0]
    name = ast.unparse(test.left).rpartition(".")[2]
    return isinstance(right, ast.Constant) and right.value == 0 and name in ("local_rank", "LOCAL_RANK")


LIVE_RULES = (nodes_rename_files_of_their_own,)
