"""Tests of preflight.judge.tables.visible."""

from __future__ import annotations

import pytest

from preflight.facts.subjects.environment import Variable
from preflight.judge.tables import visible
from preflight.testing import healthy, roce


def node(value, name="CUDA_VISIBLE_DEVICES"):
    """A node with 8 GPUs and the variable."""
    variables = {} if value is None else {name: Variable(value, "node")}
    return roce(1).broken("node1", "environment", variables=variables).cluster.first


@pytest.mark.parametrize(
    ("value", "indices"),
    [
        ("0,1", [0, 1]),
        ("3, 1", [3, 1]),
        ("0,9,1", [0]),
        ("0,0", [0]),
        ("GPU-3", [3]),
        ("", []),
        ("-1", []),
        ("all", list(range(8))),
    ],
)
def test_the_list_is_read_as_cuda_reads_it(value, indices):
    """In its order, ended by the first that is not there or stands twice."""
    assert [gpu.index for gpu in visible.gpus(node(value))] == indices


@pytest.mark.parametrize(
    ("value", "words"),
    [("", "hides every GPU"), ("NoDevFiles", "hides every GPU"), ("7,8", "none is 8"), ("0,1", ""), ("all", "")],
)
def test_what_is_not_there_is_told(value, words):
    """An index too many, a list of none."""
    told = visible.trouble(node(value))
    assert words in told if words else told == ""


def test_other_makers_have_names_of_their_own():
    """HIP's and ROCr's variables choose as CUDA's does; where none is set, all are seen."""
    assert len(visible.gpus(node("0,1", "HIP_VISIBLE_DEVICES"))) == 2
    assert len(visible.gpus(node(None))) == 8
    assert visible.trouble(healthy(1).with_variables(CUDA_VISIBLE_DEVICES="").cluster.first) == ""


@pytest.mark.parametrize(("value", "count"), [("4,5", 8), ("GPU-aaaaaaaa", 8), ("all", 8), ("none", 0)])
def test_the_variable_of_the_container_runtime_has_taken_effect_already(value, count):
    """Its numbers are the host's; inside, the GPUs that it gave are counted from 0, and CUDA does not read it."""
    given = node(value, name="NVIDIA_VISIBLE_DEVICES")
    assert visible.count(given) == count
    assert bool(visible.trouble(given)) is (count == 0)
