"""Does each method break one thing, in a copy, and refuse what no node could say?"""

from __future__ import annotations

import pytest

from preflight.said.errors import FactMissing
from preflight.testing import healthy, infiniband, roce


def test_breaking_one_node_leaves_the_original_and_the_others_as_they_were():
    """A cluster may be shared by all tests of a module."""
    whole = healthy()
    broken = whole.broken("node3", "kernel", oom_kills=4)
    assert [node.kernel.oom_kills for node in broken.cluster] == [0, 0, 4]
    assert [node.kernel.oom_kills for node in whole.cluster] == [0, 0, 0]


@pytest.mark.parametrize(
    ("words", "kind", "message"),
    [
        (("node9", "kernel", {"oom_kills": 4}), KeyError, "node9"),
        (("node1", "kernal", {"oom_kills": 4}), KeyError, "kernal"),
        (("node1", "kernel", {"oom": 4}), TypeError, "oom"),
        (("node1", "kernel", {"oom_kills": "four"}), TypeError, r"no node could send .* kernel: .*\$\.oom_kills"),
    ],
)
def test_what_does_not_exist_cannot_be_broken(words, kind, message):
    """A misspelt word must not give a healthy cluster, nor a broken one that no node could be."""
    node, subject, fields = words
    with pytest.raises(kind, match=message):
        healthy().broken(node, subject, **fields)


def test_devices_are_broken_one_at_a_time():
    """An interface, a GPU, an RDMA port."""
    assert healthy().broken_interface("node2", mtu=1400).cluster["node2"].network.interface("eth0").mtu == 1400
    busy = roce().broken_gpu("node2", 5, processes=1).cluster["node2"].gpu.readable()
    assert [gpu.index for gpu in busy if gpu.is_busy()] == [5]
    down = infiniband().broken_rdma_port("node2", 3, state="DOWN").cluster["node2"].rdma
    assert [device.name for device in down.devices if device.ports[0].state == "DOWN"] == ["mlx5_3"]
    with pytest.raises(ValueError, match="ib0"):
        healthy().broken_interface("node2", "ib0", mtu=1400)


def test_variables_reach_some_nodes_or_all_and_choose_the_interface():
    """As they would in a job's environment."""
    run = healthy().with_variables("node2", NCCL_DEBUG="INFO")
    assert [node.has_variable("NCCL_DEBUG") for node in run.cluster] == [False, True, False]
    alone = healthy(1).with_variables(GLOO_SOCKET_IFNAME="lo")
    assert {node.network.training for node in alone.cluster} == {"lo"}


def test_what_is_missing_has_its_reason():
    """A subject that was not read, with the kind of reason; a node that did not answer is no part of the cluster."""
    run = healthy().without("node2", "kernel", "needs root", "denied").unreached("node3", "no route")
    with pytest.raises(FactMissing, match="needs root") as caught:
        _ = run.cluster["node2"].kernel
    assert caught.value.kind == "denied"
    assert [node.name for node in run.cluster] == ["node1", "node2"]
    assert run.failures == {"node3": "no route"}


def test_measurements_are_changed():
    """The mesh, the benchmark, the training and one rank of it."""
    run = healthy().mesh_fails(("node1", "node3"), blamed=(("node3",),)).all_reduce_has(wrong=5)
    run = run.training_has(losses=(5.0, 6.0)).rank_has(2, finite=False)
    assert (run.mesh().ok, run.mesh().edges) == (5, 6)
    assert run.bench().results[0].wrong == 5
    assert run.training().losses == (5.0, 6.0)
    assert [rank.finite for rank in run.training().ranks] == [True, True, False]
    assert run.planned() == run.names
