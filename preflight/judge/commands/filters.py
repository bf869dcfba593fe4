"""Which command makes a packet filter let the nodes' own connections in?

The rule that drops them stays: what it is for is not ours to know. Ahead of it goes one that accepts what nodes of the
training subnet send each other, in either direction, so that the same words serve incoming and outgoing packets.
"""

from __future__ import annotations

import ipaddress
import re
import shlex

from preflight.judge.commands.words import Case, Remedy, Row, sudo
from preflight.said.errors import FactMissing

NAME = re.compile(r"[A-Za-z0-9_.-]+")
FAMILIES = {"inet": (4, 6), "ip": (4,), "ip6": (6,)}


def _subnet(case: Case) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    """The subnet that all nodes train in."""
    subnets = case.once("training subnets", lambda: {node.network.training_interface.subnet() for node in case.cluster})
    subnet, *others = subnets
    if others:
        raise FactMissing("subnet", "the nodes train in several")
    return ipaddress.ip_network(subnet)


def _let_in(case: Case) -> Remedy:
    """One more rule at the head of the chain that holds the one that was found, unless it is there."""
    if case.value("name") != case.node.name:
        raise FactMissing("rule", "no rule of this node is known")
    tool, place = case.value("about"), case.value("place")
    subnet, root = _subnet(case), sudo(case.node)
    words = place.split()
    if not all(map(NAME.fullmatch, words)):
        raise FactMissing("chain", f"{place} is no name of one")
    if tool == "ufw":
        way = "out to" if "output" in place else "from"
        return Remedy(f"{root}ufw prepend allow {way} {subnet}")
    if tool == "firewalld":
        at = f"--zone=trusted --add-source={subnet}"
        return Remedy(f"{root}firewall-cmd {at}", f"{root}firewall-cmd --permanent {at}")
    lasting = "# to last: the same rule in the file that the firewall is loaded from, ahead of the one that drops"
    if tool == "nft":
        return Remedy(_by_nft(words, subnet, root), lasting)
    table, chain = (["-t", words[0]], words[1]) if len(words) == 2 else ([], words[0])
    program = shlex.join(["iptables" if subnet.version == 4 else "ip6tables", *table])
    rule = f"{chain} -s {subnet} -d {subnet} -j ACCEPT"
    return Remedy(f"{root}{program} -C {rule} 2>/dev/null || {root}{program} -I {rule}", lasting)


def _by_nft(words: list[str], subnet: ipaddress.IPv4Network | ipaddress.IPv6Network, root: str) -> str:
    if len(words) != 3 or subnet.version not in FAMILIES.get(words[0], ()):
        raise FactMissing("chain", f"{' '.join(words)} is none that reads such addresses")
    family = "ip" if subnet.version == 4 else "ip6"
    rule, chain = f"{family} saddr {subnet} {family} daddr {subnet} accept", " ".join(words)
    held = f"{root}nft list chain {chain} | grep -qF {shlex.quote(rule)}"
    return f"{held} || {root}nft insert rule {chain} {rule}"


def _let_in_itself(case: Case) -> Remedy:
    """The same where all addresses at which the node does not reach itself are of that subnet."""
    subnet = _subnet(case)
    if not all(ipaddress.ip_address(one.address) in subnet for one in case.node.network.unreached):
        raise FactMissing("rule", "packets between other addresses are dropped too")
    return _let_in(case)


ROWS: dict[str, Row] = {
    f"{check}: {tool}": row
    for check, row in (
        ("mesh.every_node_reaches_every_other_on_random_ports", _let_in),
        ("mesh.every_node_reaches_the_port_of_rank_0", _let_in),
        ("names.every_node_reaches_itself", _let_in_itself),
    )
    for tool in ("nft", "iptables", "ufw", "firewalld")
}
