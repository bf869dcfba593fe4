"""Which GPUs of a node cannot reach each other's memory, though NVLink joins them or its equals' GPUs can?"""

from __future__ import annotations

from collections.abc import Iterable

from preflight.facts.cluster import Cluster
from preflight.facts.node import NodeFacts
from preflight.facts.value import present
from preflight.judge.tables.faults import values_by_node
from preflight.said import joined, said
from preflight.said.errors import Blame, FactMissing

REFUSED = {
    "CNS": "the chipset refuses",
    "GNS": "the GPU refuses",
    "TNS": "the topology refuses",
    "NS": "not supported",
    "DR": "switched off in the driver",
    "U": "unknown",
}
MOST_PAIRS = 4
Pair = tuple[int, int, str]  # two GPUs and what the driver says of them


def refused_pairs(node: NodeFacts) -> tuple[Pair, ...]:
    """The GPUs of a node that cannot reach each other's memory; FactMissing ("absent") where no job asks for it."""
    gpus = node.gpu.readable()
    if len(gpus) < 2 or any(gpu.is_partitioned for gpu in gpus):
        raise FactMissing("peer access", "no two whole GPUs", "absent")
    if node.value("NCCL_P2P_DISABLE").startswith("1") or node.value("NCCL_P2P_LEVEL").upper() in ("LOC", "0"):
        raise FactMissing("peer access", "a variable of NCCL switches it off", "absent")
    access = {gpu.index: present(gpu.peer_access, "peer access of the GPUs") for gpu in gpus}
    pairs = [(one, other) for one in access for other in access if one != other and other < len(access[one])]
    refused = {(min(pair), max(pair)): access[pair[0]][pair[1]] for pair in pairs if access[pair[0]][pair[1]] != "OK"}
    return tuple((one, other, status) for (one, other), status in sorted(refused.items()))


def closed_peers(cluster: Cluster) -> list[Blame]:
    """A Blame for GPUs that NVLink joins and that cannot reach each other, a mild one for a node unlike its equals."""
    found = values_by_node(cluster, refused_pairs)
    reported: dict[str, list[str]] = {}
    for name, pairs in found.items():
        joined = _joined_pairs(cluster[name], pairs)
        if joined and not cluster[name].value("NCCL_IGNORE_DISABLED_P2P"):
            reported.setdefault(
                said("no peer access between GPUs that NVLink joins: {pairs}", _pairs(joined)), []
            ).append(name)
    blames = [Blame(words, nodes=names) for words, names in reported.items()]
    blamed = {name for names in reported.values() for name in names}
    equals: dict[str, dict[str, list[str]]] = {}
    for name in [name for name in found if name not in blamed]:
        node = cluster[name]
        words = "between all" if not found[name] else said("not between {pairs}", _pairs(found[name]))
        equals.setdefault(f"{len(node.gpu.readable())} x {node.gpu.models()}", {}).setdefault(words, []).append(name)
    for groups in equals.values():
        ordered = {words: [name for name in found if name in names] for words, names in groups.items()}
        unlike = cluster.differing(ordered, "peer access of the GPUs")
        blames += [Blame(blame.message, nodes=blame.nodes, is_advisory=True) for blame in unlike]
    return blames


def _joined_pairs(node: NodeFacts, pairs: Iterable[Pair]) -> list[Pair]:
    """Those of the pairs that have NVLink between them."""
    if not pairs:
        return []
    rows = {row.device: row.relations for row in present(node.gpu.topology, "topology").rows}
    relations = {pair: rows.get(f"GPU{pair[0]}", ())[pair[1] : pair[1] + 1] for pair in pairs}
    return [pair for pair, relation in relations.items() if relation and relation[0].startswith("NV")]


def _pairs(pairs: Iterable[Pair]) -> str:
    """The pairs as a message says them: "GPU 0 and 1, 2 and 3 (CNS: the chipset refuses)"; of many only the first."""
    reported = []
    for status in dict.fromkeys(pair[2] for pair in pairs):
        alike = [said("{one} and {other}", one, other) for one, other, answer in pairs if answer == status]
        left = len(alike) - MOST_PAIRS
        more = said(" and {left} more pair{s}", left, "s" * (left != 1)) if left > 0 else ""
        reported.append(f"GPU {', '.join(alike[:MOST_PAIRS])}{more} ({status}: {REFUSED.get(status, status)})")
    return joined(reported)
