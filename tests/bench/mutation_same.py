"""Which changes of the code are nobody's to notice, and why not?

A change is left out of a sample, with its reason, after the sample was drawn: a new reason does not draw another sample.
"""

from __future__ import annotations

import ast
import itertools
from functools import cache

from tests import catalogue
from tests.house import ROOT

# The file, the line and the change, as tests.bench.mutation prints it -> why nothing is different then.
SAME: dict[tuple[str, str, str], str] = {
    (
        "preflight/launch/launchers/accelerate/start.py",
        "node = placements[0].node",
        "0 becomes -1",
    ): "all placements that are given are of one node",
    (
        "preflight/launch/text/expansion.py",
        "number = self._number(inner[0], depth + 1, marks)",
        "0 becomes -1",
    ): "there is one, as the line above has asked",
    (
        "preflight/launch/rules/agreement.py",
        'and all(UNKNOWN not in options.get(option, "") for options in given)',
        "'' is spoilt",
    ): "what stands for an option that is absent is only looked through for the mark of the unknown",
}
SAME |= {
    (
        "preflight/judge/blame.py",
        'Edge(source=source, target=target, port=0, reason="local" if source == target else "no_echo")',
        f"0 becomes {port}",
    ): "such an edge stands for two figures that differ: nothing connects to its port"
    for port in (1, -1)
}
SAME[
    "preflight/judge/tables/faults.py",
    'kind: Callable[[T], str] = lambda _: "",',
    "'' is spoilt",
] = "what has no kinds is of one kind, whatever it is called"
LIMIT = 100
# How the names of numbers end that stand for something: one more is another thing, however large they are.
NUMBERS = (
    "PORT", "MTU", "UID", "CODE", "FAILED", "STOPPED", "SIGNALS", "SHELL", "HEADER", "LOOPBACK", "VERSION", "OF_SLURM",
    "MEMBER", "CONFIG", "FOR_LARGEST", "ROWS_REMAPPED", "SEGMENT_BYTES",
)  # fmt: skip
BOUND, BOUNDING = 16, ("_LIMIT", "_LIMIT_BYTES", "_COSTS")  # the least that is one, and how those are called
UNIT = 1e6  # a whole number of which one more is a change in the seventh digit
LETTERS = 40  # of a text, and more
SEVERAL, JOINING = 3, {"join", "joined"}  # names, and who makes a list of them
# Who takes English sentences, or what a sentence calls a fact, and at which places.
WORDS = {"said": (0,), "Cause": (1, 3), "present": (1,), "or_none": (1,), "FactMissing": (0, 1)}
SOURCES = {
    "Cause": 4,
    "Fault": 3,
}  # at which place they take where it was looked up: a reference that nothing judges by
# At which place they take a name for what they find, to find it once: any name of its own does.
NAMES = {"once": 0, "counted": 2, "of_the_others": 2, "wanted_here": 2, "others_have": 3, "one_of_the_others": 3}
TYPES = ("Callable", "Iterator", "Mapping", "Sequence", "dict", "list", "set", "tuple")
SENTENCE = "the English words of a sentence; tests ask for the values in it"
ENDINGS = ("s", "es")  # of a word behind a number
KEPT = {"cache", "lru_cache"}
EDGES = {("Lt", "LtE"), ("LtE", "Lt"), ("Gt", "GtE"), ("GtE", "Gt")}  # what takes a limit in, or leaves it out


