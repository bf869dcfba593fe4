"""Tests of preflight.judge.tables.network.interfaces."""

from __future__ import annotations

from preflight.judge.tables.network import interfaces
from preflight.testing import healthy
from tests.checks.samples import with_interface


def test_a_peer_is_found_by_subnet_or_by_route():
    """Another address of the subnet, not our own one on another machine."""
    run = with_interface(healthy(2), "node1", "eth1", "192.168.0.1")
    node = run.cluster["node1"]
    assert interfaces.leads_to_a_peer(node.network.interface("eth0"), node, run.cluster)
    assert not interfaces.leads_to_a_peer(node.network.interface("eth1"), node, run.cluster)
    run = with_interface(run, "node2", "eth1", "192.168.0.1")
    assert not interfaces.leads_to_a_peer(node.network.interface("eth1"), node, run.cluster)
