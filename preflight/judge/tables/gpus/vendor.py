"""Which nodes do the vendors' own tests of GPUs find fault with?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median

from preflight.facts.cluster import Cluster
from preflight.facts.node import NodeFacts
from preflight.facts.subjects.gpus.vendor import NOT_ASKED, Copies, Finding
from preflight.facts.value import Missing, present
from preflight.said import joined, said
from preflight.said.errors import Blame, FactMissing, NotMeasured

MOST_SHOWN = 4
BETWEEN_GPUS = "device_to_device"  # begins the name of a test that copies from GPU to GPU
ENOUGH = 3  # values of which the middle one is no outlier's


def blames(cluster: Cluster, program: str) -> list[Blame]:
    """A Blame for each node of which a test of this program failed, a mild one where it only warns."""
    found: list[Blame] = []
    for name, reported in _of_nodes(cluster, program).items():
        for status, is_advisory in (("fail", False), ("warn", True)):
            words = _words(finding for finding in reported if finding.status == status)
            found += (
                [Blame(said("{program}: {words}", program, words), nodes=[name], is_advisory=is_advisory)]
                if words
                else []
            )
    return found


def _needs_a_node_with(cluster: Cluster, program: str) -> None:
    """NotMeasured where somebody asked for a program's tests and no node has it: a skip would let the run pass."""
    held = cluster.gather(lambda node: getattr(node.vendor, program)).values()
    if held and all(isinstance(one, Missing) and one.kind == "absent" and one != NOT_ASKED for one in held):
        raise NotMeasured(said("--vendor-tests asks for {program}, and it is installed on no node", program))


def _of_nodes(cluster: Cluster, program: str) -> dict[str, tuple[Finding, ...]]:
    _needs_a_node_with(cluster, program)

    def reported(node: NodeFacts) -> tuple[Finding, ...]:
        held: tuple[Finding, ...] = present(getattr(node.vendor, program), program)
        if program == "rvs":  # which says nowhere how much it was going to tell
            _needs_every_gpu(node, held)
        return held

    return cluster.gather(reported)


def _needs_every_gpu(node: NodeFacts, found: Iterable[Finding]) -> None:
    """FactMissing where a program reported fewer GPUs than the node has: it ended before the others."""
    reported = {one.gpu for one in found if one.gpu}
    count = node.gpu_count()
    if len(reported) < count and not any(one.status == "fail" for one in found):
        raise FactMissing("rvs", said("it reported {reported} of {count} GPUs", len(reported), count))


def _words(findings: Iterable[Finding]) -> str:
    reported = [
        f"{one.test}{(said(' of GPU {gpu}', one.gpu) if one.gpu else '')}{(f': {one.words}' if one.words else '')}"
        for one in findings
    ]
    more = said(" and {MOST_SHOWN} more", len(reported) - MOST_SHOWN) if len(reported) > MOST_SHOWN else ""
    return joined(reported[:MOST_SHOWN]) + more


def slow_copies(cluster: Cluster, *, share: float) -> list[Blame]:
    """A Blame for each node with a copy below `share` of what the same copy reaches on the other nodes.

    On fewer than three nodes it is compared with all copies of its kind on nodes of the same GPUs: host copies of every
    GPU, and copies between GPUs where NVLink joins all of them.
    """
    _needs_a_node_with(cluster, "nvbandwidth")
    copies = cluster.gather(lambda node: present(node.vendor.nvbandwidth, "nvbandwidth"))
    found = [Blame(held.wrong, nodes=[name]) for name, held in copies.items() if held.wrong]
    kinds = cluster.gather(lambda node: node.gpu)
    copies = {name: held for name, held in copies.items() if name in kinds}
    for alike in _by_models(cluster, copies).values():
        for (test, *_), values in _comparable(cluster, alike).items():
            middle = median(values.values())
            slow = {place: value for place, value in values.items() if value < share * middle}
            if len(values) >= ENOUGH:
                found += [
                    Blame(
                        said(
                            "nvbandwidth: {test} {place}: {value:.4g} GB/s; the median of {values} is {middle:.4g}",
                            test,
                            _place(test, row, column),
                            value,
                            len(values),
                            middle,
                        ),
                        nodes=[name],
                    )
                    for (name, row, column), value in slow.items()
                ]
    return found


def _comparable(
    cluster: Cluster, alike: Mapping[str, Copies]
) -> dict[tuple[str, ...], dict[tuple[str, int, int], float]]:
    """The test, and the place of the copy where there are nodes enough -> (node, row, column) -> its GB/s."""
    found: dict[tuple[str, ...], dict[tuple[str, int, int], float]] = {}
    are_enough = len(alike) >= ENOUGH
    for name, held in alike.items():
        is_joined = _is_joined(cluster[name])
        for cell in held.cells:
            if not are_enough and not is_joined and cell.test.startswith(BETWEEN_GPUS):
                continue
            key = (cell.test, str(cell.row), str(cell.column)) if are_enough else (cell.test,)
            found.setdefault(key, {})[name, cell.row, cell.column] = cell.gbytes_per_s
    return found


def _place(test: str, row: int, column: int) -> str:
    return (
        said("between GPU {row} and {column}", row, column)
        if test.startswith(BETWEEN_GPUS)
        else said("of GPU {column}", column)
    )


def _by_models(cluster: Cluster, copies: dict[str, Copies]) -> dict[str, dict[str, Copies]]:
    """Nodes of the same GPUs together."""
    found: dict[str, dict[str, Copies]] = {}
    for name, held in copies.items():
        try:
            alike = f"{len(cluster[name].gpu.readable())} x {cluster[name].gpu.models()}"
        except FactMissing:
            alike = ""
        found.setdefault(alike, {})[name] = held
    return found


def _is_joined(node: NodeFacts) -> bool:
    topology = node.gpu.topology
    return not isinstance(topology, Missing) and topology.are_joined_by_nvlink()
