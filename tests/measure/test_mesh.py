"""Which pairs are tried, what the two ends' words make together, and who is blamed."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preflight.measure import blame, mesh
from preflight.results import Edge


def names(count):
    """Node names whose alphabetical order is not that of HOSTS."""
    return tuple(f"n{count - index}" for index in range(count))


@pytest.mark.parametrize("count", [1, 2, 3, 7, 128])
def test_all_ordered_pairs_up_to_128_nodes(count):
    """Every ordered pair once, never a node with itself."""
    tried = mesh.pairs(names(count))
    assert sorted(tried) == sorted(itertools.permutations(names(count), 2))


@pytest.mark.parametrize("count", [129, 144, 512, 1000])
def test_sixteen_shifts_beyond(count):
    """Each node connects to 16 different others and is reached by 16; all pairs only on request."""
    tried = mesh.pairs(names(count))
    assert len(set(tried)) == len(tried) == 16 * count
    assert set(Counter(source for source, _ in tried).values()) == {16}
    assert set(Counter(target for _, target in tried).values()) == {16}
    assert all(source != target for source, target in tried)
    assert len(mesh.pairs(names(count), is_full=True)) == count * (count - 1)


@pytest.mark.parametrize("count", [1, 5, 128, 1000])
def test_every_node_is_asked_about_those_it_connects_to_and_the_first(count):
    """To 128 nodes about all the others; beyond, about 16 and rank 0's node, never about itself."""
    asked = mesh.asked(names(count))
    first, *others = names(count)
    assert list(asked) == list(names(count))
    assert all(first in asked[name] for name in others)
    assert not [name for name, peers in asked.items() if name in peers]
    sizes = {len(peers) for peers in asked.values()}
    assert sizes == {count - 1} if count <= 128 else sizes <= {16, 17}


def test_orders_name_peers_with_ports_and_those_to_expect():
    """What a node is told fits what its peers are told; who does not listen is left out."""
    listening = {"a": ("10.0.0.1", 5001), "b": ("10.0.0.2", 5002)}
    told = mesh.orders(mesh.pairs(("a", "b", "c")), listening)
    assert told == {
        "a": {"peers": [{"name": "b", "address": "10.0.0.2", "port": 5002}], "expect": ["b"]},
        "b": {"peers": [{"name": "a", "address": "10.0.0.1", "port": 5001}], "expect": ["a"]},
    }


def result(edges, heard):
    """What a node reports: {to: outcome} and the names it heard."""
    rows = [{"to": to, "port": 5000, "outcome": o, "detail": "d", "source_address": ""} for to, o in edges.items()]
    return {"edges": rows, "heard": list(heard), "strangers": 0}


def test_an_edge_is_ok_only_if_both_ends_say_so():
    """A connector's word alone is `not_attested`; a failed one keeps its reason, port and detail."""
    tried = (("a", "b"), ("b", "a"), ("a", "c"))
    results = {"a": result({"b": "ok", "c": "filtered"}, ["b"]), "b": result({"a": "ok"}, []), "c": result({}, [])}
    found = mesh.combine(tried, results, seconds=1.5)
    assert (found.edges, found.ok, found.seconds) == (3, 1, 1.5)
    assert [(e.source, e.target, e.port, e.reason) for e in found.failed] == [
        ("a", "b", 5000, "not_attested"),
        ("a", "c", 5000, "filtered"),
    ]


def test_a_word_we_do_not_know_never_counts_as_ok():
    """An outcome outside the list fails the edge."""
    found = mesh.combine([("a", "b")], {"a": result({"b": "fine"}, []), "b": result({}, ["a"])}, seconds=0.0)
    assert (found.ok, found.failed[0].reason) == (0, "wrong_peer")


def test_a_node_without_a_result_is_blamed_alone():
    """Its own edges are `local`, and edges to it are not attested."""
    tried = mesh.pairs(("a", "b", "c"))
    results = {"a": result({"b": "ok", "c": "ok"}, ["b"]), "b": result({"a": "ok", "c": "ok"}, ["a"])}
    found = mesh.combine(tried, results, seconds=0.0)
    assert found.ok == 2
    assert Counter(edge.reason for edge in found.failed) == {"local": 2, "not_attested": 2}
    assert found.blamed == (("c",),)


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
        for pair in mesh.pairs(nodes)
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


@settings(max_examples=200, deadline=None)
@given(st.sets(st.tuples(st.integers(0, 7), st.integers(0, 7)).filter(lambda p: p[0] != p[1]), min_size=1, max_size=14))
def test_the_cover_is_the_smallest_and_the_only_one(failed):
    """Against brute force on small graphs: the unique smallest cover, or none where there are several."""
    nodes = sorted({node for pair in failed for node in pair})
    neighbours = {str(n): {str(b if a == n else a) for a, b in failed if n in (a, b)} for n in nodes}
    covers = brute_force(failed, nodes)
    wanted = {str(n) for n in covers[0]} if len(covers) == 1 else None
    found = blame.smallest_cover(neighbours)
    assert (None if found is None else set(found)) == wanted


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
    for tried in (mesh.pairs(nodes), mesh.pairs(nodes, is_full=True)):
        failed = [pair for pair in tried if bad & set(pair)]
        blamed = {name for group in blame.blame(edges(*failed), nodes) for name in group}
        assert blamed == bad


def test_a_hopeless_tangle_is_given_up_as_a_whole():
    """Everything failed among 300: all are named once, not in ninety thousand pairs."""
    nodes = names(300)
    failed = mesh.pairs(nodes, is_full=True)
    assert blame.blame(edges(*failed), nodes) == (nodes,)
