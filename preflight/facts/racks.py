"""Below which switch, in which rack or block is each node, as the site itself says?

Read from Slurm (``scontrol show topology``, topology.conf, topology.yaml), from the labels of Kubernetes' nodes, or
from a user's file of lines ``r7: node[01-16]``. A node that nothing is said of has none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from preflight.reach.host import Host
from preflight.reach.hosts import parse_hosts
from preflight.reach.transport.kubernetes import WRITTEN
from preflight.said import said
from preflight.said.errors import UsageError

SIZE_LIMIT_BYTES = 16 << 20
NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
# What is asked where nobody names a file, by the transport of the nodes; each prints at once, and asks no node.
ASKED: Mapping[str, tuple[str, ...]] = {
    "slurm": ("scontrol", "show", "topology"),
    "k8s": (
        *("kubectl", "get", "nodes", "--request-timeout=10s"),
        r'--output=jsonpath={range .items[*]}{.metadata.name}{"\t"}{.metadata.labels}{"\n"}{end}',
    ),
}
# The switch next to a node, as NVIDIA's topograph, clouds and sites label it, nearest first; NVLink's domain last.
LABELS = (
    ("switch", "network.topology.nvidia.com/tier-0"),
    ("switch", "network.topology.nvidia.com/leaf"),
    ("switch", "network.topology.nvidia.com/block"),
    ("switch", "topology.k8s.aws/network-node-layer-4"),
    ("switch", "topology.k8s.aws/network-node-layer-3"),
    ("block", "cloud.google.com/gce-topology-subblock"),
    ("block", "oci.oraclecloud.com/rdma.local_block_id"),
    ("rack", "oci.oraclecloud.com/host.rack_id"),
    ("rack", "topology.kubernetes.io/rack"),
    ("rack", "rack"),
    ("NVLink domain", "network.topology.nvidia.com/accelerator"),
    ("NVLink domain", "nvidia.com/gpu.clique"),
)
SLURM = re.compile(r"(?im)^[ \t]*(?P<kind>Switch|Block)Name=(?P<name>[A-Za-z0-9_.-]+)[ \t](?P<rest>.*)$")
NODES = re.compile(r"\bNodes=(\S+)", re.IGNORECASE)
UPPER = re.compile(r"\bSwitches=\S|\bLevel=[1-9]", re.IGNORECASE)  # a switch of switches, whose nodes are below others
LINE = re.compile(r"(?P<name>[A-Za-z0-9_.-]+)[ \t]*[:=][ \t]*(?P<nodes>\S.*)")
Racks = Mapping[str, str]  # node -> "switch s7", as people call it


def read_topology(path: str) -> Racks:
    """The racks of a user's file. Raises UsageError where it cannot be read, or names no node."""
    try:
        with Path(path).open("rb") as stream:
            text = stream.read(SIZE_LIMIT_BYTES).decode("utf-8-sig")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(said("--topology {path}: cannot be read: {reason}", path, reason)) from None
    found = parse_topology(text, where=f"--topology {path}")
    if not found:
        raise UsageError(
            said(
                "--topology {path}: no node in it; wanted Slurm's topology.conf, or lines such as r7: node[01-16]", path
            )
        )
    return found


def parse_topology(text: str, *, where: str = "topology") -> Racks:
    """Node -> its rack, of Slurm's topology.conf, topology.yaml or `scontrol show topology`, or of lines ``r7: nodes``.

    Raises UsageError, which begins with `where`, for a set of nodes that is none.
    """
    text = re.sub(r"\\\n", " ", text)
    if SLURM.search(text):
        rows = _of_slurm(text)
    elif re.search(r"(?m)^[ \t]*(?:-[ \t]*)?(?:topology|tree|block|switches|blocks):", text):
        rows = _of_yaml(text, where)
    else:
        rows = _of_lines(text, where)
    racks: dict[str, str] = {}
    for rack, nodes in rows:
        try:
            racks.update(dict.fromkeys((host.name for host in parse_hosts(nodes)), rack))
        except UsageError as error:
            raise UsageError(
                said("{where}: {rack}: {removeprefix}", where, rack, str(error).removeprefix("--hosts: "))
            ) from None
    return racks


def _of_slurm(text: str) -> Iterator[tuple[str, str]]:
    for found in SLURM.finditer(text):
        nodes = NODES.search(found["rest"])
        if nodes and not UPPER.search(found["rest"]):
            yield f"{found['kind'].lower()} {found['name']}", nodes[1]


def _of_yaml(text: str, where: str) -> Iterator[tuple[str, str]]:
    """Of every switch and block that has nodes itself."""
    import yaml  # 20 ms, for a form that few have

    try:
        whole = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError):
        raise UsageError(said("{where}: no YAML as Slurm's topology.yaml", where)) from None
    held = [whole]
    seen: set[int] = set()  # an alias may lead back to what holds it
    while held:
        value = held.pop(0)
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, dict):
            for kind in ("switch", "block"):
                if isinstance(value.get(kind), str) and isinstance(value.get("nodes"), str):
                    yield f"{kind} {value[kind]}", value["nodes"]
            held += value.values()
        elif isinstance(value, list):
            held += value


def _of_lines(text: str, where: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].strip()
        found = LINE.fullmatch(words)
        if words and found is None:
            raise UsageError(
                said(
                    "{where}:{number}: {words!a}: wanted a rack and its nodes, such as r7: node[01-16]",
                    where,
                    number,
                    words[:80],
                )
            )
        if found is not None:
            yield said("rack {found}", found["name"]), re.sub(r"\s*,\s*|\s+", ",", found["nodes"].strip())


def parse_labels(text: str, nodes: Iterable[str]) -> Racks:
    """Node of Kubernetes -> its rack, of lines ``NAME<tab>{labels}``.

    By the first label that all of `nodes` have: racks of two kinds are no racks.
    """
    labels: dict[str, dict[str, Any]] = {}
    for line in text.splitlines():
        name, _, held = line.partition("\t")
        try:
            found = json.loads(held or "{}")
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            labels[name] = found
    wanted = {name for name in nodes if name in labels}
    for word, key in LABELS:
        named = {
            name: f"{word} {labels[name][key]}" for name in wanted if NAME.fullmatch(str(labels[name].get(key, "")))
        }
        if named and named.keys() == wanted:
            return named
    return {}


def racks_of(hosts: Iterable[Host], topology: Racks) -> Racks:
    """Host -> its rack: by its name, by that of the node that its pod runs on, or by its name without a domain."""
    found = {}
    for host in hosts:
        names = (host.name, node_of(host), host.address, host.name.partition(".")[0])
        rack = next((topology[name] for name in names if name in topology), "")
        if rack:
            found[host.name] = rack
    return found


def node_of(host: Host) -> str:
    """The node of Kubernetes that a pod runs on; "" of what is no pod."""
    pod = WRITTEN.fullmatch(host.address)
    return (pod["node"] or "") if pod else ""
