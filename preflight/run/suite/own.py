"""Is a check of ours the one in its file, whatever a conftest or a plugin made of what pytest collected?

What is judged is loaded from the file anew, so that nothing that was put in its place counts. That something was is an
error all the same: who did it meant to change a verdict.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FunctionType, MappingProxyType
from typing import TYPE_CHECKING, Any

from preflight.judge.check import Check
from preflight.run.suite.existing import FUNCTIONS, check_id, checks_folder
from preflight.run.suite.items import check_of_function
from preflight.said import said

if TYPE_CHECKING:
    import pytest

MARKS = ("advisory", "needs")  # those that change a verdict
REPLACED_FIX = "find the conftest.py or plugin that changes checks of preflight; `--noconftest` leaves out the first"


class OwnChecks:
    """The checks that come with preflight, as their files say."""

    def __init__(self) -> None:
        self.folder = checks_folder().resolve()
        self._files: dict[Path, Mapping[str, FunctionType]] = {}

    def load(self) -> None:
        """Read every file, before code of others runs."""
        for path in sorted(self.folder.glob("test_*.py")):
            self._of_file(path)

    def is_one(self, item: pytest.Item) -> bool:
        """Whether an item is of a file of ours."""
        return item.path.resolve().is_relative_to(self.folder)

    def check(self, item: pytest.Item) -> Check | None:
        """The check of this id in the file; None where the file has none, or is not ours."""
        if not self.is_one(item):
            return None
        path = item.path.resolve()
        function = self._of_file(path).get(item.name)
        return function and check_of_function(check_id(path, item.name), function)

    def why_replaced(self, item: pytest.Function) -> str:
        """What of an item is not as its file says; "" where all is, or the file is not ours."""
        if not self.is_one(item):
            return ""
        path = item.path.resolve()
        function = self._of_file(path).get(item.name)
        if function is None or _place(item.obj) != _place(function):
            return said("the check was replaced: what would run is not {name} of {name2}", item.name, path.name)
        asked = {(mark.name, mark.args) for mark in item.iter_markers() if mark.name in MARKS}
        written = {(mark.name, mark.args) for mark in marks_of(function) if mark.name in MARKS}
        changed = " and ".join(sorted({name for name, _ in asked ^ written}))
        return (
            said("the check was replaced: its marks ({changed}) are not those of {name}", changed, path.name)
            if changed
            else ""
        )

    def _of_file(self, path: Path) -> Mapping[str, FunctionType]:
        if path not in self._files:
            spec = importlib.util.spec_from_file_location(f"preflight_own_{path.stem}", path)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            named = {name: held for name, held in vars(module).items() if name.startswith(FUNCTIONS)}
            self._files[path] = MappingProxyType(named)
        return self._files[path]


def marks_of(function: Callable[..., Any]) -> list[pytest.Mark]:
    """The marks that stand above a function."""
    return list(getattr(function, "pytestmark", ()))


def _place(function: object) -> tuple[str, int, str]:
    """Where the code of a function stands, which pytest's rewriting of asserts leaves as it is."""
    code = getattr(function, "__code__", None)
    return (os.path.realpath(code.co_filename), code.co_firstlineno, code.co_name) if code else ("", 0, "")
