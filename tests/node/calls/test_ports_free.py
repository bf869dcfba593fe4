"""Is the port that a node calls free one that a program may bind?"""

from __future__ import annotations

import socket

import pytest

from preflight.node.calls import ports_free
from tests.node.wire import opened


@pytest.mark.parametrize(
    ("address", "family"),
    [("127.0.0.1", socket.AF_INET), ("10.9.8.7", socket.AF_INET), ("::1", socket.AF_INET6)],
)
def test_the_port_can_be_bound_on_all_addresses(address, family):
    """It is released again, for the family that the address is of."""
    port = ports_free.run({"address": address}, None)["port"]
    with socket.socket(family, socket.SOCK_STREAM) as taker:
        taker.bind(("", port))
        assert 0 < port < 65536


def test_two_jobs_get_two_ports():
    """Asking twice does not give one port to two jobs that start together."""
    with opened() as wire:
        wire.call(1, "free_port", {"address": "127.0.0.1"})
        first = wire.outcome(1)[1]["result"]["port"]
        with socket.socket() as taker:
            taker.bind(("", first))
            wire.call(2, "free_port", {"address": "127.0.0.1"})
            assert wire.outcome(2)[1]["result"]["port"] != first
