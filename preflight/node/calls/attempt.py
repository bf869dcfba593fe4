"""How does one connection to a peer end: with its answer, or how else?"""

from __future__ import annotations

import fcntl
import os
import selectors
import socket
import struct
import termios
import time

from preflight.node.calls import greeting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    class Mesh(Protocol):
        """The mesh that an attempt is a part of, as far as it needs to know it."""

        name: str
        address: str
        port: int
        source: str
        key: bytes
        payload: bytes
        connect_seconds: float
        selector: selectors.DefaultSelector
        under_way: set[Attempt]

        def release(self, connection: socket.socket | None) -> None:
            """Forget and close a socket."""


ECHO_FACTOR = 2.0  # a connected peer may answer late: it starts when its own orders arrive


class Attempt:
    """One own connection: connect, send everything, then wait for the one right answer."""

    def __init__(self, mesh: Mesh, peer: dict[str, Any]) -> None:
        self.mesh = mesh
        self.peer = peer
        edge = greeting.Edge(mesh.key, source=mesh.name, target=peer["name"], port=peer["port"])
        self.unsent = memoryview(edge.request() + mesh.payload)
        self.wanted = edge.reply()
        self.answer = b""
        self.connected = False
        self.outcome = ""
        self.detail = ""
        self.source_address = ""
        self.source_port = 0
        self.deadline = time.monotonic() + mesh.connect_seconds
        self.connection: socket.socket | None = None

    def start(self) -> None:
        """Begin to connect."""
        try:
            self.connection = greeting.begin_connect(
                self.peer["address"],
                self.peer["port"],
                source_address=self.mesh.source,
                user_timeout_s=self.mesh.connect_seconds * ECHO_FACTOR,
            )
        except OSError as error:
            self.end(greeting.outcome_of(error, connected=False), os.strerror(error.errno or 0))
            return
        self.mesh.selector.register(self.connection, selectors.EVENT_WRITE, self)

    def ready(self, connection: socket.socket, events: int) -> None:
        """Go on: the socket can be written or read."""
        try:
            if not self.connected:
                self._finish_connect(connection)
            elif events & selectors.EVENT_READ:
                self._read(connection)
            else:
                self._write(connection)
        except BlockingIOError:
            pass
        except OSError as error:
            outcome = greeting.outcome_of(error, connected=self.connected)
            self.end(outcome, os.strerror(error.errno or 0) + self._unacknowledged())

    def _finish_connect(self, connection: socket.socket) -> None:
        number = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if number:
            raise OSError(number, os.strerror(number))
        self.source_address = connection.getsockname()[0]
        if greeting.is_to_itself(connection):
            self.end("looped", "TCP connected the socket to itself: no process listens there")
            return
        if connection.getpeername()[:2] == (self.mesh.address, self.mesh.port):
            self.end("looped", f"the address of {self.peer['name']} is this node's own")
            return
        self.connected = True
        self.deadline = time.monotonic() + self.mesh.connect_seconds * ECHO_FACTOR
        self.mesh.selector.modify(connection, selectors.EVENT_READ | selectors.EVENT_WRITE, self)

    def _write(self, connection: socket.socket) -> None:
        self.unsent = self.unsent[connection.send(self.unsent) :]
        if not self.unsent:
            self.mesh.selector.modify(connection, selectors.EVENT_READ, self)

    def _read(self, connection: socket.socket) -> None:
        data = connection.recv(greeting.REPLY_BYTES + 1 - len(self.answer))
        self.answer += data
        if self.answer == self.wanted and not self.unsent:
            self.end("ok", "")
        elif self.answer != self.wanted[: len(self.answer)]:
            self.end("wrong_peer", f"the answer begins with {self.answer[:16]!r}: it is not {self.peer['name']}'s")
        elif not data:
            self.end("no_echo", f"closed after {len(self.answer)} of {len(self.wanted)} bytes of the answer")

    def expire(self) -> None:
        """End the attempt where the time for its present step is over."""
        if self.connected:
            waited = self.mesh.connect_seconds * ECHO_FACTOR
            self.end("no_echo", f"connected, but no answer within {waited:g} s{self._unacknowledged()}")
        else:
            self.end("filtered", f"no answer to the connection request within {self.mesh.connect_seconds:g} s")

    def end_if_from(self, address: tuple[Any, ...]) -> None:
        """It was redirected to this very node if a visitor came from its own end."""
        if self.connected and self.connection is not None and self.connection.getsockname() == address:
            self.end("looped", f"what was sent to {self.peer['address']} arrived at this node itself")

    def _unacknowledged(self) -> str:
        """Data that the peer's kernel never acknowledged points at lost large packets, not at a stopped process."""
        if self.connection is None or not self.connected:
            return ""
        queued = struct.unpack("i", fcntl.ioctl(self.connection, termios.TIOCOUTQ, b"\0\0\0\0"))[0]
        lost = int(queued) + len(self.unsent)
        return f"; {lost} bytes were never acknowledged" if lost else ""

    def end(self, outcome: str, detail: str) -> None:
        """Note the outcome; only the first one counts."""
        if self.outcome:
            return
        self.outcome, self.detail = outcome, detail
        if self.connection is not None and outcome != "ok":
            self.source_port = int(self.connection.getsockname()[1])
        self.mesh.release(self.connection)
        self.mesh.under_way.discard(self)

    def edge(self) -> dict[str, Any]:
        """The attempt as it is reported."""
        return {
            "to": self.peer["name"],
            "port": self.peer["port"],
            "outcome": self.outcome,
            "detail": self.detail,
            "source_address": self.source_address,
        }
