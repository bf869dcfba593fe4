"""Is whoever says too much stopped, and nobody else?"""

from __future__ import annotations

import pytest

from preflight.node.agent.frames import FrameError
from preflight.reach.session import budget
from preflight.reach.session.budget import Budget, Pool


def crowd(values: int) -> bytes:
    """A message of about so many values."""
    return b'{"a":[' + b",".join([b"1"] * values) + b"]}"


def test_too_many_bytes_frames_and_values_each_end_a_node():
    """The first word beyond a limit is refused, and none before it."""
    node = Budget()
    node.arrived(budget.NODE_BYTES)
    with pytest.raises(FrameError, match="64 MiB"):
        node.arrived(1)
    node = Budget(frames=budget.NODE_FRAMES - 1)
    assert node.read(b'{"a":1}') == {"a": 1}
    with pytest.raises(FrameError, match="100000 messages"):
        node.read(b'{"a":1}')
    node = Budget()
    for _ in range(5):
        node.read(crowd(90_000))
    with pytest.raises(FrameError, match="500000 values"):
        node.read(crowd(90_000))


def test_what_costs_too_much_time_to_decode_ends_a_node():
    """However few bytes and values it was."""
    node = Budget(seconds=budget.NODE_SECONDS)
    with pytest.raises(FrameError, match="took more than 5 s"):
        node.read(crowd(1000))


def test_many_nodes_that_say_much_are_stopped_and_those_that_say_little_are_not():
    """What all draw on together is bounded; a fair share is everybody's own."""
    pool = Pool()
    loud = [Budget(pool) for _ in range(40)]
    stopped = 0
    for node in loud:
        try:
            for _ in range(3):
                node.read(crowd(90_000))
        except FrameError:
            stopped += 1
    assert stopped >= 30
    quiet = Budget(pool)
    for _ in range(20):
        quiet.read(crowd(2_500))
        quiet.arrived(100_000)
    assert quiet.values < budget.FAIR_VALUES


def test_a_thousand_nodes_that_say_what_is_asked_are_all_heard():
    """30,000 values and 2 MB each, as when every node is asked about 1,000 peers."""
    pool = Pool()
    for _ in range(1000):
        node = Budget(pool)
        node.arrived(2 << 20)
        node.values += 29_000
        node.read(crowd(1000))
    assert (pool.size, pool.values) == (0, 0)
