"""Are the ports of one rail joined with each other on all nodes, or did cables and subnets cross?"""

from __future__ import annotations

from preflight.facts.cluster import Cluster
from preflight.facts.node import NodeFacts
from preflight.judge.tables import gids
from preflight.judge.tables.faults import values_by_node
from preflight.reach.hosts import fold
from preflight.said import said
from preflight.said.errors import Blame, FactMissing, NotApplicable


def crossed(cluster: Cluster) -> list[Blame]:
    """A Blame for nodes with a port in the subnet that belongs to another port of most nodes.

    Only subnets that each node has on one port tell a rail: a fabric of one subnet, or one that routes, has none.
    """
    holders: dict[str, dict[str, list[str]]] = {}  # subnet -> port -> nodes
    for node, of_node in gids.by_rail(cluster, values_by_node(cluster, gids.networks)).items():
        for name, subnet in of_node.items():
            holders.setdefault(subnet, {}).setdefault(name, []).append(node)
    blamed: dict[str, list[str]] = {}
    rails = 0
    for subnet, ports in holders.items():
        nodes = [node for of_port in ports.values() for node in of_port]
        usual = max(ports, key=lambda name: len(ports[name]))
        if len(set(nodes)) < len(nodes) or len(ports[usual]) < 2 or 2 * len(ports[usual]) <= len(nodes):
            continue
        rails += 1
        for name, odd in ports.items():
            if name != usual:
                message = said(
                    "{name} is in {subnet}, which is that of {usual} on {ports}",
                    name,
                    subnet,
                    usual,
                    fold(ports[usual]),
                )
                blamed.setdefault(message, []).extend(odd)
    if not rails:
        raise NotApplicable("no subnet belongs to one port of each node")
    return [Blame(message, nodes=nodes) for message, nodes in blamed.items()]


def strangers(cluster: Cluster) -> list[Blame]:
    """A Blame for nodes with a port outside the subnet that it has on most nodes, where other ports are in theirs.

    A node that is elsewhere with all its ports is in another rack of a fabric that routes.
    """
    networks = gids.by_rail(cluster, values_by_node(cluster, gids.networks))
    usual: dict[str, tuple[str, list[str]]] = {}  # port -> the subnet of most nodes, and those nodes
    for name in dict.fromkeys(name for of_node in networks.values() for name in of_node):
        nodes: dict[str, list[str]] = {}
        for node, of_node in networks.items():
            if name in of_node:
                nodes.setdefault(of_node[name], []).append(node)
        subnet = max(nodes, key=lambda one: len(nodes[one]))
        if len(nodes[subnet]) > 1 and 2 * len(nodes[subnet]) > sum(map(len, nodes.values())):
            usual[name] = (subnet, nodes[subnet])
    every = {subnet for subnet, _ in usual.values()}
    blames = []
    for node, of_node in networks.items():
        at_home = [name for name, subnet in of_node.items() if name in usual and usual[name][0] == subnet]
        for name, subnet in of_node.items():
            if at_home and name in usual and subnet not in every:
                message = said(
                    "{name} is in {subnet}; on {usual} it is in {usual2}",
                    name,
                    subnet,
                    fold(usual[name][1]),
                    usual[name][0],
                )
                blames.append(Blame(message, nodes=[node]))
    return blames


def of_other_managers(cluster: Cluster) -> list[Blame]:
    """A Blame for nodes whose InfiniBand port is led by another subnet manager than the same port of most nodes."""
    lids = values_by_node(cluster, _managers)
    blames = []
    for name in dict.fromkeys(name for of_node in lids.values() for name in of_node):
        groups: dict[str, list[str]] = {}
        for node, of_node in lids.items():
            if name in of_node:
                groups.setdefault(of_node[name], []).append(node)
        blames += cluster.differing(groups, said("LID of the subnet manager of {name}", name))
    return blames


def _managers(node: NodeFacts) -> dict[str, str]:
    found = {
        hca.name: hca.port.sm_lid
        for hca in node.active_hcas()
        if hca.port.link_layer == "InfiniBand" and isinstance(hca.port.sm_lid, str) and hca.port.sm_lid.strip("0x")
    }
    if not found:
        raise FactMissing("subnet managers", "no InfiniBand port knows one", "absent")
    return found


def swapped(cluster: Cluster) -> list[Blame]:
    """A Blame for two nodes whose ports of one name are in each other's subnets, as where two cables are crossed.

    Of more nodes that are cabled to each other no order is right, and where ports have other names none is known.
    """
    found = gids.by_rail(cluster, values_by_node(cluster, gids.networks))
    if len(cluster) != 2 or len(found) != 2:
        raise NotApplicable("only two nodes tell by their subnets which port is cabled to which")
    one, other = found.values()
    port_of = {subnet: port for port, subnet in other.items()}
    pairs = [(port, port_of[subnet]) for port, subnet in one.items() if subnet in port_of]
    if set(one) != set(other) or len(pairs) < 2 or any(len({*rails.values()}) < len(rails) for rails in (one, other)):
        raise NotApplicable("the two nodes have no subnet for each port")
    crossed_pairs = [said("{port} with {peer}", port, peer) for port, peer in pairs if port != peer]
    if not crossed_pairs:
        return []
    message = said(
        "the rails are crossed: by their subnets {found} join {crossed_pairs}", fold(found), ", ".join(crossed_pairs)
    )
    return [Blame(message, nodes=list(found))]


FINDS = (crossed, strangers, of_other_managers, swapped)
