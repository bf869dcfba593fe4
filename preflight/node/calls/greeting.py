"""How do two nodes open a connection on a random port, and how does each know who the other is?

The connecting side says MAGIC, its name and HMAC-SHA256(key, "source>target:port:purpose"); the listening side stays
silent until that is right, then answers with the HMAC of the same words and "reply". The key is the run's.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import socket
import struct

MAGIC = b"PFLIGHT1"
TOKEN_BYTES = 32
REPLY_BYTES = len(MAGIC) + TOKEN_BYTES
STRANGER_SECONDS = 5.0
BACKLOG = 1024
# Not in Python 3.9's socket module: the port is chosen at connect, so that many connections may share one.
IP_BIND_ADDRESS_NO_PORT = 24

LOCAL_ERRORS = frozenset(
    (
        *(errno.EADDRNOTAVAIL, errno.EADDRINUSE, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM),
        *(errno.EINVAL, errno.EACCES, errno.EPERM, errno.EAFNOSUPPORT, errno.ENODEV),
    )
)
UNREACHABLE_ERRORS = frozenset((errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN))


class Stranger(Exception):
    """The other end does not hold the key of this run."""


class Edge:
    """One direction between two nodes on one port for one purpose, and the words that prove it."""

    def __init__(self, key: bytes, *, source: str, target: str, port: int, purpose: str = "mesh") -> None:
        self.key = key
        self.source = source
        self.words = f"{source}>{target}:{port}:{purpose}"

    def token(self, side: str) -> bytes:
        """Proof of holding the key, good for nothing else."""
        return hmac.new(self.key, f"{self.words}:{side}".encode(), hashlib.sha256).digest()

    def request(self) -> bytes:
        """The header that the connecting side sends."""
        name = self.source.encode()
        return MAGIC + struct.pack(">B", len(name)) + name + self.token("request")

    def reply(self) -> bytes:
        """What the listening side answers to it."""
        return MAGIC + self.token("reply")


def read_request(
    received: bytes, key: bytes, *, target: str, port: int, purpose: str = "mesh"
) -> tuple[Edge, int] | None:
    """Who connected and the length of the header; None while it is incomplete; Stranger when it is none of ours."""
    if received[: len(MAGIC)] != MAGIC[: len(received)]:
        raise Stranger("not our protocol")
    if len(received) <= len(MAGIC):
        return None
    start = len(MAGIC) + 1
    end = start + received[len(MAGIC)]
    if len(received) < end + TOKEN_BYTES:
        return None
    try:
        source = received[start:end].decode()
    except UnicodeDecodeError:
        raise Stranger("a name that is not text") from None
    edge = Edge(key, source=source, target=target, port=port, purpose=purpose)
    if not hmac.compare_digest(edge.token("request"), received[end : end + TOKEN_BYTES]):
        raise Stranger("a header with a wrong token")
    return edge, end + TOKEN_BYTES


def payload(key: bytes, length: int) -> bytes:
    """Bytes that neither compress nor repeat, the same on every node that holds the key."""
    return hashlib.shake_256(b"payload" + key).digest(length)


def family(address: str) -> socket.AddressFamily:
    """The family of a numeric address."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def listen(address: str, port: int = 0) -> socket.socket:
    """A listener on this very address, never on all of them, and this port; the kernel picks one where it is 0."""
    listener = socket.socket(family(address), socket.SOCK_STREAM)
    try:
        if port:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return listener


def begin_connect(address: str, port: int, *, source_address: str, user_timeout_s: float) -> socket.socket:
    """A connection under way from `source_address`, by the routes where it is ""; OSError when refused at once."""
    connection = socket.socket(family(source_address or address), socket.SOCK_STREAM)
    try:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(user_timeout_s * 1000))
        if connection.family == socket.AF_INET:
            connection.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
        if source_address:
            connection.bind((source_address, 0))
        connection.connect((address, port))
    except BlockingIOError:
        return connection
    except OSError:
        connection.close()
        raise
    return connection


def is_to_itself(connection: socket.socket) -> bool:
    """Whether TCP connected a socket to itself, as happens when a closed port of the ephemeral range is dialled."""
    return bool(connection.getsockname() == connection.getpeername())


def outcome_of(error: OSError, *, connected: bool) -> str:
    """One word for an error of a connection."""
    number = error.errno
    if number == errno.ECONNREFUSED:
        return "reset" if connected else "refused"
    # A connection that was made and reset before anybody asked for its other end is not connected any more.
    if number in (errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED, errno.ENOTCONN):
        return "reset"
    if number == errno.ETIMEDOUT:
        # Once connected this is TCP_USER_TIMEOUT: what we sent was never acknowledged.
        return "no_echo" if connected else "filtered"
    if number in UNREACHABLE_ERRORS:
        return "unreachable"
    if number in LOCAL_ERRORS and not connected:
        return "local"
    return "reset" if connected else "local"
