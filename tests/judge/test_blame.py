"""Which nodes are blamed for the connections of a mesh that failed?"""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preflight.facts.neighbours import pairs
from preflight.facts.results import Edge
from preflight.judge import blame
from tests.facts.test_neighbours import names


def edges(*failed, reason="filtered"):
    """Failed edges from pairs."""
    return [Edge(source=source, target=target, port=1, reason=reason) for source, target in failed]


@pytest.mark.parametrize("count", [3, 5, 128, 512])
@pytest.mark.parametrize("direction", ["in", "out", "both"])
def test_a_star_of_failures_is_blamed_on_its_centre(count, direction):
    """Whatever the direction, one bad node among three or more is the one named."""
    nodes = names(count)
    bad = nodes[1]
    failed = [
        pair
        for pair in pairs(nodes)
        if (direction != "out" and pair[1] == bad) or (direction != "in" and pair[0] == bad)
    ]
    assert blame.blame(edges(*failed), nodes) == ((bad,),)


def test_one_failed_edge_names_both_ends():
    """Between two nodes nothing says whose fault it is; sets are in HOSTS order."""
    assert blame.blame(edges(("n1", "n2")), ("n2", "n1")) == (("n2", "n1"),)


def test_groups_are_judged_on_their_own():
    """An undecidable edge elsewhere does not blur a clear star."""
    star = [("a", "x"), ("b", "x"), ("x", "c")]
    found = blame.blame(edges(*star, ("d", "e")), ("a", "b", "c", "d", "e", "x"))
    assert set(found) == {("x",), ("d", "e")}


def test_a_local_failure_is_its_own_nodes():
    """Ports exhausted on one node name that node, not the peer it could not try."""
    assert blame.blame(edges(("a", "b"), reason="local"), ("a", "b")) == (("a",),)


def test_nothing_failed_blames_nobody():
    """No edge, no set."""
    assert blame.blame([], names(3)) == ()


def test_a_split_network_names_the_smaller_side():
    """Two of seven that reach each other and nobody else are the smallest cover."""
    inside, outside = ("a", "b"), ("c", "d", "e", "f", "g")
    failed = [*itertools.product(inside, outside), *itertools.product(outside, inside)]
    assert blame.blame(edges(*failed), (*inside, *outside)) == (inside,)


def brute_force(failed, nodes):
    """All smallest covers, by trying every set."""
    for size in range(len(nodes) + 1):
        covers = [set(c) for c in itertools.combinations(nodes, size) if all(a in c or b in c for a, b in failed)]
        if covers:
            return covers
    raise AssertionError


@settings(max_examples=80, deadline=None)
@given(st.sets(st.tuples(st.integers(0, 7), st.integers(0, 7)).filter(lambda p: p[0] != p[1]), min_size=1, max_size=14))
def test_the_cover_is_the_smallest_and_the_only_one(failed):
    """Against brute force on small graphs: the unique smallest cover, or none where there are several."""
    nodes = sorted({node for pair in failed for node in pair})
    neighbours = {str(n): {str(b if a == n else a) for a, b in failed if n in (a, b)} for n in nodes}
    covers = brute_force(failed, nodes)
    wanted = {str(n) for n in covers[0]} if len(covers) == 1 else None
    found = blame.smallest_cover(neighbours)
    assert (None if found is None else set(found)) == wanted


@pytest.mark.parametrize("nodes", [2, 3, 4, 5, 6])
def test_the_cover_of_a_few_nodes_is_the_smallest_and_the_only_one(nodes):
    """The same for some graphs of each number of edges."""
    every = list(itertools.combinations(range(nodes), 2))
    for seed in range(40):
        failed = random.Random(seed).sample(every, 1 + seed % len(every))
        neighbours = {str(n): {str(b if a == n else a) for a, b in failed if n in (a, b)} for n in range(nodes)}
        covers = brute_force(failed, range(nodes))
        found = blame.smallest_cover(neighbours)
        assert (set(found) if found else None) == ({str(n) for n in covers[0]} if len(covers) == 1 else None)


@pytest.mark.parametrize(("left_out", "sets"), [(2, 64), (0, 1)])
def test_a_tangle_is_told_pair_by_pair_up_to_64_of_them(left_out, sets):
    """Of twelve nodes that hardly reach each other; above the number all are named in one set."""
    nodes = names(12)
    found = blame.blame(edges(*list(itertools.combinations(nodes, 2))[left_out:]), nodes[::-1])
    assert len(found) == sets
    assert {name for group in found for name in group} == set(nodes)
    assert all(list(group) == sorted(group, key=nodes[::-1].index) for group in found)


@settings(max_examples=100, deadline=None)
@given(st.sets(st.tuples(st.integers(0, 9), st.integers(0, 9)).filter(lambda p: p[0] != p[1]), max_size=20))
def test_every_failed_edge_has_a_blamed_end(failed):
    """Whoever is blamed, no failed edge is left unexplained, and nobody without a failed edge is named."""
    nodes = tuple(str(n) for n in range(10))
    told = [(str(a), str(b)) for a, b in failed]
    blamed = {name for group in blame.blame(edges(*told), nodes) for name in group}
    assert all(a in blamed or b in blamed for a, b in told)
    assert blamed <= {name for pair in told for name in pair}


@pytest.mark.parametrize("bad_count", [1, 5, 40])
def test_many_bad_nodes_among_512_are_all_named(bad_count):
    """Thousands of failed edges, full mesh or shifts: exactly the bad nodes, as one set of one group."""
    nodes = names(512)
    bad = set(random.Random(bad_count).sample(nodes, bad_count))
    for tried in (pairs(nodes), pairs(nodes, is_full=True)):
        failed = [pair for pair in tried if bad & set(pair)]
        blamed = {name for group in blame.blame(edges(*failed), nodes) for name in group}
        assert blamed == bad


def test_a_hopeless_tangle_is_given_up_as_a_whole():
    """Everything failed among 300: all are named once, not in ninety thousand pairs."""
    nodes = names(300)
    failed = pairs(nodes, is_full=True)
    assert blame.blame(edges(*failed), nodes) == (nodes,)


def test_two_sides_that_do_not_reach_each_other_are_one_thing():
    """The link between two switches with as many nodes each: not a finding for each of sixteen pairs."""
    nodes = tuple("abcdefgh")
    failed = edges(*(pair for pair in pairs(nodes) if (pair[0] in "abcd") != (pair[1] in "abcd")))
    assert blame.blame(failed, nodes) == (nodes,)
