"""Who is where in a job on these nodes, and what is each node told?"""

from __future__ import annotations

import dataclasses
import subprocess

import msgspec
import pytest

from preflight.facts.value import Missing
from preflight.launch.layout import exports, variables
from preflight.launch.write import write_files
from preflight.said.errors import UsageError
from tests.launch.nodes import cluster, cluster_of, node


def replaced(facts, subject, **fields):
    """The node with other values in one subject."""
    changed = msgspec.structs.replace(facts.subjects[subject], **fields)
    return dataclasses.replace(facts, subjects={**facts.subjects, subject: changed})


def written(nodes, launcher="torchrun", **more):
    return write_files(launcher, nodes, folder="/shared/out", **more)


def test_a_node_is_told_its_interface_adapters_and_gid():
    """Exactly: eth1 alone would take eth10 too."""
    assert variables(node(0, hcas=("mlx5_0",))) == {
        "NCCL_SOCKET_IFNAME": "=eth0",
        "GLOO_SOCKET_IFNAME": "eth0",
        "NCCL_IB_HCA": "=mlx5_0:1",
        "NCCL_IB_GID_INDEX": "3",
    }


def test_a_node_is_told_no_more_than_its_facts_tell():
    """Without RDMA nothing of it; without an interface, or with loopback alone, nothing at all."""
    given = node(0)
    assert set(variables(given)) == {"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"}
    without = dataclasses.replace(given, subjects={}, missing={"network": Missing("netlink broke")})
    assert variables(without) == {}
    assert variables(replaced(given, "network", training="lo")) == {}
    silent = dataclasses.replace(given, missing={"rdma": Missing("no sysfs")})
    del silent.subjects["rdma"]
    assert "NCCL_IB_HCA" not in variables(silent)


@pytest.mark.parametrize("value", ["a b", "it's", "$HOME", "`x`", "a\nb", "", '"'])
def test_a_value_reaches_the_program_as_it_is(value):
    """Whatever a shell would make of it."""
    script = exports({"VALUE": value}) + 'printf %s "$VALUE"'
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == value


def test_a_node_without_a_host_of_a_plain_name_has_a_plain_file():
    """Neither a shell nor a file system takes a part of it for its own."""
    nodes = cluster_of(*(dataclasses.replace(node(i), name=name) for i, name in enumerate(("fd00::1%eth0", "a b/c"))))
    assert sorted(written(nodes)) == ["a-b-c.sh", "fd00--1-eth0.sh"]


@pytest.mark.parametrize(("gpus", "slots", "count"), [(8, 0, 8), (8, 4, 4), (0, 0, 1), (0, 3, 3)])
def test_a_node_starts_a_process_for_each_slot_or_gpu(gpus, slots, count):
    """The hostfile's word wins; without either it is one."""
    nodes = cluster_of(*(dataclasses.replace(node(index, gpus=gpus), slots=slots) for index in range(2)))
    assert f"--nproc_per_node={count} " in written(nodes)["node2.sh"]


def test_a_node_alone_starts_two_processes_that_meet_on_loopback():
    """So that there is something to train together, and no network in between."""
    (text,) = written(cluster(1, gpus=0)).values()
    assert "--nnodes=1 --node_rank=0 --nproc_per_node=2 --master_addr=127.0.0.1" in text


def test_rank_0_listens_on_a_port_that_is_free_on_its_node():
    """Neither one in use nor one that the kernel may hand out to others."""
    low = cluster_of(replaced(node(0), "network", ephemeral_ports=(29000, 60999)), node(1))
    assert "--master_port=20000" in written(low)["node1.sh"]
    without = dataclasses.replace(node(0), missing={"ports": Missing("not asked")})
    del without.subjects["ports"]
    assert "--master_port=29500" in written(cluster_of(without, node(1)))["node1.sh"]


def test_a_node_without_a_free_port_is_named():
    """All that would be tried are the kernel's own to hand out."""
    full = cluster_of(replaced(node(0), "network", ephemeral_ports=(1024, 65535)), node(1))
    with pytest.raises(UsageError, match="no free port for rank 0 on node1"):
        written(full)
