"""When does a rehearsal end, and when does it go on?"""

from __future__ import annotations

import time

from preflight.job.start.rehearsal.over import ENDED, FAILED, STILL, starting_lines, why_over
from tests.job.measure.rehearsal.stories import cast, node, rank, story, torchrun

NOW = time.monotonic()


def after(seconds, *nodes):
    """Why it is over so long after the last word."""
    told = story(*nodes)
    for each in told.nodes.values():
        each.moved = NOW
    return why_over(told, cast(), NOW + seconds)


def test_it_is_over_when_all_have_ended():
    """A moment later: the last words may come behind the end."""
    assert (after(0.5), after(1.5)) == ("", ENDED)


def test_a_failure_is_given_a_moment_for_the_words_of_others():
    """A script that stopped, a rank that failed, a script that ended and started nothing."""
    waits = node("node1", rank(0, "node1", stage="rendezvous"), code=None, words=torchrun(0))
    for broken in (
        node("node2", code=127),
        node("node2", rank(1, "node2", stage="import", error="no torch"), code=None),
        node("node2", code=0),
    ):
        assert (after(2.0, waits, broken), after(6.0, waits, broken)) == ("", FAILED)


def test_who_stands_still_is_ended_only_in_the_launcher():
    """A script that downloads something for minutes goes on."""
    waits = node("node1", rank(0, "node1", stage="rendezvous"), code=None, words=torchrun(0))
    at_launch = node("node2", code=None, lines=((2, 0), (4, 0)))
    prepares = node("node2", code=None, lines=((2, 0),))
    assert (after(29.0, waits, at_launch), after(31.0, waits, at_launch)) == ("", STILL)
    assert after(300.0, waits, prepares) == ""


def test_the_lines_that_start_a_job_are_those_of_the_plans():
    """By file."""
    assert starting_lines(cast()) == {"run.sh": {4}}
