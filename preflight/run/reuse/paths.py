"""Do the paths between certified nodes carry what they did? A short burst over each tells before a reuse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from preflight.facts.value import Missing
from preflight.job.measure import slow
from preflight.job.measure.streams import Streams
from preflight.reach.session.connection import Session
from preflight.said import said
from preflight.said.errors import PreflightError

if TYPE_CHECKING:
    from preflight.facts.node import NodeFacts

# Of all rounds together, in each of which every node sends to one peer, and of one: of a stream the first 0.1 s, in
# which a shaper's bucket empties, do not count.
BURSTS_SECONDS, SHORTEST_SECONDS = 0.45, 0.15
LEAST = 0.5  # of what the path carried as the run was certified; a busy node may halve a short burst, not three
LOOKS = 3
SECONDS = 30.0
Paths = dict[str, float]  # "node1 > node2" -> GB/s


async def probed(sessions: dict[str, Session], addresses: dict[str, str], before: Mapping[str, float]) -> Paths:
    """What a burst over each path of the shift rounds carries, each with a nonce that proves who sent it.

    Those slower than `before` are looked at again. Raises HostError where a node fails.
    """
    best: Paths = {}
    if len(addresses) < 2:
        return best
    streams = Streams(sessions, addresses, seconds=SECONDS)
    try:
        await streams.open()
        rounds = slow.shift_rounds(tuple(addresses))
        seconds = max(SHORTEST_SECONDS, BURSTS_SECONDS / len(rounds))
        for _ in range(LOOKS):
            for pairs in rounds:
                for stream in await streams.round(pairs, seconds=seconds):
                    name = _named(stream.source, stream.target)
                    best[name] = max(best.get(name, 0.0), 0.0 if stream.failure else stream.gbytes_per_s)
            doubted = set(_fewer(before, best))
            rounds = tuple(tuple(pair for pair in pairs if _named(*pair) in doubted) for pairs in rounds)
            rounds = tuple(pairs for pairs in rounds if pairs)
            if not rounds:
                break
    finally:
        await streams.close()
    return best


def slower(before: Mapping[str, float], now: Mapping[str, float]) -> str:
    """Which path carries less than half of what it did, the worst of them; "" where none does."""
    fewer = _fewer(before, now)
    if not fewer:
        return ""
    worst = min(fewer, key=lambda name: now.get(name, 0.0) / before[name])
    more = said(" and {fewer} more", len(fewer) - 1) if fewer[1:] else ""
    return said(
        "a burst {replace} carries {get:.3g} GB/s, it was {before:.3g}{more}",
        worst.replace(">", "to"),
        now.get(worst, 0.0),
        before[worst],
        more,
    )


def hides_limits(node: NodeFacts) -> bool:
    """Whether a rule that holds packets to a rate may be there without our seeing it."""
    try:
        limits = node.network.rate_limits
    except PreflightError:
        return True
    return isinstance(limits, Missing) and limits.kind == "denied"


def _fewer(before: Mapping[str, float], now: Mapping[str, float]) -> list[str]:
    return [name for name, rate in before.items() if now.get(name, 0.0) < LEAST * rate]


def _named(source: str, target: str) -> str:
    return f"{source} > {target}"
