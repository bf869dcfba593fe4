"""What do the documents of all nodes give together: the training interface, the backend, the GPUs?"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TypeVar

from preflight.facts import decode, selection
from preflight.facts.cluster import Cluster
from preflight.facts.decode import Document
from preflight.facts.node import NodeFacts
from preflight.facts.shared import Shared
from preflight.facts.subjects.environment import Environment
from preflight.facts.subjects.identity import Identity
from preflight.facts.value import Missing, Value
from preflight.said import joined, said
from preflight.said.errors import FactMissing

V = TypeVar("V", bound=Value)


def view(documents: Iterable[Document], backend: str, *, are_stored: bool = False) -> Cluster:
    """The documents as checks see them: decoded, and with the training interface chosen.

    A stored document may be another version's; a live node's may not.
    """
    read, shared = decode.decode_stored if are_stored else decode.decode, Shared()
    return of_nodes([read(document, shared) for document in documents], backend)


def of_nodes(nodes: Iterable[NodeFacts], backend: str) -> Cluster:
    """The same of nodes that are decoded already."""
    ordered = sorted(nodes, key=lambda node: node.index)
    chosen = _backend(ordered, backend)
    return Cluster(tuple(_for_backend(node, chosen, has_peers=len(ordered) > 1) for node in ordered))


def _for_backend(node: NodeFacts, backend: selection.Backend, *, has_peers: bool) -> NodeFacts:
    """The node with the job's backend, and its training interface chosen where it said enough to choose by."""
    node = dataclasses.replace(node, backend=backend)
    try:
        network = selection.with_training_interface(
            node.network,
            _or_missing(node, "identity", Identity),
            _or_missing(node, "environment", Environment),
            backend=backend,
            reached_address=node.address,
            has_peers=has_peers,
        )
    except FactMissing:
        return node
    return dataclasses.replace(node, subjects={**node.subjects, "network": network})


def _backend(nodes: list[NodeFacts], backend: str) -> selection.Backend:
    if backend == "auto":
        return automatic_backend(nodes)
    return "nccl" if backend == "nccl" else "gloo"


def automatic_backend(nodes: list[NodeFacts]) -> selection.Backend:
    """NCCL where every node has GPUs, even if their driver does not list them; else Gloo."""
    return "nccl" if nodes and all(_has_gpus(node) for node in nodes) else "gloo"


def _has_gpus(node: NodeFacts) -> bool:
    """Whether the node has GPUs, as far as is known: one whose driver is broken is no node without GPUs."""
    try:
        return node.gpu.has_any()
    except FactMissing:
        return False


def packages(cluster: Cluster) -> dict[str, dict[str, str]]:
    """The distributions that the job's interpreter has on each node; nodes that gave none are left out."""
    found: dict[str, dict[str, str]] = {}
    for node in cluster:
        try:
            found[node.name] = dict(node.software.packages)
        except FactMissing:
            continue
    return found


def busy_gpus(cluster: Cluster) -> str:
    """The GPUs that other programs use, as a message says it; "" where there are none."""
    busy = {
        node.name: ",".join(str(gpu.index) for gpu in node.gpu.readable() if gpu.is_busy())
        for node in cluster
        if node.gpu_count()
    }
    return joined([said("GPU {numbers} of {name}", numbers, name) for name, numbers in busy.items() if numbers])


def _or_missing(node: NodeFacts, subject: str, kind: type[V]) -> V | Missing:
    try:
        return node.subject(subject, kind)
    except FactMissing as missing:
        return Missing(missing.reason, missing.kind)
