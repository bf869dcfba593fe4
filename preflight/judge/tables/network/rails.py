"""Is each interface that carries data on most nodes in the same state on all of them, also where no job chose it yet?

Slingshot, gVNIC and plain Ethernet have several interfaces a node, of which the checks of the training interface see
one, and those of RDMA ports none.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator

from preflight.facts.cluster import Cluster
from preflight.facts.node import NodeFacts
from preflight.facts.subjects.network import Interface
from preflight.facts.subjects.rdma import Rdma
from preflight.facts.value import Missing
from preflight.knowledge.interfaces import SLINGSHOT
from preflight.reach.hosts import fold
from preflight.said import said
from preflight.said.errors import Blame, BlockedBy, NotApplicable

ABSENT, NO_LINK, NO_ADDRESS, IN_USE = "is not there", "has no link", "has no address", "is in use"


def differing(cluster: Cluster) -> list[Blame]:
    """A Blame for each rail and way in which nodes differ in it."""
    found = cluster.gather(_rails)
    used_by = [[name for name, one in of_node.items() if _state(one) == IN_USE] for of_node in found.values()]
    several = {stem for used in used_by for stem, count in Counter(map(_stem, used)).items() if count > 1}
    names = {name for used in used_by for name in used if _stem(name) in several or SLINGSHOT.fullmatch(name)}
    rails = sorted(names, key=_order)
    if not rails:
        raise NotApplicable("no node has several data interfaces of one kind")
    of_rdma = _of_rdma(cluster)
    told: defaultdict[str, list[str]] = defaultdict(list)
    for name in rails:
        held = {node: of_node.get(name) for node, of_node in found.items()}
        if name not in of_rdma:  # of these the port tells
            _by_state(name, held, {node: {_stem(one) for one in of_node} for node, of_node in found.items()}, told)
        used = {node: one for node, one in held.items() if one is not None and _state(one) == IN_USE}
        if not all(cluster[node].network.training == name for node in used):  # of that other checks tell
            if not of_rdma.get(name):
                _by_value(name, {node: f"MTU {one.mtu}" for node, one in used.items()}, told)
            _by_value(name, {node: one.rate_text() for node, one in used.items() if one.reports_rate}, told)
    _by_subnet(rails, found, told)
    return [Blame(words, nodes=nodes) for words, nodes in told.items()]


def has_slingshot(node: NodeFacts) -> bool:
    """Whether the node has an interface of Slingshot, whose libfabric locks memory as RDMA does."""
    return any(SLINGSHOT.fullmatch(one.name) and one.is_physical is True for one in node.network.interfaces)


def _rails(node: NodeFacts) -> dict[str, Interface]:
    if not node.has_training_interface():
        raise BlockedBy("network.training_interface_exists", detail="no training interface")
    return {one.name: one for one in node.network.interfaces if one.is_physical is True}


def _of_rdma(cluster: Cluster) -> dict[str, bool]:
    """The interfaces of RDMA ports, and whether the port itself tells its MTU, which another check compares."""
    found: dict[str, bool] = {}
    for node in cluster:
        held = node.subjects.get("rdma")
        for port in (port for device in held.devices for port in device.ports) if isinstance(held, Rdma) else ():
            for row in port.gids:
                if isinstance(row.netdev, str):
                    found[row.netdev] = found.get(row.netdev, False) or not isinstance(port.active_mtu, Missing)
    return found


def _stem(name: str) -> str:
    found = re.match(r"[A-Za-z]+", name)
    return found[0] if found else name


def _order(name: str) -> tuple[str, int, str]:
    digits = re.search(r"\d+", name)
    return _stem(name), int(digits[0]) if digits else 0, name


def _state(one: Interface | None) -> str:
    if one is None:
        return ABSENT
    if not one.is_up:
        return NO_LINK
    return IN_USE if one.families() else NO_ADDRESS


def _by_state(
    name: str, held: dict[str, Interface | None], stems: dict[str, set[str]], told: defaultdict[str, list[str]]
) -> None:
    """Who does not use a rail that most use, and who alone uses one; a node without any of its kind is another one."""
    states = {node: _state(one) for node, one in held.items() if _stem(name) in stems[node]}
    used = [node for node, state in states.items() if state == IN_USE]
    if 2 * len(used) >= len(states):
        for node, state in states.items():
            if state != IN_USE:
                told[said("{name} {state}; it is in use on {used}", name, state, fold(used))].append(node)
    elif len(states) > 2:
        others = [node for node in states if node not in used]
        told[said("{name} is in use; on {others} it is not", name, fold(others))].extend(used)


def _by_value(name: str, values: dict[str, str], told: defaultdict[str, list[str]]) -> None:
    """Who has another value than most; on a tie, all of them."""
    counted = Counter(values.values()).most_common()
    if len(counted) < 2:
        return
    is_tie = counted[0][1] == counted[1][1]
    usual = counted[0][0]
    others = [node for node, value in values.items() if value == usual]
    for node, value in values.items():
        if value != usual:
            nodes = [*others, node] if is_tie else [node]
            words = said("{name}: {value}; on {others} {usual}", name, value, fold(others), usual)
            told[words].extend(one for one in nodes if one not in told[words])


def _by_subnet(rails: list[str], found: dict[str, dict[str, Interface]], told: defaultdict[str, list[str]]) -> None:
    """Who has an interface in the subnet that is another rail's on most nodes, as with names in another order."""
    subnets = {node: dict(_subnets(of_node, rails)) for node, of_node in found.items()}
    usual: dict[str, str] = {}
    for name in rails:
        counted = Counter(of_node[name] for of_node in subnets.values() if name in of_node).most_common(1)
        if counted and counted[0][1] > 1 and 2 * counted[0][1] > len(subnets):
            usual[name] = counted[0][0]
    if len(set(usual.values())) < len(usual):
        return
    rail_of = {subnet: name for name, subnet in usual.items()}
    for node, of_node in subnets.items():
        for name, subnet in of_node.items():
            if name in usual and rail_of.get(subnet, name) != name:
                words = said("{name} is in {subnet}, the subnet of {other} elsewhere", name, subnet, rail_of[subnet])
                told[words].append(node)


def _subnets(of_node: dict[str, Interface], rails: list[str]) -> Iterator[tuple[str, str]]:
    for name in rails:
        if name in of_node and _state(of_node[name]) == IN_USE:
            yield name, of_node[name].subnet()
