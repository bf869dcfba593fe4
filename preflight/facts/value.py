"""How does a fact cross the wire, and how does one that could not be had?"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec

from preflight.said import said
from preflight.said.errors import FactMissing, MissingKind

T = TypeVar("T")
Text = Annotated[str, msgspec.Meta(max_length=4096)]
# Names that programs get as arguments: they must not look like options.
Device = Annotated[str, msgspec.Meta(max_length=4096, pattern=r"\A(?!-)")]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e10)]
Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]
ZONE = re.compile(r"[\w.:@-]+")  # what may stand behind the % of a link-local address: a usual interface's name


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The base of everything a node may send: frozen, and an unknown key is an error."""

    if not TYPE_CHECKING:  # else every misspelt name would have a type

        def __getattr__(self, name: str) -> Any:
            """Only asked for what is not there: a check that misspells a fact reads which ones there are."""
            raise AttributeError(no_such_fact(type(self), name))


class Missing(Value, frozen=True):
    """A fact that could not be had: in the place of the value, with the reason."""

    missing: Text
    kind: MissingKind = "failed"


NOT_REPORTED = Missing("not reported", "absent")


def must_be_addresses(*texts: str) -> None:
    """Raise ValueError for a text that is not an IP address.

    Peers are sent there, lines to type hold it, and whoever parses it would be the one to fail.
    """
    for text in texts:
        if not _is_address(text):
            raise ValueError(said("{ascii} is not an IP address", ascii(text)[:80]))


@lru_cache(maxsize=1 << 16)
def _is_address(text: str) -> bool:
    address, percent, zone = text.partition("%")
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return False
    return not percent or ZONE.fullmatch(zone) is not None


def no_such_fact(kind: type, name: str) -> str:
    """What to say of a fact that a kind of facts does not have: the names that share a word with it, else all."""
    names = sorted(known for known in {*dir(kind), *kind.__annotations__} if not known.startswith("_"))
    near = _near(name, names) or names
    return said("{name} has no fact {name2!r}; it has {near}", kind.__name__, name, ", ".join(near))


def _near(name: str, names: Iterable[str]) -> list[str]:
    words = {word for word in name.split("_") if len(word) > 2} - {"bytes", "seconds"}
    sharing = [known for known in names if words & set(known.split("_"))]
    import difflib  # 15 ms, for a message that is rarely needed

    return sharing or difflib.get_close_matches(name, names)


def present(value: T | Missing, fact: str) -> T:
    """The value itself, or FactMissing with the reason: a fact we lack is never None, 0 or the empty string."""
    if type(value) is Missing:  # isinstance asks the metaclass of msgspec, half a million times for 1,000 nodes
        raise FactMissing(fact, value.missing, value.kind)
    return value  # type: ignore[return-value]


def or_none(value: Text | Missing, fact: str) -> str:
    """The value, "none" where the thing is known to be absent, FactMissing where that is not known."""
    if isinstance(value, Missing) and value.kind == "absent":
        return "none"
    return present(value, fact)
