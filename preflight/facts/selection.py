"""Which interface do NCCL and Gloo choose on a node, by their own rules?

NCCL's rules are those of ncclFindInterfaces, parseStringList and matchIfList in its sources; Gloo's are those of
torch's ProcessGroupGloo: exact names in GLOO_SOCKET_IFNAME, else the address the node's own hostname gives.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import Literal

import msgspec

from preflight.facts.subjects.environment import Environment
from preflight.facts.subjects.identity import Identity
from preflight.facts.subjects.network import Interface, Network
from preflight.facts.value import Missing, present
from preflight.knowledge.variables.interfaces import gloo_names, is_set, parse_patterns
from preflight.said import said
from preflight.said.errors import FactMissing

Backend = Literal["nccl", "gloo"]
NCCL_INTERFACE_LIMIT = 16
# Without a variable: InfiniBand's IP interfaces, then anything real, then what is left.
NCCL_DEFAULT_ORDER = ("ib", "^docker,lo,virbr", "docker", "lo", "virbr")
FAMILIES: dict[str, tuple[str, ...]] = {"AF_INET": ("inet",), "AF_INET6": ("inet6",)}


def nccl_interfaces(
    network: Network, value: str = "", *, socket_family: str = "", comm_id: str = ""
) -> tuple[Interface, ...]:
    """The interfaces NCCL takes, the one of its bootstrap first; `value` is NCCL_SOCKET_IFNAME, "" where unset.

    `socket_family` is NCCL_SOCKET_FAMILY, `comm_id` NCCL_COMM_ID, in whose subnet the bootstrap is, whatever else is
    set. Empty when a set variable matches nothing: NCCL then fails.
    """
    taken = _for_data(network, value, socket_family=socket_family, comm_id=comm_id)
    first = _in_subnet_of(network, comm_id)
    return (*first, *(one for one in taken if one not in first)) if taken else ()


def _in_subnet_of(network: Network, comm_id: str) -> tuple[Interface, ...]:
    """The first interface in the subnet of the address in NCCL_COMM_ID; none where that is a name, or foreign."""
    host = comm_id[1:].partition("]")[0] if comm_id.startswith("[") else comm_id.partition(":")[0]
    wanted = _plain(host)
    if wanted is None:
        return ()
    for interface in network.interfaces:
        for held in interface.addresses:
            own = ipaddress.ip_interface(f"{held.address.partition('%')[0]}/{held.prefix_length}").network
            if own.version == wanted.version and wanted in own:
                return (interface,)
    return ()


def _for_data(network: Network, value: str, *, socket_family: str, comm_id: str) -> tuple[Interface, ...]:
    families = FAMILIES.get(socket_family, ("inet", "inet6"))
    # getifaddrs lists all IPv4 addresses before the first IPv6 one; within a family by index.
    held = {one.name: _families(one, families) for one in network.interfaces}
    usable = sorted(
        (interface for interface in network.interfaces if interface.is_up and held[interface.name]),
        key=lambda interface: ("inet" not in held[interface.name], interface.index),
    )
    for text in (value,) if is_set(value) else NCCL_DEFAULT_ORDER:
        patterns = parse_patterns(text)
        chosen = tuple(interface for interface in usable if patterns.accepts(interface.name))
        if chosen:
            return chosen[:NCCL_INTERFACE_LIMIT]
        if text == NCCL_DEFAULT_ORDER[0] and (hinted := _in_subnet_of(network, comm_id)):
            return hinted
    return ()


def gloo_interface(network: Network, identity: Identity, value: str = "") -> Interface:
    """The (first) interface Gloo takes; `value` is GLOO_SOCKET_IFNAME, "" where unset.

    Raises FactMissing where Gloo would fail or fall back to loopback because there is no address.
    """
    if is_set(value):
        return _named(network, value)
    address = present(identity.hostname_address, said("address of {hostname}", identity.hostname))
    return _holder(network, address)


def with_training_interface(
    network: Network,
    identity: Identity | Missing,
    environment: Environment | Missing,
    *,
    backend: Backend,
    reached_address: str,
    has_peers: bool = False,
) -> Network:
    """The network with `training` set to the interface that the job's collectives will use, or to why there is none.

    The backend's variable decides where it is set. Else the first in NCCL's default order, or for Gloo the interface of
    the node's own hostname; `reached_address` (at which we reached the node) settles what that leaves open. One that is
    loopback is none where there are peers: whatever would be advised from its address would lead each to itself.
    """
    try:
        if isinstance(environment, Missing):
            raise FactMissing("variables of the job", environment.missing, environment.kind)
        variables = {name: variable.value for name, variable in environment.variables.items()}
        if backend == "nccl":
            chosen = _for_nccl(network, variables)
        else:
            chosen = _for_gloo(network, identity, variables, reached_address)
        if has_peers and chosen.is_loopback:
            raise FactMissing(
                "training interface", said("the training interface is {name}: no peer can reach it", chosen.name)
            )
    except FactMissing as missing:
        return msgspec.structs.replace(network, training=Missing(missing.reason, missing.kind))
    return msgspec.structs.replace(network, training=chosen.name)


def _for_nccl(network: Network, variables: dict[str, str]) -> Interface:
    value = variables.get("NCCL_SOCKET_IFNAME", "")
    family, comm_id = variables.get("NCCL_SOCKET_FAMILY", ""), variables.get("NCCL_COMM_ID", "")
    matches = nccl_interfaces(network, value, socket_family=family, comm_id=comm_id)
    if not matches and is_set(value):
        raise FactMissing("training interface", _no_match("NCCL_SOCKET_IFNAME", value, network))
    if not matches:
        raise _none_usable(network)
    # NCCL's bootstrap takes the first, however well another one may do: what it takes is what has to be tried.
    return matches[0]


def _for_gloo(
    network: Network, identity: Identity | Missing, variables: dict[str, str], reached_address: str
) -> Interface:
    value = variables.get("GLOO_SOCKET_IFNAME", "")
    if is_set(value):
        return _named(network, value)
    own: Interface | None = None
    if isinstance(identity, Identity) and not isinstance(identity.hostname_address, Missing):
        own = _holder_or_none(network, identity.hostname_address)
    # Whoever names an interface for NCCL means it for the job, and forgot Gloo's own variable: on nodes without
    # GPUs it is the better guess, and a value that matches nothing leaves the node without a training interface.
    value = variables.get("NCCL_SOCKET_IFNAME", "")
    if is_set(value):
        wanted = nccl_interfaces(network, value, socket_family=variables.get("NCCL_SOCKET_FAMILY", ""))
        if not wanted:
            raise FactMissing("training interface", _no_match("NCCL_SOCKET_IFNAME", value, network))
        return own if own is not None and own in wanted else wanted[0]
    # A hostname of 127.0.1.1 is the names check's to blame; Debian gives it to every fresh machine.
    for candidate in (own, _holder_or_none(network, reached_address), *nccl_interfaces(network)[:1]):
        if candidate is not None and not candidate.is_loopback:
            return candidate
    loopbacks = [interface for interface in network.interfaces if interface.is_loopback and interface.is_up]
    if not loopbacks:
        raise _none_usable(network)
    return loopbacks[0]  # a machine without a network, as a cluster of one


def _named(network: Network, value: str) -> Interface:
    """The first of the interfaces that GLOO_SOCKET_IFNAME names; torch makes a device of each, so all must exist."""
    names = gloo_names(value)
    if not set(names) <= {interface.name for interface in network.interfaces}:
        raise FactMissing("training interface", _no_match("GLOO_SOCKET_IFNAME", value, network))
    return network.interface(names[0])


def _holder_or_none(network: Network, address: str) -> Interface | None:
    try:
        return _holder(network, address)
    except FactMissing:
        return None


def _holder(network: Network, address: str) -> Interface:
    """The interface of an address; every 127.x.x.x is the loopback interface's though it lists one."""
    wanted = _plain(address)
    for interface in network.interfaces:
        if any(_plain(held.address) == wanted for held in interface.addresses):
            return interface
        if interface.is_loopback and wanted is not None and wanted.is_loopback:
            return interface
    raise FactMissing(said("interface with address {address}", address), "no interface of this node has it")


@lru_cache(maxsize=1 << 16)
def _plain(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return mapped or parsed


def _families(interface: Interface, families: tuple[str, ...]) -> set[str]:
    """The families in which the interface has an address that peers can use."""
    return {
        held.family
        for held in interface.addresses
        if held.family in families
        and (parsed := _plain(held.address)) is not None
        and not parsed.is_link_local
        and not (held.family == "inet6" and parsed.is_loopback)
    }


def _none_usable(network: Network) -> FactMissing:
    return FactMissing("training interface", said("no interface is up with an address {has}", _has(network)), "absent")


def _has(network: Network) -> str:
    return said("(has {name})", ", ".join(interface.name for interface in network.interfaces) or "none")


def _no_match(variable: str, value: str, network: Network) -> str:
    return said("{variable}={value} matches no interface {has}", variable, value, _has(network))
