"""Which ranks form groups of their own, so that NVLink and network are measured apart?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from preflight.launch.job import Placement
from preflight.said import said
from preflight.said.errors import NotMeasured


class Group(NamedTuple):
    """Ranks that measure together."""

    name: str
    ranks: tuple[int, ...]


Rounds = tuple[tuple[Group, ...], ...]  # the groups of a round run at once, and share no node except in `intra`


def rounds(scope: str, placements: Iterable[Placement], racks: Mapping[str, str] | None = None) -> Rounds:
    """The groups of two ranks and more, round after round; none where all ranks are one.

    ``intra`` is every node by itself, all at once; ``inter`` the first rank of each node; ``rails`` the first of each
    node, then the second of each, and so on; ``racks`` is every rack by itself, all at once.

    Raises NotMeasured where that leaves no rank a peer.
    """
    if scope == "all":
        return ()
    if scope == "racks":
        return _by_rack(tuple(placements), racks or {})
    nodes: dict[str, list[int]] = {}
    rails: dict[int, list[int]] = {}
    for placement in placements:
        nodes.setdefault(placement.node, []).append(placement.rank)
        rails.setdefault(placement.local_rank, []).append(placement.rank)
    if scope == "intra":
        within = tuple(Group(name, tuple(ranks)) for name, ranks in nodes.items() if len(ranks) > 1)
        if not within:
            raise NotMeasured("--scope intra: no node has two ranks (--ranks-per-node 2)")
        return (within,)
    across = [
        Group(said("rail {number}", number), tuple(ranks)) for number, ranks in sorted(rails.items()) if len(ranks) > 1
    ]
    if not across:
        raise NotMeasured(said("--scope {scope}: one node, so there is no link between nodes", scope))
    if scope == "inter":
        return ((Group("one rank a node", across[0].ranks),),)
    return tuple((rail,) for rail in across)


def _by_rack(placements: tuple[Placement, ...], racks: Mapping[str, str]) -> Rounds:
    """All ranks of each rack that has two nodes of the job."""
    ranks: dict[str, list[int]] = {}
    nodes: dict[str, set[str]] = {}
    for placement in placements:
        rack = racks.get(placement.node, "")
        if rack:
            ranks.setdefault(rack, []).append(placement.rank)
            nodes.setdefault(rack, set()).add(placement.node)
    found = tuple(Group(rack, tuple(held)) for rack, held in ranks.items() if len(nodes[rack]) > 1)
    if not found:
        raise NotMeasured("--scope racks: no rack is known to have two of the nodes: name them with --topology FILE")
    return (found,)


def as_settings(groups: Rounds) -> list[list[dict[str, Any]]]:
    """The rounds as the settings of the ranks have them."""
    return [[{"name": group.name, "ranks": list(group.ranks)} for group in each] for each in groups]
