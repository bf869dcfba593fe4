"""Which node has which ranks of a job, and which variables does it need?"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from preflight.said import said
from preflight.said.errors import FactMissing, UsageError

if TYPE_CHECKING:
    from preflight.facts.cluster import Cluster
    from preflight.facts.node import NodeFacts

HEAD = "#!/bin/bash\n"
PORTS = range(29500, 29600)
# What a node calls its interfaces, adapters and addresses ends in files that other nodes run, some of them unquoted.
NAMES = re.compile(r"[A-Za-z0-9_.,:=@%-]+")


@dataclass(frozen=True)
class Layout:
    """What all writers of launch files need: each node's ranks, and where rank 0 listens."""

    nodes: tuple[NodeFacts, ...]
    processes: tuple[int, ...]
    address: str
    port: int
    folder: str
    program: tuple[str, ...]
    like: str
    has_gpus: bool
    python: str  # the interpreter that was asked for; "" leaves it to each node's PATH
    start_in: str  # where the program's own path begins; over ssh a script starts in the home of the user

    @property
    def enter(self) -> str:
        """The line of a script that enters that folder, or ends it: nothing else says which train.py is meant."""
        return f"cd {shlex.quote(self.start_in)} || exit 1\n" if self.start_in else ""

    @property
    def head(self) -> str:
        """The first lines of a script."""
        return HEAD + self.enter

    @property
    def world(self) -> int:
        """All processes."""
        return sum(self.processes)

    def first_rank(self, index: int) -> int:
        """The rank of a node's first process."""
        return sum(self.processes[:index])

    def command(self, program: str, module: str = "") -> list[str]:
        """How a program of the job's environment is called: by its interpreter where one was asked for."""
        return [self.python, *(["-m", module] if module else [])] if self.python else [program]

    def path(self, name: str) -> str:
        """A file of ours as it is called on the nodes."""
        return os.path.join(self.folder, name)


def layout_of(
    cluster: Cluster,
    folder: str,
    program: tuple[str, ...],
    like: str,
    *,
    equal_ranks: bool,
    python: str,
    start_in: str,
) -> Layout:
    """The layout of a job on the nodes of a cluster, with `equal_ranks` the same number of them on every node."""
    gpus = tuple(node.gpu_count() for node in cluster)
    alone = 2 if len(cluster) == 1 else 1
    processes = tuple(node.slots or count or alone for node, count in zip(cluster, gpus, strict=True))
    if equal_ranks:
        processes = (min(processes),) * len(processes)
    first = cluster.nodes[0]
    address = address_of(first) if len(cluster) > 1 else "127.0.0.1"
    return Layout(
        cluster.nodes,
        processes,
        address,
        _free_port(first),
        folder,
        program or ("train.py",),
        like,
        any(gpus),
        python,
        start_in,
    )


def address_of(node: NodeFacts) -> str:
    """The address of a node for its peers, as a file may hold it. Raises UsageError where it is none."""
    return _harmless(node, node.address_for_peers())


def _harmless(node: NodeFacts, name: str) -> str:
    """The name, where it is one: a node that lies must not put commands into what is started on all."""
    if not NAMES.fullmatch(name):
        raise UsageError(
            said("{name} has {ascii}: no launch file is written with such a name", node.name, ascii(name)[:80])
        )
    return name


def _free_port(node: NodeFacts) -> int:
    low: int
    high: int
    try:
        taken = {listener.port for listener in node.ports.listeners}
        low, high = node.network.ephemeral_ports
    except FactMissing:
        return PORTS.start
    candidates: tuple[int, ...] = (*PORTS, *range(20000, 21000), *range(5000, 6000))
    for port in candidates:
        if port not in taken and not low <= port <= high:
            return port
    raise UsageError(said("no free port for rank 0 on {name}: name one in the files yourself", node.name))


def variables(node: NodeFacts) -> dict[str, str]:
    """The NCCL and Gloo variables that this node needs."""
    from preflight.facts import fabric  # decodes facts: not for --help, which lists the launchers

    found: dict[str, str] = {}
    try:
        interface = node.network.training_interface
    except FactMissing:
        return found
    if interface.is_loopback:
        return found
    found["NCCL_SOCKET_IFNAME"] = f"={_harmless(node, interface.name)}"  # exact: eth1 alone would take eth10 too
    found["GLOO_SOCKET_IFNAME"] = interface.name
    try:
        active = [hca for hca in fabric.hcas(node.rdma) if hca.is_active]
    except FactMissing:
        return found
    if active:
        found["NCCL_IB_HCA"] = "=" + ",".join(_harmless(node, hca.name) for hca in active)
    try:
        rows = {fabric.best_gid(hca.port, node.network).index for hca in active if hca.port.link_layer == "Ethernet"}
    except FactMissing:
        return found
    if len(rows) == 1:
        found["NCCL_IB_GID_INDEX"] = str(rows.pop())
    return found


def exports(values: Mapping[str, str]) -> str:
    """The lines of a script that set these variables for what it starts."""
    lines = []
    for name, value in values.items():
        lines += [f"# {NOTES[name]}\n"] if name in NOTES and value.startswith("=") else []
        lines.append(said("export {name}={quoted}\n", name, _quoted(value)))
    return "".join([*lines, DEBUG] if values else lines)


NOTES = {
    "NCCL_SOCKET_IFNAME": "= in front takes this interface alone; without it eth1 takes eth10 too",
    "NCCL_IB_HCA": "= in front takes these adapters alone",
}
DEBUG = (
    "# For a first, small test: the log then says which interfaces and adapters NCCL takes.\n# export NCCL_DEBUG=INFO\n"
)


def _quoted(value: str) -> str:
    return f"'{value}'" if value.startswith("=") and shlex.quote(value) == value else shlex.quote(value)


def file_name(layout: Layout, index: int) -> str:
    """A part of a file's name: a host's name with nothing in it that a shell or a file system would take."""
    return "".join(letter if letter.isalnum() or letter in ".-_" else "-" for letter in layout.nodes[index].name)


def shared_launch(layout: Layout) -> dict[str, str]:
    """The variables that have one value on all nodes."""
    each = [variables(node) for node in layout.nodes]
    return {name: value for name, value in each[0].items() if all(found.get(name) == value for found in each)}
