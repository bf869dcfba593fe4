"""Which pairs of nodes are tried, and whom is a node asked about?"""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from preflight.facts.neighbours import asked, pairs


def names(count):
    """Node names whose alphabetical order is not that of HOSTS."""
    return tuple(f"n{count - index}" for index in range(count))


@pytest.mark.parametrize("count", [1, 2, 3, 7, 128])
def test_all_ordered_pairs_up_to_128_nodes(count):
    """Every ordered pair once, never a node with itself."""
    tried = pairs(names(count))
    assert sorted(tried) == sorted(itertools.permutations(names(count), 2))


@pytest.mark.parametrize("count", [129, 144, 512, 1000])
def test_sixteen_shifts_beyond(count):
    """Each node connects to 16 different others and is reached by 16; all pairs only on request."""
    tried = pairs(names(count))
    assert len(set(tried)) == len(tried) == 16 * count
    assert set(Counter(source for source, _ in tried).values()) == {16}
    assert set(Counter(target for _, target in tried).values()) == {16}
    assert all(source != target for source, target in tried)
    assert len(pairs(names(count), is_full=True)) == count * (count - 1)


@pytest.mark.parametrize("count", [1, 5, 128, 1000])
def test_every_node_is_asked_about_those_it_connects_to_and_the_first(count):
    """To 128 nodes about all the others; beyond, about 16 and rank 0's node, never about itself."""
    peers_of = asked(names(count))
    first, *others = names(count)
    assert list(peers_of) == list(names(count))
    assert all(first in peers_of[name] for name in others)
    assert not [name for name, peers in peers_of.items() if name in peers]
    sizes = {len(peers) for peers in peers_of.values()}
    assert sizes == {count - 1} if count <= 128 else sizes <= {16, 17}
