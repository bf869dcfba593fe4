"""What carries a session: the pipes of a command of its own, or the socket of a task that one command started?"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Sequence
from typing import Protocol

from preflight.session.budget import STDERR_BYTES

STDERR_KEPT_BYTES = 64 << 10
LAST_WORDS_SECONDS = 1.0  # for what is said of an end, which may come after it


class Line(Protocol):
    """Both directions of one session, and what its command says beside them."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    flood: str  # why it was cut here: its command said too much, or it is not to be believed; "" else

    @property
    def stderr(self) -> str:
        """What its command said last on standard error."""

    async def ended(self) -> int:
        """Wait for the end of the line -> the exit code of its command, 0 where that is not known."""

    def met_end(self) -> None:
        """The reader met the end of what the other end sends."""

    def broken_by(self, error: OSError) -> str:
        """What an error of reading says of the other end."""

    async def last_words(self, explain: Callable[[str], str]) -> None:
        """Wait, after the end, until the command has said what explains it, or no more can come; bounded."""

    def cut(self) -> None:
        """End the line now; the other end notices."""

    async def close(self) -> None:
        """Give back what the line holds here, once it was cut."""


def send_signal(process: asyncio.subprocess.Process, number: int) -> None:
    """Signal a process that may have ended; its own send_signal would reap it, and asyncio find no exit code."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)


class Own:
    """The line of a host with a command of its own: ssh, a Python here, a step of srun."""

    def __init__(self, process: asyncio.subprocess.Process, transport: asyncio.SubprocessTransport) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self._transport = transport
        self.reader = process.stdout
        self.writer = process.stdin
        self.flood = ""
        self._said = b""
        self._errors = asyncio.create_task(self._read_errors())

    @classmethod
    async def start(cls, argv: Sequence[str]) -> Own:
        """Start the command. Raises OSError where it cannot be started."""
        loop = asyncio.get_running_loop()
        # As create_subprocess_exec does it, which keeps the transport to itself: see `close`.
        transport, protocol = await loop.subprocess_exec(
            lambda: asyncio.subprocess.SubprocessStreamProtocol(limit=1 << 20, loop=loop),
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        return cls(asyncio.subprocess.Process(transport, protocol, loop), transport)

    @property
    def stderr(self) -> str:
        """Its standard error, the last 64 KiB."""
        return self._said.decode("utf-8", "replace")

    async def ended(self) -> int:
        """The exit code of the command."""
        return await self.process.wait()

    def met_end(self) -> None:
        """The command ends soon, or is killed by whoever waits for it."""

    def broken_by(self, error: OSError) -> str:
        """A pipe knows no more than the system says."""
        return error.strerror or type(error).__name__

    async def last_words(self, explain: Callable[[str], str]) -> None:
        """Until its standard error ends, whatever it says; a master connection of ssh may keep that open."""
        del explain
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._errors), LAST_WORDS_SECONDS)

    def cut(self) -> None:
        """Kill the command."""
        send_signal(self.process, signal.SIGKILL)

    async def close(self) -> None:
        """Reap the command, and read no further."""
        if self.process.returncode is None:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self.process.wait(), 2.0)
        self._errors.cancel()
        await asyncio.gather(self._errors, return_exceptions=True)
        self._transport.close()  # a master connection of ssh may hold standard error open, and with it our end

    async def _read_errors(self) -> None:
        assert self.process.stderr is not None
        count = 0
        while data := await self.process.stderr.read(1 << 16):
            self._said = (self._said + data)[-STDERR_KEPT_BYTES:]
            count += len(data)
            if count > STDERR_BYTES:
                self.flood = f"more than {STDERR_BYTES >> 20} MiB on its standard error"
                self.cut()
                return
            await asyncio.sleep(0)
