"""Which nodes were not reached for one and the same reason: a rack without power is said once, not once a node?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

ANY = "<node>"  # in place of the name of each node that a reason is said of
MOST_OF_A_RACK = 0.5


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


def losses(failures: Mapping[str, str], racks: Mapping[str, str]) -> tuple[Loss, ...]:
    """Node -> reason as groups, each of which says what its nodes have in common.

    Reasons that differ in nothing but the node's own name are one. Of a reason, the nodes that are most of a rack are
    a group of their own: it is its switch or its power that is to be looked at.
    """
    alike: dict[str, list[str]] = {}
    for name, reason in failures.items():
        alike.setdefault(without_name(reason, name), []).append(name)
    total = Counter(racks.values())
    found = []
    for reason, names in alike.items():
        held = Counter(racks[name] for name in names if name in racks)
        lost = [rack for rack, count in held.items() if count > 1 and count > MOST_OF_A_RACK * total[rack]]
        for rack in lost:
            of_rack = tuple(name for name in names if racks.get(name) == rack)
            found.append(Loss(of_rack, reason, rack, total[rack]))
        rest = tuple(name for name in names if racks.get(name) not in lost)
        if rest:
            found.append(Loss(rest, failures[rest[0]] if len(rest) == 1 else reason))
    return tuple(found)


def without_name(reason: str, name: str) -> str:
    """The reason as it may be said of other nodes too: ANY in the place of the node's name."""
    return re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", ANY, reason)
