"""How is a task of a command a line like that of any node, and which of the command's messages are about it?"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import re
import socket
from collections.abc import Callable
from typing import Protocol

from preflight.said import said

LAST_WORDS_SECONDS = 3.0  # slurmctld tells srun of a limit or a lost node a moment after the task's end
SILENT_SECONDS = 15.0  # a node that acknowledges nothing for so long is lost: we send something every two
READ_BYTES = 1 << 18
NOISE = re.compile(r"srun: cluster configuration lacks support for cpu binding")
OF_TASKS = re.compile(r"srun: error: \S+: tasks? ([\d,-]+): ")
OF_THE_STEP = re.compile(r"slurmstepd\S*: error: \*\*\* (?:STEP|JOB) ")


class Command(Protocol):
    """The command that started the task, and others with it."""

    @property
    def stderr(self) -> bytes: ...  # noqa: D102
    async def has_printed(self, enough: Callable[[], bool]) -> None: ...  # noqa: D102


class TaskLine:
    """A task that connected to us, as the line of a session."""

    def __init__(
        self, command: Command, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.command = command
        self.number = number
        self.reader = reader
        self.writer = writer
        self.flood = ""  # why it was cut here
        self._gone = asyncio.Event()

    @property
    def stderr(self) -> str:
        """What the command printed about this task and about all, and what the task printed."""
        return about_task(self.number, self.command.stderr.decode("utf-8", "replace"))

    async def read(self) -> bytes:
        """The next bytes from the task."""
        return await self.reader.read(READ_BYTES)

    async def write(self, data: bytes) -> None:
        """Send bytes to the task."""
        self.writer.write(data)
        await self.writer.drain()

    async def ended(self) -> int:
        """0: the connection ended; the command has other tasks."""
        await self._gone.wait()
        return 0

    def met_end(self) -> None:
        """Nothing: there is nothing more to wait for."""
        self._gone.set()

    def broken_by(self, error: OSError) -> str:
        """What a read error means: a node that lost power never closes its connection."""
        if error.errno == errno.ETIMEDOUT:
            return said(
                "it acknowledged nothing for {SILENT_SECONDS:g} s: its power or its network is gone", SILENT_SECONDS
            )
        return error.strerror or type(error).__name__

    async def last_words(self, explain: Callable[[str], str]) -> None:
        """Wait until the command has said why, or has ended: other machines tell it what ended this task."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self.command.has_printed(lambda: bool(explain(self.stderr))), LAST_WORDS_SECONDS)

    def cut(self) -> None:
        """End the connection; the task notices."""
        self.writer.transport.abort()
        self._gone.set()

    async def close(self) -> None:
        """Wait until the connection is gone here."""
        with contextlib.suppress(asyncio.TimeoutError, OSError):
            await asyncio.wait_for(self.writer.wait_closed(), 2.0)


def about_task(number: int, stderr: str) -> str:
    """The lines of a command's standard error about one task: its own, without the label, and those about all.

    The daemon of one node reports how the step itself ended, under the label of its task.
    """
    kept = []
    for line in stderr.splitlines():
        labelled = re.match(r"\s*(\d+): (.*)", line)
        others = OF_TASKS.match(line)
        if labelled and (int(labelled[1]) == number or OF_THE_STEP.match(labelled[2])):
            kept.append(labelled[2])
        elif not labelled and not NOISE.match(line) and (others is None or _is_in(number, others[1])):
            kept.append(line)
    return "".join(f"{line}\n" for line in kept)


def _is_in(number: int, ranges: str) -> bool:
    """Whether "0-3,7" holds a number."""
    ends = (piece.partition("-") for piece in ranges.split(",") if piece)
    return any(first.isdigit() and int(first) <= number <= int(last or first) for first, _, last in ends)


def endure(wire: socket.socket) -> None:
    """Set the socket to send at once, and to call a peer lost that acknowledges nothing."""
    wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(SILENT_SECONDS * 1000))
