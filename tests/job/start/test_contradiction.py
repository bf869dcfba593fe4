"""Do the ranks of a job tell of the same operations alike, and who is to blame where they do not?"""

from __future__ import annotations

import random
from typing import Any

import pytest

from preflight.facts.results import RING
from preflight.job.start.contradiction import contradiction, unheard
from preflight.job.start.outcome import RankStory
from preflight.launch.job import Placement

BYTES = 1 << 28


def story(rank: int, *said: dict[str, Any]) -> RankStory:
    """A rank that said this; each is on a node of its own."""
    return RankStory(Placement(rank, f"node{rank + 1}", 0, 1), records=[{**record, "rank": rank} for record in said])


def took(*seconds: float, group: str = "", op: str = "all_reduce") -> dict[str, Any]:
    """A rank's own times."""
    return {"record": "matrix", "op": op, "bytes": BYTES, "seconds": list(seconds), "group": group}


def result(seconds: float, *, ranks: int, iterations: int = 3, group: str = "", op: str = "all_reduce"):
    """What the first rank says of all."""
    figures = {"seconds_median": seconds, "iterations": iterations, "ranks": ranks, "group": group}
    return {"record": "result", "op": op, "bytes": BYTES, **figures}


def told(whole: dict[str, Any], *own: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
    """The contradiction of a result by rank 0 and the times of each rank."""
    return contradiction(tuple(story(rank, *([whole] if not rank else []), one) for rank, one in enumerate(own)))


def test_a_result_faster_than_another_rank_was_is_none():
    """The slowest rank is what counts; which of the two tells the truth is not known, so both are named."""
    fast = took(0.05, 0.06)
    words, nodes = told(result(0.1, ranks=3), fast, took(2.0, 2.0, 2.1, op="broadcast"), fast)
    assert (words, nodes) == ("", ())
    words, nodes = told(result(0.1, ranks=3, op="broadcast"), fast, fast, took(2.0, 2.0, 2.1, op="broadcast"))
    assert nodes == ("node1", "node3")
    assert "rank 2 took 2 s itself" in words


def test_a_rank_that_says_it_took_far_longer_than_all_others_is_alone_to_blame():
    """In an all-reduce all wait for each other: nobody took a hundred times as long as everybody else."""
    usual = took(0.1, 0.11, 0.1)
    words, nodes = told(result(10.0, ranks=4), usual, usual, usual, took(10.0, 10.0, 10.0))
    assert nodes == ("node4",)
    assert "took no rank of another node more than 0.1 s" in words
    assert words.endswith(
        "either node4 gets no processor time (its load, the CPU limit of its container), or it reports a wrong figure"
    )


def test_a_rank_without_processor_time_in_single_iterations_contradicts_nobody():
    """It has sent and is held up before it ends: with a tenth of a processor one iteration in a hundred."""
    usual = took(*[0.004] * 50)
    held_up = took(*[0.004] * 40, *[0.28] * 10)
    assert told(result(0.004, ranks=3, iterations=50), usual, usual, held_up) == ("", ())


def test_a_slow_rank_keeps_all_others_in_the_operation_and_contradicts_nobody():
    """So every rank's own time is long, the slow one's a little longer."""
    usual = took(0.9, 0.95, 0.9)
    assert told(result(1.1, ranks=3), usual, usual, took(1.1, 1.1, 1.2)) == ("", ())


def test_a_result_slower_than_every_rank_was_is_none():
    """Who put in a time that it does not tell is not known, so no node is named."""
    usual = took(0.1, 0.11, 0.1)
    words, nodes = told(result(5.0, ranks=3), usual, usual, usual)
    assert nodes == ()
    assert "the slowest of its 3 ranks took 0.1 s" in words


def test_the_slowest_of_each_iteration_is_another_rank():
    """The median of the slowest is above that of every rank, and true."""
    own = [took(0.3, 0.1, 0.1), took(0.1, 0.3, 0.1), took(0.1, 0.1, 0.3)]
    assert told(result(0.3, ranks=3), *own) == ("", ())


def test_an_operation_held_to_a_ring_is_another_one():
    """Its times are those of its own group."""
    both = story(0, result(0.1, ranks=2), result(0.5, ranks=2, group=RING), took(0.1) | {}, took(0.5, group=RING))
    assert contradiction((both, story(1, took(0.1), took(0.5, group=RING)))) == ("", ())


@pytest.mark.parametrize("seed", range(50))
def test_honest_ranks_never_contradict_each_other(seed):
    """Whatever the noise of each rank and iteration."""
    chance = random.Random(seed)
    ranks, iterations = chance.randint(2, 8), chance.randint(1, 40)
    times = [[chance.uniform(0.9, 1.1) * 0.2 for _ in range(iterations)] for _ in range(ranks)]
    slowest = sorted(max(column) for column in zip(*times, strict=True))
    middle = slowest[(iterations - 1) // 2]
    whole = result(middle, ranks=ranks, iterations=iterations)
    assert told(whole, *(took(*seconds) for seconds in times)) == ("", ())


def test_a_rank_that_ends_well_and_never_said_with_what_it_ran_is_named():
    """Nothing can be said of its NCCL or its torch; of one that failed its own end says more."""
    met = {"record": "joined"}
    silent, failed = story(1, took(0.1)), story(2)
    silent.stage = "done"
    assert unheard((story(0, met), silent, failed)) == (
        "rank 1 on node2 finished, but never said that it had joined: its device and its NCCL are not known",
        ("node2",),
    )
    assert unheard((story(0, met), story(1, met), failed)) == ("", ())


def test_of_what_a_rank_never_said_the_first_is_told():
    """It need not have joined to say what it trained, nor the other way round."""
    only_joined, only_trained = story(0, {"record": "joined"}), story(1, {"record": "trained"})
    only_joined.stage = only_trained.stage = "done"
    assert unheard((only_joined, only_trained), ("joined", "trained"))[1] == ("node2",)
    assert unheard((only_joined,), ("joined", "trained")) == (
        "rank 0 on node1 finished, but never said what it trained: its gradients and samples are not known",
        ("node1",),
    )
