"""Which nodes explain the failed edges of a mesh, and the streams whose two ends contradict each other?

Sender and receiver each count a stream. Its figure is the lower of both, so no node makes another look slow by claiming
much; only what both call slow is a slow path, so no node makes another look slow by claiming little. Ends that are far
apart contradict each other: such a stream counts for neither. Nor does one that never reached its receiver: the cause
may be either end, or what lies between.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from preflight.facts.results import Disputed, Edge, Stream

# Edges looked at in the search for one smallest cover, some seconds of work at most. Field cases (bad nodes, a split
# network) are solved by the degree rule without branching; where the budget ends, nobody is singled out.
SEARCH_EDGES = 2_000_000

PAIR_SETS_LIMIT = 64

AGREEING = 0.5  # the lower report over the higher: honest ends are a few hundredths apart, and the lower counts anyway


def blame(failed: Sequence[Edge], names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Node sets that explain the failed edges, each in the order of `names`.

    A `local` failure is its source's alone, and explains its other edges. The rest fall into connected groups: a
    group is blamed on the smallest node set that covers all its edges if there is only one such set; on all of it where
    it is two sides that do not reach each other, else on both ends of each edge.
    """
    place = {name: index for index, name in enumerate(names)}
    own = sorted({edge.source for edge in failed if edge.reason == "local"}, key=place.__getitem__)
    neighbours: dict[str, set[str]] = defaultdict(set)
    for edge in failed:
        if edge.source not in own and edge.target not in own:
            neighbours[edge.source].add(edge.target)
            neighbours[edge.target].add(edge.source)
    sets: list[tuple[str, ...]] = [(name,) for name in own]
    for group in _groups(neighbours):
        cover = smallest_cover({name: neighbours[name] for name in group})
        if cover is not None:
            sets.append(tuple(sorted(cover, key=place.__getitem__)))
            continue
        if _sides({name: neighbours[name] for name in group}):
            sets.append(tuple(sorted(group, key=place.__getitem__)))
            continue
        ends = {tuple(sorted((one, other), key=place.__getitem__)) for one in group for other in neighbours[one]}
        # With this many only the group as a whole is meaningful; the nodes named are the same.
        sets.extend(sorted(ends) if len(ends) <= PAIR_SETS_LIMIT else [tuple(sorted(group, key=place.__getitem__))])
    return tuple(sets)


def _sides(neighbours: Mapping[str, set[str]]) -> bool:
    """Whether the nodes form two sides that miss each other completely: the link between them is broken."""
    sides = {frozenset(others) for others in neighbours.values()}
    return len(sides) == 2 and not frozenset.intersection(*sides)


def smallest_cover(neighbours: Mapping[str, set[str]]) -> frozenset[str] | None:
    """The one smallest set of nodes that touches every edge; None where there are several or the search gave up."""
    search = _CoverSearch()
    # Every edge of a matching needs a node of its own, so no cover is smaller than the matching.
    for size in range(_matching_size(neighbours), len(neighbours)):
        covers = search.covers({name: set(others) for name, others in neighbours.items()}, size)
        if search.edges_left <= 0:
            return None
        if covers:
            return covers[0] if len(covers) == 1 else None
    return None


class _CoverSearch:
    """Finds up to two covers of at most a given size, within a budget."""

    def __init__(self) -> None:
        self.edges_left = SEARCH_EDGES

    def covers(self, graph: dict[str, set[str]], size: int) -> list[frozenset[str]]:
        """Two covers are enough to know that there is not just one."""
        self.edges_left -= 1 + sum(len(others) for others in graph.values())
        taken: set[str] = set()
        while True:
            # A node with more edges than the set has room for is in every cover that fits.
            room = size - len(taken)
            forced = max(graph, key=lambda name: len(graph[name]), default=None)
            if forced is None or not graph[forced]:
                return [frozenset(taken)] if room >= 0 else []
            if room <= 0 or self.edges_left <= 0:
                return []
            if len(graph[forced]) <= room:
                break
            taken.add(forced)
            _remove(graph, forced)
        if sum(len(others) for others in graph.values()) // 2 > room * len(graph[forced]):
            return []
        # Either this node is in the cover, or all its neighbours are: the two branches share no cover.
        found = []
        for chosen in ({forced}, set(graph[forced])):
            rest = {name: set(others) for name, others in graph.items()}
            for name in chosen:
                _remove(rest, name)
            if chosen != {forced}:
                rest.pop(forced, None)
            found += [cover | chosen | taken for cover in self.covers(rest, room - len(chosen))]
            if len(found) > 1:
                break
        return found[:2]


def _remove(graph: dict[str, set[str]], name: str) -> None:
    for other in graph.pop(name):
        graph[other].discard(name)


def _groups(neighbours: Mapping[str, set[str]]) -> list[set[str]]:
    """The connected groups of nodes."""
    groups: list[set[str]] = []
    seen: set[str] = set()
    for start in neighbours:
        if start in seen:
            continue
        group, frontier = {start}, [start]
        while frontier:
            fresh = neighbours[frontier.pop()] - group
            group |= fresh
            frontier.extend(fresh)
        seen |= group
        groups.append(group)
    return groups


def _matching_size(neighbours: Mapping[str, set[str]]) -> int:
    """The size of a matching taken greedily, nodes of few edges first."""
    matched: set[str] = set()
    size = 0
    for name in sorted(neighbours, key=lambda each: len(neighbours[each])):
        if name not in matched:
            free = min((other for other in neighbours[name] if other not in matched), default=None)
            if free is not None:
                matched |= {name, free}
                size += 1
    return size


def attested(source: str, target: str, shift: int, *, sent: float, received: float, failure: str = "") -> Stream:
    """The stream for which sender and receiver report these GB/s, or what both report of its failure."""
    low, high = sorted((sent, received))
    return Stream(source=source, target=target, shift=shift, gbytes_per_s=low, most_gbytes_per_s=high, failure=failure)


def most(stream: Stream) -> float:
    """The higher report of its two ends, in GB/s; the only one, where only one end reported."""
    return max(stream.gbytes_per_s, stream.most_gbytes_per_s)


def is_disputed(stream: Stream) -> bool:
    """Whether its ends contradict each other, or it came to nothing."""
    return bool(stream.failure) or stream.gbytes_per_s < AGREEING * stream.most_gbytes_per_s


def agreed(streams: Iterable[Stream]) -> tuple[Stream, ...]:
    """The streams whose ends agree: they say something about a link."""
    return tuple(stream for stream in streams if not is_disputed(stream))


def disputes(streams: Iterable[Stream], part: str = "") -> tuple[Disputed, ...]:
    """The streams whose ends contradict each other; `part` is the part of the nodes that was measured."""
    return tuple(
        Disputed(
            source=stream.source,
            target=stream.target,
            part=part,
            least_gbytes_per_s=stream.gbytes_per_s,
            most_gbytes_per_s=stream.most_gbytes_per_s,
            failure=stream.failure,
        )
        for stream in streams
        if is_disputed(stream)
    )


def liars(disputed: Iterable[Disputed], names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Node sets that explain the disputes: the node that contradicts several others, or itself; else both ends."""
    pairs = dict.fromkeys((one.source, one.target) for one in disputed)
    edges = [
        Edge(source=source, target=target, port=0, reason="local" if source == target else "no_echo")
        for source, target in pairs
    ]
    return blame(edges, names)
