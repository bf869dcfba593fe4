"""What does a node find when it looks for the others: names, routes, round trips?"""

from __future__ import annotations

from preflight.facts.value import Count, Missing, Seconds, Text, Value, must_be_addresses, present
from preflight.said import said


class Route(Value, frozen=True):
    """How one peer is reached from the node: what its name gives here and where packets leave."""

    name: Text
    address: Text  # the peer's training address, as the controller sent it
    resolved: tuple[Text, ...]  # what the peer's own hostname resolves to here
    resolved_fqdn: tuple[Text, ...]
    interface: Text | Missing
    source: Text | Missing
    reverse: Text | Missing = Missing("not asked", "absent")  # the name that the address has here; absent: none
    reverse_addresses: tuple[Text, ...] = ()  # what that name resolves to here
    reverse_seconds: Seconds | Missing = Missing("not asked", "absent")
    # The same for ::ffff:<address>, as a store that listens on both families sees a peer; asked where rank 0 runs.
    accepted_seconds: Seconds | Missing = Missing("not asked", "absent")
    mtu: Count | Missing = Missing("not asked", "absent")  # of packets to the peer, as the route or a router cuts them
    card: Text | Missing = Missing("not among the neighbors", "absent")  # the hardware address that it is sent to
    is_written: bool = False  # by hand, and for good: no answer of the peer changes it
    refused: Text = ""  # what the kernel has in place of a route to the peer

    def __post_init__(self) -> None:
        must_be_addresses(*self.resolved, *self.resolved_fqdn, *self.reverse_addresses)

    def leaves_by(self) -> str:
        """The interface that packets to the peer leave by; "" where the kernel has no route to it."""
        if isinstance(self.interface, Missing) and self.interface.kind == "absent":
            return ""
        return present(self.interface, said("route to {name}", self.name))


class Peers(Value, frozen=True, kw_only=True):
    """The routes to every other node, and the ports this node was asked to bind."""

    routes: tuple[Route, ...]
    master_addresses: tuple[Text, ...] | Missing  # what MASTER_ADDR resolves to here
    master_port_error: Text  # "" when the bind succeeded or was not asked
    master_port_holder: Text  # program and pid that hold it, "" when free or unknown

    def __post_init__(self) -> None:
        if not isinstance(self.master_addresses, Missing):
            must_be_addresses(*self.master_addresses)

    def slow_lookups(self, limit_seconds: float) -> dict[str, float]:
        """The peers whose address took longer than that to be turned into a name."""
        seconds = {route.name: route.reverse_seconds for route in self.routes}
        return {name: taken for name, taken in seconds.items() if isinstance(taken, float) and taken > limit_seconds}

    def slow_when_accepted(self, limit_seconds: float) -> dict[str, float]:
        """The peers' addresses, in the form in which rank 0's store sees them, that took longer than that."""
        seconds = {f"::ffff:{route.address} ({route.name})": route.accepted_seconds for route in self.routes}
        return {name: taken for name, taken in seconds.items() if isinstance(taken, float) and taken > limit_seconds}

    def addresses_of_master(self) -> tuple[str, ...]:
        """What MASTER_ADDR resolves to on this node; empty where it knows no such name, or its resolver fails."""
        held = self.master_addresses
        if isinstance(held, Missing) and "name resolution" in held.missing:  # "[Errno -3] Temporary failure in ..."
            return ()
        return present(self.master_addresses, "address of MASTER_ADDR")
