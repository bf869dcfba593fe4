"""Do nodes in several InfiniBand subnets have the routed addresses by which NCCL reaches one from another?

NCCL (ncclIbGetGidIndex, ncclIbRtrQp in net_ib) takes two ports for neighbours where the last 16 bits of their subnet
prefixes are equal. Else it sends to the FLID of the peer, which is bits 32 to 47 of the prefix in GID row 1; a peer
without one it tries by its LID, which means another port here, or none. Up to 2.21 it knew no FLID.
"""

from __future__ import annotations

from preflight.facts.cluster import Cluster
from preflight.facts.fabric import classify
from preflight.facts.node import NodeFacts
from preflight.facts.subjects.rdma import RdmaPort
from preflight.judge.tables.faults import values_by_node
from preflight.said import said
from preflight.said.errors import Blame, FactMissing

ROUTED_ROW = "NCCL_IB_ROUTABLE_FLID_GID_INDEX"
FIX = (
    "have the subnet managers route between the subnets by FLID (`routing_engine` and router policy of OpenSM; "
    "`show_gids` then lists a second row), set the same subnet prefix, or leave the nodes named out"
)
FIRST_WITH_FLID = [2, 22]


def unrouted(cluster: Cluster) -> list[Blame]:
    """A Blame for nodes that share no InfiniBand subnet with most others, and have no FLID that leads to them."""
    found = values_by_node(cluster, _ports)
    islands: list[tuple[set[int], list[str]]] = []  # subnets, nodes
    for name, ports in found.items():
        subnets, nodes = {subnet for subnet, _ in ports.values()}, [name]
        for island in [one for one in islands if one[0] & subnets]:
            islands.remove(island)
            subnets, nodes = subnets | island[0], [*island[1], *nodes]
        islands.append((subnets, nodes))
    without = {name for name, ports in found.items() if not any(flid for _, flid in ports.values())}
    groups = {
        said("subnet {subnet}", " and ".join(f"0x{subnet:04x}" for subnet in sorted(subnets))): [
            n for n in nodes if n in without
        ]
        for subnets, nodes in islands
    }
    if len(islands) > 1 and len(without) < len(found):  # the others are reached: it is these that lack something
        return [
            Blame(said("no FLID in its GIDs, and only {words} of InfiniBand", words), nodes=nodes, fix=FIX)
            for words, nodes in groups.items()
            if nodes
        ]
    return cluster.differing(groups, "InfiniBand subnets, without a FLID that leads from one to another", fix=FIX)


def row_of_nccl(port: RdmaPort, *, routed: int = 1) -> int:
    """The GID row that NCCL takes on an InfiniBand port: the routed one where that has a FLID, else 0."""
    rows = {gid.index: classify(gid).gid for gid in port.gids}
    return routed if routed and rows.get(routed) and _flid(rows[routed]) else 0


def _flid(gid: str) -> int:
    return _word(gid, 2)


def _word(gid: str, place: int) -> int:
    """One of the eight groups of four digits of a GID."""
    return int(gid.split(":")[place], 16)


def _ports(node: NodeFacts) -> dict[str, tuple[int, int]]:
    """Each active InfiniBand port -> the subnet by which NCCL compares it, and its FLID, 0 where it has none."""
    found = {}
    for hca in node.active_hcas():
        if hca.port.link_layer != "InfiniBand":
            continue
        hca.port.needs_gids()
        row = row_of_nccl(hca.port, routed=_routed_row(node))
        for gid in (classify(gid).gid for gid in hca.port.gids if gid.index == row):
            if gid:
                found[hca.name] = _word(gid, 3), _flid(gid) if row else 0
    if not found:
        raise FactMissing("subnets of InfiniBand ports", "no active port has a GID", "absent")
    return found


def _routed_row(node: NodeFacts) -> int:
    """The row that may have a FLID; 0 where this NCCL looks for none."""
    try:
        version = node.software.library_of_torch("nccl")
        digits = [int(part) for part in version.split(".")[:2] if part.isdecimal()]
    except FactMissing:
        digits = []
    if digits and digits < FIRST_WITH_FLID:
        return 0
    text = node.value(ROUTED_ROW)
    return int(text) if text.isdecimal() else 1
