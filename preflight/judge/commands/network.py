"""Which commands put interfaces, routes and the variables that choose among them right?"""

from __future__ import annotations

import ipaddress
import re
import shlex

from preflight.facts.node import NodeFacts
from preflight.facts.subjects.network import Interface
from preflight.facts.value import Missing
from preflight.judge.commands.words import (
    Case,
    Remedy,
    Row,
    as_root,
    exported,
    of_the_others,
    others_have,
    reported,
    sudo,
)
from preflight.knowledge.interfaces import virtual
from preflight.said import said
from preflight.said.errors import FactMissing

# What netplan's own paths are made of without a second kind of quotes.
PLAIN = re.compile(r"[A-Za-z0-9_-]+")
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _mtu(case: Case) -> Remedy:
    interface = case.node.network.training_interface
    wanted = of_the_others(case, lambda other: other.network.training_interface.mtu, "mtu of the others")
    if interface.mtu == wanted:
        raise FactMissing("mtu", "it has that of the others")
    return mtu(case.node, interface.name, wanted)


def mtu(node: NodeFacts, name: str, wanted: int) -> Remedy:
    """The MTU of an interface now, and as the network manager of the node keeps it."""
    now = as_root(node, "ip", "link", "set", "dev", name, "mtu", str(wanted))
    return Remedy(now, _lasting_mtu(node, name, wanted))


def _lasting_mtu(node: NodeFacts, name: str, wanted: int) -> str:
    manager, root = node.machine.network_manager, sudo(node)
    kind = "bonds" if name in node.kernel.bonds else "ethernets"
    if manager == "netplan" and PLAIN.fullmatch(name):
        return f"{as_root(node, 'netplan', 'set', f'{kind}.{name}.mtu={wanted}')} && {root}netplan apply"
    if manager == "NetworkManager":
        shown = shlex.join(["nmcli", "-g", "GENERAL.CONNECTION", "device", "show", name])
        return f'{root}nmcli connection modify "$({shown})" 802-3-ethernet.mtu {wanted}'
    if manager == "systemd-networkd":
        shown = f"{shlex.join(['networkctl', 'status', '--', name])} | sed -n 's/.*Network File: //p'"
        place = f'd=/etc/systemd/network/$(basename "$({shown})").d && {root}mkdir -p "$d"'
        return f"{place} && printf '[Link]\\nMTUBytes={wanted}\\n' | {root}tee \"$d/90-preflight.conf\" >/dev/null"
    how = "netplan, NetworkManager or systemd-networkd" if isinstance(manager, Missing) else manager
    return said("# to last: mtu {wanted} of {name} in {how}", wanted, name, how)


def _gateway(case: Case) -> Remedy:
    def first(other: NodeFacts) -> str:
        for gateway in other.network.gateways:
            if gateway.family == "inet":
                return gateway.address
        raise FactMissing("default route", "there is none", "absent")

    wanted = of_the_others(case, first, "gateway of the others")
    now = as_root(case.node, "ip", "route", "replace", "default", "via", wanted)
    name = case.node.network.training_interface.name
    manager = case.node.machine.network_manager
    if manager == "netplan" and PLAIN.fullmatch(name):
        route = f'ethernets.{name}.routes=[{{"to": "0.0.0.0/0", "via": "{wanted}"}}]'
        return Remedy(now, as_root(case.node, "netplan", "set", route))
    if manager == "NetworkManager":
        shown = shlex.join(["nmcli", "-g", "GENERAL.CONNECTION", "device", "show", name])
        change = f"ipv4.gateway {shlex.quote(wanted)}"
        return Remedy(now, f'{sudo(case.node)}nmcli connection modify "$({shown})" {change}')
    return Remedy(now, said("# to last: Gateway={wanted} of {name} in the configuration of its network", wanted, name))


def _down(case: Case) -> Remedy:
    """The interface that the others train on, where it is there and down."""
    wanted = of_the_others(case, lambda other: other.network.training_interface.name, "interface of the others")
    interface = case.node.network.interface(wanted)
    if interface.is_up:
        raise FactMissing("address", f"which one {wanted} should have is not known")
    return Remedy(as_root(case.node, "ip", "link", "set", "dev", wanted, "up"))


