"""What does a node report of its interfaces, its ports and its ways to the others?"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from functools import lru_cache
from typing import Literal

from preflight.facts.value import Count, Device, Missing, Port, Text, Value, must_be_addresses, present
from preflight.said import said
from preflight.said.errors import BlockedBy, FactMissing

NO_RATE = "no rate reported"


@lru_cache(maxsize=1 << 16)
def is_loopback(address: str) -> bool:
    """Whether an address leads back to the machine that asks."""
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


def _is_link_local(address: str) -> bool:
    return address.lower().startswith(("fe80:", "169.254."))


class Address(Value, frozen=True):
    """An address of an interface."""

    address: Text
    prefix_length: Count
    family: Literal["inet", "inet6"]

    def __post_init__(self) -> None:
        must_be_addresses(self.address)
        family, longest = ("inet6", 128) if ":" in self.address else ("inet", 32)
        if self.family != family or self.prefix_length > longest:
            raise ValueError(
                said(
                    "{address}/{prefix_length} is not a network of {family}",
                    self.address,
                    self.prefix_length,
                    self.family,
                )
            )


class Interface(Value, frozen=True, kw_only=True):
    """A network interface as the kernel of the node's own network namespace reports it."""

    name: Device
    index: Count
    addresses: tuple[Address, ...]
    mtu: Count
    speed_mbps: Count  # 0 where the driver reports none
    is_up: bool
    is_loopback: bool
    is_physical: bool | Missing  # has a /sys/class/net/<name>/device
    # How often the link went up or down since the interface exists.
    carrier_changes: Count | Missing = Missing("not reported", "absent")
    duplex: Text | Missing = Missing("not reported", "absent")  # "half": only one end of the link sends at a time
    mac: Text | Missing = Missing("not reported", "absent")
    # Of the PCIe link: how many it has, and how many the adapter and its slot could have.
    lanes: tuple[Count, Count] | Missing = Missing("not reported", "absent")
    queue: Text | Missing = Missing("not reported", "absent")  # the qdisc at its root: "mq", "fq_codel", "tbf"
    shaping: Text | Missing = Missing("not reported", "absent")  # all its qdiscs, with rates: "tbf 50 Mbit/s"
    offloads: tuple[Text, ...] | Missing = Missing("not reported", "absent")  # those of tso, gso and gro that are on

    def holds_any(self, addresses: Iterable[str]) -> bool:
        """Whether the interface has one of `addresses`."""
        return bool({held.address for held in self.addresses} & set(addresses))

    def families(self) -> frozenset[str]:
        """The address families in which peers can reach the interface: IPv4, IPv6."""
        families = (("inet", "IPv4"), ("inet6", "IPv6"))
        held = {address.family for address in self.addresses if not _is_link_local(address.address)}
        return frozenset(name for family, name in families if family in held)

    def subnet(self) -> str:
        """The subnet of the address that peers connect to: "10.0.0.0/24"."""
        wanted = self.address()
        (prefix,) = {held.prefix_length for held in self.addresses if held.address == wanted}
        return str(ipaddress.ip_interface(f"{wanted.partition('%')[0]}/{prefix}").network)

    def rate_text(self) -> str:
        """The link rate as a message says it; a port that reports none differs from one that does."""
        try:
            return f"{self.rate_mbps()} Mbit/s"
        except FactMissing as missing:
            if missing.kind != "absent":
                raise
            return NO_RATE

    def address(self, *families: Literal["inet", "inet6"]) -> str:
        """The first address that is not link-local, of these families in this order; IPv4 before IPv6 without any."""
        wanted = families or ("inet", "inet6")
        for family in wanted:
            for address in self.addresses:
                if address.family == family and not _is_link_local(address.address):
                    return address.address
        raise FactMissing(said("{wanted} address of {name}", wanted[-1], self.name), "the interface has none", "absent")

    @property
    def reports_rate(self) -> bool:
        """Whether it is a real device that reports its speed."""
        return self.is_physical is True and self.speed_mbps > 0

    def rate_mbps(self) -> int:
        """The link rate: only a real device's figure above 0 is one (veth says 10000 and means nothing)."""
        if not present(self.is_physical, said("device of {name}", self.name)):
            raise FactMissing(said("rate of {name}", self.name), "not a hardware interface", "absent")
        if self.speed_mbps == 0:
            raise FactMissing(said("rate of {name}", self.name), "the driver reports no speed", "absent")
        return self.speed_mbps


class Gateway(Value, frozen=True):
    """A default route."""

    interface: Text
    address: Text
    family: Literal["inet", "inet6"]

    def __post_init__(self) -> None:
        must_be_addresses(self.address)


