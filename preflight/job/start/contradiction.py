"""Do the ranks of a job agree about the operations they ran together?

The first rank reports the time of an operation, which is that of the slowest rank, and every rank its own. A rank is a
program on a node, so no single word may make an operation of all look fast, or slow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from preflight.job.start.outcome import RankStory
from preflight.said import joined, said

# A result this many times faster than a rank's own clock says was not measured by all of them.
FASTER_THAN_A_RANK = 0.9
# All ranks begin an all-reduce behind a barrier, and none ends it before the last has sent: what lies between is less.
# A rank without processor time is held up after it has sent in single iterations, and all wait for it in most: with a
# hundredth of a processor its median is a tenth above the others'. With one or two iterations it may be that one.
LONGER_THAN_ALL_OTHERS, SURE_SECONDS = 3.0, 0.05
Untrue = tuple[str, tuple[str, ...]]  # why a result does not count, and the nodes that may be to blame
NOTHING: Untrue = ("", ())


class Own(NamedTuple):
    """A rank's own time of every iteration of an operation."""

    rank: int
    node: str
    seconds: list[float]


def contradiction(stories: tuple[RankStory, ...]) -> Untrue:
    """Why a result does not count, and the nodes that may be to blame: none where it may be any of them."""
    for speaker in stories:
        for result in speaker.records:
            if result.get("record") == "result":
                own = [one for story in stories for one in _own(story, result)]
                found = _too_long(result, own) or _too_fast(result, speaker, own) or _too_slow(result, speaker, own)
                if found:
                    return found
    return NOTHING


def unheard(stories: tuple[RankStory, ...], kinds: Sequence[str] = ("joined",)) -> Untrue:
    """Where a rank is done that never sent a record of each kind: why its job does not count, and the nodes of those.

    The first kind that one of them left out is reported.
    """
    return next((found for kind in kinds if (found := _unheard(stories, kind)) != NOTHING), NOTHING)


def _unheard(stories: tuple[RankStory, ...], kind: str) -> Untrue:
    silent = [
        story.placement
        for story in stories
        if story.is_done and not any(record.get("record") == kind for record in story.records)
    ]
    if not silent:
        return NOTHING
    nodes = tuple(dict.fromkeys(place.node for place in silent))
    named = joined([said("rank {rank} on {node}", place.rank, place.node) for place in silent[:4]], ", ")
    more = said(" and {silent} more", len(silent) - 4) if len(silent) > 4 else ""
    if kind == "trained":
        return said(
            "{named}{more} finished, but never said what it trained: its gradients and samples are not known",
            named,
            more,
        ), nodes
    return said(
        "{named}{more} finished, but never said that it had joined: its device and its NCCL are not known", named, more
    ), nodes


def _own(story: RankStory, result: Mapping[str, Any]) -> list[Own]:
    """The rank's own times of what a result is of."""
    what = (result["op"], result["bytes"], result.get("group", ""))
    return [
        Own(story.placement.rank, story.placement.node, record["seconds"])
        for record in story.records
        if record.get("record") == "matrix" and record["seconds"]
        if (record["op"], record["bytes"], record.get("group", "")) == what
    ][-1:]


def _too_fast(result: Mapping[str, Any], speaker: RankStory, own: list[Own]) -> Untrue | None:
    """It took a rank longer than the slowest of all: one of the two reports a wrong time."""
    for other in own:
        itself = median(other.seconds)
        if result["seconds_median"] < FASTER_THAN_A_RANK * itself:
            place = speaker.placement
            nodes = tuple(dict.fromkeys((place.node, other.node)))
            return (
                said(
                    "rank {rank} reports {words}, rank {rank2} took {itself:g} s itself: one of {nodes} reports "
                    "a wrong figure",
                    place.rank,
                    _words(result),
                    other.rank,
                    itself,
                    " and ".join(nodes),
                )
            ), nodes
    return None


def _too_long(result: Mapping[str, Any], own: list[Own]) -> Untrue | None:
    """An all-reduce took a rank far longer than any on another node, though all are in it together."""
    if result["op"] != "all_reduce" or len({one.node for one in own}) < 3:
        return None
    slowest = max(own, key=lambda one: median(one.seconds))
    most = median(slowest.seconds)
    others = max(median(one.seconds) for one in own if one.node != slowest.node)
    if most <= LONGER_THAN_ALL_OTHERS * others or most - others <= SURE_SECONDS:
        return None
    return (
        said(
            "rank {rank} says that {result} of {result2} bytes took it {most:g} s, which took no rank of "
            "another node more than {others:g} s: either {node} gets no processor time (its load, the "
            "CPU limit of its container), or it reports a wrong figure",
            slowest.rank,
            result["op"],
            result["bytes"],
            most,
            others,
            slowest.node,
        )
    ), (slowest.node,)


def _too_slow(result: Mapping[str, Any], speaker: RankStory, own: list[Own]) -> Untrue | None:
    """All ranks tell what each iteration took them, and the slowest of them was faster than the result."""
    if len(own) != result.get("ranks") or {len(one.seconds) for one in own} != {result["iterations"]}:
        return None
    slowest = median(max(seconds) for seconds in zip(*(one.seconds for one in own), strict=True))
    if result["seconds_median"] * FASTER_THAN_A_RANK <= slowest:
        return None
    return (
        said(
            "rank {rank} reports {words}, and the slowest of its {own} ranks took {slowest:g} s: one of "
            "them reports a wrong figure",
            speaker.placement.rank,
            _words(result),
            len(own),
            slowest,
        )
    ), ()


def _words(result: Mapping[str, Any]) -> str:
    return said(
        "{result:g} s for {result2} of {result3} bytes", result["seconds_median"], result["op"], result["bytes"]
    )
