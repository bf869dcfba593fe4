"""How is a call run without a keeper, so that a test is its controller?"""

from __future__ import annotations

import queue


class MemoryChannel:
    """A channel whose other end is the test."""

    def __init__(self) -> None:
        self.events: queue.Queue = queue.Queue()
        self.messages: queue.Queue = queue.Queue()

    def emit(self, *events):
        """What the node tells."""
        for event in events:
            self.events.put(event)

    def receive(self, timeout_s):
        """What the test sends."""
        try:
            return self.messages.get(timeout=timeout_s)
        except queue.Empty:
            raise TimeoutError from None
