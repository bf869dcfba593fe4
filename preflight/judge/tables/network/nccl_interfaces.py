"""Does NCCL start on an interface that leads to the peers, and take no other one that leads nowhere?"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from preflight.facts import fabric, selection
from preflight.facts.cluster import Cluster
from preflight.facts.node import NodeFacts
from preflight.facts.subjects.network import Interface
from preflight.judge.tables.network.interfaces import leads_to_a_peer
from preflight.knowledge.variables.interfaces import parse_patterns
from preflight.said import said

FAMILIES_WITHOUT_IPV6 = "AF_INET"


def of_nccl(node: NodeFacts) -> tuple[Interface, ...]:
    """The interfaces that NCCL takes on a node by the job's variables, that of its bootstrap first."""
    family, comm_id = node.value("NCCL_SOCKET_FAMILY"), node.value("NCCL_COMM_ID")
    name = node.value("NCCL_SOCKET_IFNAME")
    return selection.nccl_interfaces(node.network, name, socket_family=family, comm_id=comm_id)


def has_choice(node: NodeFacts) -> bool:
    """Whether a variable says which interfaces NCCL takes; it ignores a value of one character."""
    return len(node.value("NCCL_SOCKET_IFNAME")) > 1


@dataclass(frozen=True)
class Trouble:
    """What is wrong with the interface that NCCL takes first, and whether a start over it surely hangs."""

    words: str
    is_sure: bool = False


def first_trouble(node: NodeFacts, cluster: Cluster) -> Trouble:
    """What is wrong with the interface that NCCL takes first by itself; no words where it leads to the peers."""
    return _link_local_first(node, cluster) or _first_elsewhere(node, cluster) or Trouble("")


def _link_local_first(node: NodeFacts, cluster: Cluster) -> Trouble | None:
    """NCCL takes link-local addresses as any other: on ib0, whose name comes first, or by the index of an interface.

    A peer reaches one of IPv6 by the index of its own interface, if that is the same number. The 169.254 of an
    interface to the BMC is the same on every node, and leads nowhere else.
    """
    first = _only_link_local(node)
    if has_choice(node) or first is None or node.has_variable("NCCL_COMM_ID"):
        return None
    all_of_them = cluster.once("starts on link-local addresses only", lambda: _starts(cluster))
    own = {held.address for held in first.addresses if held.family == "inet"}
    if own:
        is_reached = all(all_of_them.addresses[address] == 1 for address in own)
    else:
        is_reached = all_of_them.indices[first.index] == all_of_them.indices.total()
    address = min(first.addresses, key=lambda held: held.family).address
    message = said("NCCL starts on {name}, which has a link-local address only ({address})", first.name, address)
    return Trouble(message, is_sure=all_of_them.indices.total() < len(cluster) or not is_reached)


class _Starts(NamedTuple):
    """Of interfaces with link-local addresses only that NCCL takes first: address and index -> on how many nodes."""

    addresses: Counter[str]
    indices: Counter[int]


def _starts(cluster: Cluster) -> _Starts:
    found = [first for node in cluster if (first := _only_link_local(node)) is not None]
    addresses = Counter(address for first in found for address in {held.address for held in first.addresses})
    return _Starts(addresses, Counter(first.index for first in found))


def _only_link_local(node: NodeFacts) -> Interface | None:
    """The interface that NCCL takes first, where that has no other address than link-local ones."""
    family = node.value("NCCL_SOCKET_FAMILY")
    up = sorted((one for one in node.network.interfaces if one.is_up), key=lambda one: one.index)
    of_infiniband = [one for one in up if one.name.startswith("ib")]
    if any(one.families() for one in of_infiniband):
        return None
    if family != FAMILIES_WITHOUT_IPV6:
        found = next((one for one in of_infiniband if one.addresses), None)
        if found is not None:
            return found
    # The kernel tells the addresses of IPv4 before all others, by the index of their interfaces.
    usual = parse_patterns(selection.NCCL_DEFAULT_ORDER[1])
    by_ipv4 = [one for one in up if usual.accepts(one.name) and any(held.family == "inet" for held in one.addresses)]
    first = by_ipv4[0] if by_ipv4 and family != "AF_INET6" and of_nccl(node) else None
    return first if first is not None and "IPv4" not in first.families() else None


