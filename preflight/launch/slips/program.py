"""Does a program that is given beside its start undo what its launcher tells it? It is parsed, never run."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Iterator

from preflight.judge.ledger.findings import Finding, Where
from preflight.launch.address import is_loopback
from preflight.launch.field import firm, value_of
from preflight.launch.plan import LaunchFiles, Plan, fail
from preflight.said import said

SIZE_LIMIT = 1 << 20


def program_keeps_what_it_is_given(files: LaunchFiles) -> Iterable[Finding]:
    """The launcher tells each process where rank 0 is, and which device is its own: a constant in their place is not.

    Under torchrun the processes meet in the store of the agent, at the port that the agent chose.
    """
    programs = {os.path.basename(name): name for name in files.texts if name.endswith(".py")}
    told: set[str] = set()
    for plan in files.plans:
        name = programs.get(os.path.basename(value_of(plan.program) or ""), "")
        if not name or name in told or not plan.launcher.has_agent or plan.is_opaque:
            continue
        told.add(name)
        tree = _parsed(files.texts[name])
        if tree is not None:
            yield from _meeting_point(plan, tree, name)
            yield from _device(plan, tree, name)


def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text) if len(text) < SIZE_LIMIT else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _always(node: ast.AST) -> Iterator[ast.AST]:
    """What is below a node and in no branch: `if __name__ == "__main__"` is none."""
    for child in ast.iter_child_nodes(node):
        is_branch = isinstance(child, (ast.If, ast.Try, ast.While)) and "__name__" not in ast.dump(child)[:200]
        if not is_branch:
            yield child
            yield from _always(child)


def _meeting_point(plan: Plan, tree: ast.Module, file: str) -> Iterable[Finding]:
    """`os.environ["MASTER_ADDR"] = "localhost"`, and a port that is not the launcher's."""
    for node in _always(tree):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Constant):
            continue
        for target in node.targets:
            name = _variable(target)
            text, where = str(node.value.value), Where(file, node.lineno)
            port = firm(plan.master_port)
            if name == "MASTER_ADDR" and plan.spans_nodes and is_loopback(text):
                message = said(
                    "{file} sets MASTER_ADDR to {text}: the processes of other nodes look on their own", file, text
                )
                yield fail(
                    "program_keeps_what_it_is_given",
                    message,
                    where,
                    plan.where,
                    fix=said("Delete line {line}.", node.lineno),
                )
            elif name == "MASTER_PORT" and plan.launcher.name == "torchrun" and port is not None and text != str(port):
                message = said(
                    "{file} sets MASTER_PORT to {text}, and the agent's store listens on {port}: no process finds it",
                    file,
                    text,
                    port,
                )
                yield fail(
                    "program_keeps_what_it_is_given",
                    message,
                    where,
                    plan.where,
                    fix=said("Delete line {line}.", node.lineno),
                )


def _device(plan: Plan, tree: ast.Module, file: str) -> Iterable[Finding]:
    """`torch.cuda.set_device(dist.get_rank())`: the second node has no device of such a number."""
    if not plan.spans_nodes or (firm(plan.processes_per_node) or 1) < 2:
        return
    named: dict[str, bool] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            named[name] = named.get(name, True) and _is_global_rank(node.value)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
            continue
        given = node.args[0]
        by_name = isinstance(given, ast.Name) and named.get(given.id, False)
        if node.func.attr == "set_device" and (by_name or _is_global_rank(given)):
            message = said(
                "{file} takes the rank in the whole job for its device: the second node has none of that number", file
            )
            fix = 'int(os.environ["LOCAL_RANK"])'
            yield fail("program_keeps_what_it_is_given", message, Where(file, node.lineno), plan.where, fix=fix)


def _variable(node: ast.AST) -> str:
    """NAME of ``os.environ["NAME"]``, "" of anything else."""
    is_environment = isinstance(node, ast.Subscript) and ast.unparse(node.value) in ("os.environ", "environ")
    held = node.slice if isinstance(node, ast.Subscript) and is_environment else None
    return str(held.value) if isinstance(held, ast.Constant) else ""


def _is_global_rank(node: ast.AST) -> bool:
    """``dist.get_rank()``, ``int(os.environ["RANK"])``; not what is divided by the devices of a node."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "int" and node.args:
        return _is_global_rank(node.args[0])
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr == "get_rank" and not node.args
    return _variable(node) == "RANK"


FILES_RULES = (program_keeps_what_it_is_given,)
