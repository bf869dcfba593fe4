"""How one connection to a peer ends, whatever is at the other end."""

from __future__ import annotations

import socket
import struct
import threading
import time

import pytest

from preflight.node.calls import attempt, greeting, mesh


class Rogue:
    """A listener that is no peer: `answer(connection)` says what it does with whoever connects."""

    def __init__(self, answer):
        self.listener = socket.create_server(("127.0.0.2", 0))
        self.answer = answer
        self.held = []
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self):
        try:
            while True:
                connection, _ = self.listener.accept()
                self.held.append(connection)
                self.answer(connection)
        except OSError:
            return

    def peer(self, name="b"):
        """How others reach it."""
        return {"name": name, "address": "127.0.0.2", "port": self.listener.getsockname()[1]}

    def close(self):
        """Let everything go."""
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for connection in self.held:
            connection.close()
        self.thread.join(timeout=5)


@pytest.fixture
def rogue():
    started = []

    def start(answer):
        started.append(Rogue(answer))
        return started[-1]

    yield start
    for each in started:
        each.close()


def node_of(name, *, payload_bytes=65536):
    """A node on 127.0.0.1 whose loop the test turns."""
    arguments = {"name": name, "address": "127.0.0.1", "key": "ab" * 32, "bytes": payload_bytes}
    return mesh.Mesh({**arguments, "connect_seconds": 0.4, "total_seconds": 8.0})


def run_out(node, peer):
    """The edge of a single attempt of a node that has nothing else to do."""
    tried = attempt.Attempt(node, peer)
    node.under_way.add(tried)
    tried.start()
    while not tried.outcome:
        node.turn()
    node.close()
    return tried.edge()


def one_edge(peer, *, payload_bytes=65536):
    """The edge that node a reports of `peer`."""
    return run_out(node_of("a", payload_bytes=payload_bytes), peer)


def test_a_closed_port_is_refused():
    """Nobody listening is `refused`, at once."""
    with socket.create_server(("127.0.0.2", 0)) as closed:
        port = closed.getsockname()[1]
    edge = one_edge({"name": "b", "address": "127.0.0.2", "port": port})
    assert (edge["outcome"], edge["port"]) == ("refused", port)


def test_a_listener_that_accepts_and_says_nothing_is_no_echo(rogue):
    """A connect proves nothing: silence is not ok."""
    edge = one_edge(rogue(lambda connection: None).peer())
    assert edge["outcome"] == "no_echo"
    assert "within 0.8 s" in edge["detail"]


def test_a_stopped_peer_that_never_reads_tells_how_much_was_lost():
    """Data that was never taken is told, which separates lost large packets from a silent process."""
    with socket.create_server(("127.0.0.2", 0)) as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        edge = one_edge({"name": "b", "address": "127.0.0.2", "port": deaf.getsockname()[1]}, payload_bytes=1 << 20)
    assert edge["outcome"] == "no_echo"
    assert "never acknowledged" in edge["detail"]


def test_a_full_backlog_is_filtered():
    """A connection request that gets no answer is `filtered` after connect_seconds."""
    with socket.socket() as full:
        full.bind(("127.0.0.2", 0))
        full.listen(0)
        address = full.getsockname()
        fillers = [socket.socket() for _ in range(3)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(address)
        time.sleep(0.05)
        edge = one_edge({"name": "b", "address": address[0], "port": address[1]})
        for filler in fillers:
            filler.close()
    assert edge["outcome"] == "filtered"


def test_an_echo_server_is_the_wrong_peer(rogue):
    """Our own words sent back are no answer."""
    edge = one_edge(rogue(lambda connection: connection.sendall(connection.recv(4096))).peer())
    assert edge["outcome"] == "wrong_peer"


def test_a_server_that_speaks_first_is_the_wrong_peer(rogue):
    """An ssh banner is not the peer, and the detail shows what it was."""
    edge = one_edge(rogue(lambda connection: connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")).peer())
    assert edge["outcome"] == "wrong_peer"
    assert "SSH-2.0" in edge["detail"]


def test_a_reset_after_the_connect_is_told(rogue):
    """RST from a middlebox that accepts and throws away is `reset`."""

    def reset(connection):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    assert one_edge(rogue(reset).peer())["outcome"] == "reset"


def test_an_early_close_is_no_echo(rogue):
    """Half an answer, then the end, is `no_echo`."""

    def half(connection):
        received = 0
        while received < 65536:
            received += len(connection.recv(65536))
        connection.sendall(greeting.MAGIC[:3])
        connection.shutdown(socket.SHUT_WR)

    edge = one_edge(rogue(half).peer())
    assert (edge["outcome"], edge["detail"]) == ("no_echo", "closed after 3 of 40 bytes of the answer")


def test_a_peer_whose_address_is_our_own_is_looped():
    """A peer's name that leads back to this node is `looped`, not ok."""
    node = node_of("a")
    edge = run_out(node, {"name": "b", "address": "127.0.0.1", "port": node.port})
    assert (edge["outcome"], edge["detail"]) == ("looped", "the address of b is this node's own")


def test_a_connection_redirected_to_this_node_is_looped(rogue):
    """A forwarder that sends our words back to our own listener is seen by where the visitor comes from."""
    node = node_of("a")
    tried = attempt.Attempt(node, rogue(lambda connection: None).peer())
    node.under_way.add(tried)
    tried.start()
    while not tried.connected:
        node.turn()
    node.look_for_loop(("203.0.113.1", 1))
    assert tried.outcome == ""
    node.look_for_loop(tried.connection.getsockname())
    assert tried.outcome == "looped"
    node.close()


def test_a_source_address_that_cannot_reach_the_peer_is_local_or_unreachable():
    """A loopback source cannot leave the machine: told at once, as this node's own trouble or the route's."""
    edge = one_edge({"name": "b", "address": "203.0.113.1", "port": 9})
    assert edge["outcome"] in ("local", "unreachable")
    assert edge["detail"]
