"""Do commands for RDMA name the node's own ports, rows and interfaces?"""

from __future__ import annotations

import pytest

from preflight.testing import roce
from tests.checks.samples import renamed, with_netdevs, without_gid
from tests.judge.commands.test_every_check import port_off
from tests.judge.commands.typed import as_root, typed

EIGHT = ",".join(f"mlx5_{number}" for number in range(8))


@pytest.mark.parametrize("value", ["mlx4_0", "^mlx5"])
def test_a_list_that_matches_nothing_becomes_the_ports_that_are_up(value):
    """Exactly these."""
    run = as_root(roce()).with_variables("node2", NCCL_IB_HCA=value)
    assert typed(run, "rdma.nccl_ib_hca_matches_a_port") == {"node2": f"export NCCL_IB_HCA=={EIGHT}"}


def test_a_node_with_other_names_gets_a_list_of_its_own():
    """In its own words."""
    run = renamed(as_root(roce()), "node2", 0, "mlx5_9")
    found = typed(run, "rdma.devices_have_the_same_names_on_every_node")
    assert found["node2"] == f"export NCCL_IB_HCA==mlx5_9,{EIGHT.removeprefix('mlx5_0,')}"


def test_the_interface_of_a_port_gets_the_mtu_of_the_others():
    """And not the training interface."""
    run = with_netdevs(as_root(roce())).broken_rdma_port("node2", active_mtu=1024)
    run = run.broken_interface("node2", "rdma0", mtu=1500)
    found = typed(run, "rdma.active_mtu_is_the_same_on_every_node")
    assert found == {"node2": "ip link set dev rdma0 mtu 4200"}


def test_an_interface_that_is_switched_off_is_switched_on():
    """That of the port; one that is up and has no link needs a cable."""
    run = with_netdevs(as_root(roce()))
    name = "rdma.ports_are_active"
    assert typed(port_off(run, "node2"), name) == {"node2": "ip link set dev rdma0 up"}
    assert typed(run.broken_rdma_port("node2", state="DOWN"), name) == {}


def test_a_port_without_an_address_gets_no_index():
    """None would be right; elsewhere it is the row of the node's own tables."""
    name = "rdma.gid_index_exists_on_every_node"
    run = with_netdevs(as_root(roce()))
    assert typed(without_gid(run, "node2", 3), name) == {}
    assert typed(run.with_variables("node2", NCCL_IB_GID_INDEX="7"), name) == {"node2": "export NCCL_IB_GID_INDEX=3"}
