"""Which peers can this node reach on random ports, with data, and which of them reached it?

``arguments``: ``name`` of this node, ``address`` it trains on, ``key`` of the run (hex), ``bytes`` of data per
connection, ``connect_seconds``, ``total_seconds``; and where it is about one port of one node: ``port`` to listen on
(0: any), ``source`` to connect from ("": by the routes), ``about``: the port whose firewall rules are reported if a
connection fails.
Events: {"listening": [address, port]}, then {"tried": count} when every own connection has an outcome.
Messages: {"peers": [{"name", "address", "port"}], "expect": [names]} first; {"finish": true} ends the call early.
"""

from __future__ import annotations

import collections
import selectors
import time

from preflight.node.calls import greeting
from preflight.node.calls.attempt import Attempt

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Any

    from preflight.node.agent.channel import Channel

CONCURRENT = 256  # of our own connections under way at a time: descriptors, not speed, are the limit
TICK_SECONDS = 0.05
READ_BYTES = 1 << 16
KEPT_OUT = ("filtered", "refused", "unreachable", "local")
CUT = ("reset", "no_echo")
NOT_CONNECTED = ("filtered", "refused", "unreachable", "local", "reset", "wrong_peer", "looped")
MOST_WAYS = 4
MOST_RULES = 8


class Visitor:
    """One connection that came in: silent until the header and all the data are right."""

    def __init__(self, mesh: Mesh, address: tuple[Any, ...]) -> None:
        self.mesh = mesh
        self.address = address
        self.received = bytearray()
        self.edge: greeting.Edge | None = None  # known once the header is right
        self.length = 0
        self.deadline = time.monotonic() + greeting.STRANGER_SECONDS

    def ready(self, connection: socket.socket, _events: int) -> None:
        """Read what has arrived."""
        try:
            data = connection.recv(READ_BYTES)
            if not data:
                raise greeting.Stranger("closed early")
            self.received += data
            if self.edge is None:
                self._read_header()
            if self.edge is not None and len(self.received) >= self.length:
                self._answer(connection, self.edge)
        except BlockingIOError:
            pass
        except (OSError, greeting.Stranger):
            self.mesh.look_for_loop(self.address)
            self.drop(connection)

    def _read_header(self) -> None:
        mesh = self.mesh
        header = greeting.read_request(bytes(self.received), mesh.key, target=mesh.name, port=mesh.port)
        if header is not None:
            self.edge, start = header
            self.length = start + len(mesh.payload)
            self.deadline += greeting.STRANGER_SECONDS

    def _answer(self, connection: socket.socket, edge: greeting.Edge) -> None:
        mesh = self.mesh
        if self.received[-len(mesh.payload) :] != mesh.payload or len(self.received) != self.length:
            raise greeting.Stranger("other data than was announced")
        connection.send(edge.reply())
        mesh.heard.add(edge.source)
        mesh.visitors.pop(connection)
        mesh.release(connection)

    def drop(self, connection: socket.socket) -> None:
        """Close without an answer."""
        self.mesh.strangers += 1
        self.mesh.visitors.pop(connection)
        self.mesh.release(connection)


