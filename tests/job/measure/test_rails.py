"""Is the slow rail, or the slow GPU, named with its node and direction, and nobody else?"""

from __future__ import annotations

import dataclasses
import random

import pytest

from preflight.facts.results import Slow
from preflight.job.measure import rails
from tests.job.measure.played import job_of
from tests.shares import some_first


def cluster(nodes, gpus):
    """The job of so many nodes with so many ranks each."""
    return job_of(*(f"node{i + 1}" for i in range(nodes) for _ in range(gpus)), backend="nccl")


class Fabric:
    """Ranks that send and receive at 48 GB/s between nodes and 300 within them, but those in the tables."""

    def __init__(self, job, *, noise=0.0, disturbed=0.0, seed=0):
        self.node_of = {place.rank: place.node for place in job.placements}
        self.sends: dict[int, float] = {}
        self.receives: dict[int, float] = {}
        self.chance = random.Random(seed)
        self.noise, self.disturbed = noise, disturbed
        self.looks = 0

    def measure(self, rounds):
        """All rounds of a look; a rank sends or receives in one, and never both."""
        self.looks += 1
        told = []
        for pairs in rounds:
            busy = [rank for pair in pairs for rank in pair]
            assert len(busy) == len(set(busy))
            told += [(source, target, self.rate(source, target)) for source, target in pairs]
        return told

    def rate(self, source, target):
        """What one receives from the other."""
        is_within = self.node_of[source] == self.node_of[target]
        share = min(self.sends.get(source, 1.0), self.receives.get(target, 1.0)) if not is_within else 1.0
        if self.chance.random() < self.disturbed:
            share *= self.chance.uniform(0.3, 0.9)
        return (300.0 if is_within else 48.0) * share * (1 + self.chance.uniform(-self.noise, self.noise))


def searched(job, fabric, **more) -> rails.Found:
    """What is found over a fabric."""
    plan = rails.look(rails.spaces(job, {}), threshold=0.8, **more)
    try:
        rounds = next(plan)
        while True:
            rounds = plan.send(fabric.measure(rounds))
    except StopIteration as end:
        return end.value


def told(found):
    """Who, which part, which way."""
    return [(one.nodes, one.part, one.direction) for one in found.slow]


def test_the_spaces_of_a_job():
    """Rails across the nodes, then the GPUs of each node; one rank a node leaves one rail."""
    assert [(one.name, len(one.ranks), one.is_within) for one in rails.spaces(cluster(3, 2), {})] == [
        ("rail 0", 3, False),
        ("rail 1", 3, False),
        ("node1", 2, True),
        ("node2", 2, True),
        ("node3", 2, True),
    ]
    assert [one.name for one in rails.spaces(cluster(2, 1), {})] == ["rail 0"]
    assert [one.name for one in rails.spaces(cluster(1, 4), {})] == ["node1"]
    assert rails.spaces(cluster(1, 1), {}) == ()


def test_gpus_of_a_node_have_the_names_of_their_boards():
    """And CUDA's number where a rank told none."""
    (space,) = rails.spaces(cluster(1, 2), {1: "GPU-5ad1f0c2 0000:9d:00.0 (cuda:1)"})
    assert space.ranks == {"cuda:0": 0, "GPU-5ad1f0c2 0000:9d:00.0 (cuda:1)": 1}


@pytest.mark.parametrize("nodes", [2, 3, 4, 8, 9, 32])
def test_a_healthy_fabric_is_silent_after_one_look(nodes):
    """With the best that every rail of every node, and every GPU, reached."""
    job = cluster(nodes, 4)
    fabric = Fabric(job)
    found = searched(job, fabric)
    assert (found.slow, fabric.looks) == ((), 1)
    assert len(found.parts) == 2 * nodes * 4
    assert {(part.sends_gbytes_per_s, part.receives_gbytes_per_s) for part in found.parts} == {
        (48.0, 48.0),
        (300.0, 300.0),
    }


@pytest.mark.parametrize("way", ["egress", "ingress", "both"])
@pytest.mark.parametrize("nodes", some_first([3, 4, 8, 16]))
def test_a_slow_rail_of_one_node_is_found_in_twenty_of_twenty(nodes, way):
    """5 % noise, and one message in a hundred disturbed; in the other 20 nobody is named."""
    job = cluster(nodes, 8)
    for seed in range(20):
        fabric = Fabric(job, noise=0.05, disturbed=0.01, seed=seed)
        assert searched(job, fabric).slow == ()
        bad = fabric.chance.randrange(8 * nodes)
        share = fabric.chance.uniform(0.1, 0.7)
        fabric.sends |= {bad: share} if way != "ingress" else {}
        fabric.receives |= {bad: share} if way != "egress" else {}
        assert told(searched(job, fabric)) == [((f"node{bad // 8 + 1}",), f"rail {bad % 8}", way)]


