"""How does one call on a node talk with the controller while it runs?"""

from __future__ import annotations

import os
import select
import time

from preflight.node.agent import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Channel:
    """Both directions of one call: events up, messages down, and the blob the call came with."""

    def __init__(
        self, *, call: int, up: int, down: int, marker: bytes, blob: bytes, deadline: float, scratch: str
    ) -> None:
        self.call = call
        self.up = up
        self.down = down
        self.marker = marker
        self.blob = blob
        self.deadline = deadline  # time.monotonic() by which this call must have ended
        self.scratch = scratch  # the one folder a call may make; the keeper removes it
        self._decoder = frames.Decoder(marker, frames.unmarshalled)
        self._ready: list[dict[str, Any]] = []

    def emit(self, *events: dict[str, Any]) -> None:
        """Send events to the controller, all in one write."""
        self._write(*({"call": self.call, "event": event} for event in events))

    def finish(self, outcome: dict[str, Any]) -> None:
        """Send the result or the error that ends the call."""
        self._write({"call": self.call, **outcome})

    def receive(self, timeout_s: float) -> dict[str, Any]:
        """The next message the controller sends into this call; TimeoutError after `timeout_s`, EOFError at its end."""
        end = time.monotonic() + timeout_s
        while not self._ready:
            if not select.select([self.down], [], [], max(0.0, end - time.monotonic()))[0]:
                raise TimeoutError(f"no message from the controller within {timeout_s:.1f} s")
            data = os.read(self.down, 1 << 16)
            if not data:
                raise EOFError("the controller ended the call")
            self._ready.extend(message for message, _ in self._decoder.feed(data))
        return self._ready.pop(0)

    def _write(self, *messages: dict[str, Any]) -> None:
        view = memoryview(b"".join(frames.encode(self.marker, message) for message in messages))
        while view:
            view = view[os.write(self.up, view) :]
