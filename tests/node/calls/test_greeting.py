"""What nodes say to each other first, and one word for every error."""

from __future__ import annotations

import errno
import socket

import pytest

from preflight.node.calls import greeting

KEY = b"k" * 32


def test_a_self_connected_socket_is_recognised():
    """TCP's simultaneous open with oneself is seen by equal ends."""
    with socket.socket() as itself:
        itself.bind(("127.0.0.1", 0))
        itself.connect(itself.getsockname())
        assert greeting.is_to_itself(itself)


def test_a_header_for_another_port_or_name_is_refused():
    """A header that was seen elsewhere cannot be used here."""
    for target, port in (("c", 5000), ("b", 5001)):
        header = greeting.Edge(KEY, source="a", target=target, port=port).request()
        with pytest.raises(greeting.Stranger):
            greeting.read_request(header, KEY, target="b", port=5000)
    header = greeting.Edge(KEY, source="a", target="b", port=5000).request()
    assert greeting.read_request(header[:-1], KEY, target="b", port=5000) is None
    edge, length = greeting.read_request(header, KEY, target="b", port=5000)
    assert (edge.source, length) == ("a", len(header))


@pytest.mark.parametrize("garbage", [b"SSH-2.0-OpenSSH", b"\x16\x03\x01", greeting.MAGIC + b"\x02\xff\xfe" + bytes(32)])
def test_garbage_is_a_stranger(garbage):
    """Another protocol is seen at its first bytes, a broken name when it is complete."""
    with pytest.raises(greeting.Stranger):
        greeting.read_request(garbage, KEY, target="b", port=5000)


def test_request_and_reply_are_different_proofs():
    """What was heard in one direction or for one purpose does not answer in another."""
    edge = greeting.Edge(KEY, source="a", target="b", port=5000)
    back = greeting.Edge(KEY, source="b", target="a", port=5000)
    other = greeting.Edge(KEY, source="a", target="b", port=5000, purpose="stream1")
    proofs = {each.token(side) for each in (edge, back, other) for side in ("request", "reply")}
    assert len(proofs) == 6
    assert len(edge.reply()) == greeting.REPLY_BYTES


def test_the_payload_is_the_same_for_the_same_key_only():
    """Both ends derive the data, so it need not be agreed on."""
    assert greeting.payload(KEY, 65536) == greeting.payload(KEY, 65536)
    assert len(greeting.payload(KEY, 65536)) == 65536
    assert greeting.payload(KEY, 64) != greeting.payload(b"x" * 32, 64)


@pytest.mark.parametrize(
    ("number", "connecting", "connected"),
    [
        (errno.ECONNREFUSED, "refused", "reset"),
        (errno.ECONNRESET, "reset", "reset"),
        (errno.EPIPE, "reset", "reset"),
        (errno.ENOTCONN, "reset", "reset"),
        (errno.ETIMEDOUT, "filtered", "no_echo"),
        (errno.EHOSTUNREACH, "unreachable", "unreachable"),
        (errno.ENETUNREACH, "unreachable", "unreachable"),
        (errno.EADDRNOTAVAIL, "local", "reset"),
        (errno.EMFILE, "local", "reset"),
    ],
)
def test_errors_have_one_word_each(number, connecting, connected):
    """The same error means one thing while connecting and another on a connection."""
    assert greeting.outcome_of(OSError(number, ""), connected=False) == connecting
    assert greeting.outcome_of(OSError(number, ""), connected=True) == connected
