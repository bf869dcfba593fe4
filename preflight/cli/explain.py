"""What does a check ask, why, and how is it fixed?"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator
from pathlib import Path

from preflight.errors import UsageError
from preflight.plugin import checks_folder


def explain(wanted: str) -> int:
    """The docstrings of the checks whose id holds `wanted`; a list of all without one."""
    found = sorted(check for check in check_texts(checks_folder()) if wanted in check[0])
    if not found:
        raise UsageError(f"explain: no check is called {wanted!r}; preflight explain lists them")
    for name, verdict, text in found:
        if wanted:
            print(f"{name} ({verdict} where it does not hold)\n\n{textwrap.indent(text, '  ')}\n")
        else:
            print(f"{name}\n    {text.splitlines()[0]}")
    return 0


def check_texts(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Id, the verdict where it does not hold, and docstring of every check in a folder, without running anything."""
    for path in sorted(folder.glob("test_*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                text = ast.get_docstring(node) or ""
                marks = {mark.attr for mark in node.decorator_list if isinstance(mark, ast.Attribute)}
                name = f"{path.stem.removeprefix('test_')}.{node.name.removeprefix('test_')}"
                yield name, "warn" if "advisory" in marks else "fail", text
