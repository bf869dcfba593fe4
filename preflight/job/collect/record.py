"""What is the raw material of every node's facts?"""

from __future__ import annotations

import asyncio
import re
from typing import Annotated

import msgspec

from preflight.knowledge import sysctls
from preflight.reach.session import replies
from preflight.reach.session.connection import Session
from preflight.said import said
from preflight.said.errors import BadReply, HostError

SECONDS = 60.0
# Nodes choose these names: none may lead out of the folder to which they are written.
PLACE = re.compile(r"(?!.*(^|/)\.\.?(/|$))[^/\0\n][^\0\n]{0,400}")


class Entry(replies.Message, frozen=True):
    """A file, a folder or a symbolic link of a node, by its path from the root."""

    path: Annotated[str, msgspec.Meta(max_length=400)]
    text: Annotated[str, msgspec.Meta(max_length=16 << 20)] | None = None
    base64: Annotated[str, msgspec.Meta(max_length=16 << 20)] | None = None
    link: Annotated[str, msgspec.Meta(max_length=400)] | None = None
    folder: bool = False

    def __post_init__(self) -> None:
        if not PLACE.fullmatch(self.path):
            raise ValueError(said("not a path from the root: {path!r}", self.path[:80]))


class Entries(replies.Message, frozen=True):
    """A batch of entries."""

    files: Annotated[tuple[Entry, ...], msgspec.Meta(max_length=256)]


async def collect(sessions: dict[str, Session], *, key: str) -> tuple[dict[str, list[Entry]], dict[str, str]]:
    """Node -> what it read for its facts, and node -> why that could not be had.

    ``key`` (hexadecimal) makes what is scrubbed the same on all nodes.
    """
    recorded: dict[str, list[Entry]] = {}
    failed: dict[str, str] = {}
    arguments = {"environment": [], "sysfs": "/sys", "proc": "/proc", "key": key, "sysctls": list(sysctls.NAMES)}

    async def ask(name: str) -> None:
        entries: list[Entry] = []
        try:
            call = await sessions[name].start("record", arguments, seconds=SECONDS)
            async for event in call.events():
                entries += replies.read(name, Entries, event, "files").files
            recorded[name] = entries
        except (HostError, BadReply) as error:
            failed[name] = error.reason

    await asyncio.gather(*(ask(name) for name in sessions))
    return recorded, failed
