"""What of the facts of several nodes is one object?"""

from __future__ import annotations

import msgspec
import pytest

from preflight.facts.shared import FEW_NODES, Shared, among
from preflight.facts.subjects import SUBJECTS
from preflight.testing import roce


@pytest.mark.parametrize("subject", sorted(SUBJECTS))
def test_equal_facts_of_two_nodes_are_one_object(subject):
    """And are what they were before."""
    value = roce(2).subjects["node1"][subject]
    first, second = (msgspec.json.decode(msgspec.json.encode(value), type=SUBJECTS[subject]) for _ in range(2))
    shared = Shared()
    assert shared.same(first) is shared.same(second)
    assert first == value


def test_what_differs_is_kept_apart_and_its_equal_parts_are_not():
    """Another serial number of one GPU leaves all else shared."""
    value = roce(1).subjects["node1"]["gpu"]
    text = msgspec.json.encode(value)
    shared = Shared()
    texts = (text, text.replace(b"GPU-3", b"GPU-x"))
    first, second = (shared.same(msgspec.json.decode(said, type=SUBJECTS["gpu"])) for said in texts)
    assert (first.devices[3].uuid, second.devices[3].uuid) == ("GPU-3", "GPU-x")
    assert first.devices[3].status is second.devices[3].status
    assert first.devices[4] is second.devices[4]
    assert first.topology is second.topology


@pytest.mark.parametrize("values", [((1,), (1.0,)), ((1,), (True,)), (("",), (None,)), (({"a": 1},), ({"a": True},))])
def test_values_that_python_calls_equal_are_told_apart_by_type(values):
    """A node that says true where another says 1 has its own answer."""
    shared = Shared()
    first, second = map(shared.same, values)
    assert repr((first, second)) == repr(values)


def test_few_nodes_share_nothing():
    """Looking for what is the same pays where there are many."""
    assert among(FEW_NODES) is None
    assert among(FEW_NODES + 1) is not None
