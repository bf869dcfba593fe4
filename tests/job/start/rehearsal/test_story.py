"""Is what a node says of its ranks taken as it is meant, and refused where it does not fit?"""

from __future__ import annotations

import msgspec
import pytest

from preflight.job.start.rehearsal.story import NodeStory
from preflight.said.errors import BadReply
from tests.job.measure.rehearsal.stories import rank

ARRIVED = {"record": "arrived", "at": 1.0, **msgspec.to_builtins(rank(1, "node2").arrived)}


def told(*notes):
    """A node that sent these notes of one rank."""
    story = NodeStory("node2")
    story.take({"notes": [["rank-1", note] for note in notes]})
    return story


def test_a_rank_goes_through_its_stages():
    """The furthest counts; each has its time."""
    stages = [{"record": "stage", "stage": name, "at": at} for name, at in (("import", 2.0), ("rendezvous", 3.0))]
    (found,) = told(ARRIVED, *stages, {"record": "stage", "stage": "import", "at": 9.0}).ranks.values()
    assert (found.rank, found.world_size, found.stage) == (1, 2, "rendezvous")
    assert (found.times["import"], found.times["rendezvous"]) == (2.0, 3.0)


def test_its_end_is_its_own_word():
    """Done, or failed with a reason."""
    (done,) = told(ARRIVED, {"record": "done", "at": 3.0}).ranks.values()
    (failed,) = told(ARRIVED, {"record": "failed", "error": "no torch", "at": 3.0}).ranks.values()
    assert (done.is_over, failed.is_over, failed.error) == (True, True, "no torch")


def test_launchers_and_rows_are_kept():
    """With the end of the script."""
    story = told({"launcher": ["python", "torchrun"], "pid": 5, "parent": 1, "at": 1.0}, {"made": "/tmp/x"})
    story.take({"rows": [[0, 7, 0, 1.0, 2, "/srv/run.sh"]]})
    story.take({"ended": 3, "shell": 7, "at": 4.0})
    assert (story.launched[0].launcher, story.rows[0].line, story.code) == (("python", "torchrun"), 2, 3)


@pytest.mark.parametrize("event", [{"rows": [[0, "7"]]}, {"ended": "3", "shell": 1, "at": 1.0}, {"notes": [["x", 1]]}])
def test_what_does_not_fit_is_the_nodes_fault(event):
    """It is data of a stranger."""
    with pytest.raises(BadReply):
        NodeStory("node2").take(event)
