"""Which rail of which node, or which GPU within a node, is slow over the ways that NCCL itself takes?

Pairs of ranks send and receive through NCCL: the first rank of each node with those of the others, the second, and so
on, all rails at once, for each has its own adapter; then the ranks of each node among themselves.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from itertools import starmap, zip_longest
from statistics import median
from typing import Any, NamedTuple

import msgspec

from preflight.facts.results import Disputed, Part, Slow, Stream
from preflight.job.measure import slow
from preflight.job.start.outcome import Outcome
from preflight.job.start.run import run_job
from preflight.judge.blame import agreed, disputes
from preflight.launch.job import Job
from preflight.reach.session.connection import Session
from preflight.said import said

START_SECONDS = 60.0  # of the ranks, import of torch included
SECONDS_A_ROUND = 1.0  # most of it for NCCL to make a connection
Look = Generator[tuple[slow.Round, ...], Sequence[Stream], tuple[tuple[Stream, ...], tuple[Slow, ...]]]


@dataclass(frozen=True)
class Space:
    """Ranks that are compared with each other: those of one rail by their nodes, or of one node by their GPUs."""

    name: str  # "rail 3", "node2"
    ranks: Mapping[str, int]  # by node, or by GPU
    is_within: bool


@dataclass(frozen=True)
class Found:
    """What a search measured, or why it could not."""

    parts: tuple[Part, ...] = ()
    slow: tuple[Slow, ...] = ()
    disputed: tuple[Disputed, ...] = ()
    not_measured: str = ""


def spaces(job: Job, named: Mapping[int, str]) -> tuple[Space, ...]:
    """The rails, then the nodes, whose GPUs have names by their ranks; those with a single rank are left out."""
    rails: dict[int, dict[str, int]] = {}
    nodes: dict[str, dict[str, int]] = {}
    for place in job.placements:
        rails.setdefault(place.local_rank, {})[place.node] = place.rank
        nodes.setdefault(place.node, {})[named.get(place.rank, f"cuda:{place.local_rank}")] = place.rank
    across = [Space(said("rail {number}", number), ranks, False) for number, ranks in sorted(rails.items())]
    within = [Space(name, ranks, True) for name, ranks in nodes.items()]
    return tuple(space for space in (*across, *within) if len(space.ranks) > 1)


def job_of(job: Job, rounds: Sequence[Sequence[tuple[int, int]]]) -> Job:
    """The job of the pairs, on the ranks of the benchmark."""
    settings: dict[str, Any] = {
        **{name: job.settings[name] for name in ("backend", "join_seconds", "wait_seconds") if name in job.settings},
        "operations": [],
        "pairs": [[list(pair) for pair in pairs] for pairs in rounds],
    }
    seconds = min(job.seconds, START_SECONDS + SECONDS_A_ROUND * len(rounds))
    return dataclasses.replace(job, settings=settings, seconds=seconds)


def longest_seconds(nodes: int, ranks_per_node: int, *, is_full: bool = False) -> float:
    """How long both looks may take."""
    rounds = 0
    for count in (nodes, ranks_per_node):
        names = [str(number) for number in range(count)]
        planned = slow.full_mesh_rounds(names) if is_full else slow.shift_rounds(names)
        rounds += sum(len(slow.packed(pairs)) for pairs in planned) * slow.FIRST_TIMES
    return 2 * (START_SECONDS + SECONDS_A_ROUND * rounds)


async def search(
    sessions: dict[str, Session],
    job: Job,
    *,
    named: Mapping[int, str],
    threshold: float,
    is_full: bool = False,
    say: Callable[[str], None] = lambda _text: None,
) -> tuple[Found, Outcome | None]:
    """Every rail and every node at once, in two looks at most; the end of the last job."""
    plan = look(spaces(job, named), threshold=threshold, is_full=is_full)
    outcome = None
    try:
        pairs = next(plan)
        while True:
            say(said("{sum} pairs of ranks in {pairs} rounds, each over NCCL", sum(map(len, pairs)), len(pairs)))
            asked = job_of(job, pairs)
            outcome = await run_job(sessions, asked, launcher="direct")
            if outcome.failure:
                return Found(not_measured=outcome.failure), outcome
            pairs = plan.send(attested_pairs(outcome))
    except StopIteration as end:
        found: Found = end.value
        return found, outcome


class Measured(NamedTuple):
    """One message: who sent, who received, the lower and the higher report of both."""

    source: int
    target: int
    gbytes_per_s: float
    most_gbytes_per_s: float = 0.0


def attested_pairs(outcome: Outcome) -> list[Measured]:
    """What each rank received, according to itself and, where it reported, to the sender."""
    sent = {(each["rank"], each["target"], each["round"]): each["gbytes_per_s"] for each in outcome.records("sent")}
    found = []
    for each in outcome.records("pair"):
        source, target, received = each["source"], each["rank"], each["gbytes_per_s"]
        least, most = sorted((received, sent.get((source, target, each["round"]), received)))
        found.append(Measured(source, target, least, most))
    return found


def look(
    places: Sequence[Space], *, threshold: float, is_full: bool = False
) -> Generator[tuple[tuple[tuple[int, int], ...], ...], Sequence[tuple[Any, ...]], Found]:
    """Yields rounds of pairs of ranks, is sent what they measured, and gives the slow parts of nodes.

    Rails have their rounds at once, and so have the nodes after them.
    """
    looks: dict[int, Look] = {
        number: slow.two_looks(tuple(space.ranks), threshold=threshold, is_full=is_full)
        for number, space in enumerate(places)
    }
    asked = {number: next(one) for number, one in looks.items()}
    ended: dict[int, tuple[tuple[Stream, ...], tuple[Slow, ...]]] = {}
    while asked:
        rounds: list[tuple[tuple[int, int], ...]] = []
        for is_within in (False, True):
            of_each = [
                [tuple((places[number].ranks[a], places[number].ranks[b]) for a, b in pairs) for pairs in wanted]
                for number, wanted in asked.items()
                if places[number].is_within is is_within
            ]
            rounds += [
                tuple(pair for pairs in at_once for pair in pairs) for at_once in zip_longest(*of_each, fillvalue=())
            ]
        measured = yield tuple(rounds)
        following = {}
        for number in asked:
            names = {rank: name for name, rank in places[number].ranks.items()}
            streams = [
                Stream(source=names[each.source], target=names[each.target], shift=0, **_rates(each))
                for each in starmap(Measured, measured)
                if each.source in names and each.target in names
            ]
            try:
                following[number] = looks[number].send(streams)
            except StopIteration as end:
                ended[number] = end.value
        asked = following
    return _judged(places, ended, threshold)


def _rates(one: Measured) -> dict[str, Any]:
    return {"gbytes_per_s": one.gbytes_per_s, "most_gbytes_per_s": one.most_gbytes_per_s}


def _judged(
    places: Sequence[Space], ended: Mapping[int, tuple[tuple[Stream, ...], tuple[Slow, ...]]], threshold: float
) -> Found:
    """The matrix of nodes and rails, and of GPUs within each node, with what is slow in it."""
    parts: list[Part] = []
    found: list[Slow] = []
    disputed: list[Disputed] = []
    usual = {number: slow.usual(known) for number, (streams, _) in ended.items() if (known := agreed(streams))}
    for number, space in enumerate(places):
        streams, places_found = ended[number]
        egress, ingress = slow.ends_of(agreed(streams))
        disputed += _disputes(space, streams)
        for name in space.ranks:
            sends, receives = (end.get(name, (0.0, 0))[0] for end in (egress, ingress))
            node, part = (space.name, name) if space.is_within else (name, space.name)
            parts.append(Part(node=node, part=part, sends_gbytes_per_s=sends, receives_gbytes_per_s=receives))
        equals = [rate for other, rate in usual.items() if places[other].is_within is space.is_within]
        middle = median(equals) if equals else 0.0
        if not places_found and len(equals) > 2 and usual.get(number, middle) < threshold * middle:
            # The whole space is slow: a rail's switch, or a node's NVLink. No part of it stands out.
            nodes = (space.name,) if space.is_within else tuple(space.ranks)
            part = "" if space.is_within else space.name
            rates = {"gbytes_per_s": usual[number], "peers_gbytes_per_s": middle}
            found.append(Slow(nodes=nodes, direction="both", part=part or "between its GPUs", **rates))
        for one in places_found:
            rates = {"gbytes_per_s": one.gbytes_per_s, "peers_gbytes_per_s": one.peers_gbytes_per_s}
            if space.is_within:
                part = " and ".join(one.nodes)
                found.append(Slow(nodes=(space.name,), direction=one.direction, part=part, **rates))
            else:
                found.append(Slow(nodes=one.nodes, direction=one.direction, part=space.name, **rates))
    return Found(tuple(parts), _folded(found), tuple(disputed))


def _disputes(space: Space, streams: Sequence[Stream]) -> list[Disputed]:
    """The pairs of which sender and receiver contradict each other; within a node it contradicts itself."""
    if not space.is_within:
        return list(disputes(streams, space.name))
    return [
        msgspec.structs.replace(one, source=space.name, target=space.name, part=f"{one.source}, {one.target}")
        for one in disputes(streams)
    ]


def _folded(found: Sequence[Slow]) -> tuple[Slow, ...]:
    """One slow place for each node and direction, whatever the rails."""
    folded: dict[tuple[tuple[str, ...], str, bool], Slow] = {}
    for one in found:
        key = one.nodes, one.direction, one.part.startswith("rail ")
        held = folded.setdefault(key, one)
        if held is not one:
            rate = min(held.gbytes_per_s, one.gbytes_per_s)
            folded[key] = msgspec.structs.replace(held, part=f"{held.part}, {one.part}", gbytes_per_s=rate)
    return tuple(folded.values())
