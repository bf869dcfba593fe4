"""A clock that only moves while all wait: minutes of a program pass in a moment, each as long as it asks for."""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Coroutine
from typing import Any

from tests.instead import instead


class Clock(selectors.SelectSelector):
    """Waits for nothing: where nothing has come, it is put on by what was to be waited."""

    def __init__(self) -> None:
        super().__init__()
        self.passed = 0.0  # seconds

    def time(self) -> float:
        """As time.monotonic gives it."""
        return 1000.0 + self.passed

    def select(self, timeout: float | None = None) -> Any:
        """What has come."""
        if found := super().select(0):
            return found
        if timeout is None:
            raise AssertionError("all wait, and for nothing")
        self.passed += timeout
        return []

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """The result of work that may wait for as long as it likes."""

        def loop() -> asyncio.AbstractEventLoop:
            made = asyncio.SelectorEventLoop(self)
            made.time = self.time  # type: ignore[method-assign]
            return made

        with instead(time, "monotonic", self.time), asyncio.Runner(loop_factory=loop) as runner:
            return runner.run(work)
