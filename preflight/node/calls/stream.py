"""How fast does one plain TCP stream run from each node to another, timed where it arrives?

``arguments``: ``name`` of this node, ``address`` it trains on, ``key`` of the run (hex), ``total_seconds``.
Events: {"listening": [address, port]}, then for each round {"round": {"shift", "from", "received_bytes", "seconds",
"gbytes_per_s"}}, or {"round": {"shift", "from", "error": reason}}; where this node sends, "sent_bytes" and
"sent_seconds" of what the other end acknowledged, "sent_again", the share of its segments that were lost on the way,
and "send_error" where that failed.
Messages: {"round": {"shift", "send_to": {"name", "address", "port"}, "receive_from": name, "seconds"}},
{"finish": true}. ``shift`` is any number that both ends of a stream are given; ``send_to`` or ``receive_from`` may be
null where a node has no part on that side.

The receiver times and ends the stream. The sender counts too, but not what it handed to its kernel, whose buffers fill
faster than a link carries: what was acknowledged. So no end's word stands alone.
"""

from __future__ import annotations

import contextlib
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
    from collections.abc import Callable
    from typing import Any

    from preflight.node.agent.channel import Channel

BUFFER_BYTES = 1 << 20
READS_A_TURN = 8
CONNECT_SECONDS = 5.0
WARM_UP_SECONDS = 0.1
WARM_UP_SHARE = 0.2
LOOK_SECONDS = 0.05  # a sender looks so often at what was acknowledged: a full buffer wakes it rarely
CANDIDATES = 8
TCP_INFO_BYTES = 140  # up to and with tcpi_segs_out, of Linux 4.2


