"""Is the second look at a node read as it was sent, also where only a part of it came?"""

from __future__ import annotations

import pytest

from preflight.facts.subjects.ending import Ending, PortEnd
from preflight.facts.value import Missing
from preflight.said.errors import FactMissing
from tests.facts.answers import decoded, wire

ENDING = Ending(
    ports={"mlx5_0:1": PortEnd("ACTIVE", {"link_downed": 2})},
    oom_kills=1,
    link_errors={"eth0": 7},
    offset_seconds=0.5,
    uncertainty_seconds=0.001,
)


def test_the_end_of_a_run_is_read_port_by_port():
    """State and counters of each port, OOM kills, rx/tx errors of each interface, and the clock."""
    found = decoded("ending", wire(ENDING))
    assert found == ENDING
    assert found.ports["mlx5_0:1"].counters == {"link_downed": 2}


def test_a_clock_that_was_not_asked_again_is_absent_and_not_zero():
    """An offset of 0 would be a clock that keeps perfect time."""
    found = decoded("ending", {"ports": {}, "oom_kills": 0})
    assert (found.link_errors, found.oom_kills) == ({}, 0)
    for fact in (found.offset_seconds, found.uncertainty_seconds):
        assert isinstance(fact, Missing)
        assert fact.kind == "absent"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("ports", [["mlx5_0:1", {"state": "ACTIVE", "counters": {}}]]),
        ("ports", {"mlx5_0:1": {"state": "ACTIVE"}}),
        ("ports", {"mlx5_0:1": {"state": "ACTIVE", "counters": {"link_downed": -1}}}),
        ("oom_kills", -1),
        ("oom_kills", "3"),
        ("link_errors", {"eth0": 1.5}),
        ("offset_seconds", "0.5"),
    ],
)
def test_a_counter_that_is_no_count_is_malformed(field, value):
    """Differences are computed from them, so none is guessed."""
    with pytest.raises(FactMissing, match="malformed"):
        decoded("ending", wire(ENDING, **{field: value}))


def test_a_kernel_that_counts_no_oom_kills_says_why():
    """The reason stands in the place of the number."""
    found = decoded("ending", wire(ENDING, oom_kills={"missing": "kernel before 4.13", "kind": "absent"}))
    assert found.oom_kills == Missing("kernel before 4.13", "absent")
