"""Which GID index is the right one on each node, and does the one that was set lead to the same network everywhere?"""

from __future__ import annotations

import ipaddress

from preflight.errors import Blame, FactMissing
from preflight.facts import fabric
from preflight.facts.cluster import Cluster
from preflight.facts.node import NodeFacts
from preflight.facts.subjects.rdma import Gid
from preflight.facts.value import Missing
from preflight.hosts import fold
from preflight.tables.faults import values_by_node

UNSET = "or unset it: NCCL 2.21 and later choose by themselves"


def right_indices(node: NodeFacts, *, subnets: dict[str, str] | None = None) -> dict[str, int]:
    """Each active RoCE port -> the index to set on this node; a port without a routable row is left out.

    ``subnets`` (port -> subnet) asks for the row in that subnet where the port has one.
    """
    found = {}
    for hca in _roce(node):
        wanted = (subnets or {}).get(hca.name)
        in_subnet = [gid.index for gid in hca.port.gids if wanted and _subnet(node, gid) == wanted]
        try:
            found[hca.name] = min(in_subnet) if in_subnet else fabric.best_gid(hca.port, node.network).index
        except FactMissing:
            continue
    return found


def advice(cluster: Cluster, *, subnets: dict[str, str] | None = None) -> str:
    """What to set on which nodes: "NCCL_IB_GID_INDEX=3 on node[1-2], 5 on node[3-4]"."""
    key = f"GID advice {subnets}"
    if key not in cluster.worked_out:
        cluster.worked_out[key] = _advice(cluster, subnets)
    return cluster.worked_out[key]


def _advice(cluster: Cluster, subnets: dict[str, str] | None) -> str:
    nodes_of: dict[str, list[str]] = {}
    for node in cluster:
        try:
            indices = right_indices(node, subnets=subnets)
        except FactMissing:
            continue
        if indices:
            one = len(set(indices.values())) == 1
            index = str(min(indices.values())) if one else "/".join(f"{name} {i}" for name, i in indices.items())
            nodes_of.setdefault(index, []).append(node.name)
    if not nodes_of:
        return f"give the ports their addresses first (`show_gids` lists the rows); {UNSET}"
    parts = [
        f"{'NCCL_IB_GID_INDEX=' * (not i)}{index} on {fold(nodes)}" for i, (index, nodes) in enumerate(nodes_of.items())
    ]
    place = " (a line of /etc/nccl.conf there, for one value does not fit all)" if len(nodes_of) > 1 else ""
    return f"set {', '.join(parts)}{place}; {UNSET}"


def misled(cluster: Cluster) -> list[Blame]:
    """A Blame for nodes whose chosen GID is of another subnet or VLAN, where a row of the common one is at hand.

    Fabrics that route have a subnet for each node or rail: there, no row of the others' subnet exists.
    """
    chosen = values_by_node(cluster, _chosen)
    names = dict.fromkeys(name for of_node in chosen.values() for name in of_node)
    blames = []
    for name in names:
        rows = {node: of_node[name] for node, of_node in chosen.items() if name in of_node}
        subnets = {node: _subnet(cluster[node], row) for node, row in rows.items()}
        common = set.intersection(*(_subnets(cluster[node], name) for node in rows))
        groups: dict[str, list[str]] = {}
        for node, subnet in subnets.items():
            groups.setdefault(subnet, []).append(node)
        if len(groups) > 1 and common & set(groups):
            wanted = max(sorted(common & set(groups)), key=lambda subnet: len(groups[subnet]))
            fix = advice(cluster, subnets={name: wanted})
            blames += cluster.differing(groups, f"subnet of the chosen GID of {name}", fix=fix)
        vlans: dict[str, list[str]] = {}
        for node, row in rows.items():
            vlans.setdefault("none" if isinstance(row.vlan, Missing) else str(row.vlan), []).append(node)
        blames += cluster.differing(vlans, f"VLAN of the chosen GID of {name}", fix=advice(cluster))
    return blames


def _chosen(node: NodeFacts) -> dict[str, Gid]:
    """Each active RoCE port -> its row at NCCL_IB_GID_INDEX, where that is routable and its subnet known."""
    index = node.gid_index()
    found = {}
    for hca in _roce(node):
        for gid in hca.port.gids:
            if gid.index == index and fabric.classify(gid).is_routable and _subnet(node, gid):
                found[hca.name] = gid
    if not found:
        raise FactMissing("chosen GID", "none leads to a known subnet", "absent")
    return found


def _roce(node: NodeFacts) -> list[fabric.Hca]:
    return [hca for hca in node.active_hcas() if hca.port.link_layer == "Ethernet"]


def _subnet(node: NodeFacts, gid: Gid) -> str:
    """The subnet of a row's address, as the node's interface has it; "" where none has the address."""
    address = fabric.classify(gid).address
    for interface in node.network.interfaces:
        for held in interface.addresses:
            if held.address == address:
                return str(ipaddress.ip_interface(f"{address}/{held.prefix_length}").network)
    return ""


def _subnets(node: NodeFacts, name: str) -> set[str]:
    """Every subnet that a routable row of a port leads to."""
    rows = [gid for hca in _roce(node) if hca.name == name for gid in hca.port.gids]
    return {_subnet(node, gid) for gid in rows if fabric.classify(gid).is_routable} - {""}
