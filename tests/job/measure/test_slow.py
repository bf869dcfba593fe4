"""Is every slow node found with its direction, and nobody else, whatever the number of nodes and the noise?"""

from __future__ import annotations

import math
import random
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preflight.facts.results import Slow, Stream
from preflight.job.measure import slow
from tests.bench.simulate import Network, names, planted, searched
from tests.shares import some_first


def shifted(nodes, network):
    """The streams of the shift rounds alone."""
    return [stream for pairs in slow.shift_rounds(nodes) for stream in network.measure(pairs)]


def told(found):
    """Who, and in which direction."""
    return [(each.nodes, each.direction) for each in found]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 100, 256, 1000, 4096])
def test_shift_distances(count):
    """All of few nodes, three of many, distinct, each a real distance; the three are pairwise prime."""
    distances = slow.shifts(count)
    assert len(distances) == (count - 1 if count <= 8 else 3)
    assert len(set(distances)) == len(distances)
    assert all(1 <= d < count for d in distances)
    if count > 8:
        assert all(math.gcd(one, other) == 1 for one, other in combinations(distances, 2))


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8, 9, 33, 64, 200])
def test_a_full_mesh_has_every_ordered_pair_once_in_the_fewest_rounds(count):
    """N-1 rounds, N where it is odd; no node twice in a round in one direction."""
    rounds = slow.full_mesh_rounds(names(count))
    assert len(rounds) == count - 1 + count % 2
    pairs = [pair for one in rounds for pair in one]
    assert len(pairs) == len(set(pairs)) == count * (count - 1)
    for one in rounds:
        Network().measure(one)


def test_what_every_stream_of_a_slow_node_loses_is_told():
    """In the direction that is slow, and no more than the best of them; what one alone loses is not the node's."""
    streams = [
        Stream(source=source, target=target, shift=1, gbytes_per_s=rate, most_gbytes_per_s=rate, sent_again=again)
        for source, target, rate, again in (
            *(("c", "a", 1.0, 0.03), ("c", "b", 1.1, 0.02), ("a", "c", 10.0, 0.2), ("b", "c", 10.0, 0.0)),
            *(("a", "b", 10.0, 0.0), ("b", "a", 10.0, 0.0)),
        )
    ]
    (place,) = slow.locate(streams, ("a", "b", "c"), threshold=0.5)
    assert (place.nodes, place.direction, place.sent_again) == (("c",), "egress", 0.02)


