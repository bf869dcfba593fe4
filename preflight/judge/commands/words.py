"""How is a command of a node written?"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from preflight.errors import FactMissing
from preflight.facts.cluster import Cluster
from preflight.facts.node import NodeFacts

T = TypeVar("T")


def as_root(node: NodeFacts, *words: str) -> str:
    """The command, each word quoted, with sudo where the job's user is not root."""
    return shlex.join([*([] if node.identity.user_id == 0 else ["sudo"]), *words])


def into_file(node: NodeFacts, path: str, *lines: str) -> str:
    """The command that adds lines to a file that only root may write."""
    sudo = "" if node.identity.user_id == 0 else "sudo "
    return f"printf '%s\\n' {shlex.join(lines)} | {sudo}tee -a {shlex.quote(path)} >/dev/null"


def of_the_others(node: NodeFacts, cluster: Cluster, key: Callable[[NodeFacts], T], what: str) -> T:
    """The value that most of the other nodes have, and this one has not. Raises FactMissing where there is no such."""
    held: Counter[T] = Counter()
    for other in cluster:
        if other.name != node.name:
            try:
                held[key(other)] += 1
            except FactMissing:
                continue
    ranked = held.most_common(2)
    if not ranked or (len(ranked) > 1 and ranked[0][1] == ranked[1][1]):
        raise FactMissing(what, "the other nodes do not agree on one")
    if len(cluster) == 2:
        raise FactMissing(what, "of two nodes either may be the right one")
    return ranked[0][0]
