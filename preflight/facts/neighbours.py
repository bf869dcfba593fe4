"""Which nodes does each node connect to, and which are its names and routes asked for?"""

from __future__ import annotations

from collections.abc import Sequence

Pair = tuple[str, str]
ALL_PAIRS_LIMIT = 128
SHIFTS = 16


def pairs(names: Sequence[str], *, is_full: bool = False) -> tuple[Pair, ...]:
    """The ordered pairs (from, to) to try: all of them to 128 nodes, beyond that 16 shifts unless `is_full`."""
    count = len(names)
    if count <= ALL_PAIRS_LIMIT or is_full:
        distances: Sequence[int] = range(1, count)
    else:
        distances = [1 + index * (count - 1) // SHIFTS for index in range(SHIFTS)]
    return tuple((name, names[(place + d) % count]) for place, name in enumerate(names) for d in distances)


def asked(names: Sequence[str]) -> dict[str, frozenset[str]]:
    """Which peers each node is asked about: those it connects to, and the first node, which all must find.

    Names and routes of all pairs of 1,000 nodes would be a million look-ups, and half a gigabyte of answers.
    """
    peers: dict[str, set[str]] = {name: {*names[:1]} for name in names}
    for source, target in pairs(names):
        peers[source].add(target)
    return {name: frozenset(found - {name}) for name, found in peers.items()}
