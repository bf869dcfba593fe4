"""How are the pipes of a command read and written, cheaply enough for thousands of commands?

asyncio gives each of its subprocesses a task, six futures and three transports; a callback for each pipe does as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import Callable

PIPE_BYTES = 64 << 10  # what a pipe holds
UNREAD_PIECES = 16  # of PIPE_BYTES: a process that writes more waits until we read
UNWRITTEN_BYTES = 64 << 10


class Inlet:
    """A pipe that we read. Each piece is given to `take` as it comes, b"" at the end."""

    def __init__(self, file: int, take: Callable[[bytes], None]) -> None:
        self._file = file
        self._take = take
        self._loop = asyncio.get_running_loop()
        self._has_ended = False
        os.set_blocking(file, False)
        self.resume()

    def pause(self) -> None:
        """Stop reading: what comes stays in the pipe."""
        self._loop.remove_reader(self._file)

    def resume(self) -> None:
        """Go on reading."""
        if not self._has_ended:
            self._loop.add_reader(self._file, self._ready)

    def close(self) -> None:
        """Read no further."""
        self.pause()
        self._has_ended = True

    def _ready(self) -> None:
        try:
            data = os.read(self._file, PIPE_BYTES)
        except BlockingIOError:
            return
        except OSError:  # the reader gets the end, and the command's exit code says more
            data = b""
        if not data:
            self.close()
        self._take(data)


class Unread:
    """What came on a pipe and was not taken yet, for one reader."""

    def __init__(self, file: int) -> None:
        self._pieces: deque[bytes] = deque()
        self._news: asyncio.Future[None] | None = None
        self._inlet = Inlet(file, self._put)

    async def read(self) -> bytes:
        """The next piece; b"" at the end."""
        if not self._pieces:
            self._news = asyncio.get_running_loop().create_future()
            try:
                await self._news
            finally:
                self._news = None
        if len(self._pieces) == UNREAD_PIECES:
            self._inlet.resume()
        piece = self._pieces.popleft()
        if not piece:
            self._pieces.append(piece)  # the end stays the end
        return piece

    def close(self) -> None:
        """Stop reading: a waiting reader gets the end."""
        self._inlet.close()
        self._put(b"")

    def _put(self, data: bytes) -> None:
        self._pieces.append(data)
        if len(self._pieces) == UNREAD_PIECES:
            self._inlet.pause()
        if self._news is not None and not self._news.done():
            self._news.set_result(None)


class Outlet:
    """A pipe that we write to, in the order of the calls."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._loop = asyncio.get_running_loop()
        self._left: deque[memoryview] = deque()
        self._size = 0
        self._is_broken = False
        self._room: asyncio.Future[None] | None = None
        os.set_blocking(file, False)

    async def write(self, data: bytes) -> None:
        """Write, and wait while much is unwritten. Raises BrokenPipeError where the other end no longer reads."""
        if self._is_broken:
            raise BrokenPipeError
        self._left.append(memoryview(data))
        self._size += len(data)
        if len(self._left) == 1:
            self._put()
            if self._left:
                self._loop.add_writer(self._file, self._ready)
        while self._size > UNWRITTEN_BYTES:
            if self._room is None:
                self._room = self._loop.create_future()
            await asyncio.shield(self._room)

    def close(self) -> None:
        """Write no further."""
        self._break()

    def _ready(self) -> None:
        self._put()
        if not self._left:
            self._loop.remove_writer(self._file)

    def _put(self) -> None:
        try:
            while self._left:
                written = os.write(self._file, self._left[0][:PIPE_BYTES])
                self._size -= written
                if written < len(self._left[0]):
                    self._left[0] = self._left[0][written:]
                else:
                    self._left.popleft()
        except BlockingIOError:
            pass
        except OSError:
            self._break()
        if self._size <= UNWRITTEN_BYTES:
            self._wake()

    def _break(self) -> None:
        self._is_broken = True
        with contextlib.suppress(OSError, ValueError):
            self._loop.remove_writer(self._file)
        self._left.clear()
        self._size = 0
        self._wake()

    def _wake(self) -> None:
        if self._room is not None:
            if not self._room.done():
                self._room.set_result(None)
            self._room = None


class Exit:
    """The end of a process of ours, for any number of waiters; the process is reaped here."""

    POLL_SECONDS = 0.02  # where the system has no pidfd: before Linux 5.3

    def __init__(self, process_id: int, reap: Callable[[], int | None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._reap = reap
        self._code: asyncio.Future[int] = self._loop.create_future()
        try:
            self._file = os.pidfd_open(process_id)
        except OSError:
            self._file = -1
            self._look()
        else:
            self._loop.add_reader(self._file, self._look)

    @property
    def is_known(self) -> bool:
        """Whether it has ended."""
        return self._code.done()

    async def code(self) -> int:
        """The exit code, once it has ended."""
        return await asyncio.shield(self._code)

    def _look(self) -> None:
        code = self._reap()
        if code is None:
            if self._file < 0:
                self._loop.call_later(self.POLL_SECONDS, self._look)
            return
        if self._file >= 0:
            self._loop.remove_reader(self._file)
            os.close(self._file)
        if not self._code.done():
            self._code.set_result(code)
