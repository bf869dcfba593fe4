"""How is a module changed so that a test should notice: in which places, and into what?

As mutation tools do: another comparison, a number beside it, a condition turned round, a statement left out, a text spoilt.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.bench.mutation_same import why_same

COMPARED: dict[type, tuple[type, ...]] = {
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
COMPUTED: dict[type, type] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.LShift: ast.RShift,
    ast.BitOr: ast.BitAnd,
    ast.Mod: ast.Mult,
}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Change = tuple[str, Callable[[ast.AST], ast.AST]]


def changes(node: ast.AST) -> Iterator[Change]:
    """How one node is changed, each in a few words."""
    if isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            for other in COMPARED[type(operator)]:
                yield f"{type(operator).__name__} becomes {other.__name__}", compared(place, other)
    elif isinstance(node, ast.BinOp) and type(node.op) in COMPUTED:
        other = COMPUTED[type(node.op)]
        yield f"{type(node.op).__name__} becomes {other.__name__}", with_op(other)
    elif isinstance(node, ast.BoolOp):
        other = ast.Or if isinstance(node.op, ast.And) else ast.And
        yield f"{type(node.op).__name__} becomes {other.__name__}", with_op(other)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "not is left out", lambda new: new.operand
    elif isinstance(node, (ast.If, ast.IfExp, ast.While)):
        yield "the condition is turned round", turned
    elif isinstance(node, ast.Constant):
        yield from of_constant(node.value)
    elif isinstance(node, (ast.Break, ast.Continue)):
        yield "leaves or stays", lambda new: ast.Continue() if isinstance(new, ast.Break) else ast.Break()
    elif isinstance(node, (ast.Raise, ast.AugAssign)) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ):
        yield "left out", lambda _: ast.Pass()
    elif isinstance(node, ast.Return) and node.value is not None:
        yield "nothing is returned", lambda _: ast.Return(ast.Constant(None))
    elif isinstance(node, ast.For):
        yield "goes round no time", lambda new: with_fields(new, iter=ast.Tuple([], ast.Load()))
    elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
        yield "becomes None", lambda new: with_fields(new, value=ast.Constant(None))
    elif isinstance(node, ast.FunctionDef) and node.decorator_list:
        yield "is not decorated", lambda new: with_fields(new, decorator_list=[])


def of_constant(value: object) -> Iterator[Change]:
    """A number, truth or text beside it."""
    if isinstance(value, bool):
        yield f"{value} becomes {not value}", lambda _: ast.Constant(not value)
    elif isinstance(value, (int, float)):
        for other in (value + 1, value - 1):
            yield f"{value} becomes {other}", lambda _, other=other: ast.Constant(other)
    elif isinstance(value, (str, bytes)):
        spoilt = f"XX{value}XX" if isinstance(value, str) else b"XX" + value + b"XX"
        yield f"{value!r:.20} is spoilt", lambda _: ast.Constant(spoilt)


def with_fields(node: ast.AST, **fields: object) -> ast.AST:
    """The node with other fields."""
    for name, value in fields.items():
        setattr(node, name, value)
    return node


def compared(place: int, other: type) -> Callable[[ast.AST], ast.AST]:
    """Another comparison at a place."""
    return lambda new: with_fields(new, ops=[other() if at == place else op for at, op in enumerate(new.ops)])


def with_op(other: type) -> Callable[[ast.AST], ast.AST]:
    """Another operator."""
    return lambda new: with_fields(new, op=other())


def turned(new: ast.AST) -> ast.AST:
    """The opposite condition."""
    return with_fields(new, test=ast.UnaryOp(ast.Not(), new.test))


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    path: str  # from the root
    node: int  # its place in the walk over the tree
    change: int
    line: int
    lines: tuple[int, int]  # the first and last line that Python counts when the changed statement runs
    is_at_import: bool  # whether the change shows when the file is imported, not when one of its functions runs
    words: str
    old: str
    new: str
    why_same: str = ""  # the reason for which no test is asked to notice it

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.words}: {self.old} -> {self.new}"

    def text(self, source: str) -> str:
        """The file with this change."""
        tree = ast.parse(source)
        node = list(ast.walk(tree))[self.node]
        new = list(changes(node))[self.change][1](copy.copy(node))

        class Exchange(ast.NodeTransformer):
            def visit(self, one: ast.AST) -> ast.AST:
                return new if one is node else self.generic_visit(one)

        return ast.unparse(ast.fix_missing_locations(Exchange().visit(tree)))


def unread(tree: ast.Module) -> set[ast.AST]:
    """Nodes whose change is none of behaviour: docstrings, annotations, words of errors, what is there for types alone."""
    found: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, *FUNCTIONS)) and ast.get_docstring(node) is not None:
            found.add(node.body[0].value)
        said = [getattr(node, name, None) for name in ("annotation", "returns", "exc")]
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            said.append(node)
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in ("TYPE_CHECKING", "__all__"):
            said.append(node)
        if isinstance(node, ast.keyword) and node.arg in ("frozen", "slots"):
            said.append(node)  # keeps programmers from a mistake that mypy reports too
        for part in filter(None, said):
            found.update(ast.walk(part))
    return found


def mutants(path: str, source: str) -> Iterator[Mutant]:
    """Every change of a file."""
    tree = ast.parse(source)
    hidden = unread(tree)
    within = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for place, node in enumerate(ast.walk(tree)):
        if node in hidden:
            continue
        for number, (words, change) in enumerate(changes(node)):
            statement = node
            while not isinstance(statement, ast.stmt):
                statement = within[statement]
            old, new = (short(ast.unparse(part)) for part in (node, change(copy.copy(node))))
            if old != new:
                line = getattr(node, "lineno", statement.lineno)
                why = why_same(path, node, within, source.splitlines()[line - 1].strip(), words)
                yield Mutant(
                    path, place, number, line, counted(statement), at_import(node, within), words, old, new, why
                )


def counted(statement: ast.stmt) -> tuple[int, int]:
    """The lines of a statement without those of the statements in it."""
    body = getattr(statement, "body", None)
    last = max(statement.lineno, body[0].lineno - 1) if body else statement.end_lineno
    return statement.lineno, last or statement.lineno


def at_import(node: ast.AST, within: dict[ast.AST, ast.AST]) -> bool:
    """Is it outside of what a function or lambda does when it is called?"""
    while node in within:
        inner, node = node, within[node]
        if isinstance(node, ast.Lambda) and inner is node.body:
            return False
        if isinstance(node, FUNCTIONS) and inner in node.body:
            return False
    return True


def short(text: str) -> str:
    """One line of it."""
    line = text.splitlines()[0] if text else ""
    return line if len(line) <= 80 else f"{line[:77]}..."
