"""Which checks exist in the folders and files given, and why was one of them not collected?

pytest leaves no trace of what --ignore, a conftest or a skipped module keeps from being collected. The files are read
without importing them, so that no check can be lost without being counted.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path

from preflight.said import said

# Where pytest does not look either; a site's own norecursedirs is not read, since it may hide checks.
PASSED_OVER = (".*", "__pycache__", "*.egg", "_darcs", "CVS", "build", "dist", "node_modules", "venv", "{arch}")
FILES = ("test_*.py", "*_test.py")
FUNCTIONS = "test"


def checks_folder() -> Path:
    """The checks that come with preflight: inside the package in a wheel, beside it in a checkout."""
    package = Path(__file__).parents[2]
    inside = package / "checks"
    return inside if inside.is_dir() else package.parent / "checks"


def check_id(path: Path, function: str) -> str:
    """A check's id: its file and function without ``test_``."""
    return f"{path.stem.removeprefix('test_')}.{function.removeprefix('test_')}"


def existing(arguments: Iterable[str], folder: Path) -> dict[str, Path]:
    """Check id -> its file, of the arguments of pytest (folders, files, file::function) as given in `folder`."""
    found: dict[str, Path] = {}
    for argument in arguments:
        written, _, wanted = argument.partition("::")
        name = wanted.partition("[")[0]
        for path in _files(folder / written):
            found.update(
                (check_id(path, function), path) for function in _functions(path) if not name or function == name
            )
    return found


def hidden(arguments: Iterable[str], folder: Path) -> dict[str, str]:
    """Check id -> the later function of the same name, in the files given, that pytest would run in its place."""
    found: dict[str, str] = {}
    for path in sorted({path for argument in arguments for path in _files(folder / argument.partition("::")[0])}):
        seen: set[str] = set()
        for statement in _statements(path):
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)) and statement.name.startswith(FUNCTIONS):
                if statement.name in seen:
                    found[check_id(path, statement.name)] = said(
                        "{name}::{name2} of line {lineno}", path.name, statement.name, statement.lineno
                    )
                seen.add(statement.name)
    return found


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
    elif path.is_dir():
        for inner in sorted(path.iterdir()):
            if inner.is_dir() and not any(fnmatch(inner.name, pattern) for pattern in PASSED_OVER):
                yield from _files(inner)
            elif inner.is_file() and any(fnmatch(inner.name, pattern) for pattern in FILES):
                yield inner


def _functions(path: Path) -> Iterator[str]:
    """The checks of a file."""
    yield from _defined(_statements(path))


def _statements(path: Path) -> list[ast.stmt]:
    """What a file is made of; of one that cannot be read pytest has more to say."""
    try:
        return ast.parse(path.read_bytes()).body
    except (OSError, SyntaxError, ValueError, RecursionError):
        return []


def _defined(body: Iterable[ast.stmt]) -> Iterator[str]:
    for statement in body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if statement.name.startswith(FUNCTIONS):
                yield statement.name
        elif isinstance(statement, (ast.If, ast.Try, ast.With, ast.For, ast.While)):
            for part in ("body", "orelse", "finalbody"):
                yield from _defined(getattr(statement, part, ()))
            for handler in getattr(statement, "handlers", ()):
                yield from _defined(handler.body)


def deselected_by(option: argparse.Namespace) -> str:
    """Which of pytest's options left a check out that it had collected."""
    given = {
        "-k": option.keyword,
        "-m": option.markexpr,
        "--deselect": option.deselect,
        "--lf": getattr(option, "lf", False),
    }
    return " or ".join(name for name, value in given.items() if value) or "left out by a plugin or conftest"


def why_not_collected(path: Path, skipped: Mapping[Path, str], option: argparse.Namespace, folder: Path) -> str:
    """Why the checks of a file were not collected, as far as pytest says it; `skipped` holds files and folders."""
    for place in (path, *path.parents):
        if place in skipped:
            return skipped[place]
    if any(path.is_relative_to((folder / ignored).resolve()) for ignored in option.ignore or ()):
        return "--ignore"
    if any(fnmatch(str(path), str(folder / pattern)) for pattern in option.ignore_glob or ()):
        return "--ignore-glob"
    return "--lf" if getattr(option, "lf", False) else "not collected"
