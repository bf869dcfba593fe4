"""Do commands for RDMA name the node's own ports, rows and interfaces?"""

from __future__ import annotations

import pytest

from preflight.testing import roce
from tests.checks.samples import renamed, with_netdevs, without_gid
from tests.checks.test_rdma import opened
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


def test_two_findings_about_one_list_say_the_same_list():
    """A device that an entry takes as a prefix alone is in neither."""
    run = renamed(as_root(roce()), "node2", 7, "mlx5_10").with_variables(NCCL_IB_HCA="mlx5_1")
    checks = ("rdma.nccl_ib_hca_takes_no_more_than_it_names", "rdma.devices_have_the_same_names_on_every_node")
    found = [typed(run, check)["node2"] for check in checks]
    assert found == ["export NCCL_IB_HCA==mlx5_1"] * 2


def test_the_interface_of_a_port_gets_the_mtu_of_the_others():
    """And not the training interface."""
    run = with_netdevs(as_root(roce())).broken_rdma_port("node2", active_mtu=1024)
    run = run.broken_interface("node2", "rdma0", mtu=1500)
    found = typed(run, "rdma.active_mtu_is_the_same_on_every_node")
    assert found == {"node2": "ip link set dev rdma0 mtu 4200"}


def test_a_node_without_a_port_of_that_name_is_not_asked_for_its_mtu():
    """One of the others calls it something else, or its port is down."""
    run = with_netdevs(as_root(roce(5))).broken_rdma_port("node2", active_mtu=1024)
    run = renamed(run, "node3", 0, "mlx5_9").broken_rdma_port("node4", state="DOWN")
    found = typed(run, "rdma.active_mtu_is_the_same_on_every_node")
    assert found["node2"] == "ip link set dev rdma0 mtu 4200"


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


@pytest.mark.parametrize(
    ("setting", "of_the_others", "own", "command"),
    [
        ("trust", "dscp", "pcp", "mlnx_qos -i rdma4 --trust dscp"),
        ("pfc_priorities", "3", "none", "mlnx_qos -i rdma4 --pfc 0,0,0,1,0,0,0,0"),
        ("pfc_priorities", "0, 7", "3", "mlnx_qos -i rdma4 --pfc 1,0,0,0,0,0,0,1"),
        (
            "traffic_class",
            "106",
            "0",
            "printf '%s\\n' 106 | tee /sys/class/infiniband/mlx5_4/tc/1/traffic_class >/dev/null",
        ),
    ],
)
def test_flow_control_becomes_that_of_the_others(setting, of_the_others, own, command):
    """By the tool or file of the setting, for the interface of the port."""
    run = with_netdevs(as_root(roce()))
    for name in run.names:
        run = run.broken_rdma_port(name, 4, **{setting: of_the_others})
    run = run.broken_rdma_port("node2", 4, **{setting: own})
    assert typed(run, "rdma.flow_control_is_the_same_on_every_node") == {"node2": command}


def test_congestion_control_is_switched_by_priority_and_side():
    """On for those of the others and off for the rest, as receiver and as sender."""
    run = with_netdevs(as_root(roce()))
    for name in run.names:
        run = run.broken_rdma_port(name, 4, ecn_priorities="3")
    run = run.broken_rdma_port("node2", 4, ecn_priorities="none")
    lines = typed(run, "rdma.flow_control_is_the_same_on_every_node")["node2"].split(" && ")
    assert len(lines) == 16
    on = [line for line in lines if line.startswith("printf '%s\\n' 1 ")]
    assert [line.split()[-2] for line in on] == [
        f"/sys/class/net/rdma4/ecn/{side}/enable/3" for side in ("roce_np", "roce_rp")
    ]
    assert {line.split()[2] for line in lines if line not in on} == {"0"}


@pytest.mark.parametrize(
    ("words", "start"),
    [
        ("/dev/infiniband/uverbs0: Permission denied", "chmod a+rw /dev/infiniband/uverbs*"),
        ("ibv_open_device: EACCES", "chmod a+rw /dev/infiniband/uverbs*"),
        ("/dev/infiniband/uverbs0: No such file or directory", "modprobe -a ib_uverbs"),
    ],
)
def test_devices_that_cannot_be_opened_get_rights_or_their_driver(words, start):
    """By what the attempt said; a container is given its devices from outside."""
    name = "rdma.devices_can_be_opened"
    run = opened(as_root(roce()), "node2", words)
    assert typed(run, name) == {"node2": start}
    assert "/etc/" in typed(run, name, lasting=True)["node2"]
    assert typed(run.broken("node2", "identity", context="container"), name) == {}


def test_a_list_of_ports_keeps_to_infiniband_where_there_is_any():
    """A RoCE port beside it is for other traffic; with RoCE alone all that are up are taken."""
    run = as_root(roce(4)).with_variables("node2", NCCL_IB_HCA="mlx4_0")
    some = run.broken_rdma_port("node2", 0, state="DOWN").broken_rdma_port("node2", 3, link_layer="InfiniBand")
    name = "rdma.nccl_ib_hca_matches_a_port"
    assert typed(some, name) == {"node2": "export NCCL_IB_HCA==mlx5_3"}
    down = run.broken_rdma_port("node2", 0, state="DOWN")
    assert typed(down, name) == {"node2": f"export NCCL_IB_HCA=={EIGHT.removeprefix('mlx5_0,')}"}
