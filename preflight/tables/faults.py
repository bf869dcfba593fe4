"""Which rows of a table of faults does each node show, and whom does each of them blame?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from preflight.errors import Blame, BlameMany, FactMissing, NotApplicable
from preflight.facts.cluster import Cluster
from preflight.facts.fabric import Hca
from preflight.facts.node import NodeFacts
from preflight.facts.subjects.gpu import Gpu

T = TypeVar("T")
NO_GPU = "no GPU on any node"
NO_RDMA = "no RDMA device on any node"


@dataclass(frozen=True)
class Fault(Generic[T]):
    """A row: what may be wrong with one thing of a node, how to fix it, and the source that says so.

    ``message`` gives the words for what is wrong, "" where nothing is; FactMissing where it is not known.
    """

    name: str
    message: Callable[[T], str]
    fix: str
    source: str


def judge(
    cluster: Cluster,
    faults: Iterable[Fault[T]],
    things: Callable[[NodeFacts], Iterable[tuple[str, T]]],
    *,
    noun: str = "",
) -> None:
    """Blame the nodes of every row that some of their `things` (label, thing) show, one Blame a row and wording.

    A row that no node reports is left out; NotApplicable where no row is reported.
    """
    rows = tuple(faults)
    of_node = cluster.gather(lambda node: tuple(things(node)))
    shown: dict[tuple[str, str], list[str]] = {}
    is_asked = False
    for name, found in of_node.items():
        for row in rows:
            labels: dict[str, list[str]] = {}
            for label, thing in found:
                try:
                    words = row.message(thing)
                    is_asked = True
                except FactMissing as missing:
                    if missing.kind != "absent":
                        cluster.cannot_judge(name, missing)
                    continue
                if words:
                    labels.setdefault(words, []).append(label)
            for words, which in labels.items():
                place = f"{noun} {', '.join(which)}: ".lstrip() if any(which) else ""
                shown.setdefault((f"{place}{words}", row.fix), []).append(name)
    if shown:
        raise BlameMany(Blame(words, nodes=nodes, fix=fix) for (words, fix), nodes in shown.items())
    if not is_asked and not cluster.unmeasured:
        raise NotApplicable(f"not reported by any node: {', '.join(row.name for row in rows)}")


def needs_gpus(cluster: Cluster) -> None:
    """Leave the check with one reason common to all GPU checks where every node says that it has none."""
    if not any(cluster.gather(lambda node: node.gpu.readable()).values()) and not cluster.unmeasured:
        raise NotApplicable(NO_GPU)


def needs_rdma(cluster: Cluster) -> None:
    """The same for RDMA devices."""
    if not any(cluster.gather(lambda node: node.rdma.devices).values()) and not cluster.unmeasured:
        raise NotApplicable(NO_RDMA)


def values_by_node(cluster: Cluster, key: Callable[[NodeFacts], T]) -> dict[str, T]:
    """`key` of every node that has the thing at all: that others lack it is another check's matter.

    Raises NotApplicable where no node has it.
    """
    reasons: dict[str, FactMissing] = {}

    def held(node: NodeFacts) -> T | None:
        try:
            return key(node)
        except FactMissing as missing:
            if missing.kind != "absent":
                raise
            reasons[node.name] = missing
            return None

    found = {name: value for name, value in cluster.gather(held).items() if value is not None}
    if not found and reasons:
        raise NotApplicable(f"on no node: {'; '.join(sorted({str(reason) for reason in reasons.values()}))}")
    return found


def same_by_name(cluster: Cluster, of_node: Callable[[NodeFacts], dict[str, str]], what: str, *, fix: str = "") -> None:
    """A port, or another thing with a name, has the same value on every node that has one of that name."""
    found = values_by_node(cluster, of_node)
    blames = []
    for name in dict.fromkeys(name for values in found.values() for name in values):
        groups: dict[str, list[str]] = {}
        for node, values in found.items():
            if name in values:
                groups.setdefault(values[name], []).append(node)
        blames += cluster.differing(groups, f"{what} of {name}", fix=fix)
    if blames:
        raise BlameMany(blames)


def gpus(node: NodeFacts) -> Iterable[tuple[str, Gpu]]:
    """The GPUs of a node by their index."""
    return [(str(gpu.index), gpu) for gpu in node.gpu.readable()]


def ports(node: NodeFacts) -> Iterable[tuple[str, Hca]]:
    """The RDMA ports of a node that the job may use."""
    return [(hca.name, hca) for hca in node.hcas()] if node.rdma.devices else []


def active_ports(node: NodeFacts) -> Iterable[tuple[str, Hca]]:
    """Those of them that are up."""
    return [(name, hca) for name, hca in ports(node) if hca.is_active]


def itself(node: NodeFacts) -> Iterable[tuple[str, NodeFacts]]:
    """The node as the one thing of a table about nodes."""
    return [("", node)]
