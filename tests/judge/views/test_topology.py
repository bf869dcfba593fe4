"""Tests of preflight.judge.views.topology."""

from __future__ import annotations

import msgspec
import pytest

from preflight.judge.views import topology
from preflight.said.errors import FactMissing, NotApplicable
from preflight.testing import roce

GPUS = tuple(f"GPU {number}: NUMA {number // 4}, 32.0 GT/s x16, 18 NVLinks, GPUDirect 1" for number in range(8))
GRAPH = ("graph 0: 16 channels, 20/20 GB/s, NVL/PIX",)


def run(**changed):
    """A benchmark whose nodes have these lines; a name's are others."""
    held = roce()
    first = held.measured_bench.transports[0]
    transports = [
        msgspec.structs.replace(
            first, node=name, topology=changed.get(name, GPUS), graphs=changed.get(f"{name}_", GRAPH)
        )
        for name in held.names
    ]
    return msgspec.structs.replace(held.measured_bench, transports=tuple(transports)), held.cluster


def test_a_node_with_a_slower_slot_is_named_by_what_differs():
    """Not with all that is the same."""
    slow = (GPUS[0].replace("32.0 GT/s x16", "16.0 GT/s x8"), *GPUS[1:])
    (blame,) = topology.differences(*run(node2=slow))
    assert blame.nodes == ("node2",)
    assert "GPU 0: NUMA 0, 16.0 GT/s x8" in blame.message
    assert "GPU 1" not in blame.message


def test_what_nccl_chose_is_told_where_it_found_the_same():
    """Else it follows from what it found."""
    (blame,) = topology.differences(*run(node2_=("graph 0: 8 channels, 20/20 GB/s, NVL/PIX",)))
    assert blame.nodes == ("node2",)
    assert "what NCCL chose by that: graph 0: 16 channels" in blame.message
    assert topology.differences(*run()) == []


def test_a_node_without_a_dump_is_no_pass():
    """And where no node has one there is nothing to compare."""
    result, cluster = run(node2=())
    assert topology.differences(result, cluster) == []
    assert isinstance(cluster.unmeasured["node2"], FactMissing)
    with pytest.raises(NotApplicable, match="wrote no topology"):
        topology.differences(*run(**dict.fromkeys(cluster_names(), ())))


def cluster_names():
    """The names of all nodes."""
    return roce().names


def test_nodes_are_held_against_those_with_as_many_gpus():
    """Of nodes with other numbers of GPUs nothing is said: NCCL must find something else there."""
    few = GPUS[:4]
    assert topology.differences(*run(node2=few)) == []
    slow = (GPUS[0].replace("18 NVLinks", "12 NVLinks"), *GPUS[1:])
    (blame,) = topology.differences(*run(node1=few, node2=slow))
    assert blame.nodes == ("node2",)


def test_of_many_lines_that_differ_three_are_shown():
    """And how many more there are; of four one more."""
    for count, more in ((3, ""), (4, " and 1 more"), (8, " and 5 more")):
        slow = (*(line.replace("x16", "x8") for line in GPUS[:count]), *GPUS[count:])
        (blame,) = topology.differences(*run(node2=slow))
        assert blame.message.count("x8") == 3
        assert blame.message.count(more or " more") == (2 if more else 0)
