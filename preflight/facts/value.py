"""How does a fact cross the wire, and how does one that could not be had?"""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec

from preflight.errors import FactMissing, MissingKind

T = TypeVar("T")
Text = Annotated[str, msgspec.Meta(max_length=4096)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The base of everything a node may send: frozen, and an unknown key is an error."""


class Missing(Value, frozen=True):
    """A fact that could not be had: in the place of the value, with the reason."""

    missing: Text
    kind: MissingKind = "failed"


def present(value: T | Missing, fact: str) -> T:
    """The value itself, or FactMissing with the reason: a fact we lack is never None, 0 or the empty string."""
    if isinstance(value, Missing):
        raise FactMissing(fact, value.missing, value.kind)
    return value


def or_none(value: Text | Missing, fact: str) -> str:
    """The value, "none" where the thing is known to be absent, FactMissing where nobody could tell."""
    if isinstance(value, Missing) and value.kind == "absent":
        return "none"
    return present(value, fact)
