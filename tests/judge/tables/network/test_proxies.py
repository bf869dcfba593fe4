"""Tests of preflight.judge.tables.network.proxies."""

from __future__ import annotations

import pytest

from preflight.judge.tables.network import proxies
from preflight.said.errors import FactMissing
from preflight.testing import healthy


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


def test_nodes_with_the_same_entries_are_looked_for_once(monkeypatch):
    """Where thousands of nodes have a proxy, each would else be compared with each."""
    asked = []
    monkeypatch.setattr(proxies, "excepts", lambda entries, names: asked.append(names) or "node1" in names)
    cluster = healthy(3).cluster
    found = [proxies.caught("10.0.0.1", node, cluster) for node in cluster]
    assert found == ["any peer", "node3", "node2"]
    assert len(asked) == 6  # an address and a name of each


def test_a_peer_that_lost_its_name_is_left_out_by_its_address_or_not_known_to_be():
    """What is known to be caught is said; else the lost name is the reason of those who need it, except its own."""
    cluster = healthy(3).without("node3", "identity", "the tool broke").cluster
    node1, _, node3 = cluster
    assert proxies.caught("10.0.0.0/24", node1, cluster) == ""
    assert proxies.caught("", node1, cluster) == "node2"
    with pytest.raises(FactMissing, match="hostname of node3: the tool broke"):
        proxies.caught("10.0.0.1,node2", node1, cluster)
    assert proxies.caught("10.0.0.1,node2", node3, cluster) == ""
    assert proxies.caught("", node3, cluster) == "any peer"
