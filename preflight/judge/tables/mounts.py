"""Which file systems of the network has a node not got that nearly all others have, or from another folder?

Servers are not compared: one that has many addresses gives each node another of them.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from preflight.facts.cluster import Cluster
from preflight.facts.node import NodeFacts
from preflight.facts.subjects.files import Mount
from preflight.said import said

FEW = 2  # times as many others: one of three nodes is odd, of two both are meant
MOST = 32  # a node tells no more of them
# What is mounted there follows the pods and containers that run.
OF_CONTAINERS = re.compile(r"/var/lib/(?:kubelet|docker|containers|containerd|rancher|k0s)/|/run/|/proc/|/sys/|/snap/")
OF_THE_MACHINE = ("9p", "virtiofs")  # a hypervisor's, under a name that it makes up


def differing(cluster: Cluster) -> dict[str, list[str]]:
    """Node -> what is wrong with its mounts."""
    known = cluster.gather(lambda node: node.files.mounts)
    held = {name: _judged(mounts) for name, mounts in known.items() if len(mounts) < MOST}
    told: defaultdict[str, list[str]] = defaultdict(list)
    for path in dict.fromkeys(path for mounts in held.values() for path in mounts):
        having = {name: mounts[path] for name, mounts in held.items() if path in mounts}
        lacking = [name for name in held if name not in having and not _serves(cluster[name], having.values())]
        is_automatic = any(mount.is_automatic for mount in having.values())
        if 0 < FEW * len(lacking) <= len(having) and not is_automatic:
            source = Counter(mount.source for mount in having.values()).most_common(1)[0][0]
            for name in lacking:
                told[name].append(
                    said("{path} is not mounted; {having} other nodes have {source} there", path, len(having), source)
                )
        for name, words in _from_elsewhere(path, having).items():
            told[name].append(words)
    return told


def _judged(mounts: Iterable[Mount]) -> dict[str, Mount]:
    return {mount.path: mount for mount in mounts if not OF_CONTAINERS.match(f"{mount.path}/")}


def _serves(node: NodeFacts, mounts: Iterable[Mount]) -> bool:
    """Whether a node is itself the server of a file system: it has the folder on a disk of its own."""
    named = {node.name, node.identity.hostname, node.identity.fqdn, *node.identity.hostname_addresses}
    named |= {held.address for one in node.network.interfaces for held in one.addresses}
    servers = {server for mount in mounts for server in re.split(r"[,@\[\]]", _parts(mount)[0])}
    short = {server.partition(":")[0] for server in servers}  # without its port
    return bool(named & (servers | short | {name.partition(".")[0] for name in short if not name[-1:].isdigit()}))


def _from_elsewhere(path: str, having: Mapping[str, Mount]) -> dict[str, str]:
    folders = {name: _parts(mount)[1] for name, mount in having.items() if mount.kind not in OF_THE_MACHINE}
    ordered = Counter(folders.values()).most_common(1)
    usual, count = ordered[0] if ordered else ("", 0)
    odd = {name: folder for name, folder in folders.items() if folder != usual}
    if not 0 < FEW * len(odd) <= count:
        return {}
    return {
        name: said("{path} is {folder} of its server; on {count} other nodes it is {usual}", path, folder, count, usual)
        for name, folder in odd.items()
    }


def _parts(mount: Mount) -> tuple[str, str]:
    """The servers, and what they give away: `filer:/data`, `10.0.0.1@o2ib:10.0.0.2@o2ib:/scratch`, `//filer/data`."""
    if mount.source.startswith("//"):
        servers, _, folder = mount.source[2:].partition("/")
    else:
        servers, _, folder = mount.source.rpartition(":/")
        if not servers:
            return "", mount.source
    return servers, f"/{folder}"