def right_interface(case: Case) -> Interface:
    """The node's fastest real interface that leads to a peer, the one of the others' name before all.

    FactMissing where none does.
    """
    what = "training interface of the others"
    found = [
        one
        for one in case.node.network.interfaces
        if one.is_up
        and not one.is_loopback
        and one.families()
        and not virtual(one.name)
        and _shares_a_subnet(one, case)
    ]
    if not found:
        raise FactMissing("interface", "none of the node's leads to a peer")
    return min(found, key=lambda one: (not others_have(case, _training, one.name, what), -one.speed_mbps, one.index))


def _training(node: NodeFacts) -> str:
    return node.network.training_interface.name


def _shares_a_subnet(interface: Interface, case: Case) -> bool:
    networks = [
        ipaddress.ip_interface(f"{held.address.partition('%')[0]}/{held.prefix_length}").network
        for held in interface.addresses
        if not held.address.lower().startswith("fe80:")
    ]
    return any(_is_shared(network, case) for network in networks)


def _is_shared(network: Network, case: Case) -> bool:
    """Whether a node beside this one has an address in the network."""

    def holders() -> dict[Network, set[str]]:
        found: dict[Network, set[str]] = {}
        for node in case.cluster:
            for address in (
                one for held in reported(node, lambda node: node.network.reachable_addresses) for one in held
            ):
                if (":" in address) == (network.version == 6):
                    words = f"{address.partition('%')[0]}/{network.prefixlen}"
                    found.setdefault(ipaddress.ip_network(words, strict=False), set()).add(node.name)
        return found

    having = case.once(f"holders of addresses, IPv{network.version}, {network.prefixlen} bits", holders).get(
        network, ()
    )
    return len(having) > (case.node.name in having)


def _named(case: Case) -> Remedy:
    """The variable that matches no interface, with the right one; NCCL's `=` takes it exactly."""
    name, variable = right_interface(case).name, case.value("variable")
    return exported(**{variable: f"={name}" if variable.startswith("NCCL") else name})


def _both(case: Case) -> Remedy:
    name = right_interface(case).name
    if virtual(name):
        raise FactMissing("interface", f"{name} is no real one")
    return exported(NCCL_SOCKET_IFNAME=f"={name}", GLOO_SOCKET_IFNAME=name)


def _subnet(case: Case) -> Remedy:
    """The interface in the subnet that the others train in."""
    wanted = of_the_others(case, lambda other: other.network.training_interface.subnet(), "subnet of the others")
    for one in case.node.network.interfaces:
        if one.is_up and not one.is_loopback and one.families() and one.subnet() == wanted:
            return exported(NCCL_SOCKET_IFNAME=f"={one.name}", GLOO_SOCKET_IFNAME=one.name)
    raise FactMissing("interface", f"none of the node's is in {wanted}")


def _exact(case: Case) -> Remedy:
    return exported(NCCL_SOCKET_IFNAME=f"={right_interface(case).name}")


KEPT_BY_A_ROUTE = ("a blackhole route", "an unreachable route")  # another route to the peer goes before it


def _route(case: Case) -> Remedy:
    """A route of its own to each peer whose packets leave elsewhere, where both are in one subnet."""
    interface = case.node.network.training_interface
    network = ipaddress.ip_network(interface.subnet())
    commands = []
    for route in case.node.peers.routes:
        address = ipaddress.ip_address(route.address.partition("%")[0])
        is_kept = route.refused in KEPT_BY_A_ROUTE
        if (
            (is_kept or route.leaves_by() != interface.name)
            and address.version == network.version
            and address in network
        ):
            words = ("ip", "route", "replace", str(address), "dev", interface.name, "src", interface.address())
            commands.append(as_root(case.node, *words))
    if not commands:
        raise FactMissing("route", "the peers are in other subnets")
    return Remedy(
        " && ".join(commands), said("# to last: a route of {network} by {name} only", network, interface.name)
    )


ROWS: dict[str, Row] = {
    "network.mtu_is_the_same_on_every_node": _mtu,
    "network.default_routes_are_alike": _gateway,
    "network.training_interface_exists": _down,
    "network.interface_variables_match_an_interface": _named,
    "network.training_addresses_share_a_subnet": _subnet,
    "network.routes_to_peers_leave_by_the_training_interface": _route,
    "network.nccl_starts_on_an_interface_of_the_peers": _both,
    "network.nccl_takes_no_more_interfaces_than_meant": _exact,
    "network.interfaces_of_nccl_have_subnets_of_their_own": _exact,
    "network.training_interface_is_a_real_one": _both,
}