def why_same(path: str, node: ast.AST, within: dict[ast.AST, ast.AST], line: str, words: str) -> str:
    """The reason for which no test is asked to notice a change; "" where one should."""
    if (path, line, words) in SAME:
        return SAME[path, line, words]
    above = within.get(node)
    if is_how_much_is_shown(node, within):
        return "how long a text or list is before it is cut: one letter or name more is as good"
    if isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value >= LIMIT:
        while isinstance(above, (ast.BinOp, ast.UnaryOp)):
            above = within[above]
        is_of_module = isinstance(above, (ast.Assign, ast.AnnAssign)) and isinstance(within[above], ast.Module)
        if is_of_module and not stands_for_something(line.partition(" ")[0], line):
            return "a limit of a hundred and more: one more is as good"
    if is_of_a_unit(node, above):
        return "a unit of a million and more: one more shows in no figure"
    if isinstance(node, ast.Constant) and bounds(node, within):
        return "what bounds depth, memory or work: a step more is as good"
    if isinstance(node, ast.Compare) and tuple(words.split(" becomes ")) in EDGES and is_of_a_limit(node, within):
        return "a limit of a hundred and more: one more is as good"
    if isinstance(node, ast.Constant) and is_shown(node, within, path):
        return SENTENCE
    if is_an_ending(node, within):
        return SENTENCE
    if is_of_a_cache(node, within):
        return "what is remembered of a call changes how long the next one takes alone"
    if isinstance(above, ast.Call) and isinstance(node, ast.Constant) and is_at(SOURCES, node, above):
        return "where a cause was looked up: a reference for people"
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        text = above if isinstance(above, ast.JoinedStr) else node
        if isinstance(within.get(text), ast.Call) and is_at(NAMES, text, within[text]):
            return "under which name a thing is found once: another is as good"
    if isinstance(node, ast.FunctionDef) and all(ast.unparse(one) == "cache" for one in node.decorator_list):
        return "what is kept for the next time changes how long it takes alone"
    if isinstance(node, ast.Assign) and is_type(node.value) and isinstance(above, ast.Module):
        return "a name for a type: annotations alone are made of it"
    if isinstance(above, ast.Call) and isinstance(node, ast.Constant):
        places = WORDS.get(getattr(above.func, "id", ""), ())
        if any(above.args[place : place + 1] == [node] for place in places):
            return SENTENCE
    if isinstance(node, ast.Constant) and path == "preflight/diagnose/cause.py":
        held = [one for one in ancestors(node, within) if isinstance(one, ast.Assign)]
        if held and getattr(held[0].targets[0], "id", "") == "COMMON":
            return "by which of its words a pattern is looked up changes how long it takes alone"
    return ""


def stands_for_something(name: str, line: str) -> bool:
    """Is a number no amount, but a port, a code or a mark, which is written with all its bits?"""
    return name.rstrip(":").endswith(NUMBERS) or "= 0x" in line


def is_of_a_unit(node: ast.AST, above: ast.AST | None) -> bool:
    """Is it the 1e9 of bytes in a gigabyte, which a measured figure is divided by or taken times?"""
    is_of_a_figure = isinstance(above, ast.BinOp) and isinstance(above.op, (ast.Mult, ast.Div))
    return is_of_a_figure and isinstance(node, ast.Constant) and isinstance(node.value, float) and node.value >= UNIT


def is_how_much_is_shown(node: ast.AST, within: dict[ast.AST, ast.AST]) -> bool:
    """Is it the end of a slice: of a text of many letters, or of several names that a sentence joins?"""
    above = within.get(node)
    if not isinstance(above, ast.Slice) or above.upper is not node or not isinstance(node, ast.Constant):
        return False
    inside = itertools.takewhile(lambda one: not isinstance(one, ast.stmt), ancestors(node, within))
    joins = any(
        isinstance(one, ast.Call) and getattr(one.func, "attr", getattr(one.func, "id", "")) in JOINING
        for one in inside
    )
    if not isinstance(node.value, int) or (node.value < LETTERS and not (joins and node.value >= SEVERAL)):
        return False
    return not is_counted_from(node, within)


