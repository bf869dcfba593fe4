"""Tests of preflight.judge.tables.network.nccl_interfaces."""

from __future__ import annotations

import pytest

from preflight.judge.tables.network import nccl_interfaces
from preflight.testing import healthy, roce
from tests.checks.samples import with_interface


def test_a_start_on_the_training_interface_is_no_trouble():
    """The only interface leads to the peers."""
    cluster = healthy(2).cluster
    assert nccl_interfaces.first_trouble(cluster["node1"], cluster).words == ""


def test_an_interface_that_comes_first_and_leads_to_no_peer_is_named_until_a_variable_chooses():
    """With NCCL_SOCKET_IFNAME NCCL does not choose by itself."""
    run = with_interface(healthy(2), "node2", "wan0", "192.0.2.1", prefix=30, first=True)
    node = run.cluster["node2"]
    assert nccl_interfaces.of_nccl(node)[0].name == "wan0"
    assert "NCCL starts on wan0" in nccl_interfaces.first_trouble(node, run.cluster).words
    run = run.with_variables("node2", NCCL_SOCKET_IFNAME="eth0")
    assert nccl_interfaces.first_trouble(run.cluster["node2"], run.cluster).words == ""


@pytest.mark.parametrize(("value", "words"), [("eth0", ("eth0 takes eth0.7 too, as a prefix",)), ("=eth0", ())])
def test_a_name_is_a_prefix_unless_it_is_exact(value, words):
    """A VLAN begins with the name of the interface below it."""
    run = with_interface(healthy(2), "node1", "eth0.7", "192.0.2.1").with_variables("node1", NCCL_SOCKET_IFNAME=value)
    taken = nccl_interfaces.taken_by_prefix(run.cluster["node1"], run.cluster)
    assert tuple(one.words for one in taken) == words


@pytest.mark.parametrize(("run", "is_over_rdma"), [(healthy(2), False), (roce(2), True)], ids=["tcp", "roce"])
def test_data_goes_over_rdma_where_ports_are_active(run, is_over_rdma):
    """Then sockets serve for the start only."""
    assert nccl_interfaces.goes_over_rdma(run.cluster["node1"]) == is_over_rdma


@pytest.mark.parametrize(("value", "is_choice"), [("", False), ("e", False), ("en", True), ("=eth0", True)])
def test_a_value_of_one_letter_chooses_nothing(value, is_choice):
    """NCCL ignores it."""
    (node, *_) = healthy(2).with_variables(NCCL_SOCKET_IFNAME=value).cluster
    assert nccl_interfaces.has_choice(node) is is_choice
