"""Which commands put interfaces and routes right?"""

from __future__ import annotations

from preflight.errors import FactMissing
from preflight.facts.cluster import Cluster
from preflight.facts.node import NodeFacts
from preflight.judge.commands.words import as_root, of_the_others


def _mtu(node: NodeFacts, cluster: Cluster) -> tuple[str, str]:
    interface = node.network.training_interface
    wanted = of_the_others(node, cluster, lambda other: other.network.training_interface.mtu, "mtu of the others")
    if interface.mtu == wanted:
        raise FactMissing("mtu", "it has that of the others")
    now = as_root(node, "ip", "link", "set", "dev", interface.name, "mtu", str(wanted))
    return now, f"# to last: mtu {wanted} of {interface.name} in netplan, NetworkManager or systemd-networkd"


def _gateway(node: NodeFacts, cluster: Cluster) -> tuple[str, str]:
    def first(other: NodeFacts) -> str:
        for gateway in other.network.gateways:
            if gateway.family == "inet":
                return gateway.address
        raise FactMissing("default route", "there is none", "absent")

    wanted = of_the_others(node, cluster, first, "gateway of the others")
    return as_root(node, "ip", "route", "add", "default", "via", wanted), ""


ROWS = {
    "network.mtu_is_the_same_on_every_node": _mtu,
    "network.default_routes_are_alike": _gateway,
}
