"""Which commands raise limits?"""

from __future__ import annotations

import shlex
from collections.abc import Callable

from preflight.errors import FactMissing
from preflight.facts.cluster import Cluster
from preflight.facts.node import NodeFacts
from preflight.judge.commands.words import as_root, into_file

FILE = "/etc/security/limits.d/90-preflight.conf"
GIB = 1 << 30


def _limit(item: str, value: str) -> Callable[[NodeFacts, Cluster], tuple[str, str]]:
    def row(node: NodeFacts, cluster: Cluster) -> tuple[str, str]:
        del cluster
        return into_file(node, FILE, f"* soft {item} {value}", f"* hard {item} {value}"), "# then log in anew"

    return row


def _shared_memory(node: NodeFacts, cluster: Cluster) -> tuple[str, str]:
    del cluster
    if node.identity.context == "container":
        raise FactMissing("/dev/shm", "its size is set where the container starts")
    size = f"{max(node.identity.memory_bytes // 2 // GIB, 1)}g"
    now = as_root(node, "mount", "-o", f"remount,size={size}", "/dev/shm")
    return now, into_file(node, "/etc/fstab", f"tmpfs /dev/shm tmpfs defaults,size={size} 0 0")


def _leftovers(node: NodeFacts, cluster: Cluster) -> tuple[str, str]:
    del cluster
    if not node.limits.leftovers:
        raise FactMissing("leftovers", "there are none")
    return shlex.join(["rm", "-r", "--", *node.limits.leftovers]), ""


ROWS = {
    "limits.memlock_is_enough_for_rdma": _limit("memlock", "unlimited"),
    "limits.enough_files_may_be_open": _limit("nofile", "65536"),
    "limits.processes_may_be_started": _limit("nproc", "unlimited"),
    "limits.shared_memory_is_enough": _shared_memory,
    "limits.nothing_is_left_behind": _leftovers,
}
