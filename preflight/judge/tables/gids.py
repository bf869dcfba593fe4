"""Which GID index is the right one on each node, and does the one that was set lead to the same network everywhere?"""

from __future__ import annotations

import ipaddress
from typing import TypeVar

from preflight.facts import fabric
from preflight.facts.cluster import Cluster
from preflight.facts.node import NodeFacts
from preflight.facts.subjects.rdma import Gid
from preflight.facts.value import Missing
from preflight.judge.tables.faults import of_own_names, values_by_node
from preflight.reach.hosts import fold
from preflight.said import joined, said
from preflight.said.errors import Blame, FactMissing, NotApplicable

V = TypeVar("V")
UNSET = "; or unset it: NCCL 2.21 and later choose by themselves"


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
    """What to change on which nodes: "set NCCL_IB_GID_INDEX=3 on node[1-2], 5 on node[3-4]"."""
    return cluster.once(said("GID advice {subnets}", subnets), lambda: _advice(cluster, subnets))


def _advice(cluster: Cluster, subnets: dict[str, str] | None) -> str:
    nodes_of: dict[str, list[str]] = {}
    without: dict[str, list[str]] = {}  # ports that have no routable row -> nodes
    right: dict[str, list[str]] = {}
    for node in cluster:
        try:
            ports, indices = [hca.name for hca in _roce(node)], right_indices(node, subnets=subnets)
        except FactMissing:
            continue
        lacking = [name for name in ports if name not in indices]
        if lacking:
            without.setdefault(", ".join(lacking), []).append(node.name)
        if not indices:
            continue
        one = len(set(indices.values())) == 1
        index = str(min(indices.values())) if one else "/".join(f"{name} {i}" for name, i in indices.items())
        is_set = node.has_variable("NCCL_IB_GID_INDEX") and node.variable("NCCL_IB_GID_INDEX").strip() == index
        (right if is_set else nodes_of).setdefault(index, []).append(node.name)
    addressed = [
        said(
            "give {ports} of {nodes} an address of the training network first (`show_gids` there lists the rows)",
            ports,
            fold(nodes),
        )
        for ports, nodes in without.items()
    ]
    if not nodes_of and not right:
        return "give the ports their addresses first (`show_gids` lists the rows)"
    if not nodes_of:
        nothing_else = "no other index is better: give the ports the addresses and VLANs of the other nodes' ports"
        return joined(addressed) or nothing_else
    parts = [
        said("{i}{index} on {nodes}", "NCCL_IB_GID_INDEX=" * (not i), index, fold(nodes))
        for i, (index, nodes) in enumerate(nodes_of.items())
    ]
    kept = joined([said("{index} on {nodes}", index, fold(nodes)) for index, nodes in right.items()], ", ")
    place = ""
    if len(nodes_of.keys() | right.keys()) > 1:
        place = " (a line of /etc/nccl.conf there, for one value does not fit all)"
    if place and kept:
        place = said(" (a line of /etc/nccl.conf there, for one value does not fit all; right already: {kept})", kept)
    # Left to itself NCCL takes a link-local row of a fabric without IPv4, or the first of several networks.
    alone = UNSET if subnets is None and not without and all(_finds_it_alone(node) for node in cluster) else ""
    return joined([*addressed, said("set {parts}{place}{alone}", ", ".join(parts), place, alone)])


def _finds_it_alone(node: NodeFacts) -> bool:
    """Whether NCCL, with no index set, takes the right row on every port of a node."""
    try:
        if not node.nccl_chooses_gids():
            return False
        own = {hca.name: node.own_gid_index(hca) for hca in _roce(node)}
        return all(own.get(name) == index for name, index in right_indices(node).items())
    except FactMissing:
        return False


def wrong_choice(node: NodeFacts) -> str:
    """What is wrong with the rows that NCCL takes by itself, "" where they are routable RoCE v2.

    NotApplicable where an index is set, or a port has no better row.
    """
    if node.has_variable("NCCL_IB_GID_INDEX"):
        raise NotApplicable("NCCL_IB_GID_INDEX is set")
    taken, right = node.gids_of_nccl(), right_indices(node)
    if not right:
        raise NotApplicable("no active RoCE port has a routable row")
    wrong = [
        said("row {index} of {name} ({row})", row.index, name, row)
        for name, row in taken.items()
        if name in right and not row.is_routable
    ]
    return said("NCCL takes {wrong}", ", ".join(wrong)) if wrong else ""


def misled(cluster: Cluster) -> list[Blame]:
    """A Blame for nodes whose chosen GID is of another subnet or VLAN, where a row of the common one is at hand.

    Fabrics that route have a subnet for each node or rail: there, no row of the others' subnet exists.
    """
    chosen = values_by_node(cluster, _chosen)
    names = dict.fromkeys(name for of_node in chosen.values() for name in of_node)
    blames = _link_local_here(cluster, chosen)
    for name in names:
        rows = {node: of_node[name] for node, of_node in chosen.items() if name in of_node}
        subnets = {node: _taken(cluster[node])[name][1] for node in rows}
        common = set.intersection(*(_subnets(cluster[node], name) for node in rows))
        groups: dict[str, list[str]] = {}
        for node, subnet in subnets.items():
            groups.setdefault(subnet, []).append(node)
        if len(groups) > 1 and common & set(groups):
            wanted = max(sorted(common & set(groups)), key=lambda subnet: len(groups[subnet]))
            fix = advice(cluster, subnets={name: wanted})
            what = said("subnet of the chosen GID of {name}", name)
            blames += cluster.differing(groups, what, fix=fix, subnets={name: wanted})
        vlans: dict[str, list[str]] = {}
        for node, row in rows.items():
            vlans.setdefault("none" if isinstance(row.vlan, Missing) else str(row.vlan), []).append(node)
        blames += cluster.differing(vlans, said("VLAN of the chosen GID of {name}", name), fix=advice(cluster))
    return blames


