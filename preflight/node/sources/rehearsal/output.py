"""What does a script print, and how does one end that another program starts for us?"""

from __future__ import annotations

import os

from preflight.node.sources.rehearsal.tail import Tail

KEPT_BYTES = 64 << 10
HEAD_BYTES = 8 << 10


class Output:
    """What the script prints on one of its streams: the first words and the last."""

    def __init__(self, mark: bytes) -> None:
        self.mark = mark
        self.before = b""  # by what a login starts
        self.head = b""
        self.tail = b""
        self.has_begun = False

    def take(self, data: bytes) -> None:
        """Some more of it."""
        if not self.has_begun:
            self.before += data
            before, found, data = self.before.partition(self.mark + b"\n")
            if not found:
                self.before = self.before[-KEPT_BYTES:]
                return
            self.before, self.has_begun = before[-HEAD_BYTES:], True
        room = HEAD_BYTES - len(self.head)
        self.head += data[:room]
        self.tail = (self.tail + data[room:])[-KEPT_BYTES:] if room < len(data) else self.tail

    def text(self) -> str:
        """The words, those in the middle left out."""
        return (self.head + self.tail).decode("utf-8", "replace")


class Held:
    """The script in a batch shell that waits for it, with its output and its exit code in files of our folder."""

    def __init__(self, scratch: str, job: str, streams: dict[str, Output]) -> None:
        self.scratch = scratch
        self.streams = streams
        self.tails = {name: Tail(os.path.join(scratch, f"{name}-{job}")) for name in streams}
        self.pid = 0
        self.job = job
        with open(os.path.join(scratch, f"go-{job}"), "w"):
            pass

    def poll(self) -> int | None:
        """Its exit code, once it has ended."""
        for name, tail in self.tails.items():
            for _, line in tail.lines():
                self.streams[name].take(line + b"\n")
        code = text_of(os.path.join(self.scratch, f"code-{self.job}")) or ""
        return int(code) if code.strip().isdigit() and code.endswith("\n") else None


def text_of(path: str) -> str | None:
    """The text of the node's own file of that path; None where there is none."""
    try:
        with open(path, encoding="utf-8", errors="replace", newline="") as file:
            return file.read()
    except OSError:
        return None
