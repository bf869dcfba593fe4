"""How do callers wait for a node's messages, cheaply enough for thousands of nodes?"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Inbox(Generic[T]):
    """The messages that came and have not been taken yet, for one reader.

    A queue that is waited for with a time limit starts a task for every message; this one starts none.
    """

    def __init__(self) -> None:
        self._messages: deque[T] = deque()
        self._news: asyncio.Future[None] | None = None

    def put(self, message: T) -> None:
        """Leave a message."""
        self._messages.append(message)
        self._wake()

    async def take(self, seconds: float) -> T:
        """The next message. Raises asyncio.TimeoutError where none came within `seconds`."""
        if not self._messages and seconds > 0:
            loop = asyncio.get_running_loop()
            self._news = loop.create_future()
            timer = None if seconds == float("inf") else loop.call_later(seconds, self._wake)
            try:
                await self._news
            finally:
                self._news = None
                if timer is not None:
                    timer.cancel()
        if not self._messages:
            raise asyncio.TimeoutError
        return self._messages.popleft()

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)
