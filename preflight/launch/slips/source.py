"""What does the text of a program set, read and call? It is parsed, never run."""

from __future__ import annotations

import ast
from collections.abc import Iterator

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


def settings_of(tree: ast.Module, name: str) -> Iterator[tuple[int, str]]:
    """The constants that ``os.environ["NAME"]`` is set to in any case, with their lines."""
    for node in always(tree):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Constant):
            continue
        if any(variable(target) == name for target in node.targets):
            yield node.lineno, str(node.value.value)


def reads(node: ast.expr, name: str) -> bool:
    """``int(os.environ["NAME"])`` or ``os.environ["NAME"]``."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "int" and node.args:
        return reads(node.args[0], name)
    return variable(node) == name


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
