"""How is one value held once, however many nodes say it?

Nodes of a cluster are alike: of what thousands of them tell, nearly everything is told by all. What is equal in their
facts is one object, from whole subjects down to single texts, so that a further node costs what is its own.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from msgspec.structs import force_setattr

T = TypeVar("T")
PLAIN = frozenset({int, float, bool, type(None)})  # no larger than what would point to them


class Shared:
    """The values that were seen so far; it lives as long as a run collects facts."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        # By a hash of type and encoded value: to keep that as the key would take as much room as the value.
        self._wholes: dict[int, Any] = {}
        self._encode = msgspec.msgpack.Encoder().encode  # which tells 1 from 1.0 and from True

    def same(self, value: T) -> T:
        """An equal value that was seen before, of the same types throughout; else this one, its parts shared.

        The value must be its giver's own and freshly made: a part of it that was seen before is replaced in it.
        """
        kind = type(value)
        if isinstance(value, str):
            return self._texts.setdefault(value, value)  # type: ignore[return-value]
        if not isinstance(value, (msgspec.Struct, tuple, dict)):
            return value
        key = hash((kind, self._encode(value)))
        held = self._wholes.get(key)
        if held is None:
            made: T = self._with_shared_parts(value)
            self._wholes[key] = made
            return made
        return held if held == value else value

    def _with_shared_parts(self, value: Any) -> Any:
        if isinstance(value, tuple):  # a named one too
            return tuple.__new__(type(value), map(self.same, value))
        if isinstance(value, dict):
            return {self.same(key): self.same(inner) for key, inner in value.items()}
        for name in value.__struct_fields__:
            held = getattr(value, name)
            kind = type(held)
            if kind in PLAIN:  # most facts; a call for each of them would take half of the time
                continue
            part = self._texts.setdefault(held, held) if kind is str else self.same(held)
            if part is not held:
                force_setattr(value, name, part)
        return value
