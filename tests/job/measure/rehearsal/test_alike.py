"""Is it told what one node's ranks were not given as the others were?"""

from __future__ import annotations

import pytest

from preflight.job.measure.rehearsal.alike import judged, lines_with
from preflight.job.measure.rehearsal.judged import judged as whole
from tests.job.measure.rehearsal.stories import cast, node, rank, story


def causes(**second):
    """What is said where node2's rank came so."""
    return list(judged(story(node("node1", rank(0, "node1")), node("node2", rank(1, "node2", **second))), cast()))


def test_the_same_everywhere_is_good():
    """Nothing is said of it."""
    assert causes() == []


def test_a_lost_variable_is_named_with_its_line():
    """A variable that one node has and the other does not."""
    (cause,) = causes(variables={"NCCL_SOCKET_IFNAME": ""})
    assert (cause.nodes, cause.where, cause.is_advisory) == (("node2",), (("run.sh", 3),), False)
    assert cause.message.startswith("NCCL_SOCKET_IFNAME is set on node1 and not on node2, in the ranks")


def test_another_value_is_a_warning():
    """Interfaces may have other names on another node."""
    (cause,) = causes(variables={"NCCL_SOCKET_IFNAME": "eth1"})
    assert cause.is_advisory


def test_another_torch_is_named_before_the_interpreter_that_brings_it():
    """One cause, and not two."""
    (cause,) = causes(torch="2.7.0", interpreter="/usr/bin/python3")
    assert cause.message == "torch: 2.8.0 on node1, 2.7.0 on node2"
    (cause,) = causes(interpreter="/usr/bin/python3")
    assert cause.message.startswith("interpreter of the ranks: /opt/bin/python (3.11.7) on node1")
    assert cause.is_advisory


def test_lines_that_name_a_variable_are_found():
    """Comments do not count."""
    assert lines_with(cast("# export A=1\nexport A=2\n"), "A=") == (("run.sh", 2),)


@pytest.mark.parametrize(
    ("name", "is_advisory"),
    [
        *((f"{family}_A", False) for family in ("NCCL", "GLOO", "UCX", "FI", "MASTER")),
        *((f"{family}_A", True) for family in ("HF", "TRITON", "TORCH", "TRANSFORMERS", "FSDP", "ACCELERATE")),
    ],
)
def test_a_variable_of_every_family_is_compared(name, is_advisory):
    """Without those of the network, or where rank 0 is, a job may not start; the others make it differ."""
    nodes = node("node1", rank(0, "node1", variables={name: "1"})), node("node2", rank(1, "node2"))
    (cause,) = judged(story(*nodes), cast())
    assert (cause.names, cause.nodes, cause.is_advisory) == ((name,), ("node2",), is_advisory)


@pytest.mark.parametrize(
    "name", ["NCCL_TOPO_FILE", "NCCL_HOSTID", "NCCL_DEBUG_FILE", "TORCH_EXTENSIONS_DIR", "HOME", "RANK"]
)
def test_what_is_a_nodes_own_may_differ(name):
    """A file or an id of it, and what no library reads."""
    assert causes(variables={name: "/of/node2"}) == []


def test_the_report_keeps_what_steers_the_libraries():
    """And no other variable of a rank."""
    kept = {f"{family}_A": "1" for family in ("NCCL", "GLOO", "CUDA", "MASTER", "UCX", "FI", "HF", "TRITON")}
    nodes = [node(f"node{n + 1}", rank(n, f"node{n + 1}", variables={**kept, "HOME": "/x"})) for n in range(2)]
    found = whole(story(*nodes), cast(), {}, backend="gloo")
    assert [{*one.variables} for one in found.ranks] == [{*kept, "NCCL_SOCKET_IFNAME"}] * 2