def _surely_hangs(node: NodeFacts, first: Interface, cluster: Cluster) -> bool:
    """Whether no peer can reach it: others have the same address, or all start in a subnet where this node could."""
    bearers = cluster.once("machines by address", lambda: _machines(cluster))
    for address in (held.address.partition("%")[0] for held in first.addresses):
        machines = bearers.get(address, set())
        if len(machines) > (node.identity.boot_id in machines):
            return True
    every = cluster.once("subnets that NCCL starts in", lambda: _subnets(cluster))
    own = Counter(found[0].subnet() for found in [of_nccl(node)] if found)
    theirs = {subnet for subnet, count in every.items() if count > own[subnet]}
    return len(theirs) == 1 and any(one.families() and one.subnet() in theirs for one in node.network.interfaces)


def _machines(cluster: Cluster) -> dict[str, set[str]]:
    """Address -> the machines that have it, each by what its kernel calls this boot."""
    found: dict[str, set[str]] = {}
    for node in cluster:
        for held in (held for interface in node.network.interfaces for held in interface.addresses):
            found.setdefault(held.address.partition("%")[0], set()).add(node.identity.boot_id)
    return found


def _subnets(cluster: Cluster) -> Counter[str]:
    return Counter(found[0].subnet() for node in cluster if (found := of_nccl(node)))


def _first_elsewhere(node: NodeFacts, cluster: Cluster) -> Trouble | None:
    found = of_nccl(node)
    if has_choice(node) or not found or leads_to_a_peer(found[0], node, cluster):
        return None
    # Where an interface begins with ib, NCCL by itself takes no other kind, however well that would do.
    left = [one for one in node.network.interfaces if one not in found and not one.is_loopback and one.is_up]
    others = ", ".join(one.name for one in found[1:] or [one for one in left if leads_to_a_peer(one, node, cluster)])
    if not others:
        return None
    held = ", ".join(address.address for address in found[0].addresses)
    message = said(
        "NCCL starts on {name} ({held}), whose subnet holds no peer; it could take {others}",
        found[0].name,
        held,
        others,
    )
    return Trouble(message, is_sure=_surely_hangs(node, found[0], cluster))


def taken_by_prefix(node: NodeFacts, cluster: Cluster) -> tuple[Trouble, ...]:
    """What NCCL_SOCKET_IFNAME takes as a prefix beyond what was meant: VLANs of a named interface, and dead ends.

    Without RDMA, NCCL sends data over each of them, so that one that leads to no peer hangs the first collective.
    """
    value = node.value("NCCL_SOCKET_IFNAME")
    patterns = parse_patterns(value)
    if not has_choice(node) or patterns.is_exact or patterns.is_exclusion:
        return ()
    found = of_nccl(node)
    names = {interface.name for interface in node.network.interfaces}
    written = {entry.name for entry in patterns.entries}
    messages: list[Trouble] = []
    for interface in found:
        whole = next(
            (name for name in written & names if interface.name != name and interface.name.startswith(name)), ""
        )
        is_dead_end = len(found) > 1 and not leads_to_a_peer(interface, node, cluster)
        is_sure = is_dead_end and not goes_over_rdma(node)
        if whole and interface.name not in written:
            messages.append(Trouble(said("{value} takes {name} too, as a prefix", value, interface.name), is_sure))
        elif is_dead_end:
            messages.append(
                Trouble(said("{value} takes {name}, whose subnet holds no peer", value, interface.name), is_sure)
            )
    return tuple(messages)


def goes_over_rdma(node: NodeFacts) -> bool:
    """Whether NCCL needs sockets for its start only: data goes over RDMA ports, or by the plugin of another fabric."""
    return not node.without_rdma() and (
        bool(node.rdma.active_ports()) or bool(fabric.needs_plugin(node.rdma, node.value("NCCL_NET")))
    )
