"""Did NCCL find the same ways between GPUs, adapters and CPUs on every node, and choose the same by them?"""

from __future__ import annotations

from collections.abc import Callable

from preflight.facts.cluster import Cluster
from preflight.facts.results import Bench, Transport
from preflight.said import joined, said
from preflight.said.errors import Blame, FactMissing, NotApplicable

MOST_SHOWN = 3
PARTS: tuple[tuple[str, Callable[[Transport], tuple[str, ...]]], ...] = (
    ("what NCCL found of the node", lambda one: one.topology),
    ("what NCCL chose by that", lambda one: one.graphs),
)


def differences(result: Bench, cluster: Cluster) -> list[Blame]:
    """A Blame for the nodes of which NCCL found something else than of those with as many GPUs.

    A node without a dump is not judged where others have one; NotApplicable where none has.
    """
    cluster.needs_peers()
    reported = {one.node: one for one in result.transports if one.topology}
    if not reported:
        raise NotApplicable("NCCL wrote no topology (NCCL_TOPO_DUMP_FILE): it did not run, or is older than 2.5")
    for node in cluster:
        if node.name not in reported:
            cluster.cannot_judge(node.name, FactMissing("topology of NCCL", "NCCL wrote none there"))
    blames: list[Blame] = []
    for what, parts in PARTS:
        blamed = {name for blame in blames for name in blame.nodes}  # what it chose follows from what it found
        by_count: dict[int, dict[str, tuple[str, ...]]] = {}
        for name in (node.name for node in cluster if node.name in reported and node.name not in blamed):
            count = sum(part.startswith("GPU ") for part in reported[name].topology)
            by_count.setdefault(count, {})[name] = parts(reported[name])
        for held in by_count.values():
            blames += cluster.differing(_groups(held), what)
    return blames


def _groups(held: dict[str, tuple[str, ...]]) -> dict[str, list[str]]:
    """The lines that not all nodes have, each set of them with its nodes."""
    common = set.intersection(*(set(lines) for lines in held.values()))
    groups: dict[str, list[str]] = {}
    for name, lines in held.items():
        own = [line for line in lines if line not in common]
        more = said(" and {MOST_SHOWN} more", len(own) - MOST_SHOWN) if len(own) > MOST_SHOWN else ""
        groups.setdefault(joined(own[:MOST_SHOWN]) + more or "nothing else", []).append(name)
    return groups
