"""Are the ranks of several jobs of one script kept apart?"""

from __future__ import annotations

from preflight.job.measure.rehearsal.rounds import program_of, rounds, world_of
from tests.job.measure.rehearsal.stories import node, rank, story


def test_a_rank_that_was_done_before_is_of_an_earlier_job():
    """Two starts of one program, one after the other."""
    nodes = [node(name, rank(n, name), rank(n, name)) for n, name in enumerate(("node1", "node2"))]
    assert [[each.rank for each in ranks] for ranks in rounds(story(*nodes))] == [[0, 1], [0, 1]]


def test_the_same_rank_at_the_same_time_is_of_one_job():
    """Which is a fault, and not two jobs."""
    nodes = [node(name, rank(0, name, stage="rendezvous")) for name in ("node1", "node2")]
    assert [len(ranks) for ranks in rounds(story(*nodes))] == [2]


def test_programs_and_worlds_are_told():
    """A module is called by its name; the world is what most were told."""
    module = rank(0, "node1", argv=("python", "-m", "pkg.train", "--x"))
    assert (program_of(module), program_of(rank(0, "node1"))) == ("pkg.train", "train.py")
    assert world_of([rank(0, "node1", world=4), rank(1, "node1", world=4), rank(2, "node1", world=2)]) == 4