def _link_local_here(cluster: Cluster, chosen: dict[str, dict[str, Gid]]) -> list[Blame]:
    """A Blame for nodes where NCCL by itself takes a row that does not route, and most nodes have one that does."""
    blamed: dict[str, list[str]] = {}
    for node in cluster:
        try:
            if node.has_variable("NCCL_IB_GID_INDEX"):
                continue
            taken, right = node.gids_of_nccl(), right_indices(node)
        except FactMissing:  # of this node another check tells
            continue
        for name, row in taken.items():
            routing = [other for other, rows in chosen.items() if name in rows]
            if name in right and not row.is_routable and 2 * len(routing) > len(chosen):
                message = said(
                    "NCCL takes row {index} of {name} ({row}), which does not reach {routing}",
                    row.index,
                    name,
                    row,
                    fold(routing),
                )
                blamed.setdefault(message, []).append(node.name)
    return [Blame(message, nodes=nodes, fix=advice(cluster)) for message, nodes in blamed.items()]


def shared(cluster: Cluster) -> list[Blame]:
    """A Blame for nodes of several machines whose ports have the same address, in the rows that NCCL takes."""
    holders: dict[str, list[str]] = {}
    try:
        chosen = by_rail(cluster, values_by_node(cluster, _chosen))
    except NotApplicable:  # no RDMA port has an address
        return []
    for node, of_node in chosen.items():
        for name, gid in of_node.items():
            holders.setdefault(said("{address} of {name}", fabric.classify(gid).address, name), []).append(node)
    return [
        Blame(said("several nodes have the address {text}", text), nodes=nodes)
        for text, nodes in holders.items()
        if len(nodes) > 1 and len({cluster[node].identity.boot_id for node in nodes}) > 1
    ]


def same_infiniband(cluster: Cluster) -> list[Blame]:
    """A Blame for several machines that have the GUID, or on one port the LID, of an InfiniBand port in common."""
    holders: dict[str, list[str]] = {}
    for node, of_node in values_by_node(cluster, _infiniband_addresses).items():
        for text in of_node:
            holders.setdefault(text, []).append(node)
    return [
        Blame(said("several machines have {text}", text), nodes=nodes)
        for text, nodes in holders.items()
        if len({cluster[node].identity.boot_id.partition(":")[0] for node in nodes}) > 1
    ]


def _infiniband_addresses(node: NodeFacts) -> tuple[str, ...]:
    """What must be each machine's own of its InfiniBand ports."""
    found = []
    for hca in node.active_hcas():
        rows = [gid.gid for gid in hca.port.gids if gid.index == 0]
        if hca.port.link_layer == "InfiniBand" and rows:
            guid = ":".join(rows[0].split(":")[4:])
            found += [said("the GUID {guid}", guid)] if guid.strip("0:") else []
            if isinstance(hca.port.lid, str) and isinstance(hca.port.sm_lid, str) and hca.port.lid.strip("0x"):
                found.append(
                    said(
                        "the LID {lid} on {name}, under the subnet manager {sm_lid}",
                        hca.port.lid,
                        hca.name,
                        hca.port.sm_lid,
                    )
                )
    if not found:
        raise FactMissing("addresses of InfiniBand ports", "no active port has any", "absent")
    return tuple(found)


def networks(node: NodeFacts) -> dict[str, str]:
    """Each active port -> its subnet: that of its row's address, on InfiniBand the prefix of its GID."""
    found = {name: subnet for name, (_, subnet) in _taken(node).items()} if _roce(node) else {}
    for hca in node.active_hcas():
        rows = [gid.gid for gid in hca.port.gids if gid.index == 0]
        if not hca.is_roce and rows:
            found[hca.name] = said("the InfiniBand subnet {split}", ":".join(rows[0].split(":")[:4]))
    if not found:
        raise FactMissing("subnets of RDMA ports", "none is known", "absent")
    return found


def by_rail(cluster: Cluster, found: dict[str, dict[str, V]]) -> dict[str, dict[str, V]]:
    """The same by interface for nodes whose ports have names of their own, as pods with virtual functions have."""
    alike = of_own_names(found)
    return {
        node: {_interface(cluster[node], name) if node in alike else name: value for name, value in of_node.items()}
        for node, of_node in found.items()
    }


def _interface(node: NodeFacts, port: str) -> str:
    """The interface of a port; the port's own name where it has none."""
    rows = [gid.netdev for hca in _roce(node) if hca.name == port for gid in hca.port.gids]
    return next((name for name in rows if isinstance(name, str)), port)


def _chosen(node: NodeFacts) -> dict[str, Gid]:
    """Each active RoCE port -> the row that NCCL takes, where that is routable and its subnet known."""
    return {name: gid for name, (gid, _) in _taken(node).items()}


def _taken(node: NodeFacts) -> dict[str, tuple[Gid, str]]:
    """The same with the subnet of the row's address."""
    found = node.once("gids", lambda: _find_taken(node))
    if not found:
        raise FactMissing("chosen GID", "none leads to a known subnet", "absent")
    return found


def _find_taken(node: NodeFacts) -> dict[str, tuple[Gid, str]]:
    taken = node.gids_of_nccl()
    found: dict[str, tuple[Gid, str]] = {}
    for hca in _roce(node):
        row = taken.get(hca.name)
        if row is None or not row.is_routable:
            continue
        for gid in hca.port.gids:
            subnet = _subnet(node, gid) if gid.index == row.index else ""
            if subnet:
                found[hca.name] = gid, subnet
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
