"""What is expected of each collective of a benchmark on these nodes, given what NCCL's log says of them?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from preflight.facts.cluster import Cluster
from preflight.facts.results import RING, Expected, Result, Stream, Transport
from preflight.facts.selection import Backend
from preflight.job.measure.expected import Node, Use, expected
from preflight.job.measure.links import ALONE, Uplink, inside_of, uplink_of
from preflight.job.measure.nccl_log import algorithm_of
from preflight.launch.job import Job


def uplinks_of(cluster: Cluster, *, backend: str, transports: Sequence[Transport] = ()) -> dict[str, Uplink]:
    """Node -> the ports of its network, from NCCL's log where there is one."""
    used = {one.node: one for one in reversed(transports)}
    kind: Backend = "nccl" if backend == "nccl" else "gloo"
    return {node.name: uplink_of(node, backend=kind, used=used.get(node.name)) for node in cluster}


def is_over_tcp(uplinks: Mapping[str, Uplink]) -> bool:
    """Whether raw TCP streams say anything about these networks."""
    return all(uplink.is_tcp for uplink in uplinks.values())


def expectations(
    cluster: Cluster,
    job: Job,
    *,
    scope: str = "all",
    streams: Sequence[Stream] = (),
    transports: Sequence[Transport] = (),
    results: Sequence[Result] = (),
) -> dict[str, Expected]:
    """Collective -> what is expected of it, and RING -> of the all-reduce held to a ring; what is unknown is left out.

    `transports` and `results` are what the ranks said; without them the facts of the nodes alone count.
    """
    backend = str(job.settings["backend"])
    is_nccl = backend == "nccl"
    most = max(placement.local_world_size for placement in job.placements)
    ranks = most if scope in ("all", "intra") else 1
    uplinks = uplinks_of(cluster, backend=backend, transports=transports)
    nodes = {
        node.name: Node(
            uplinks[node.name],
            inside_of(node, ranks=ranks) if is_nccl else ALONE,
            max(node.gpu_count(), ranks) if is_nccl else 1,
        )
        for node in cluster
    }
    if scope == "intra":
        weakest = min(nodes, key=lambda name: nodes[name].inside.ring)
        nodes = {weakest: nodes[weakest]} if is_nccl else {}
    found = {}
    for op in (*job.settings["operations"], RING):
        collective = "all_reduce" if op == RING else op
        use = Use(
            world_size=job.world_size if scope == "all" else ranks * len(nodes),
            ranks_per_node=ranks,
            op=collective,
            algorithm="RING" if op == RING else algorithm_of(transports, op, job.settings["operations"]),
            has_log=any(one.network for one in transports),
            is_nccl=is_nccl,
            # The scope decides how many ranks of each node measure.
            rack_ranks=_rack_ranks(transports, job.world_size) * ranks // most if len(nodes) > 1 else 0,
            size_bytes=max((result.bytes for result in results if result.op == collective), default=0),
        )
        figure = expected(nodes, use, streams)
        if figure is not None:
            found[op] = figure
    return found


def _rack_ranks(transports: Sequence[Transport], world_size: int) -> int:
    """How many ranks the smallest NVLink domain of several nodes holds; 0 where some rank is in none."""
    reported = [one for one in transports if one.network]
    if not reported or not all(one.is_rack for one in reported):
        return 0
    return min(one.rack_ranks or world_size for one in reported)
