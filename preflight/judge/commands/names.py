"""Which commands put hostnames and /etc/hosts right?"""

from __future__ import annotations

import re

from preflight.errors import FactMissing
from preflight.facts.cluster import Cluster
from preflight.facts.node import NodeFacts
from preflight.judge.commands.words import as_root, into_file

HOSTNAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*")
LOOPBACK_LINE = r"127\.[0-9.]*|::1"


def _own_name(node: NodeFacts, cluster: Cluster) -> tuple[str, str]:
    """The name as HOSTS has it, where it is one and nobody else is called so."""
    wanted = node.name.rpartition("@")[2].partition(":")[0]
    taken = {other.identity.hostname for other in cluster if other.name != node.name}
    if not HOSTNAME.fullmatch(wanted) or wanted.replace(".", "").isdigit() or wanted in taken:
        raise FactMissing("hostname", f"{node.name} is no name for a node")
    return as_root(node, "hostnamectl", "set-hostname", wanted), ""


def _own_line(node: NodeFacts, cluster: Cluster) -> tuple[str, str]:
    """The node's line of /etc/hosts with the address that its peers use."""
    del cluster
    name, address = node.identity.hostname, node.address_for_peers()
    if not HOSTNAME.fullmatch(name) or name.partition(".")[0] == "localhost":
        raise FactMissing("hostname", f"{name} is no name for a line of /etc/hosts")
    script = f"s/^({LOOPBACK_LINE})([[:space:]].*\\b{re.escape(name)}\\b.*)$/{address}\\2/"
    if not re.fullmatch(r"[0-9A-Fa-f.:]+", address):
        raise FactMissing("address", f"{address} is no address for /etc/hosts")
    return as_root(node, "sed", "-i.bak", "-E", script, "/etc/hosts"), ""


def _peers(node: NodeFacts, cluster: Cluster) -> tuple[str, str]:
    """A line of /etc/hosts for each peer whose name gives nothing."""
    lines = []
    for route in node.peers.routes:
        peer = cluster[route.name].identity.hostname if route.name in {other.name for other in cluster} else ""
        if not route.resolved and HOSTNAME.fullmatch(peer):
            lines.append(f"{route.address} {peer}")
    if not lines:
        raise FactMissing("peers", "every name gives an address")
    return into_file(node, "/etc/hosts", *lines), ""


ROWS = {
    "names.own_hostname_is_not_localhost": _own_name,
    "names.hostnames_are_unique": _own_name,
    "names.own_hostname_is_not_loopback": _own_line,
    "names.peers_can_be_resolved": _peers,
}
