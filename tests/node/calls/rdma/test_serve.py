"""Tests of preflight.node.calls.rdma.serve; who meets its servers is in test_write.py."""

import socket

from preflight.node.calls.rdma import serve


def test_each_server_has_a_port_of_its_own():
    """Free on all addresses, and released again."""
    ports = serve.free_ports(8, socket.AF_INET)
    assert len(set(ports)) == 8
    with socket.socket() as probe:
        probe.bind(("", ports[0]))