@pytest.mark.parametrize(
    ("count", "runs"),
    some_first(
        [(3, 100), (16, 100), (64, 20), (3, 400), (4, 400), (8, 400), (16, 300), (64, 100), (512, 20), (4096, 3)], 3
    ),
)
def test_one_to_a_sixteenth_of_slow_nodes_are_found_and_nobody_else(count, runs):
    """Recall is 1.0 and no false node is named, with 5 % noise and 1 % of streams disturbed, in seeded draws."""
    nodes = names(count)
    for seed in range(runs):
        chance = random.Random(seed)
        wanted, egress, ingress = planted(nodes, chance.randint(1, max(1, count // 16)), chance)
        network = Network(egress=egress, ingress=ingress, noise=0.05, disturbed=0.01, seed=seed)
        _, found = searched(nodes, network)
        assert told(found) == wanted, seed


@pytest.mark.parametrize(
    ("count", "runs"),
    some_first([(2, 100), (16, 100), (2, 300), (3, 300), (8, 300), (16, 300), (256, 40), (4096, 3)], 2),
)
def test_a_healthy_cluster_has_no_slow_place(count, runs):
    """5 % noise and 2 % of streams disturbed name neither a node nor a path: what does not last is forgotten."""
    for seed in range(runs):
        assert searched(names(count), Network(noise=0.05, disturbed=0.02, seed=seed))[1] == (), seed


@pytest.mark.parametrize("count", some_first([8, 16, 64]))
def test_slow_paths_are_no_slow_nodes(count):
    """One to three slow paths: at most 3 false nodes in 1000 runs; each path that was measured is named."""
    nodes, false = names(count), 0
    for seed in range(1000 if count < 64 else 200):
        chance = random.Random(seed)
        ways = [tuple(chance.sample(nodes, 2)) for _ in range(chance.randint(1, 3))]
        network = Network(path=dict.fromkeys(ways, 0.2), noise=0.05, disturbed=0.01, seed=seed)
        streams, found = searched(nodes, network)
        measured = {(stream.source, stream.target) for stream in streams}
        wrong = sum(place.direction != "path" for place in found)
        assert wrong or {place.nodes for place in found} >= measured & set(ways), seed
        false += wrong
    assert false <= 3


def test_a_full_mesh_finds_the_path_that_shifts_do_not_meet():
    """Of 16 nodes three shifts see 48 of 240 paths."""
    nodes = names(16)
    seen = {pair for one in slow.shift_rounds(nodes) for pair in one}
    hidden = next((a, b) for a in nodes for b in nodes if a != b and (a, b) not in seen)
    network = Network(path={hidden: 0.2}, noise=0.03)
    assert told(searched(nodes, network)[1]) == []
    assert told(searched(nodes, network, is_full=True)[1]) == [(hidden, "path")]


def test_a_search_takes_few_rounds():
    """Three rounds and three to confirm, at any number of nodes, while there are good ones enough."""
    nodes = names(512)
    network = Network(egress=dict.fromkeys(nodes[:300:10], 0.3), noise=0.03)
    searched(nodes, network)
    assert network.rounds == 6


def test_a_stream_disturbed_once_is_measured_again():
    """A node whose streams were all slow in the first look, and is not, is not named."""
    nodes, network = names(9), Network(noise=0.02)
    network.egress = {nodes[4]: 0.3}
    rounds = slow.search(nodes)
    pairs = next(rounds)
    for _ in range(3):
        streams = network.measure(pairs)
        pairs = rounds.send(streams)
    network.egress = {}
    assert [source for source, _ in pairs] == [nodes[4]]
    with pytest.raises(StopIteration) as end:
        rounds.send([network.stream(*pairs[0]), *(network.stream(nodes[4], s.target) for s in streams[:3])])
    assert end.value.value[1] == ()


def test_pairs_are_packed_into_rounds_without_a_node_twice():
    """Each pair once, and in a round a node is in one pair alone."""
    pairs = [("a", "b"), ("a", "c"), ("c", "d"), ("d", "b"), ("a", "b")]
    rounds = slow.packed(pairs)
    assert sorted(pair for one in rounds for pair in one) == sorted(set(pairs))
    assert rounds == ((("a", "b"), ("c", "d")), (("a", "c"), ("d", "b")))


@settings(max_examples=60, deadline=None)
@given(
    count=st.integers(3, 256),
    share=st.floats(0.05, 0.7),
    direction=st.sampled_from(["egress", "ingress", "both"]),
    seed=st.integers(0, 1 << 30),
)
def test_one_slow_node_is_always_found_and_nobody_else(count, share, direction, seed):
    """From three nodes up: the node and its direction, and no other name, with 3 % noise."""
    nodes = names(count)
    bad = nodes[seed % count]
    options = {way: {bad: share} for way in ("egress", "ingress") if direction in (way, "both")}
    _, found = searched(nodes, Network(noise=0.03, seed=seed, **options))
    assert told(found) == [((bad,), direction)]


def test_a_slow_node_tells_its_figure_and_its_peers():
    """The message can say how slow, beside what is usual."""
    _, found = searched(names(3), Network(egress={"n0001": 0.2}, ingress={"n0001": 0.25}))
    assert found == (
        Slow(
            nodes=("n0001",),
            direction="both",
            gbytes_per_s=pytest.approx(0.024),
            peers_gbytes_per_s=pytest.approx(0.12),
        ),
    )


def test_two_nodes_name_the_pair():
    """Which of two is to blame no stream tells: the slow direction names both."""
    _, found = searched(names(2), Network(egress={"n0001": 0.2}))
    assert found == (
        Slow(
            nodes=("n0001", "n0000"),
            direction="path",
            gbytes_per_s=pytest.approx(0.024),
            peers_gbytes_per_s=pytest.approx(0.12),
        ),
    )
    assert searched(names(2), Network(egress={"n0000": 0.2}, ingress={"n0000": 0.2}))[1] == ()


def test_a_node_measured_once_is_not_named_alone():
    """Where other rounds failed, the one slow stream is a path."""
    nodes = names(6)
    streams = shifted(nodes, Network(egress={"n0002": 0.2}))
    kept = [s for s in streams if s.source != "n0002" or s.target == "n0003"]
    assert told(slow.locate(kept, nodes)) == [(("n0002", "n0003"), "path")]


def test_no_streams_name_nobody():
    """Nothing measured, nothing said."""
    assert slow.locate([], names(4)) == ()
    assert searched(names(1), Network()) == ((), ())


@pytest.mark.parametrize("is_full", [False, True])
@pytest.mark.parametrize("count", [2, 3, 4, 9, 64])
def test_two_looks_ask_each_node_to_send_or_to_receive(count, is_full):
    """Every pair of the rounds twice, none of them while the node does the other; a good network needs one look."""
    look = slow.two_looks(names(count), is_full=is_full)
    rounds = next(look)
    for pairs in rounds:
        assert len({node for pair in pairs for node in pair}) == 2 * len(pairs)
    planned = slow.full_mesh_rounds(names(count)) if is_full else slow.shift_rounds(names(count))
    asked = [pair for pairs in rounds for pair in pairs]
    assert sorted(asked) == sorted(2 * [pair for pairs in planned for pair in pairs])
    network = Network()
    with pytest.raises(StopIteration):
        look.send([stream for pairs in rounds for stream in network.measure(pairs)])


@pytest.mark.parametrize("count", [9, 16, 64])
def test_a_node_that_claims_to_receive_too_much_makes_nobody_slow(count):
    """Of many nodes three send to it: what the others can do is told by whom else they send to."""

    class Boasting(Network):
        def stream(self, source, target, shift=1):
            rate = 900.0 if target == nodes[-1] else 0.12
            return Stream(source=source, target=target, shift=shift, gbytes_per_s=rate)

    nodes = names(count)
    _, found = searched(nodes, Boasting())
    assert [who for each in found for who in each.nodes if who != nodes[-1]] == []


def test_one_node_alone_has_nothing_to_be_connected_with():
    """No round, rather than one with nobody in it."""
    assert slow.full_mesh_rounds(("a",)) == ()
    assert len(slow.full_mesh_rounds(("a", "b"))) == 1