def is_counted_from(node: ast.Constant, within: dict[ast.AST, ast.AST]) -> bool:
    """Is the same number taken from how many there are, to tell how many more there are than are shown?"""
    functions = [one for one in ancestors(node, within) if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return any(
        isinstance(one, ast.BinOp) and isinstance(one.op, ast.Sub) and getattr(one.right, "value", None) == node.value
        for function in functions[:1]
        for one in ast.walk(function)
    )


def is_an_ending(node: ast.AST, within: dict[ast.AST, ast.AST]) -> bool:
    """Is it the "s" of nodes in a sentence, or what asks whether there are several?"""
    if not isinstance(node, (ast.Constant, ast.Compare)):
        return False
    whole = next((one for one in ancestors(node, within)[:2] if isinstance(one, ast.BinOp)), None)
    is_ending = whole is not None and isinstance(whole.op, ast.Mult) and isinstance(whole.right, ast.Compare)
    if whole is None or not is_ending or getattr(whole.left, "value", "") not in ENDINGS:
        return False
    return node in (whole.left, whole.right) or within[node] is whole.right


def is_of_a_cache(node: ast.AST, within: dict[ast.AST, ast.AST]) -> bool:
    """Is it a function whose results are kept for the next call with the same arguments, or how many of them are kept?"""
    if isinstance(node, ast.Constant):
        calls = [one for one in ancestors(node, within)[:2] if isinstance(one, ast.Call)]
        return bool(calls) and is_a_cache(calls[0])
    return isinstance(node, ast.FunctionDef) and all(map(is_a_cache, node.decorator_list or [node]))


def is_a_cache(decorator: ast.AST) -> bool:
    """Is it one of functools that forgets nothing but time?"""
    named = decorator.func if isinstance(decorator, ast.Call) else decorator
    return getattr(named, "attr", getattr(named, "id", "")) in KEPT


def is_at(places: dict[str, int], node: ast.AST, call: ast.Call) -> bool:
    """Is it what one of these functions takes at its place?"""
    name = getattr(call.func, "id", getattr(call.func, "attr", ""))
    return name in places and call.args[places[name] : places[name] + 1] == [node]


def is_type(node: ast.AST) -> bool:
    """Is it made of types alone, as in `Row = Callable[[Case], Remedy]`?"""
    return isinstance(node, ast.Subscript) and getattr(node.value, "id", "") in TYPES


def is_of_a_limit(node: ast.Compare, within: dict[ast.AST, ast.AST]) -> bool:
    """Is a value compared with one number of a hundred and more, written there or named at the top of the module?"""
    (limit,) = node.comparators[:1]
    if isinstance(limit, ast.Name):
        if limit.id.endswith(NUMBERS):
            return False
        module = ancestors(node, within)[-1]
        assert isinstance(module, ast.Module)
        return named(limit.id, module) >= (BOUND if limit.id.endswith(BOUNDING) else LIMIT)
    return amount(limit) >= LIMIT


def named(name: str, module: ast.Module) -> float:
    """The number that a name at the top of a module stands for, or of the module of ours that it comes from."""
    for one in module.body:
        if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == name:
            return amount(one.value)
        if isinstance(one, ast.ImportFrom) and one.module and name in [alias.name for alias in one.names]:
            file = ROOT / f"{one.module.replace('.', '/')}.py"
            return named(name, ast.parse(file.read_text(encoding="utf-8"))) if file.exists() else 0
    return 0


def bounds(node: ast.Constant, within: dict[ast.AST, ast.AST]) -> bool:
    """Is it the number of a LIMIT at the top of a module, or one of those that it is made of?"""
    above = within.get(node)
    while isinstance(above, ast.BinOp):
        above = within[above]
    if not isinstance(above, ast.Assign) or not isinstance(within[above], ast.Module):
        return False
    return ast.unparse(above.targets[0]).endswith(BOUNDING) and amount(above.value) >= BOUND


def amount(node: ast.AST) -> float:
    """The number that is written there, as a product too; 0 where there is none."""
    try:
        held = eval(compile(ast.Expression(node), "", "eval"), {"__builtins__": {}})
    except (NameError, TypeError, ValueError):
        return 0
    return held if isinstance(held, (int, float)) else 0


def is_shown(node: ast.Constant, within: dict[ast.AST, ast.AST], path: str) -> bool:
    """Is it a text, or a part of one, that people read as a sentence, as the catalogue of translations takes it?"""
    above = within.get(node)
    text = above if isinstance(above, ast.JoinedStr) else node
    msgid = " ".join(catalogue.template_of(text).split())
    return isinstance(node.value, str) and (msgid, text.lineno) in sentences_of(path)


@cache
def sentences_of(path: str) -> frozenset[tuple[str, int]]:
    """The sentences of a file of ours, each with its line."""
    return frozenset(catalogue.spoken((ROOT / path).read_text(encoding="utf-8"), path))


def ancestors(node: ast.AST, within: dict[ast.AST, ast.AST]) -> list[ast.AST]:
    """What a node is in, from the inside out."""
    found = []
    while node in within:
        node = within[node]
        found.append(node)
    return found
