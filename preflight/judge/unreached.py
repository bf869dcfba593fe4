"""Which nodes were not reached for one and the same reason: a rack without power is said once, not once a node?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

ANY = "<node>"  # in place of the name of each node that a reason is said of
MOST_OF_A_RACK = 0.5
RACKS_OF_ONE_CAUSE = 3  # so many that are most of the run's racks have something above them in common
IN_MID_RUN = ("the connection ended in mid-run", "it has said nothing for")  # as a session says it


class Loss(NamedTuple):
    """Nodes that were lost for one reason, and the rack that they are of, where it is most of that rack."""

    nodes: tuple[str, ...]
    reason: str
    rack: str = ""
    of: int = 0  # how many nodes of the run that rack has

    @property
    def message(self) -> str:
        """What there is to say of them."""
        where = f"{self.rack}: {len(self.nodes)} of {self.of} nodes " if self.rack else ""
        return f"{where}not reached: {self.reason}"

    @property
    def message_of_its_end(self) -> str:
        """What there is to say where they answered at first, and `reason` says what is not measured for it."""
        lost = len(self.nodes)
        return f"{self.rack}: {lost} of {self.of} nodes: {self.reason}" if self.rack else self.reason


def losses(failures: Mapping[str, str], racks: Mapping[str, str]) -> tuple[Loss, ...]:
    """Node -> reason as groups, each of which says what its nodes have in common.

    Reasons that differ in nothing but the node's own name are one. Of a reason, the nodes that are most of a rack are
    a group of their own: it is its switch or its power that is to be looked at.
    """
    alike: dict[str, list[str]] = {}
    for name, reason in failures.items():
        alike.setdefault(without_name(reason, name), []).append(name)
    parts = [part for reason, names in alike.items() for part in by_rack(names, reason, racks)]
    return tuple(part._replace(reason=failures[part.nodes[0]]) if len(part.nodes) == 1 else part for part in parts)


def by_rack(names: Sequence[str], reason: str, racks: Mapping[str, str]) -> list[Loss]:
    """Nodes that were lost for one reason: those that are most of a rack by themselves, then the rest.

    Where most racks are lost, or no other node is left, it is no rack's own fault, and all of it is one loss.
    """
    if set(racks) <= set(names):
        return [Loss(tuple(names), reason)]
    total = Counter(racks.values())
    held = Counter(racks[name] for name in names if name in racks)
    lost = [rack for rack, count in held.items() if count > 1 and count > MOST_OF_A_RACK * total[rack]]
    if len(lost) >= RACKS_OF_ONE_CAUSE and len(lost) > MOST_OF_A_RACK * len(total):
        return [Loss(tuple(names), reason)]
    found = [Loss(tuple(name for name in names if racks.get(name) == rack), reason, rack, total[rack]) for rack in lost]
    rest = tuple(name for name in names if racks.get(name) not in lost)
    return [*found, Loss(rest, reason)] if rest else found


def without_name(reason: str, name: str) -> str:
    """The reason as it may be said of other nodes too: ANY in the place of the node's name."""
    return re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", ANY, reason)
