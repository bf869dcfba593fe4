"""Is the node named for which the others stood still?"""

from __future__ import annotations

from preflight.job.measure.rehearsal.pace import judged, seconds_of
from tests.job.measure.rehearsal.stories import cast, node, rank, story, torchrun


def test_each_stage_has_its_seconds():
    """By the clock of the rank's own node."""
    told = story()
    assert seconds_of(told.ranks[0], told) == {
        "script": 0.5,
        "launcher": 0.5,
        "import": 2.5,
        "rendezvous": 0.5,
        "communicator": 0.5,
        "first step": 1.0,
    }
    assert list(judged(told, cast())) == []


def test_a_slow_import_is_named():
    """The node, the stage and how long it took; a warning."""
    slow = rank(1, "node2")
    slow.times["rendezvous"] = 150.0
    nodes = node("node1", rank(0, "node1"), words=torchrun(0)), node("node2", slow, words=torchrun(1))
    (cause,) = judged(story(*nodes), cast())
    assert (cause.nodes, cause.is_advisory) == (("node2",), True)
    assert cause.message == "node2 took 48 s for stage import, where the others took 2 s and waited"
