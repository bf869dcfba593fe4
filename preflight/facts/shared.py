"""How is one value held once, however many nodes say it?

Nodes of a cluster are alike: nearly everything that thousands of them report is the same on all. What is equal in their
facts is one object, from whole subjects down to single texts, so that a further node costs what is its own.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from msgspec.structs import force_setattr

from preflight.facts.value import Missing

T = TypeVar("T")
PLAIN = frozenset({int, float, bool, type(None)})  # no larger than what would point to them
ATOMS = frozenset({str, Missing})  # made of texts alone, so that equal ones are of the same types throughout
FEW_NODES = 100  # whose facts take 20 MB: to look for what is the same would take longer than all else with them
MANY, RARE = 64, 16  # where of so many values not one in sixteen was seen before, no further one is looked for


def among(nodes: int) -> Shared | None:
    """What so many nodes share; nothing where they are few."""
    return Shared() if nodes > FEW_NODES else None


class Shared:
    """The values that were seen so far; it lives as long as a run collects facts."""

    def __init__(self) -> None:
        self._atoms: dict[Any, Any] = {}
        # By a hash of type and encoded value: to keep that as the key would take as much room as the value.
        self._wholes: dict[int, Any] = {}
        self._odds: dict[Any, list[int]] = {}  # how many values were looked for, and found, by their kind
        self._fields: dict[type, tuple[tuple[str, str], ...]] = {}
        self._encode = msgspec.msgpack.Encoder().encode  # which tells 1 from 1.0 and from True

    def same(self, value: T) -> T:
        """An equal value that was seen before, of the same types throughout; else this one, its parts shared.

        The value must be its giver's own and freshly made: a part of it that was seen before is replaced in it. What
        each node has of its own, as a GPU with its serial number, is soon not looked for any more: only its parts are.
        """
        return self._same(value, "")  # type: ignore[no-any-return]

    def _same(self, value: Any, place: str) -> Any:
        kind = type(value)
        if kind in ATOMS:
            return self._atoms.setdefault(value, value)
        if not isinstance(value, (msgspec.Struct, tuple, dict)):
            return value
        odds = self._odds.setdefault(place if kind in (tuple, dict) else kind, [0, 0])
        if odds[0] > MANY and odds[1] * RARE < odds[0]:
            return self._with_shared_parts(value, place)
        odds[0] += 1
        key = hash((kind, self._encode(value)))
        held = self._wholes.get(key)
        if held is None:
            made = self._wholes[key] = self._with_shared_parts(value, place)
            return made
        odds[1] += 1
        return held if held == value else value

    def _with_shared_parts(self, value: Any, place: str) -> Any:
        kind = type(value)
        if isinstance(value, tuple):  # a named one too
            return tuple.__new__(kind, [self._same(part, place) for part in value])
        if isinstance(value, dict):
            return {self._same(key, place): self._same(inner, place) for key, inner in value.items()}
        for name, within in self._fields.get(kind) or self._fields_of(kind):
            held = getattr(value, name)
            kind = type(held)
            # Most facts are one of these; a call for each of them would take half of the time.
            if kind in PLAIN or held == ():
                continue
            part = self._atoms.setdefault(held, held) if kind in ATOMS else self._same(held, within)
            if part is not held:
                force_setattr(value, name, part)
        return value

    def _fields_of(self, kind: type[msgspec.Struct]) -> tuple[tuple[str, str], ...]:
        made = self._fields[kind] = tuple((name, f"{kind.__name__}.{name}") for name in kind.__struct_fields__)
        return made
