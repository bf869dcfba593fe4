"""Does a message of a node have the required type?

Every message of a node is decoded here, against a type, before anything is done with it. What does not fit is that
node's BadReply, never another exception at the caller.
"""

from __future__ import annotations

import ipaddress
from typing import Annotated, Any, Literal

import msgspec

from preflight.said import said
from preflight.said.errors import BadReply

Word = Annotated[str, msgspec.Meta(max_length=200)]
Line = Annotated[str, msgspec.Meta(max_length=4096)]
Seconds = Annotated[float, msgspec.Meta(ge=-1e12, le=1e12)]  # since 1970: finite, and a date that calendars have
Port = Annotated[int, msgspec.Meta(ge=1024, le=65535)]  # a kernel that picks the port never picks a privileged one
AnyPort = Annotated[int, msgspec.Meta(ge=1, le=65535)]
Bytes = Annotated[int, msgspec.Meta(ge=0, le=2**62)]


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of every message of a node: frozen, and without unknown fields."""


class Greeting(Message, frozen=True):
    """What the node agent reports about its interpreter once it has started."""

    python: Word
    magic: Word
    suffix: Word
    machine: Word
    lacks: Annotated[tuple[Word, ...], msgspec.Meta(max_length=16)]
    reached: Annotated[tuple[Word, ...], msgspec.Meta(max_length=1)]
    pid: Annotated[int, msgspec.Meta(ge=1, le=2**31)]

    @property
    def address(self) -> str:
        """The address of the node by which we reached it, "" where it is unknown or is none."""
        for text in self.reached:
            try:
                return str(ipaddress.ip_address(text))
            except ValueError:
                return ""
        return ""


class Start(Message, frozen=True):
    """The first message of a node: its agent's greeting, or what a Python of another version wants."""

    hello: Greeting | None = None
    wants: Literal["text", ""] = ""

    def __post_init__(self) -> None:
        if (self.hello is None) != bool(self.wants):
            raise ValueError("wanted one of hello and wants")


class Opened(Message, frozen=True):
    """The node's lock is ours, or another run's."""

    opened: Word = ""
    busy: Word = ""  # the run that holds the node
    removed: Annotated[tuple[Word, ...], msgspec.Meta(max_length=64)] = ()  # what killed runs of ours had left
    others: Annotated[tuple[Word, ...], msgspec.Meta(max_length=64)] = ()  # users whose runs measure there too

    def __post_init__(self) -> None:
        if bool(self.opened) == bool(self.busy):
            raise ValueError("wanted one of opened and busy")


class Pong(Message, frozen=True):
    """The node's clock."""

    pong: int
    time: Seconds


class End(Message, frozen=True):
    """The node agent's last words."""

    reason: Line
    residue: Annotated[tuple[Line, ...], msgspec.Meta(max_length=1024)]


class Reply(Message, frozen=True):
    """A message of a call: one of its events, or its end, which is a result or an error."""

    call: Annotated[int, msgspec.Meta(ge=1, le=2**62)]
    event: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    error: str | None = None

    def __post_init__(self) -> None:
        if sum(part is not None for part in (self.event, self.result, self.error)) != 1:
            raise ValueError("wanted one of event, result and error")


def read(host: str, kind: Any, value: Any, what: str) -> Any:
    """`value` as `kind`, a type that msgspec knows; BadReply of the host where it does not fit."""
    try:
        return msgspec.convert(value, kind, strict=True)
    except (msgspec.ValidationError, ValueError, OverflowError, RecursionError) as error:
        raise BadReply(host, said("{what}: {error}", what, str(error)[:200])) from None


def listening(host: str, value: Any, *, asked: str, asked_port: int = 0) -> tuple[str, int]:
    """Where a node listens: the address that it was told to listen on and no other, or it would aim its peers there.

    The same for the port, where it was given one.
    """
    kind: Any = tuple[Word, AnyPort] if asked_port else tuple[Word, Port]
    address, port = read(host, kind, value, "where it listens")
    if address != asked or asked_port not in (0, port):
        raise BadReply(
            host,
            said(
                "it was told to listen on {asked} port {asked_port}, and says {address!r} port {port}",
                asked,
                asked_port,
                address,
                port,
            ),
        )
    return asked, port