class Node:
    """What stays the same from round to round."""

    def __init__(self, arguments: dict[str, Any], clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.name = str(arguments["name"])
        self.address = str(arguments["address"])
        self.key = bytes.fromhex(arguments["key"])
        self.listener = greeting.listen(self.address)
        self.port = int(self.listener.getsockname()[1])
        self.data = memoryview(os.urandom(BUFFER_BYTES))
        self.buffer = memoryview(bytearray(BUFFER_BYTES))


def warm_up_seconds(order: dict[str, Any]) -> float:
    """How long at the start of a round neither end counts: TCP finds its pace, a traffic shaper's bucket empties."""
    return max(WARM_UP_SECONDS, WARM_UP_SHARE * float(order["seconds"]))


class Sender:
    """Connects, shows the key, and sends until the receiver has had enough."""

    def __init__(self, node: Node, selector: selectors.BaseSelector, order: dict[str, Any]) -> None:
        target = order["send_to"]
        edge = greeting.Edge(
            node.key, source=node.name, target=target["name"], port=target["port"], purpose=f"stream{order['shift']}"
        )
        self.node = node
        self.selector = selector
        self.header = edge.request()
        self.wanted = edge.reply()
        self.answer = b""
        self.position = 0
        self.connected = False
        self.is_done = False
        self.error = ""
        self.warm_up_seconds = warm_up_seconds(order)
        self.first_s = self.mark_s = self.last_s = 0.0
        self.mark_bytes = self.last_bytes = 0
        self.sent_again = 0.0
        self.connection: socket.socket | None = None
        try:
            self.connection = greeting.begin_connect(
                target["address"], target["port"], source_address=node.address, user_timeout_s=CONNECT_SECONDS
            )
        except OSError as error:
            self.end(_words(error, connected=False))
            return
        selector.register(self.connection, selectors.EVENT_WRITE, self)

    def ready(self, connection: socket.socket, _events: int) -> None:
        """Connected, answered, or room for more."""
        try:
            if not self.connected:
                self._greet(connection)
            elif self.answer != self.wanted:
                self._read_answer(connection)
            else:
                self.position += connection.send(self.node.data[self.position % BUFFER_BYTES :])
                self.look()
        except BlockingIOError:
            pass
        except OSError as error:
            # Once it streams, the receiver ends it by closing.
            self.end("" if self.position else _words(error, connected=self.connected))

    def look(self) -> None:
        """Count what the other end has acknowledged by now."""
        if self.connection is None or not self.position:
            return
        try:
            acknowledged = self.position - _unacknowledged(self.connection)
        except OSError:  # some kernels, sandboxes among them, do not say: count what was handed to them instead
            acknowledged = self.position
        now = self.node.clock()
        if not self.first_s:
            self.first_s = now
        if acknowledged > self.last_bytes:
            self.last_s, self.last_bytes = now, acknowledged
            if not self.mark_s and now - self.first_s >= self.warm_up_seconds:
                self.mark_s, self.mark_bytes = now, acknowledged

    def reading(self) -> dict[str, Any]:
        """What was acknowledged after the warm-up, and in which time; nothing in no time where nothing was."""
        if not self.mark_s:
            return {"sent_bytes": 0, "sent_seconds": 0.0}
        sent = {"sent_bytes": self.last_bytes - self.mark_bytes, "sent_seconds": self.last_s - self.mark_s}
        return {**sent, "sent_again": self.sent_again}

    def _greet(self, connection: socket.socket) -> None:
        number = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if number:
            raise OSError(number, os.strerror(number))
        if greeting.is_to_itself(connection):
            self.end("looped: TCP connected the socket to itself")
            return
        self.connected = True
        connection.send(self.header)  # far smaller than any send buffer
        self.selector.modify(connection, selectors.EVENT_READ, self)

    def _read_answer(self, connection: socket.socket) -> None:
        data = connection.recv(greeting.REPLY_BYTES - len(self.answer))
        self.answer += data
        if not data:
            self.end("no_echo: closed without an answer")
        elif self.answer != self.wanted[: len(self.answer)]:
            self.end("wrong_peer: the answer is not the peer's")
        elif self.answer == self.wanted:
            self.selector.modify(connection, selectors.EVENT_WRITE, self)

    def end(self, error: str) -> None:
        """Close; `error` is empty after a stream that ran."""
        self.is_done = True
        self.error = error
        if self.connection is not None and self.position:
            self.sent_again = _sent_again(self.connection)
        _close(self.selector, self.connection)


class Receiver:
    """Waits for the one sender of this round, then counts what arrives between warm-up and end."""

    def __init__(self, node: Node, selector: selectors.BaseSelector, order: dict[str, Any]) -> None:
        self.node = node
        self.selector = selector
        self.source = str(order["receive_from"])
        self.warm_up_seconds = warm_up_seconds(order)
        self.wanted_seconds = float(order["seconds"]) - self.warm_up_seconds
        self.purpose = f"stream{order['shift']}"
        self.candidates: dict[socket.socket, bytes] = {}
        self.stream: socket.socket | None = None
        self.is_done = False
        self.total_bytes = 0
        self.first_s = self.mark_s = self.last_s = 0.0
        self.mark_bytes = self.last_bytes = 0
        selector.register(node.listener, selectors.EVENT_READ, self)

    def ready(self, connection: socket.socket, _events: int) -> None:
        """Somebody connects, introduces itself, or sends."""
        try:
            if connection is self.node.listener:
                self._accept(connection)
            elif connection is self.stream:
                self._count(connection)
            else:
                self._identify(connection)
        except BlockingIOError:
            pass
        except (OSError, greeting.Stranger):
            self.candidates.pop(connection, None)
            _close(self.selector, connection)
            self.is_done = self.is_done or connection is self.stream

    def _accept(self, listener: socket.socket) -> None:
        connection = listener.accept()[0]
        connection.setblocking(False)
        if len(self.candidates) >= CANDIDATES:
            oldest = next(iter(self.candidates))
            del self.candidates[oldest]
            _close(self.selector, oldest)
        self.candidates[connection] = b""
        self.selector.register(connection, selectors.EVENT_READ, self)

    def _identify(self, connection: socket.socket) -> None:
        node = self.node
        data = connection.recv(4096)
        if not data:
            raise greeting.Stranger("closed early")
        self.candidates[connection] += data
        header = greeting.read_request(
            self.candidates[connection], node.key, target=node.name, port=node.port, purpose=self.purpose
        )
        if header is None:
            return
        edge, _ = header
        if edge.source != self.source:
            raise greeting.Stranger("a node that is not expected in this round")
        del self.candidates[connection]
        self.stream = connection
        connection.send(edge.reply())

    def _count(self, stream: socket.socket) -> None:
        ended = False
        # Read all that has arrived before reading the clock: else a late wake-up counts as a slow link.
        with contextlib.suppress(BlockingIOError):
            for _ in range(READS_A_TURN):
                count = stream.recv_into(self.node.buffer)
                self.total_bytes += count
                if count == 0:
                    ended = True
                    break
        now = self.node.clock()
        if not self.first_s:
            self.first_s = now
        if not ended:
            self.last_s, self.last_bytes = now, self.total_bytes
            if not self.mark_s and now - self.first_s >= self.warm_up_seconds:
                self.mark_s, self.mark_bytes = now, self.total_bytes
        # From what was read first: on a busy node that may be long after the warm-up, and the time counted stays whole.
        if ended or (self.mark_s and now - self.mark_s >= self.wanted_seconds):
            self.is_done = True
            _close(self.selector, stream)

    def reading(self) -> dict[str, Any]:
        """The figures, or why there are none."""
        seconds = self.last_s - self.mark_s
        if self.stream is None:
            return {"error": f"{self.source} did not connect"}
        if not self.mark_s or seconds < self.wanted_seconds / 2:
            lasted = self.last_s - self.first_s
            return {"error": f"the stream ended after {lasted:.2f} s and {self.total_bytes} bytes"}
        received = self.last_bytes - self.mark_bytes
        return {"received_bytes": received, "seconds": seconds, "gbytes_per_s": received / seconds / 1e9}


def run(arguments: dict[str, Any], channel: Channel) -> dict[str, Any]:
    """Serve rounds until the controller has had enough; see the module's docstring."""
    node = Node(arguments)
    deadline = time.monotonic() + float(arguments["total_seconds"])
    channel.emit({"listening": [node.address, node.port]})
    rounds = 0
    with contextlib.suppress(TimeoutError, EOFError), node.listener:
        while True:
            message = channel.receive(max(0.001, deadline - time.monotonic()))
            if message.get("finish"):
                break
            channel.emit({"round": one_round(node, message["round"])})
            rounds += 1
    return {"rounds": rounds}


def one_round(node: Node, order: dict[str, Any]) -> dict[str, Any]:
    """Send to one peer and receive from another at the same time."""
    deadline = time.monotonic() + CONNECT_SECONDS + 2 * float(order["seconds"])
    with selectors.DefaultSelector() as selector:
        receiver = Receiver(node, selector, order) if order["receive_from"] else None
        sender = Sender(node, selector, order) if order["send_to"] else None
        parts = [part for part in (receiver, sender) if part]
        while not all(part.is_done for part in parts) and time.monotonic() < deadline:
            for key, events in selector.select(min(LOOK_SECONDS, max(0.0, deadline - time.monotonic()))):
                current = selector.get_map().get(key.fd)
                if current is not None and current.fileobj is key.fileobj:
                    key.data.ready(key.fileobj, events)
            if sender and not sender.is_done:
                sender.look()
        if sender and not sender.is_done:
            sender.end("" if sender.position else "filtered: no connection, or no answer")
        for connection in [*receiver.candidates, receiver.stream] if receiver else []:
            _close(selector, connection)
    result = {"shift": order["shift"], "from": order["receive_from"], **(receiver.reading() if receiver else {})}
    result |= sender.reading() if sender else {}
    return {**result, "send_error": sender.error} if sender and sender.error else result


def _unacknowledged(connection: socket.socket) -> int:
    """Bytes that the kernel took and the other end has not acknowledged (SIOCOUTQ)."""
    reported = fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(4))
    return int(struct.unpack("i", reported)[0])


def _sent_again(connection: socket.socket) -> float:
    """The share of the segments of a connection that were sent again; 0.0 where the kernel does not count them."""
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
    except OSError:
        return 0.0
    if len(info) < TCP_INFO_BYTES:
        return 0.0
    again, segments = struct.unpack_from("=100xI32xI", info)  # tcpi_total_retrans, tcpi_segs_out of linux/tcp.h
    return round(min(1.0, again / segments), 4) if segments else 0.0


def _close(selector: selectors.BaseSelector, connection: socket.socket | None) -> None:
    if connection is not None and connection.fileno() >= 0:
        if connection in selector.get_map():
            selector.unregister(connection)
        connection.close()


def _words(error: OSError, *, connected: bool) -> str:
    return f"{greeting.outcome_of(error, connected=connected)}: {os.strerror(error.errno or 0)}"
