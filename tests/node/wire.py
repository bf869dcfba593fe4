"""How is a real keeper driven by hand, frame by frame, without a session?"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from preflight.node.agent import frames, strict
from preflight.reach.session import payload
from preflight.reach.transport import LOADER

BUSY_SECONDS = 60.0  # how long another run of this machine may hold the node's lock


class Wire:
    """A keeper in a process of its own, and both ends of its pipes."""

    def __init__(self, python: str = sys.executable, *, loader: str = LOADER) -> None:
        self.marker = secrets.token_hex(16).encode()
        self.run_id = f"wire-{secrets.token_hex(4)}"
        self.decoder = frames.Decoder(self.marker, strict.strict_json)
        self.waiting: list[dict[str, Any]] = []
        self.process = subprocess.Popen(
            [python, "-I", "-S", "-B", "-c", loader],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        self.raw(payload.first_message(self.marker))
        self.has_rest = False
        if "wants" in (first := self.next("hello", "wants", seconds=15.0)):
            self.raw(payload.as_text())
            first = self.next("hello", seconds=15.0)
        self.hello = first["hello"]

    def raw(self, data: bytes) -> None:
        """Bytes as they are."""
        assert self.process.stdin is not None
        view = memoryview(data)
        while view:
            view = view[self.process.stdin.write(view) :]

    def send(self, message: dict[str, Any], blob: bytes = b"") -> None:
        """One frame."""
        self.raw(frames.order(self.marker, message, blob))

    def open(self, *, lease_seconds: float = 20.0, deadline_seconds: float = 30.0, code: str = "") -> dict[str, Any]:
        """Ask for the node; the answer. `code` stands in for what the call "free_port" runs."""
        blob = code.encode()
        entry = {
            "name": "preflight.node.calls.ports_free",
            "kind": "source",
            "package": False,
            "start": 0,
            "end": len(blob),
        }
        opening: dict[str, Any] = {"lease_seconds": lease_seconds, "deadline_seconds": deadline_seconds}
        opening = {"run": self.run_id, "scratch": self.run_id, **opening}
        self.send({"open": {**opening, "modules": [entry] if code else []}}, blob)
        return self.next("opened", "busy", seconds=10.0)

    def call(
        self, number: int, name: str, arguments: dict[str, Any], *, seconds: float = 20.0, blob: bytes = b""
    ) -> None:
        """Start a call, with the code that it needs."""
        if payload.needs_rest(name) and not self.has_rest:
            self.has_rest = True
            self.send({"rest": True}, payload.rest(self.hello["magic"]))
        self.send({"call": number, "name": name, "arguments": arguments, "seconds": seconds}, blob)

    def next(self, *keys: str, seconds: float = 10.0) -> dict[str, Any]:
        """The next message with one of `keys`; messages before it are kept for later."""
        end = time.monotonic() + seconds
        while True:
            for message in self.waiting:
                if any(key in message for key in keys):
                    self.waiting.remove(message)
                    return message
            assert self._read(end), f"no {keys} but {self.waiting!r}, {self.decoder.text()!r}, {self.errors()!r}"

    def outcome(self, number: int, *, seconds: float = 15.0) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """The events of a call, and the message that ends it."""
        end = time.monotonic() + seconds
        while True:
            of_call = [message for message in self.waiting if message.get("call") == number]
            if of_call and "event" not in of_call[-1]:
                self.waiting = [message for message in self.waiting if message.get("call") != number]
                return [message["event"] for message in of_call[:-1]], of_call[-1]
            assert self._read(end), f"call {number} has not ended: {self.waiting!r}, {self.errors()!r}"

    def end_reason(self, *, seconds: float = 10.0) -> str:
        """Why the keeper says that it ends; nothing may be left by then."""
        end = self.next("end", seconds=seconds)["end"]
        assert end["residue"] == []
        self.process.wait(timeout=5.0)
        return str(end["reason"])

    def errors(self) -> str:
        """What the keeper has printed by now."""
        assert self.process.stderr is not None
        found = b""
        while select.select([self.process.stderr], [], [], 0)[0] and (data := self.process.stderr.read(1 << 16)):
            found += data
        return found.decode("utf-8", "replace")

    def close(self) -> None:
        """End the keeper, gently if it lets us."""
        with contextlib.suppress(OSError, ValueError):
            self.send({"close": True})
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            with contextlib.suppress(OSError):
                stream.close()
        try:
            self.process.wait(timeout=8.0)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def _read(self, end: float) -> bool:
        """Take in what comes before `end`; False when nothing will."""
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], max(0.0, end - time.monotonic()))[0]:
            return False
        data = self.process.stdout.read(1 << 18)
        self.waiting += [message for message, _ in self.decoder.feed(data)]
        return bool(data)


@contextlib.contextmanager
def opened(*, lease_seconds: float = 20.0, deadline_seconds: float = 30.0, code: str = "") -> Iterator[Wire]:
    """A keeper that holds the node's lock; waits while another run of this machine holds it."""
    end = time.monotonic() + BUSY_SECONDS
    while True:
        wire = Wire()
        answer = wire.open(lease_seconds=lease_seconds, deadline_seconds=deadline_seconds, code=code)
        if "opened" in answer or time.monotonic() > end:
            break
        wire.close()
        time.sleep(0.5)
    try:
        assert answer["opened"] == wire.run_id
        yield wire
    finally:
        wire.close()


def job(*programs: str, **more: Any) -> dict[str, Any]:
    """Arguments of a call that runs Python programs."""
    processes = [
        {"name": f"p{i}", "argv": ["{python}", "-c", text], "environment": {}} for i, text in enumerate(programs)
    ]
    return {"processes": processes, "environment": [], "drop": [], "seconds": 15, **more}


def sleeper(tag: str) -> str:
    """A program that stays, deaf to TERM, with a tag in its command line."""
    return f"import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(99) # {tag}"


def tagged(tag: str) -> list[int]:
    """Living processes with the tag in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and tag.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return [pid for pid in found if pid != os.getpid()]


def is_seen(tag: str, *, seconds: float = 8.0) -> bool:
    """Whether a process with the tag appears in time."""
    end = time.monotonic() + seconds
    while not tagged(tag) and time.monotonic() < end:
        time.sleep(0.02)
    return bool(tagged(tag))


def is_gone(tag: str, *, seconds: float = 8.0) -> bool:
    """Whether every process with the tag ends in time."""
    end = time.monotonic() + seconds
    while tagged(tag) and time.monotonic() < end:
        time.sleep(0.02)
    return not tagged(tag)
