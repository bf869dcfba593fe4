"""Has every rank of a node a device of its own, as the ranks themselves see them?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from preflight.facts.results.rehearsal import Cause
from preflight.job.measure.rehearsal.alike import lines_with
from preflight.job.measure.rehearsal.rounds import rounds
from preflight.job.start.rehearsal.story import RankStory, Story
from preflight.launch.cast import Cast
from preflight.said import joined, said

VISIBLE = "CUDA_VISIBLE_DEVICES"
BY_LAUNCHERS = ("RANK", "LOCAL_RANK")  # what numbers the ranks there tells each its device too


def judged(story: Story, cast: Cast) -> Iterator[Cause]:
    """Ranks of one node and one job that are to use one device, or a device that they do not see."""
    for ranks in rounds(story):
        for node in dict.fromkeys(rank.node for rank in ranks):
            yield from _of_node([rank for rank in ranks if rank.node == node], cast)


def _of_node(ranks: Sequence[RankStory], cast: Cast) -> Iterator[Cause]:
    using: dict[str, list[RankStory]] = {}
    for rank in ranks:
        devices, number = _devices(rank), _local(rank)
        if not devices or not rank.arrived.names:
            continue
        if number < len(devices):
            using.setdefault(devices[number], []).append(rank)
        elif len(devices) == 1 and rank.arrived.names[0] not in BY_LAUNCHERS:
            using.setdefault(devices[0], []).append(rank)  # a scheduler that gives each rank its own numbers them too
        else:
            yield _unseen(rank, number, len(devices), cast)
    for device, those in using.items():
        if len(those) > 1:
            yield _shared(device, those, cast)


def _devices(rank: RankStory) -> tuple[str, ...]:
    """What the rank sees, by UUID; where it has no GPU at all, what it was told to see."""
    if rank.loaded is not None and rank.loaded.devices:
        return rank.loaded.devices
    told = (word.strip() for word in rank.arrived.variables.get(VISIBLE, "").split(","))
    return tuple(word for word in told if word and word != "-1")


def _local(rank: RankStory) -> int:
    name = rank.arrived.names[2] if len(rank.arrived.names) > 2 else ""
    value = rank.arrived.variables.get(name, "0")
    return int(value) if value.isdigit() else 0


def _unseen(rank: RankStory, number: int, seen: int, cast: Cast) -> Cause:
    what = said("is to use device {number}, and sees {seen} ({VISIBLE}={shown})", number, seen, VISIBLE, _visible(rank))
    message = said("rank {rank} on {node} {what}", rank.rank, rank.node, what)
    return _cause([rank], message, cast)


def _shared(device: str, ranks: Sequence[RankStory], cast: Cast) -> Cause:
    numbers = ", ".join(str(rank.rank) for rank in ranks)
    given = joined(
        [
            said(
                "rank {rank}: {VISIBLE}={visible} LOCAL_RANK={local}", rank.rank, VISIBLE, _visible(rank), _local(rank)
            )
            for rank in ranks[:4]
        ],
        ", ",
    )
    message = said(
        "ranks {numbers} on {node} are to use one device, {device}: {given}", numbers, ranks[0].node, device, given
    )
    return _cause(ranks, message, cast)


def _cause(ranks: Sequence[RankStory], message: str, cast: Cast) -> Cause:
    where = lines_with(cast, VISIBLE) or lines_with(cast, "LOCAL_RANK")
    return Cause(
        about="limits",
        nodes=(ranks[0].node,),
        message=message,
        fix=said("leave {VISIBLE} to the launcher, or give each rank of a node a number of its own there", VISIBLE),
        where=where,
        names=(VISIBLE,),
        is_advisory=not any(rank.loaded and rank.loaded.devices for rank in ranks),  # here there is none to fight for
    )


def _visible(rank: RankStory) -> str:
    return rank.arrived.variables.get(VISIBLE, "not set")