class Rule(Value, frozen=True):
    """A rule of the node's packet filter: whose it is, the chain that holds it, its words."""

    tool: Literal["nft", "iptables", "ufw", "firewalld"]
    place: Text
    rule: Text


class Unreached(Value, frozen=True):
    """An address of the node at which a connection of the node to itself failed."""

    address: Text
    why: Text
    rules: tuple[Rule, ...] = ()  # of its packet filter, that may be why

    def __post_init__(self) -> None:
        must_be_addresses(self.address)


class Network(Value, frozen=True, kw_only=True):
    """Interfaces, default gateways and the ephemeral port range (inclusive)."""

    interfaces: tuple[Interface, ...]
    gateways: tuple[Gateway, ...]
    ephemeral_ports: tuple[Port, Port]
    rate_limits: Text | Missing = Missing("not reported", "absent")  # rules of the packet filter that hold to a rate
    reserved_ports: Count | Missing = Missing(
        "not reported", "absent"
    )  # of the ephemeral range, never assigned by the kernel
    unreached: tuple[Unreached, ...] = ()  # its own addresses at which the node does not reach itself
    # Filled in by the controller from the job's variables (facts.selection), never sent by a node.
    training: Text | Missing = Missing("not chosen yet")

    def interface(self, name: str) -> Interface:
        """The interface of that name."""
        for interface in self.interfaces:
            if interface.name == name:
                return interface
        raise FactMissing(said("interface {name}", name), "not on this node", "absent")

    @property
    def training_interface(self) -> Interface:
        """The interface that the job's collectives will use."""
        if isinstance(self.training, Missing):
            raise BlockedBy("network.training_interface_exists", detail=self.training.missing)
        return self.interface(self.training)

    def ports_kept_back(self) -> int:
        """How many ports of the ephemeral range are reserved."""
        is_reported = not isinstance(self.reserved_ports, Missing) or self.reserved_ports.kind != "absent"
        return present(self.reserved_ports, "reserved ports") if is_reported else 0

    def loopback_trouble(self) -> str:
        """Why the node cannot reach itself, "" where no reason is known."""
        down = [interface.name for interface in self.interfaces if interface.is_loopback and not interface.is_up]
        return (
            said("{down} is down: nothing on this node reaches 127.0.0.1 or the node's own address", down[0])
            if down
            else ""
        )

    def bare_loopback(self) -> str:
        """The loopback interface that has lost 127.0.0.1, "" where none has."""
        loopback = (interface for interface in self.interfaces if interface.is_loopback and interface.is_up)
        return next(
            (
                one.name
                for one in loopback
                if not any(is_loopback(held.address) for held in one.addresses if held.family == "inet")
            ),
            "",
        )

    def first_address(self) -> str:
        """What `hostname -I` prints first: the first IPv4 address that is not loopback, in the interfaces' order."""
        for interface in self.interfaces:
            if interface.is_up and not interface.is_loopback:
                for address in interface.addresses:
                    if address.family == "inet":
                        return address.address
        raise FactMissing("first address", "no interface has an IPv4 address", "absent")

    def training_trouble(self) -> str:
        """Why peers cannot reach this node on its training interface, "" where nothing is known against it."""
        if isinstance(self.training, Missing):
            return self.training.missing
        held = self.interface(self.training)
        if held.families():
            return ""
        if not held.addresses:
            return said("{training} has no address: none was set, or no DHCP server answered", self.training)
        addresses = ", ".join(address.address for address in held.addresses)
        return said(
            "{training} has link-local addresses only ({addresses}): none was set, or no DHCP server answered",
            self.training,
            addresses,
        )

    def holds_any(self, addresses: Iterable[str], *, reachable: bool = False) -> bool:
        """Whether an interface of this node has one of `addresses`; `reachable` leaves loopback out."""
        held = {held.address.partition("%")[0] for interface in self.interfaces for held in interface.addresses}
        wanted = {address.partition("%")[0] for address in addresses}
        # Every 127.x.x.x leads to the node itself, though its loopback interface lists one only.
        return any(not reachable if is_loopback(address) else address in held for address in wanted)

    def strays(self, addresses: Iterable[str]) -> tuple[str, ...]:
        """Those of `addresses` at which a peer does not find this node."""
        return tuple(address for address in addresses if not self.holds_any([address], reachable=True))

    @property
    def reachable_addresses(self) -> frozenset[str]:
        """Every address of the node that is not loopback."""
        every = {held.address for interface in self.interfaces for held in interface.addresses}
        return frozenset(address for address in every if not is_loopback(address))
