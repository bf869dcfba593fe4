"""Is it told what is lower, left over or missing inside the job?"""

from __future__ import annotations

from preflight.job.measure.rehearsal.limits import judged
from tests.job.measure.rehearsal.stories import LIMITS, TEXT, cache, cast, node, rank, story


def causes(text=TEXT, **second):
    """What is said where node2's rank came so, and sessions have the usual limits."""
    nodes = story(node("node1", rank(0, "node1")), node("node2", rank(1, "node2", **second)))
    return list(judged(nodes, cast(text), {"node1": LIMITS, "node2": LIMITS}))


def test_the_limits_of_a_session_are_good():
    """Nothing is said of them."""
    assert causes() == []


def test_a_lower_limit_is_named_with_its_line():
    """Few files are a failure, more of them a warning."""
    (cause,) = causes(TEXT + "ulimit -n 1024\n", limits={**LIMITS, "nofile": 1024})
    assert cause.message == "open files: 1024 inside the job on node2; 65536 in a session there (run.sh:5)"
    assert (cause.where, cause.is_advisory) == ((("run.sh", 5),), False)
    (cause,) = causes(limits={**LIMITS, "memlock": 8 << 20})
    assert (cause.nodes, cause.is_advisory) == (("node2",), True)


def test_a_lock_that_was_left_is_named():
    """The next build would wait for it."""
    (cause,) = causes(caches=(cache(locks=("/c/fused_adam/lock",)),))
    assert (cause.nodes, cause.fix.split("`")[1]) == (("node2",), "rm /c/fused_adam/lock")


def test_a_cache_that_cannot_take_anything_is_a_warning():
    """It may not be written, or is full."""
    assert [cause.is_advisory for cause in causes(caches=(cache(can_write=False),))] == [True]
    assert [cause.is_advisory for cause in causes(caches=(cache(free_bytes=1 << 20),))] == [True]
