"""Is what Ray says of a node's GPUs read as it is, and is what it does not say not known?"""

from __future__ import annotations

import pytest

from preflight.facts.subjects.gpus.engine import Engine, Group
from preflight.facts.value import Missing
from preflight.said.errors import FactMissing
from tests.facts.answers import decoded, wire

GROUP = Group(name="pool", id="e300084fb5c605e5eb345008", job="08000000", state="CREATED", gpus=0.5, is_own=False)
HALF = Engine(name="Ray", gpus=8.0, groups=(GROUP,), taken=0.5)


def test_parts_of_a_gpu_may_be_reserved():
    """Groups and what is taken in all, as Ray's driver lists them."""
    assert decoded("engine", wire(HALF)) == HALF


def test_what_a_ray_does_not_say_stands_with_its_reason():
    """A group's table, or what is free."""
    unknown = {"missing": "this Ray does not say: AttributeError()", "kind": "absent"}
    found = decoded("engine", wire(HALF, groups=unknown, taken=unknown))
    assert (found.groups, found.taken) == (Missing(**unknown), Missing(**unknown))


@pytest.mark.parametrize("gpus", ["8", None, {"missing": "no count"}])
def test_a_count_that_is_no_number_is_malformed(gpus):
    """Nothing is judged by it."""
    with pytest.raises(FactMissing, match=r"malformed: .*gpus"):
        decoded("engine", wire(HALF, gpus=gpus))
