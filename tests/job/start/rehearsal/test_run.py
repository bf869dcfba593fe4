"""How far has a rehearsal come, in the words that are shown while it runs? The rest is shown on hosts of the lab."""

from __future__ import annotations

from preflight.job.start.rehearsal.run import progress
from tests.job.measure.rehearsal.stories import node, rank, story


def test_ranks_that_came_and_those_that_are_done_are_counted():
    """How many there are is known from the first of them."""
    assert progress(story(node("node1"))) == "0 of ? ranks came, 0 are done"
    assert progress(story(node("node1", rank(0, "node1")))) == "1 of 2 ranks came, 1 are done"
