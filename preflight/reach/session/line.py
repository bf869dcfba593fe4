"""What carries a session: the pipes of a command of its own, or the socket of a task that one command started?"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Sequence
from typing import Protocol

from preflight.reach.session.budget import STDERR_BYTES
from preflight.reach.session.pipes import Exit, Inlet, Outlet, Unread
from preflight.reach.session.starting import Command, started
from preflight.said import said

STDERR_KEPT_BYTES = 64 << 10
REAP_SECONDS = 2.0
LAST_WORDS_SECONDS = 1.0  # the reason for an end may come after the end itself


class Line(Protocol):
    """Both directions of one session, and the standard error of its command."""

    flood: str  # why we cut it: its command printed too much, or cannot be trusted; else ""

    @property
    def stderr(self) -> str:
        """The last that its command printed on standard error."""

    async def read(self) -> bytes:
        """The next bytes from the other end; b"" at the end. Raises OSError where a socket broke."""

    async def write(self, data: bytes) -> None:
        """Send, and wait while much is unsent. Raises OSError or RuntimeError where the other end no longer reads."""

    async def ended(self) -> int:
        """Wait for the end of the line -> the exit code of its command, 0 where that is not known."""

    def met_end(self) -> None:
        """Note that the other end sends no more."""

    def broken_by(self, error: OSError) -> str:
        """What a read error means, in words."""

    async def last_words(self, explain: Callable[[str], str]) -> None:
        """Wait, after the end and within bounds, until the command has explained it or can say no more."""

    def cut(self) -> None:
        """End the line now; the other end notices."""

    async def close(self) -> None:
        """Release what the line holds here, once it was cut."""


def send_signal(process: asyncio.subprocess.Process, number: int) -> None:
    """Signal a process that may have ended; its own send_signal would reap it, and asyncio find no exit code."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)


class Own:
    """The line of a host with a command of its own: ssh, a Python here, a step of srun."""

    def __init__(self, process: Command) -> None:
        self.process = process
        self.flood = ""
        self._stderr = b""
        self._stderr_bytes = 0
        self._has_ended_stderr = asyncio.Event()
        self._exit = Exit(process.pid, process.poll)
        self._input = Outlet(process.stdin.fileno())
        self._output = Unread(process.stdout.fileno())
        self._errors = Inlet(process.stderr.fileno(), self._take_error)

    @classmethod
    async def start(cls, argv: Sequence[str]) -> Own:
        """Start the command. Raises OSError where it cannot be started."""
        return cls(await started(argv))

    @property
    def stderr(self) -> str:
        """Its standard error, the last 64 KiB."""
        return self._stderr.decode("utf-8", "replace")

    async def read(self) -> bytes:
        """What it says next on its standard output."""
        return await self._output.read()

    async def write(self, data: bytes) -> None:
        """Send bytes to the standard input of the command."""
        await self._input.write(data)

    async def ended(self) -> int:
        """The exit code of the command."""
        return await self._exit.code()

    def met_end(self) -> None:
        """Nothing: the command ends soon, or whoever waits for it kills it."""

    def broken_by(self, error: OSError) -> str:
        """The system's own words: a pipe knows no more."""
        return error.strerror or type(error).__name__

    async def last_words(self, explain: Callable[[str], str]) -> None:
        """Wait until standard error ends, within bounds: a master connection of ssh may keep it open."""
        del explain
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._has_ended_stderr.wait(), LAST_WORDS_SECONDS)

    def cut(self) -> None:
        """Kill the command."""
        if not self._exit.is_known:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGKILL)

    async def close(self) -> None:
        """Reap the command, and read no further: a master connection of ssh may hold standard error open."""
        if not self._exit.is_known:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self.ended(), REAP_SECONDS)
        for end in (self._input, self._output, self._errors):
            end.close()
        self.process.close()
        self._has_ended_stderr.set()

    def _take_error(self, data: bytes) -> None:
        self._stderr = (self._stderr + data)[-STDERR_KEPT_BYTES:]
        self._stderr_bytes += len(data)
        if self._stderr_bytes > STDERR_BYTES:
            self.flood = said("more than {STDERR_BYTES} MiB on its standard error", STDERR_BYTES >> 20)
            self._errors.close()
            self.cut()
        if not data or self.flood:
            self._has_ended_stderr.set()
