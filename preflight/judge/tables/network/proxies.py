"""Does no_proxy leave a peer out, by the rules that curl, requests and gRPC share?"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from preflight.facts.cluster import Cluster
from preflight.facts.node import NodeFacts
from preflight.knowledge.versions import is_within
from preflight.said import said
from preflight.said.errors import FactMissing

NAMES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
# gRPC reads these, and no other spelling: https://github.com/grpc/grpc/blob/master/doc/environment_variables.md
OF_GRPC = ("grpc_proxy", "https_proxy", "http_proxy")
USERS_OF_GRPC = ("etcd3", "grpcio")
# Ray's processes take no proxy (ray-project/ray#6744), its client since ray-project/ray#40490.
OLD_CLIENT = "<2.9"
OF_CLIENT = "ray://"
MOST_NAMED = 4


class Looked(NamedTuple):
    """The nodes that entries of no_proxy do not leave out, and those of which a lost name leaves that open."""

    caught: dict[str, NodeFacts]
    unsure: dict[str, FactMissing]


def look(no_proxy: str, cluster: Cluster) -> Looked:
    """Both for these entries; looked for once, for most nodes have the same ones."""
    return cluster.once(f"no_proxy={no_proxy}", lambda: _look(no_proxy, cluster))


def _look(no_proxy: str, cluster: Cluster) -> Looked:
    found = Looked({}, {})
    for node in cluster:
        try:
            # Either suffices, and an address needs no name.
            if not excepts(no_proxy, [node.address_for_peers()]) and not excepts(no_proxy, [node.identity.hostname]):
                found.caught[node.name] = node
        except FactMissing as missing:
            found.unsure[node.name] = missing.kept()
    return found


def caught(no_proxy: str, node: NodeFacts, cluster: Cluster) -> str:
    """The first peers of a node that these entries do not leave out, "any peer" for all of them, "" for none.

    Raises FactMissing where none is known to be caught, and a peer's lost name leaves it open.
    """
    found = look(no_proxy, cluster)
    count = len(found.caught) - (node.name in found.caught)
    if count == 0:
        for name in islice((one for one in found.unsure if one != node.name), 1):
            missing = found.unsure[name]
            raise FactMissing(said("hostname of {name}", name), missing.reason, missing.kind)
        return ""
    first = islice((name for name in found.caught if name != node.name), MOST_NAMED)
    return ", ".join(first) if count < len(cluster) - 1 else "any peer"


def caught_by_grpc(node: NodeFacts, cluster: Cluster) -> str:
    """The same for gRPC, which reads no capitals and no wildcards; "" where it uses no proxy, or nothing uses it."""
    uses = any(name in node.software.packages for name in USERS_OF_GRPC) or _has_old_client(node)
    if not uses or not any(node.value(name) for name in OF_GRPC):
        return ""
    return caught(_excepted_by_grpc(node), node, cluster)


def _has_old_client(node: NodeFacts) -> bool:
    return is_within(node.software.packages.get("ray", ""), OLD_CLIENT)


def _excepted_by_grpc(node: NodeFacts) -> str:
    excepted = node.value("no_grpc_proxy") or node.value("no_proxy")
    return ",".join(entry.strip() for entry in excepted.split(",") if "*" not in entry)


def of_ray_client(node: NodeFacts) -> str:
    """The head that Ray's client looks for through the proxy, as RAY_ADDRESS names it; "" where it takes none."""
    address = node.value("RAY_ADDRESS")
    if not address.startswith(OF_CLIENT) or not _has_old_client(node):
        return ""
    host = address.removeprefix(OF_CLIENT).rpartition(":")[0].strip("[]")
    taken = any(node.value(name) for name in OF_GRPC) and not excepts(_excepted_by_grpc(node), [host])
    return host if taken else ""


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
