"""May a rule of a packet filter be about packets between two addresses, and how is it shown?"""

from __future__ import annotations

import re
from ipaddress import ip_address, ip_network

from preflight.said import knowing, said

# Of nft and of iptables-save: "not", which end, "not", addresses.
ADDRESSED = re.compile(r"(! )?(?:\bip6? |-)(saddr|daddr|s|d) (!= )?(\{[^}]*\}|\S+)")


def may_match(rule: str, source: str, target: str) -> bool:
    """Whether the addresses that a rule names, if any, leave packets between these two to it."""
    for before, end, behind, held in ADDRESSED.findall(rule):
        address = source if end[0] == "s" else target
        found = [_holds(piece, address) for piece in held.strip("{} ").split(",")]
        if None not in found and any(found) == bool(before or behind):
            return False
    return True


def shown(tool: str, node: str, place: str, rule: str) -> str:
    """A rule of a node as a message names it."""
    return knowing(said("{tool} on {name}, {place}: {rule}", tool, node, place, rule), about=tool)


def _holds(piece: str, address: str) -> bool | None:
    """Whether an address, a network or a range of a rule holds an address; None where it is of another kind."""
    first, _, last = piece.strip().partition("-")
    try:
        own = ip_address(address.partition("%")[0])
        if not last:
            return own in ip_network(first, strict=False)
        low, high = int(ip_address(first)), int(ip_address(last))
        return ip_address(first).version == own.version and low <= int(own) <= high
    except ValueError:  # the name of a set, or no address is known
        return None
