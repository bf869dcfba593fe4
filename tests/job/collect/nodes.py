"""Nodes that answer what they are asked by a script, and note how: until when, with what, in which order."""

from __future__ import annotations

import asyncio
import re
import time
from types import SimpleNamespace
from typing import Any

from preflight.reach.session import replies
from preflight.said.errors import HostError

LOST = HostError("n", "went away")
# What one is asked that differs from run to run.
SECRET = ("key", "token", "run", "interpreter", "sysctls", "port", "about", "hook", "folders", "text", "processes")
RUNS = re.compile(rb"from (preflight\.job\.ranks\.\S+) import main")


class Call:
    """A call that answers as its script says; what it is sent, and until when, is noted."""

    def __init__(self, node: Node, script: list[Any]) -> None:
        object.__setattr__(self, "node", node)
        object.__setattr__(self, "script", list(script))
        object.__setattr__(self, "deadline", time.monotonic())

    def __setattr__(self, name: str, value: float) -> None:
        object.__setattr__(self, name, value)
        self.node.note(f"until +{2 * round((value - time.monotonic()) / 2)}")

    def next(self) -> Any:
        """The next thing that the node says; an error is raised."""
        said = self.script.pop(0)
        if isinstance(said, HostError):
            raise said
        return said

    async def first(self, key: str, kind: Any) -> Any:
        """The value of the next event."""
        await asyncio.sleep(0)
        self.node.note(f"waits for {key}")
        return replies.read("n", kind, self.next(), key)

    async def end(self, kind: Any) -> Any:
        """The result."""
        await asyncio.sleep(0)
        return replies.read("n", kind, self.next(), "result")

    async def events(self) -> Any:
        """Everything that it says, and when: a number are seconds that pass."""
        while self.script:
            said = self.next()
            if isinstance(said, float):
                await asyncio.sleep(said)
            else:
                yield said

    async def send(self, message: dict[str, Any]) -> None:
        """Told something."""
        self.node.note(f"sent {shown(message)}")

    async def cancel(self) -> None:
        """Nobody waits any more."""
        self.node.note("cancelled")


class Node:
    """A session to a node that answers each call by a script."""

    failure = ""
    clock = (0.25, 0.125)
    hello = None

    def __init__(self, name: str, **scripts: list[Any]) -> None:
        self.host = SimpleNamespace(name=name, address=f"at-{name}", slots=2, engine={})
        self.scripts = scripts
        self.told: list[str] = []

    def note(self, line: str) -> None:
        """What it was asked or told."""
        self.told.append(line)

    async def look_at_clock(self) -> tuple[float, float]:
        """How far its clock is off."""
        return 0.5, 0.0625

    async def start(self, name: str, arguments: dict[str, Any], *, seconds: float, blob: bytes = b"") -> Call:
        """A call begins, with the code that it is to run."""
        await asyncio.sleep(0)
        code = f" runs {RUNS.findall(blob)}" if blob else ""
        self.note(f"{name} within {seconds:g} s{code}: {shown(arguments)}")
        script = self.scripts.get(name, [LOST])
        if script and script[0] is LOST:
            raise LOST
        return Call(self, script)


def shown(arguments: Any) -> str:
    """What is asked, without what is another one in each run."""
    if isinstance(arguments, dict):
        held = (f"{key}: {'*' if key in SECRET else shown(value)}" for key, value in arguments.items())
        return f"{{{', '.join(held)}}}"
    if isinstance(arguments, list | tuple):
        return f"[{', '.join(map(shown, arguments))}]"
    if isinstance(arguments, float):
        return f"{arguments:.0f}"
    return "*" if isinstance(arguments, str) and len(arguments) == 32 else repr(arguments)
