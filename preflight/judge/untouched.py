"""Did code that a run executes change code or tables of preflight while it was under way?

A verdict is as good as the code that gives it. A conftest runs in the same process and can exchange a function of ours,
or a row of a table. That is found out, unless this module is exchanged too.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

PACKAGE = "preflight"
CONTAINERS = (dict, list, tuple, set, frozenset)
Parts = dict[Any, object]  # name or place within an object -> what stands there


class Picture:
    """What the modules of preflight that are loaded hold at this moment."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[str, object, Parts]] = {}  # by id; what is kept here keeps its id
        todo: list[tuple[str, object]] = [(name, module) for name, module in _modules()]
        while todo:
            place, value = todo.pop()
            if isinstance(value, (type, FunctionType)):
                place = f"{value.__module__}.{value.__qualname__}"
            if id(value) not in self._held and _is_ours(value):
                parts = _parts(value)
                self._held[id(value)] = (place, value, parts)
                todo += [(f"{place}.{name}", part) for name, part in parts.items()]

    def changed(self) -> str:
        """The first place that does not hold what it held, as a dotted name; "" where all is as it was."""
        for place, value, parts in self._held.values():
            now = _parts(value)
            for name in parts.keys() | (() if isinstance(value, ModuleType) else now.keys()):
                if name not in now or name not in parts or now[name] is not parts[name]:
                    return place if isinstance(value, CONTAINERS) else f"{place}.{name}"
        modules = dict(_modules())
        for place, value, _ in self._held.values():
            if isinstance(value, ModuleType) and modules.get(value.__name__) is not value:
                return place
        return ""


def _modules() -> Iterator[tuple[str, ModuleType]]:
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == PACKAGE and isinstance(module, ModuleType):
            yield name, module


def _is_ours(value: object) -> bool:
    """Whether an object can be changed, and is made of what we wrote."""
    if isinstance(value, ModuleType):
        return value.__name__.partition(".")[0] == PACKAGE
    if isinstance(value, (type, FunctionType)):
        return str(value.__module__).partition(".")[0] == PACKAGE
    return isinstance(value, (*CONTAINERS, staticmethod, classmethod, property, enum.Enum))


def _parts(value: Any) -> Parts:
    if isinstance(value, FunctionType):
        return {"__code__": value.__code__, "__defaults__": value.__defaults__, **(value.__kwdefaults__ or {})}
    if isinstance(value, (staticmethod, classmethod)):
        return {"__func__": value.__func__}
    if isinstance(value, property):
        return {"fget": value.fget, "fset": value.fset}
    if isinstance(value, enum.Enum):
        return {"value": value._value_}
    if isinstance(value, ModuleType):
        return {name: held for name, held in vars(value).items() if not name.startswith("__")}
    if isinstance(value, type):
        return {name: held for name, held in vars(value).items() if _is_written(name, held)}
    if isinstance(value, dict):
        return dict(enumerate((*value.keys(), *value.values())))
    return dict(enumerate(value)) if isinstance(value, CONTAINERS) else {}


def _is_written(name: str, held: object) -> bool:
    """Whether a class has this by what we wrote: typing and abc keep notes of their own in classes."""
    if name.startswith("__") and name.endswith("__"):
        return isinstance(held, FunctionType) and held.__module__ != "typing"
    return not name.startswith("_abc_")
