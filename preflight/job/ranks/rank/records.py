"""How does a rank report? In records, one JSON object a line, to its node or to a terminal."""

from __future__ import annotations

import json
import math
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from preflight.job.ranks.rank.limits import Planned

GO_SECONDS = 150.0  # by then the controller has long stopped waiting


class Records:
    """JSON lines to the local socket or the file that PREFLIGHT_RECORDS names, or to stdout when started by hand."""

    def __init__(self, *, rank: int) -> None:
        self.rank = rank
        self.at = "import"
        self.doing = ""  # what this rank does there alone: if it is stuck, no other rank is to blame
        self.moved = time.monotonic()
        self.planned = Planned()
        self.socket = None
        self.output = 1
        place = os.environ.get("PREFLIGHT_RECORDS", "")
        if place.startswith("/"):  # a file goes where a container has another network
            self.output = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        elif place:
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.socket.connect("\0" + place)
            self.socket.sendall(json.dumps({"rank": rank}).encode() + b"\n")

    def send(self, record: dict[str, Any]) -> None:
        """One record; a line is written whole, so that ranks sharing a terminal do not mix theirs."""
        if self.socket:
            self.socket.sendall(json.dumps(record, allow_nan=False).encode() + b"\n")
        else:
            when = {} if self.output == 1 else {"at": time.time()}  # a file is read later than it is written
            os.write(self.output, json.dumps({"rank": self.rank, **when, **record}).encode() + b"\n")

    def await_go(self) -> None:
        """Wait until every rank has imported torch: none is to time out because another's file system is slow."""
        if self.socket:
            self.socket.settimeout(GO_SECONDS)
            with suppress(socket.timeout):  # then the time-outs of c10d hold
                self.socket.recv(16)
            self.socket.settimeout(None)

    def advance(self, *, beyond: float = 0.0) -> None:
        """Something was done: a long stage is no hang while this goes on; so many seconds more may pass after it."""
        self.moved = time.monotonic() + beyond

    @contextmanager
    def while_others_work(self) -> Iterator[None]:
        """Around a wait for others that may take long; each of them is watched itself."""
        self.moved = math.inf
        try:
            yield
        finally:
            self.advance()

    def stage(self, name: str, **what: Any) -> None:
        """Where this rank is now: a rank that hangs is found by the last stage it sent."""
        self.at, self.doing = name, ""
        self.advance()
        self.send({"record": "stage", "stage": name, **what})
