"""Which machine is this, and what does it call itself?"""

from __future__ import annotations

import re

from preflight.facts.subjects.network import Network, is_loopback
from preflight.facts.value import Count, Missing, Text, Value, must_be_addresses, present
from preflight.said import said
from preflight.said.errors import BlockedBy

PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


class Identity(Value, frozen=True, kw_only=True):
    """Who the node says it is, and what its own names resolve to there."""

    hostname: Text
    fqdn: Text
    boot_id: Text
    kernel: Text
    machine: Text
    cpu_count: Count
    memory_bytes: Count
    user_id: Count
    hostname_address: Text | Missing  # the first of the hostname's that can be bound there, which gloo takes
    hostname_addresses: tuple[Text, ...]  # every address getaddrinfo gives for the hostname, in its order
    # Those of the full name, which torchrun tells the ranks to meet at.
    fqdn_addresses: tuple[Text, ...] | Missing = Missing("not reported", "absent")
    # Every address getaddrinfo gives for "localhost"; none where the name is unknown there.
    localhost_addresses: tuple[Text, ...] | Missing = Missing("not reported", "absent")
    context: Text  # where limits and environment were read: ssh, local, container, slurm

    def __post_init__(self) -> None:
        first = () if isinstance(self.hostname_address, Missing) else (self.hostname_address,)
        local = () if isinstance(self.localhost_addresses, Missing) else self.localhost_addresses
        full = () if isinstance(self.fqdn_addresses, Missing) else self.fqdn_addresses
        must_be_addresses(*first, *self.hostname_addresses, *full, *local)

    @property
    def has_plain_name(self) -> bool:
        """Whether the hostname is one that a line of /etc/hosts can hold: a kernel takes any bytes for a name."""
        return PLAIN_NAME.fullmatch(self.hostname) is not None

    @property
    def own_address(self) -> str:
        """What gloo would offer to its peers: the address of the node's own hostname."""
        if isinstance(self.hostname_address, Missing) and not self.hostname_addresses:
            raise BlockedBy("names.own_hostname_is_an_address_of_the_node", detail=self.hostname_address.missing)
        return present(self.hostname_address, "address of the node's own hostname")

    @property
    def offered_family(self) -> str:
        """The family of that address; "" where the name leads to no other machine's way here."""
        address = "" if isinstance(self.hostname_address, Missing) else self.hostname_address
        return "" if not address or is_loopback(address) else "IPv6" if ":" in address else "IPv4"

    @property
    def wrong_localhost(self) -> str:
        """What is wrong with the name localhost there, "" where it leads to the node itself and nowhere else."""
        addresses = present(self.localhost_addresses, "address of localhost")
        wrong = [address for address in addresses if not is_loopback(address)]
        if not addresses:
            return "localhost does not resolve there"
        return said("localhost is {wrong} there, which is no loopback address", ", ".join(wrong)) if wrong else ""

    def lost_addresses(self, network: Network) -> tuple[str, ...]:
        """What the node's own hostname leads to there, where none of it is one of the node's own addresses."""
        return () if network.holds_any(self.hostname_addresses) else self.hostname_addresses

    @property
    def is_named_loopback(self) -> bool:
        """Whether the node's own hostname leads, on that node, nowhere but to itself."""
        return not isinstance(self.hostname_address, Missing) and is_loopback(self.hostname_address)
