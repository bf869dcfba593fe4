"""Does no_proxy leave a peer out, by the rules that curl, requests and gRPC share?"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from preflight.facts.cluster import Cluster

NAMES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


def caught(no_proxy: str, cluster: Cluster) -> list[str]:
    """The nodes that these entries do not leave out; looked for once, for most nodes have the same entries."""
    key = f"no_proxy={no_proxy}"
    if key not in cluster.worked_out:
        cluster.worked_out[key] = "\n".join(
            node.name for node in cluster if not excepts(no_proxy, {node.address_for_peers(), node.identity.hostname})
        )
    return cluster.worked_out[key].splitlines()


def excepts(no_proxy: str, names: Iterable[str]) -> bool:
    """Whether an entry covers one of a peer's names or addresses: *, a name, the end of a name, a network."""
    entries = [entry.strip().lower() for entry in no_proxy.replace(" ", ",").split(",") if entry.strip()]
    return any(_covers(entry, name.lower()) for entry in entries for name in names)


def _covers(entry: str, name: str) -> bool:
    if entry in ("*", name):
        return True
    if "/" in entry:
        try:
            return ipaddress.ip_address(name) in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    return name.endswith("." + entry.lstrip("*").lstrip("."))
