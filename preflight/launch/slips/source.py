"""What does the text of a program set, read and call? It is parsed, never run."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

SIZE_LIMIT = 1 << 20


def parsed(text: str) -> ast.Module | None:
    """The program as a tree; None of what is too long, or no Python."""
    try:
        return ast.parse(text) if len(text) < SIZE_LIMIT else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def always(node: ast.AST) -> Iterator[ast.AST]:
    """What is below a node and in no branch: `if __name__ == "__main__"` is none."""
    for child in ast.iter_child_nodes(node):
        is_branch = isinstance(child, (ast.If, ast.Try, ast.While)) and "__name__" not in ast.dump(child)[:200]
        if not is_branch:
            yield child
            yield from always(child)


def reached(tree: ast.Module) -> Iterator[ast.AST]:
    """What runs in any case: the text of the module, and of its functions those that are named where something runs."""
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    text = [node for node in tree.body if not isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    waiting: list[ast.AST] = [ast.Module(text, [])]
    while waiting:
        for node in always(waiting.pop()):
            yield node
            if isinstance(node, ast.Name) and node.id in functions:
                waiting.append(functions.pop(node.id))


def settings_of(nodes: Iterable[ast.AST], name: str) -> Iterator[tuple[int, str]]:
    """The constants that ``os.environ["NAME"]`` is set to among these, with their lines."""
    for node in nodes:
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Constant):
            continue
        if any(variable(target) == name for target in node.targets):
            yield node.lineno, str(node.value.value)


def reads(node: ast.expr, name: str) -> bool:
    """``int(os.environ["NAME"])`` or ``os.environ["NAME"]``."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "int" and node.args:
        return reads(node.args[0], name)
    return variable(node) == name


COUNTED_BY_SLURM = frozenset(("SLURM_NNODES", "SLURM_JOB_NUM_NODES", "SLURM_NTASKS", "SLURM_NPROCS"))
PLACES_IN_SLURM = ("SLURM_PROCID", "SLURM_NODEID")


def counted_by_slurm(text: str) -> str:
    """SLURM_PROCID or SLURM_NODEID, where a program takes its own number from it and the job's size from Slurm."""
    tree = parsed(text)
    named = {_read(node) for node in ast.walk(tree)} if tree is not None else set()
    return next((name for name in PLACES_IN_SLURM if name in named and named & COUNTED_BY_SLURM), "")


def _read(node: ast.AST) -> str:
    """NAME of ``os.environ["NAME"]`` where it is read; what ``get`` asks for may be unset."""
    held = isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load)
    return variable(node) if held else ""


def assigned(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """The names that the program gives to values, with the values."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node.value


def method(node: ast.Call) -> str:
    """The method that is called, "" where it is a function."""
    return node.func.attr if isinstance(node.func, ast.Attribute) else ""


def variable(node: ast.AST) -> str:
    """NAME of ``os.environ["NAME"]``, "" of anything else."""
    is_environment = isinstance(node, ast.Subscript) and ast.unparse(node.value) in ("os.environ", "environ")
    held = node.slice if isinstance(node, ast.Subscript) and is_environment else None
    return str(held.value) if isinstance(held, ast.Constant) else ""