class Mesh:
    """All connections of this node, own and others', in one loop."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        self.name = str(arguments["name"])
        self.address = str(arguments["address"])
        self.key = bytes.fromhex(arguments["key"])
        self.connect_seconds = float(arguments["connect_seconds"])
        self.payload = greeting.payload(self.key, int(arguments["bytes"]))
        self.deadline = time.monotonic() + float(arguments["total_seconds"])
        self.selector = selectors.DefaultSelector()
        self.source = str(arguments.get("source", self.address))
        self.listener = greeting.listen(self.address, int(arguments.get("port", 0)))
        self.port = int(self.listener.getsockname()[1])
        self.under_way: set[Attempt] = set()
        self.visitors: dict[socket.socket, Visitor] = {}
        self.heard: set[str] = set()
        self.strangers = 0
        self.visitor_limit = 8
        self.selector.register(self.listener, selectors.EVENT_READ, self)

    def ready(self, listener: socket.socket, _events: int) -> None:
        """Accept a connection."""
        try:
            connection, address = listener.accept()
        except OSError:
            return  # the peer left again, or descriptors ran out: the next tick drops idle visitors
        connection.setblocking(False)
        if len(self.visitors) >= self.visitor_limit:
            # The visitor that has been here longest without showing the key makes room.
            unknown = [held for held, visitor in self.visitors.items() if visitor.edge is None]
            oldest = unknown[0] if unknown else next(iter(self.visitors))
            self.visitors[oldest].drop(oldest)
        self.visitors[connection] = Visitor(self, address)
        self.selector.register(connection, selectors.EVENT_READ, self.visitors[connection])

    def look_for_loop(self, address: tuple[Any, ...]) -> None:
        """A visitor from `address` was not a peer: it may be our own attempt, redirected to us."""
        for attempt in list(self.under_way):
            attempt.end_if_from(address)

    def release(self, connection: socket.socket | None) -> None:
        """Forget and close a socket."""
        if connection is not None:
            if connection in self.selector.get_map():
                self.selector.unregister(connection)
            connection.close()

    def turn(self) -> None:
        """Serve the sockets that are ready, then drop those that are late."""
        for key, events in self.selector.select(TICK_SECONDS):
            # An earlier event of this turn may have closed the socket of a later one, and its number be in use again.
            current = self.selector.get_map().get(key.fd)
            if current is not None and current.fileobj is key.fileobj:
                key.data.ready(key.fileobj, events)
        now = time.monotonic()
        for attempt in [attempt for attempt in self.under_way if attempt.deadline < now]:
            attempt.expire()
        for connection, visitor in [item for item in self.visitors.items() if item[1].deadline < now]:
            visitor.drop(connection)

    def close(self) -> None:
        """End whatever is still open."""
        for attempt in list(self.under_way):
            attempt.expire()
        for connection, visitor in list(self.visitors.items()):
            visitor.drop(connection)
        self.release(self.listener)
        self.selector.close()


def run(arguments: dict[str, Any], channel: Channel) -> dict[str, Any]:
    """Listen, connect to all peers at once, and answer those that connect to us; see the module's docstring."""
    mesh = Mesh(arguments)
    channel.emit({"listening": [mesh.address, mesh.port]})
    orders = channel.receive(max(0.001, mesh.deadline - time.monotonic()))
    waiting = collections.deque(orders.get("peers", []))
    expected = set(orders.get("expect", []))
    mesh.visitor_limit = 2 * len(expected) + 8
    attempts: list[Attempt] = []
    is_tried = False
    while time.monotonic() < mesh.deadline:
        while waiting and len(mesh.under_way) < CONCURRENT:
            attempt = Attempt(mesh, waiting.popleft())
            attempts.append(attempt)
            mesh.under_way.add(attempt)
            attempt.start()
        mesh.turn()
        if not waiting and not mesh.under_way and not is_tried:
            is_tried = True
            channel.emit({"tried": len(attempts)})
        if is_tried and (expected <= mesh.heard or _is_finished(channel)):
            break
    mesh.close()
    return {
        "edges": [attempt.edge() for attempt in attempts],
        "heard": sorted(mesh.heard),
        "strangers": mesh.strangers,
        "filters": filters(mesh.port, attempts, expected - mesh.heard, about=int(arguments.get("about", 0))),
        "ways": ways([attempt for attempt in attempts if attempt.outcome in NOT_CONNECTED]),
    }


def filters(port: int, attempts: list[Attempt], unheard: set[str], *, about: int = 0) -> list[dict[str, str]]:
    """The firewall rules of this node that may have blocked connections in or out; none where no connection failed.

    `about` is the one port to report on, where there is one.
    """
    refused = [attempt for attempt in attempts if attempt.outcome in KEPT_OUT]
    cut = [attempt for attempt in attempts if attempt.outcome in CUT]
    if not (refused or cut or unheard):
        return []
    from preflight.node.sources.firewall import Packet, rules_against

    packets = []
    if unheard:
        heard_at = about or port
        packets += [Packet("request", "input", heard_at), Packet("answer", "output", heard_at)]
        packets += [Packet("data", "input", heard_at)]
    for attempt in refused[:1]:
        asked = about or int(attempt.peer["port"])
        packets += [Packet("request", "output", asked), Packet("answer", "input", asked, attempt.source_port)]
    packets += [Packet("data", "output", about or int(attempt.peer["port"])) for attempt in cut[:1]]
    return rules_against(packets)[:MOST_RULES]


def ways(failed: list[Attempt]) -> list[dict[str, str]]:
    """The routes to the first unreachable peers: interface, gateway, MAC address."""
    from preflight.node.agent import netlink
    from preflight.node.agent import sockets as plain

    found = []
    for attempt in failed[:MOST_WAYS]:
        address = attempt.peer["address"]
        try:
            index, gateway = netlink.way_to(address)
            hardware, state = netlink.hardware_of().get((index, gateway or address), ("", ""))
            name = dict(plain.if_nameindex()).get(index, "")
        except OSError as error:
            if error.errno in netlink.NO_ROUTE:  # else a sandbox without rtnetlink
                nothing = dict.fromkeys(("interface", "gateway", "hardware"), "")
                found.append({"to": attempt.peer["name"], **nothing, "state": "no route"})
            continue
        way = {"to": attempt.peer["name"], "interface": name, "gateway": gateway, "hardware": hardware, "state": state}
        found.append(way)
    return found


def _is_finished(channel: Channel) -> bool:
    try:
        return bool(channel.receive(0.001).get("finish"))
    except TimeoutError:
        return False
    except EOFError:
        return True
