"""Which burst over a path says that it is not what it was?"""

from types import SimpleNamespace

import pytest

from preflight.facts.value import Missing
from preflight.run.reuse.paths import hides_limits, slower

BEFORE = {"node1 > node2": 0.12, "node2 > node1": 0.12, "node1 > node3": 0.12}


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (BEFORE, ""),
        (dict.fromkeys(BEFORE, 0.07), ""),
        ({**BEFORE, "node2 > node1": 0.006}, "a burst node2 to node1 carries 0.006 GB/s, it was 0.12"),
        ({"node1 > node2": 0.12}, "a burst node2 to node1 carries 0 GB/s, it was 0.12 and 1 more"),
    ],
)
def test_a_path_that_carries_half_is_named(now, said):
    """The worst of them; one that was not tried carries nothing."""
    assert slower(BEFORE, now) == said


@pytest.mark.parametrize(("kind", "hidden"), [("denied", True), ("absent", False)])
def test_a_packet_filter_that_is_not_shown_is_said(kind, hidden):
    """Others than root see no rule of it."""
    node = SimpleNamespace(network=SimpleNamespace(rate_limits=Missing("", kind)))
    assert hides_limits(node) is hidden
    assert not hides_limits(SimpleNamespace(network=SimpleNamespace(rate_limits="")))
