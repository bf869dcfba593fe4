"""Which changes of the code are nobody's to notice, and why not?

A change is left out of a sample, with its reason, after the sample was drawn: a new reason does not draw another sample.
"""

from __future__ import annotations

import ast

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
LIMIT = 100
WORDS = {"said": (0,), "Cause": (1, 3)}  # who takes English sentences, and at which places


def why_same(path: str, node: ast.AST, within: dict[ast.AST, ast.AST], line: str, words: str) -> str:
    """The reason for which no test is asked to notice a change; "" where one should."""
    if (path, line, words) in SAME:
        return SAME[path, line, words]
    above = within.get(node)
    if isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value >= LIMIT:
        if isinstance(above, ast.Slice):
            return "how long a text is before it is cut: one letter more is as good"
        while isinstance(above, (ast.BinOp, ast.UnaryOp)):
            above = within[above]
        if isinstance(above, (ast.Assign, ast.AnnAssign)) and isinstance(within[above], ast.Module):
            return "a limit of a hundred and more: one more is as good"
    if isinstance(above, ast.Call) and getattr(above.func, "id", "") == "Cause" and above.args[4:5] == [node]:
        return "where a cause was looked up: a reference for people"
    if isinstance(above, ast.Call) and isinstance(node, ast.Constant):
        places = WORDS.get(getattr(above.func, "id", ""), ())
        if any(above.args[place : place + 1] == [node] for place in places):
            return "the English words of a sentence; tests ask for the values in it"
    if isinstance(node, ast.Constant) and path == "preflight/diagnose/cause.py":
        held = [one for one in ancestors(node, within) if isinstance(one, ast.Assign)]
        if held and getattr(held[0].targets[0], "id", "") == "COMMON":
            return "by which of its words a pattern is looked up changes how long it takes alone"
    return ""


def ancestors(node: ast.AST, within: dict[ast.AST, ast.AST]) -> list[ast.AST]:
    """What a node is in, from the inside out."""
    found = []
    while node in within:
        node = within[node]
        found.append(node)
    return found
