"""Is each cause that the code speaks of by its name one that there is? A name that none has would never be met."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from preflight.diagnose.causes import CAUSES
from tests.house import ROOT

# Those that are made of what a log says, and stand in no table.
MADE = {"program-error", "failure-not-explained"}
NAMES = {cause.name for cause in CAUSES} | MADE
FILES = sorted((ROOT / "preflight" / "diagnose").glob("**/*.py"))


def texts(node: ast.AST) -> list[str]:
    """The texts that a literal lists, a table as its keys."""
    listed = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", [node])
    return [one.value for one in listed if isinstance(one, ast.Constant) and isinstance(one.value, str)]


def named(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and text of what is compared with the name of a cause, or stands among names of causes."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Tuple, ast.Set, ast.List, ast.Dict)):
            found = texts(node)
            if len(found) > 1 and 2 * sum(text in NAMES for text in found) >= len(found):
                yield from ((node.lineno, text) for text in found)
        elif isinstance(node, ast.Compare) and ast.unparse(node.left).endswith("cause.name"):
            yield from ((node.lineno, text) for one in node.comparators for text in texts(one))


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT / "preflight" / "diagnose")))
def test_names_of_causes_are_those_of_the_tables(file: Path):
    """In sets and tables of names, and wherever the name of a cause is compared."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    assert [(line, text) for line, text in named(tree) if text not in NAMES] == []


def test_most_names_are_found():
    """The code speaks of many of them: a walk that finds none would pass as well."""
    every = {text for file in FILES for _, text in named(ast.parse(file.read_text(encoding="utf-8")))}
    assert len(every & NAMES) > 60