def test_all_rails_of_a_node_are_one_slow_place():
    """As after a narrow slot, or a processor that is held back."""
    job = cluster(6, 4)
    fabric = Fabric(job)
    fabric.sends = dict.fromkeys(range(8, 12), 0.3)
    ((nodes, part, way),) = told(searched(job, fabric))
    assert (nodes, part, way) == (("node3",), "rail 0, rail 1, rail 2, rail 3", "egress")


def test_a_rail_that_is_slow_on_every_node_is_its_switch():
    """No node differs from the others; the other rails tell."""
    job = cluster(4, 4)
    fabric = Fabric(job)
    fabric.sends = {rank: 0.5 for rank in range(16) if rank % 4 == 2}
    assert told(searched(job, fabric)) == [(("node1", "node2", "node3", "node4"), "rail 2", "both")]


def test_of_two_nodes_the_pair_is_named():
    """Which of them is slow no measurement between them tells."""
    job = cluster(2, 4)
    fabric = Fabric(job)
    fabric.sends = {5: 0.25}
    assert told(searched(job, fabric)) == [(("node2", "node1"), "rail 1", "path")]


def test_a_slow_gpu_within_a_node_is_named_by_its_device():
    """And a node whose NVLink is slow as a whole beside its peers."""
    job = cluster(4, 4)
    fabric = Fabric(job)
    slow_gpu, usual = 6, fabric.rate
    fabric.rate = lambda source, target: (
        usual(source, target) * (0.1 if slow_gpu in (source, target) and abs(source - target) < 4 else 1.0)
    )
    assert told(searched(job, fabric)) == [(("node2",), "cuda:2", "both")]
    fabric.rate = lambda source, target: usual(source, target) * (0.1 if source // 4 == target // 4 == 3 else 1.0)
    assert told(searched(job, fabric)) == [(("node4",), "between its GPUs", "both")]


def test_the_job_of_the_pairs_measures_nothing_else():
    """No collective, and time for each round."""
    job = rails.job_of(cluster(2, 1), [[(0, 1)], [(1, 0)]])
    assert job.settings == {"backend": "nccl", "operations": [], "pairs": [[[0, 1]], [[1, 0]]]}
    assert job.seconds == 60.0
    patient = rails.job_of(dataclasses.replace(job, seconds=1e6), [[(0, 1)]] * 4)
    assert patient.seconds == rails.START_SECONDS + 4 * rails.SECONDS_A_ROUND
    assert rails.longest_seconds(2, 1) < rails.longest_seconds(64, 8) < rails.longest_seconds(64, 8, is_full=True)


def test_what_is_slow_knows_its_peers():
    """The figure of the worst, and that of the others."""
    job = cluster(4, 1)
    fabric = Fabric(job)
    fabric.sends = {3: 0.5}
    assert searched(job, fabric).slow == (
        Slow(nodes=("node4",), direction="egress", part="rail 0", gbytes_per_s=24.0, peers_gbytes_per_s=48.0),
    )


@pytest.mark.parametrize(("gpus", "is_told"), [(2, False), (3, True)])
def test_a_whole_rail_is_held_against_two_others_at_least(gpus, is_told):
    """Of two nobody knows which is the slow one."""
    job = cluster(4, gpus)
    fabric = Fabric(job)
    fabric.sends = {rank: 0.5 for rank in range(4 * gpus) if rank % gpus == 1}
    found = [(part, way) for _, part, way in told(searched(job, fabric))]
    assert (("rail 1", "both") in found) is is_told


def lying(job, fabric, liar: int, most: float):
    """A look over a fabric in which one rank claims more of what it receives than its senders do."""
    plan = rails.look(rails.spaces(job, {}), threshold=0.8)
    try:
        rounds = next(plan)
        while True:
            told = fabric.measure(rounds)
            rounds = plan.send([(s, t, rate, most if t == liar else rate) for s, t, rate in told])
    except StopIteration as end:
        return end.value


def test_ends_that_contradict_each_other_are_disputed_by_rail():
    """On the rail of the rank that lies, with its node as the receiver, and on no other."""
    job = cluster(4, 2)
    found = lying(job, Fabric(job), liar=3, most=400.0)  # the second rank of node2
    across = [one for one in found.disputed if one.source != one.target]
    assert across
    assert {(one.target, one.part) for one in across} == {("node2", "rail 1")}


def test_a_node_that_contradicts_itself_is_disputed_by_its_gpus():
    """Within a node both ends are its own."""
    job = cluster(4, 2)
    found = lying(job, Fabric(job), liar=3, most=4000.0)
    within = {(one.source, one.target, one.part) for one in found.disputed if one.source == one.target}
    assert within == {("node2", "node2", "cuda:0, cuda:1")}
    honest = lying(job, Fabric(job), liar=-1, most=0.0)
    assert honest.disputed == ()
