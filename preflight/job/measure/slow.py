"""Which node is slow, and which way: who sends to whom to find out, and what do the streams say?

A stream is as fast as the slowest of its sender, path and receiver, so a node's best stream is what that node can
do. A stream whose ends contradict each other says nothing about a link. Everything here is arithmetic;
`preflight.job.measure.streams` measures.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from functools import partial
from statistics import median

from preflight.facts.results import Direction, Slow, Stream
from preflight.judge.blame import agreed, is_disputed, most

SLOW_BELOW = 0.8
ALL_SHIFTS_UP_TO = 8  # nodes among which every path is measured: seven short rounds
ALL_AGAIN_UP_TO = 4  # nodes: each then has too few good streams to know from one look what is usual
CONFIRMATIONS = 3  # a stream in fifty is disturbed; of 12 000 some are disturbed twice
MOST_CONFIRMATIONS = 4
FIRST_TIMES = 2  # of each pair where all rounds are planned at once
AGAIN_TIMES = 6  # of each doubt there, seconds apart: other work on a node passes, a slow link stays
CONTRADICTION = "contradiction"  # a doubt of a pair
Doubt = tuple[str, ...]
Pair = tuple[str, str]  # sender, receiver
Ends = tuple[dict[str, tuple[float, int]], dict[str, tuple[float, int]]]  # of senders, and of receivers
Round = tuple[Pair, ...]  # at once: every node sends at most once and receives at most once


def shifts(count: int) -> tuple[int, ...]:
    """The distances of the shift rounds of `count` nodes: all of few nodes, three of many, each prime to the others.

    In round d every node sends to the one d places on, so each link carries one stream each way.
    """
    if count <= ALL_SHIFTS_UP_TO:
        return tuple(range(1, count))
    second = max(2, count // 3)
    third = next(d for d in range(count // 2 + 1, count) if d != second and math.gcd(d, second) == 1)
    return (1, second, third)


def shift_rounds(names: Sequence[str]) -> tuple[Round, ...]:
    """Who sends to whom in each shift round."""
    count = len(names)
    return tuple(tuple((names[i], names[(i + d) % count]) for i in range(count)) for d in shifts(count))


def full_mesh_rounds(names: Sequence[str]) -> tuple[Round, ...]:
    """Every ordered pair once, both directions of a pair at once, in the fewest rounds: N-1, or N where N is odd.

    The circle method: one node stays, the others go round it. A bye makes an odd number even.
    """
    if len(names) < 2:
        return ()
    ring: list[str] = [*names, *([""] if len(names) % 2 else [])]
    fixed, *others = ring
    rounds = []
    for _ in others:
        line = [fixed, *others]
        half = len(line) // 2
        pairs = [(a, b) for a, b in zip(line[:half], reversed(line[half:]), strict=True) if a and b]
        rounds.append(tuple(way for a, b in pairs for way in ((a, b), (b, a))))
        others = [others[-1], *others[:-1]]
    return tuple(rounds)


def search(
    names: Sequence[str], *, threshold: float = SLOW_BELOW, is_full: bool = False
) -> Generator[Round, Sequence[Stream], tuple[tuple[Stream, ...], tuple[Slow, ...]]]:
    """Yields rounds, is sent their streams, and gives the best stream of each pair with the slow places.

    Nobody is named from the first look: a slow node is measured again, each time against another that is proven good,
    a slow pair by itself, and what does not last is forgotten.
    """
    best: dict[Pair, Stream] = {}
    keep = partial(_keep, best)
    for pairs in full_mesh_rounds(names) if is_full else shift_rounds(names):
        keep((yield pairs))
    asked: Counter[Doubt] = Counter()
    for attempt in range(MOST_CONFIRMATIONS):
        doubts = _doubts(tuple(best.values()), names, threshold, attempt)
        # Once more: a disturbance shows at both ends, and a node that lies meets each of its peers in one round.
        doubts = {doubt: pair for doubt, pair in doubts.items() if doubt[0] != CONTRADICTION or not asked[doubt]}
        if all(asked[doubt] >= CONFIRMATIONS for doubt in doubts):
            break
        asked.update(doubts.keys())
        everything = shift_rounds(names) if attempt == 0 and len(names) <= ALL_AGAIN_UP_TO else ()
        for pairs in (*packed(doubts.values()), *everything):
            keep((yield pairs))
    streams = tuple(best.values())
    slow = locate(streams, names, threshold=threshold)
    return streams, tuple(place for place in slow if all(asked[doubt] > 1 for doubt in _doubts_of(place)))


def two_looks(
    names: Sequence[str], *, threshold: float = SLOW_BELOW, is_full: bool = False
) -> Generator[tuple[Round, ...], Sequence[Stream], tuple[tuple[Stream, ...], tuple[Slow, ...]]]:
    """The same search where ranks have to be started for it: yields all rounds of a look at once, twice at most.

    In a round a node sends or receives, never both: a message that comes in is timed together with the one going out.
    """
    best: dict[Pair, Stream] = {}
    keep = partial(_keep, best)
    rounds = full_mesh_rounds(names) if is_full else shift_rounds(names)
    once = tuple(single for pairs in rounds for single in packed(pairs))
    keep((yield once * FIRST_TIMES))
    doubts = _doubts(tuple(best.values()), names, threshold, 0)
    if doubts:
        others = _doubts(tuple(best.values()), names, threshold, 1)
        keep((yield packed([*doubts.values(), *others.values()]) * AGAIN_TIMES))
    streams = tuple(best.values())
    slow = locate(streams, names, threshold=threshold)
    return streams, tuple(place for place in slow if all(doubt in doubts for doubt in _doubts_of(place)))


def packed(pairs: Iterable[Pair]) -> tuple[Round, ...]:
    """Pairs in as few rounds as the first that fits gives, each node in one pair of a round at most.

    What a node receives over a slow link holds up the acknowledgements of what it sends.
    """
    rounds: list[list[Pair]] = []
    busy: list[set[str]] = []
    for pair in dict.fromkeys(pairs):
        source, target = pair
        place = next(
            (index for index, nodes in enumerate(busy) if source not in nodes and target not in nodes), len(busy)
        )
        if place == len(busy):
            rounds.append([])
            busy.append(set())
        rounds[place].append(pair)
        busy[place].update(pair)
    return tuple(tuple(pairs) for pairs in rounds)


def locate(streams: Sequence[Stream], names: Sequence[str], *, threshold: float = SLOW_BELOW) -> tuple[Slow, ...]:
    """The slow nodes with their direction, and the slow paths between nodes that are not slow.

    Slow is below `threshold` of the median of the nodes' best. No node is named from one stream: with two nodes, or
    where only one was measured, the pair is named.
    """
    known = agreed(streams)
    return _located(known, names, ends_of(known), threshold) if known else ()


def _located(streams: Sequence[Stream], names: Sequence[str], ends: Ends, threshold: float) -> tuple[Slow, ...]:
    egress, ingress = ends
    typical = _usual(ends)
    limit = threshold * typical
    found = []
    slow_egress = {name for name, (best, count) in egress.items() if best < limit and count > 1}
    slow_ingress = {name for name, (best, count) in ingress.items() if best < limit and count > 1}
    for name in names:
        ways = [table[name][0] for table, slow in ((egress, slow_egress), (ingress, slow_ingress)) if name in slow]
        if ways:
            direction: Direction = "both" if len(ways) > 1 else "egress" if name in slow_egress else "ingress"
            lost, rate = _lost(streams, name, direction), min(ways)
            found.append(
                Slow(nodes=(name,), direction=direction, gbytes_per_s=rate, peers_gbytes_per_s=typical, sent_again=lost)
            )
    place = {name: index for index, name in enumerate(names)}
    # Two nodes: the median lies between their two directions, the faster of which shows what the link can do.
    compared = max(each.gbytes_per_s for each in streams) if len(names) == 2 else typical
    for stream in sorted(streams, key=lambda each: (place[each.source], place[each.target])):
        explained = stream.source in slow_egress or stream.target in slow_ingress
        if not explained and most(stream) < threshold * compared:  # one end's word must not make the other look slow
            found.append(
                Slow(
                    nodes=(stream.source, stream.target),
                    direction="path",
                    gbytes_per_s=most(stream),
                    peers_gbytes_per_s=compared,
                    sent_again=stream.sent_again,
                )
            )
    return tuple(found)


def _lost(streams: Sequence[Stream], name: str, direction: Direction) -> float:
    """The share of segments that every stream of a node in a slow direction sent again."""
    sends = [stream.sent_again for stream in streams if stream.source == name and direction != "ingress"]
    receives = [stream.sent_again for stream in streams if stream.target == name and direction != "egress"]
    return max(min(sends, default=0.0), min(receives, default=0.0))


def usual(streams: Sequence[Stream]) -> float:
    """The median over nodes and directions of each one's best.

    Not the median of streams: one slow node among three spoils four streams of six.
    """
    return _usual(ends_of(agreed(streams)))


def _usual(ends: Ends) -> float:
    return median(best for end in ends for best, _ in end.values())


def _keep(best: dict[Pair, Stream], streams: Iterable[Stream]) -> None:
    """Keep the best stream of each pair on which both ends agree, if any: a disturbance passes."""
    for stream in streams:
        held = best.get((stream.source, stream.target))
        if held is None or _worth(stream) > _worth(held):
            best[stream.source, stream.target] = stream


def _worth(stream: Stream) -> tuple[bool, float]:
    return not is_disputed(stream), stream.gbytes_per_s


def _doubts_of(place: Slow) -> list[Doubt]:
    """What must be measured again before a place is called slow: a node in a direction, or a pair."""
    if place.direction == "path":
        return [place.nodes]
    ways = ("egress", "ingress") if place.direction == "both" else (place.direction,)
    return [(way, "of", place.nodes[0]) for way in ways]


def _doubts(streams: Sequence[Stream], names: Sequence[str], threshold: float, attempt: int) -> dict[Doubt, Pair]:
    """Each doubt and the pair that settles it: every slow node gets a good one of its own, where there are enough."""
    pairs = [(stream.source, stream.target) for stream in streams if is_disputed(stream)]
    doubts: dict[Doubt, Pair] = {(CONTRADICTION, *pair): pair for pair in pairs}
    streams = agreed(streams)
    if not streams:
        return doubts
    ends = ends_of(streams)
    places = _located(streams, names, ends, threshold)
    if not places:
        return doubts
    limit = threshold * _usual(ends)
    good = [name for name in names if min(end.get(name, (0.0, 0))[0] for end in ends) >= limit]
    for number, place in enumerate(places):
        for doubt in _doubts_of(place):
            if place.direction == "path":
                doubts[doubt] = (place.nodes[0], place.nodes[1])
                continue
            node = place.nodes[0]
            partner = good[(number + attempt) % len(good)] if good else _best_partner(streams, node, doubt[0])
            doubts[doubt] = (node, partner) if doubt[0] == "egress" else (partner, node)
    return doubts


def _best_partner(streams: Sequence[Stream], node: str, way: str) -> str:
    """Where no node is proven good: the peer of the node's own best stream."""
    here, there = ("source", "target") if way == "egress" else ("target", "source")
    own = (stream for stream in streams if getattr(stream, here) == node)
    return str(getattr(max(own, key=lambda stream: stream.gbytes_per_s), there))


def ends_of(streams: Iterable[Stream]) -> Ends:
    """Node -> its best stream and how many were measured, among those that it sent and among those it received."""
    sent: dict[str, list[float]] = {}
    received: dict[str, list[float]] = {}
    for stream in streams:
        rate = stream.gbytes_per_s
        sent.setdefault(stream.source, []).append(rate)
        received.setdefault(stream.target, []).append(rate)
    egress, ingress = ({name: (max(rates), len(rates)) for name, rates in end.items()} for end in (sent, received))
    return egress, ingress
