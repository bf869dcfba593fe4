"""Which ranks measure together, and when is nobody left to measure with?"""

from __future__ import annotations

import pytest

from preflight.job.measure import scope
from preflight.launch.job import Placement
from preflight.said.errors import NotMeasured


def placed(**counts):
    """The ranks of nodes with so many each."""
    ranks = []
    for node, count in counts.items():
        ranks += [Placement(len(ranks) + local, node, local, count) for local in range(count)]
    return ranks


def groups(name, **counts):
    return [[(group.name, group.ranks) for group in each] for each in scope.rounds(name, placed(**counts))]


def test_nodes_measure_at_once_and_rails_one_after_another():
    """What nodes do within themselves does not disturb the others; rails may share a link."""
    assert groups("all", a=2, b=2) == []
    assert groups("intra", a=2, b=2) == [[("a", (0, 1)), ("b", (2, 3))]]
    assert groups("inter", a=2, b=2) == [[("one rank a node", (0, 2))]]
    assert groups("rails", a=2, b=2) == [[("rail 0", (0, 2))], [("rail 1", (1, 3))]]


def test_racks_measure_at_once_each_by_itself():
    """All ranks of a rack; one with a single node of the job, and a node whose rack nobody knows, have no part."""
    racks = {"a": "switch s1", "b": "switch s1", "c": "switch s2", "d": "switch s3", "e": "switch s3"}
    (found,) = scope.rounds("racks", placed(a=2, b=1, c=2, d=1, e=1, f=1), racks)
    assert [(group.name, group.ranks) for group in found] == [("switch s1", (0, 1, 2)), ("switch s3", (5, 6))]
    with pytest.raises(NotMeasured, match="--topology"):
        scope.rounds("racks", placed(a=1, b=1))


def test_a_rank_without_a_peer_is_left_out():
    """A node with one rank has no inside, a rail on one node no other end."""
    assert groups("intra", a=1, b=2) == [[("b", (1, 2))]]
    assert groups("rails", a=1, b=2, c=2) == [[("rail 0", (0, 1, 3))], [("rail 1", (2, 4))]]


@pytest.mark.parametrize(("name", "counts"), [("intra", {"a": 1, "b": 1}), ("inter", {"a": 2}), ("rails", {"a": 2})])
def test_without_a_peer_for_anybody_nothing_is_measured(name, counts):
    """That is said, with the scope that was asked for."""
    with pytest.raises(NotMeasured, match=f"--scope {name}: "):
        scope.rounds(name, placed(**counts))


def test_the_ranks_are_told_names_and_numbers():
    """As their settings want it."""
    rounds = scope.rounds("inter", placed(a=1, b=1))
    assert scope.as_settings(rounds) == [[{"name": "one rank a node", "ranks": [0, 1]}]]
