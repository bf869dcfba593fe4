"""Does a node that lies about streams make nobody look slow but itself, and is it the one that is named?"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from preflight.facts.results import Disputed, Slow, Stream
from preflight.job.measure import slow
from preflight.judge.blame import agreed, attested, disputes, is_disputed, liars, most
from tests.bench.simulate import USUAL, Network, names, searched

FACTORS = st.sampled_from([0.0, 1e-9, 0.1, 0.49, 0.51, 0.79, 0.81, 1.0, 1.2, 1.9, 2.1, 10.0, 8e3]) | st.floats(0, 1e4)


@st.composite
def lying(draw, least=3):
    """Three to eight nodes, the one that lies, and what it says of each peer and side over the truth."""
    nodes = names(draw(st.integers(least, 8)))
    liar = draw(st.sampled_from(nodes))
    saying = {(peer, sends): draw(FACTORS) for peer in nodes for sends in (True, False)}
    return nodes, liar, {liar: lambda peer, sends, rate: rate * saying[peer, sends]}


@settings(max_examples=80, deadline=None)
@given(lying(), st.integers(0, 1000))
def test_no_figure_of_a_liar_makes_its_honest_peers_slow(case, seed):
    """Neither the nodes nor the paths between them and the liar, whatever it claims of each stream."""
    nodes, liar, lies = case
    streams, found = searched(nodes, Network(lies=lies, noise=0.05, disturbed=0.01, seed=seed))
    assert all(place.nodes == (liar,) for place in found)
    for named in liars(disputes(streams), nodes):
        assert liar in named  # a peer only where it contradicts no second one, so that none can tell
        assert len(named) <= 2
    assert slow.usual(streams) <= 1.05 * USUAL if agreed(streams) else True


@settings(max_examples=80, deadline=None)
@given(lying(least=5), st.data())
def test_a_slow_node_is_named_whatever_a_liar_says_of_it(case, data):
    """In its direction, and no other honest node with it."""
    nodes, liar, lies = case
    bad = data.draw(st.sampled_from([name for name in nodes if name != liar]))
    share = data.draw(st.floats(0.05, 0.55))
    way = data.draw(st.sampled_from(["egress", "ingress"]))
    network = Network(lies=lies, noise=0.02, seed=1, **{way: {bad: share}})
    _, found = searched(nodes, network)
    assert bad in {name for place in found for name in place.nodes}
    assert (bad,) in {place.nodes for place in found if place.direction in (way, "both")}
    assert {name for place in found if place.direction != "path" for name in place.nodes} <= {bad, liar}


@settings(max_examples=80, deadline=None)
@given(lying())
def test_the_pairs_of_ranks_have_the_same_promise(case):
    """Where all rounds of a look are planned at once."""
    nodes, liar, lies = case
    network = Network(lies=lies)
    looks = slow.two_looks(nodes)
    try:
        rounds = next(looks)
        while True:
            rounds = looks.send([stream for pairs in rounds for stream in network.measure(pairs)])
    except StopIteration as end:
        streams, found = end.value
    assert all(place.nodes == (liar,) for place in found)
    assert all(liar in named for named in liars(disputes(streams), nodes))


def test_who_lies_to_several_is_named_alone_and_of_two_ends_both():
    """With two nodes, or one peer lied to, nobody can tell which of them it is."""
    everybody = Network(lies={"n0001": lambda _peer, _sends, _rate: 1000.0})
    streams, found = searched(names(4), everybody)
    assert found == ()
    assert len(streams) - len(agreed(streams)) == 6
    assert liars(disputes(streams), names(4)) == (("n0001",),)
    streams, found = searched(names(2), everybody)
    assert (found, agreed(streams)) == ((), ())
    assert liars(disputes(streams), names(2)) == (("n0000", "n0001"),)


def test_the_lower_of_both_words_is_the_figure():
    """The higher one is kept beside it; a stream of an earlier version has one word, which nobody disputes."""
    stream = attested("a", "b", 1, sent=0.12, received=0.11)
    assert (stream.gbytes_per_s, most(stream), is_disputed(stream)) == (0.11, 0.12, False)
    assert is_disputed(attested("a", "b", 1, sent=0.12, received=0.05))
    assert is_disputed(attested("a", "b", 1, sent=0.0, received=1e-3))
    assert not is_disputed(attested("a", "b", 1, sent=0.0, received=0.0))
    earlier = Stream(source="a", target="b", shift=1, gbytes_per_s=0.1)
    assert (most(earlier), is_disputed(earlier)) == (0.1, False)


def test_a_path_is_slow_where_both_its_ends_say_so():
    """What one end alone calls slow is no slow path."""
    network = Network(path={("n0000", "n0001"): 0.2})
    _, found = searched(names(4), network)
    assert [place.nodes for place in found] == [("n0000", "n0001")]
    assert isinstance(found[0], Slow)


def test_who_contradicts_itself_is_alone_to_blame():
    """Two GPUs of one node have no other node to blame."""
    rates = {"least_gbytes_per_s": 1.0, "most_gbytes_per_s": 9.0}
    within = Disputed(source="node2", target="node2", part="cuda:0 and cuda:1", **rates)
    between = Disputed(source="node1", target="node2", part="rail 0", **rates)
    assert liars([within, between], ("node1", "node2")) == (("node2",),)
