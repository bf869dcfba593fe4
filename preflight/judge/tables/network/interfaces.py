"""What is an interface of a node for, at which rate, and does it lead to the peers?"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from preflight.facts.cluster import Cluster
from preflight.facts.node import NodeFacts
from preflight.facts.subjects.network import NO_RATE, Interface, Network
from preflight.facts.value import Missing
from preflight.knowledge.interfaces import SLINGSHOT
from preflight.said import said
from preflight.said.errors import Blame, FactMissing

SubNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network


def has_left(peer: NodeFacts, node: NodeFacts) -> bool:
    """Whether a peer that is out has no address left in the network that a node trains on.

    The names that lead there were right, and will be: the node that asks for them is not at fault.
    """
    if not peer.is_out or node.network.training_trouble():
        return False
    wanted = ipaddress.ip_network(node.network.training_interface.subnet())
    return not any(_holds(wanted, address) for address in peer.network.reachable_addresses)


def of_the_job(node: NodeFacts) -> tuple[str, ...]:
    """The training interface, and where it is a VLAN what that is on; none where there is no training interface."""
    training = node.network.training
    if isinstance(training, Missing):
        return ()
    below = training.partition(".")[0]
    return (training, *(one.name for one in node.network.interfaces if one.name == below != training))


def rate_text(node: NodeFacts) -> str:
    """The rate of the training interface as a message says it; of a bond, or a VLAN over it, that of its members.

    A port that reports none differs from one that does.
    """
    interface = node.network.training_interface
    if interface.reports_rate:
        return interface.rate_text()
    below = node.network.interface(of_the_job(node)[-1])
    if not node.kernel.is_bond(below.name):
        return below.rate_text()
    try:
        return f"{node.kernel.bond_rate_mbps(below.name)} Mbit/s"
    except FactMissing as missing:
        if missing.kind != "absent":
            raise
        return NO_RATE


def leads_to_a_peer(interface: Interface, node: NodeFacts, cluster: Cluster) -> bool:
    """Whether a peer has another address in a subnet of the interface, or packets to a peer leave by it."""
    if any(route.interface == interface.name for route in node.peers.routes):
        return True
    own = {held.address for held in interface.addresses}
    networks = {_network(held.address, held.prefix_length) for held in interface.addresses}
    return any(_has_another(network, own, node, cluster) for network in networks)


class _Held(NamedTuple):
    """How many addresses the nodes have in each subnet of one size, how many have each, and who does not tell."""

    in_network: Counter[SubNetwork]
    bearers: Counter[str]
    silent: tuple[NodeFacts, ...]


def _held(cluster: Cluster, version: int, prefix: int) -> _Held:
    networks = [node.subjects.get("network") for node in cluster]
    every = [one for held in networks if isinstance(held, Network) for one in held.reachable_addresses]
    of_version = [one for one in every if (":" in one) == (version == 6)]
    in_network = Counter(found for one in of_version if _holds(found := _network(one, prefix), one))
    silent = tuple(node for node in cluster if not isinstance(node.subjects.get("network"), Network))
    return _Held(in_network, Counter(of_version), silent)


def _has_another(network: SubNetwork, own: set[str], node: NodeFacts, cluster: Cluster) -> bool:
    """Whether a peer has an address in a subnet, beside `own`; counted, for each node would else look at each."""
    version, prefix = network.version, network.prefixlen
    held = cluster.once(
        said("addresses of IPv{version} by /{prefix}", version, prefix), lambda: _held(cluster, version, prefix)
    )
    ours = node.network.reachable_addresses
    not_another = sum(_holds(network, one) for one in ours)
    not_another += sum(held.bearers[one] - (one in ours) for one in own if _holds(network, one))
    if held.in_network[network] > not_another:
        return True
    return any(one.name != node.name and one.network.holds_any(()) for one in held.silent)  # raises why it is silent


def in_one_subnet(interfaces: Iterable[Interface]) -> dict[str, list[str]]:
    """Subnet -> the interfaces that have an IPv4 address in it, where there are several.

    The ports of Slingshot have one network on every node, with a route of its own for each.
    """
    found: dict[str, list[str]] = {}
    for interface in interfaces:
        if not interface.is_loopback and not SLINGSHOT.fullmatch(interface.name):
            try:
                interface.address("inet")
            except FactMissing:
                continue
            subnet = interface.subnet()
            if not subnet.endswith(("/31", "/32")):
                found.setdefault(subnet, []).append(interface.name)
    return {subnet: names for subnet, names in found.items() if len(names) > 1}


def _network(address: str, prefix: int) -> SubNetwork:
    return ipaddress.ip_interface(f"{address.partition('%')[0]}/{prefix}").network


def _holds(network: SubNetwork, address: str) -> bool:
    parsed = ipaddress.ip_address(address.partition("%")[0])
    return parsed.version == network.version and parsed in network and not parsed.is_link_local


def of_other_masks(subnets: Mapping[str, str]) -> list[Blame]:
    """The nodes whose subnet is part of the one that most have, or holds it: their address is right, its mask is not.

    None where subnets lie apart, too.
    """
    networks = {name: ipaddress.ip_network(text) for name, text in subnets.items()}
    counted = Counter(subnets.values()).most_common(2)
    if len(set(subnets.values())) < 2 or counted[0][1] == counted[1][1]:
        return []
    wanted = ipaddress.ip_network(counted[0][0])
    if not all(network.version == wanted.version and network.overlaps(wanted) for network in networks.values()):
        return []
    return [
        Blame(
            said("subnet of the training interface: {text}, where its peers have {wanted}", text, wanted),
            nodes=[name],
            fix=said(
                "give the address of the nodes named the mask of their peers, /{prefixlen} (`ip -br "
                "address`), also in their network configuration",
                wanted.prefixlen,
            ),
        )
        for name, text in subnets.items()
        if text != str(wanted)
    ]


def of_a_peer(cluster: Cluster) -> list[Blame]:
    """Nodes with a peer's training address on an interface of their own: what they send to that peer comes back."""
    found = []
    for node in cluster:
        try:
            found += [Blame(words, nodes=[node.name]) for words in _of_peers(node, cluster)]
        except FactMissing as missing:
            cluster.cannot_judge(node.name, missing)
    return found


def _of_peers(node: NodeFacts, cluster: Cluster) -> Iterator[str]:
    """What is wrong on this node, peer by peer."""
    own, machine = address_of(node), node.identity.boot_id
    for route in node.peers.routes:
        peer = next(iter(cluster.among([route.name])), None)
        if peer is None or peer.is_out or own == route.address:
            continue
        # The kernel shows it as the source address of the route; an interface without carrier may not count.
        held = [one.name for one in node.network.interfaces if one.is_up and one.holds_any([route.address])]
        if route.source == route.address and isinstance(route.interface, str):
            held.append(route.interface)
        if held and machine_of(peer) not in {"", machine}:
            yield said(
                "{held} here has {address}, the address that {name} trains on", held[0], route.address, peer.name
            )


def machine_of(node: NodeFacts) -> str:
    """The machine and its boot, "" where the node did not tell."""
    try:
        return node.identity.boot_id
    except FactMissing:
        return ""


def address_of(node: NodeFacts) -> str:
    """The address that a node trains on, "" where it has none."""
    try:
        return node.network.training_interface.address()
    except FactMissing:
        return ""
