"""Does the benchmark name the nodes that a figure speaks of?"""

from __future__ import annotations

import msgspec
import pytest

from preflight.facts.results import RING, Slow
from preflight.judge.views.bench import BenchView, slow_text
from preflight.said.errors import BlockedBy, NotApplicable, NotMeasured
from preflight.testing import healthy, roce
from tests.checks.samples import busbw, within_nodes


def _bench(run):
    return BenchView(run.measured_bench, run.cluster)


def test_ranks_lie_on_the_nodes_that_reported_them():
    """Ranks 0, 1 and 9 of eight a node are on the first two nodes; ranks nobody knows may be anywhere."""
    view = _bench(roce(2))
    assert view.nodes_of([0, 1, 9]) == ("node1", "node2")
    assert view.nodes_of([8]) == ("node2",)
    assert view.nodes_of([99]) == ("node1", "node2")


def test_one_node_has_no_links():
    """On one node there is nothing to expect of a link."""
    with pytest.raises(NotApplicable, match="no link measured"):
        _bench(healthy(1)).expected(_bench(healthy(1)).all_reduce())


def test_a_wrong_sum_says_nothing_about_bandwidth():
    """How fast wrong results came does not matter."""
    run = busbw(2.0).all_reduce_has(wrong=1, wrong_ranks=(2,))
    with pytest.raises(BlockedBy, match="all_reduce_is_correct on node3"):
        _bench(run).shortfall(run.measured_bench.results[0], share=0.9, impossible_above=1.02, needs_certainty=True)


def _shortfall(run, *, needs_certainty=True):
    """What there is to say about the all-reduce at a gate of 90 %."""
    view = _bench(run)
    return view.shortfall(view.all_reduce(), share=0.9, impossible_above=1.02, needs_certainty=needs_certainty)


def test_the_interval_is_judged_and_not_the_median():
    """Wholly above the gate is well, wholly below is a shortfall, across it is neither."""
    assert _shortfall(busbw(2.76)) == ""
    assert "wanted at least 2.745 GB/s" in _shortfall(busbw(2.73))
    assert _shortfall(busbw(2.75, spread=0.1), needs_certainty=False) == ""
    with pytest.raises(NotApplicable, match="straddles"):
        _shortfall(busbw(2.74, spread=0.1), needs_certainty=False)
    with pytest.raises(NotMeasured, match="straddles"):
        _shortfall(busbw(2.74, spread=0.1))


@pytest.mark.parametrize(
    ("nodes", "direction", "part", "words"),
    [
        (("node1",), "egress", "", "node1 sends"),
        (("node1",), "ingress", "", "node1 receives"),
        (("node1",), "both", "", "node1 sends and receives"),
        (("node1", "node3"), "path", "", "the path between node1 and node3 carries"),
        (("node2",), "both", "rail 3", "rail 3 (mlx5_3) of node2 sends and receives"),
        (("node2",), "path", "rail 1, rail 2", "the path on rail 1 (mlx5_1), rail 2 (mlx5_2) of node2 carries"),
        (("node2",), "egress", "cuda:3", "cuda:3 of node2 sends"),
        (("node2",), "egress", "rail 9", "rail 9 of node2 sends"),
    ],
)
def test_a_slow_place_is_told_with_its_adapters(nodes, direction, part, words):
    """The adapter nearest to the GPU of a rail's number; a GPU of its own, or a rail without one, has none."""
    place = Slow(nodes=nodes, direction=direction, part=part, gbytes_per_s=1.5, peers_gbytes_per_s=3.0)
    assert slow_text(place, roce().cluster) == f"{words} 1.5 GB/s where its peers reach 3 GB/s"


def test_a_slow_place_is_told_with_what_was_lost_there():
    """From a hundredth on; a node of which no topology is known has its rails without adapters."""
    place = Slow(
        nodes=("node2",), direction="both", part="rail 1", gbytes_per_s=1, peers_gbytes_per_s=3, sent_again=0.01
    )
    lost = roce().without("node2", "gpu").cluster
    assert slow_text(place, lost) == (
        "rail 1 of node2 sends and receives 1 GB/s where its peers reach 3 GB/s; "
        "1% of its segments were lost on the way and sent again"
    )


@pytest.mark.parametrize(
    ("seconds", "slow"),
    [
        ((2.0, 2.0, 9.9), ()),  # however much longer than the others, it is quick
        ((4.0, 4.0, 12.1), ("node3",)),
        ((4.0, 4.0, 11.9), ()),
        ((50.0, 50.0, 61.0), ("node3",)),  # longer than all may take
        ((61.0, 62.0, 63.0), ("node1", "node2", "node3")),
    ],
)
def test_who_takes_long_to_import_torch_is_named(seconds, slow):
    """Beyond a limit, or beyond so many times the median, which counts from ten seconds on."""
    run = healthy(3)
    ranks = tuple(
        msgspec.structs.replace(report, import_seconds=each)
        for report, each in zip(run.measured_bench.ranks, seconds, strict=True)
    )
    found = _bench(run.bench_has(ranks=ranks)).slow_imports(limit_seconds=60.0, ratio=3.0)
    assert tuple(node for blame in found for node in blame.nodes) == slow


@pytest.mark.parametrize(
    ("rates", "slow"),
    [
        ({"node1": 9.0, "node2": 1.0}, ["node2"]),
        ({"node1": 9.0, "node2": 9.0, "node3": 9.0}, []),
        ({"node1": 9.0, "node2": 7.2, "node3": 9.0}, []),
        ({"node1": 9.0, "node2": 7.19, "node3": 9.0}, ["node2"]),
        ({"node1": 1.0, "node2": 9.0, "node3": 9.0, "node4": 2.0}, ["node1", "node4"]),
    ],
)
def test_a_group_is_slow_by_the_median_of_all(rates, slow):
    """Two are enough to compare; what has the share of the median that is asked for is well."""
    found = _bench(within_nodes(roce(), **rates)).slow_groups(share=0.8)
    assert [node for blame in found for node in blame.nodes] == slow


def test_one_group_is_compared_with_none():
    """Nor is the ring over all of them a group."""
    with pytest.raises(NotApplicable, match="all ranks are one group"):
        _bench(within_nodes(roce(), node1=9.0)).slow_groups(share=0.8)
    with pytest.raises(NotApplicable, match="all ranks are one group"):
        _bench(within_nodes(roce(), **{"node1": 9.0, RING: 9.0})).slow_groups(share=0.8)
