"""Tests of preflight.tables.proxies."""

from __future__ import annotations

import pytest

from preflight.tables import proxies


@pytest.mark.parametrize(
    ("no_proxy", "is_excepted"),
    [
        ("*", True),
        ("localhost,10.0.0.2", True),
        ("localhost, 10.0.0.0/24", True),
        (".cluster.example", True),
        ("*.cluster.example", True),
        ("cluster.example", True),
        ("", False),
        ("localhost,127.0.0.1", False),
        ("10.0.1.0/24", False),
        ("uster.example", False),
    ],
)
def test_a_peer_is_left_out_by_name_address_or_network(no_proxy, is_excepted):
    """As curl, requests and gRPC read it."""
    assert proxies.excepts(no_proxy, {"10.0.0.2", "node2.cluster.example"}) is is_excepted
