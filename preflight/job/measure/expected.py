"""What bandwidth should these nodes show, given what their links carry and how NCCL used them?

Every figure is in GB/s (1e9 bytes a second) of one direction. Where healthy nodes of a kind differ, the figure is what
the slowest of them shows, a floor, and the derivation says why.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from preflight.facts.results import Expected, Stream
from preflight.job.measure.links import NVLS_PLATEAU_BYTES, TCP_STREAM_SURE_GBITS, Inside, Uplink, added_up
from preflight.job.measure.slow import usual as usual_stream
from preflight.reach.hosts import fold
from preflight.said import said

LEAST_OF_ALL_TO_ALL = 0.6  # many flows at once: what is left depends on the switches, and on the number of ranks
SWITCHED = ("NVLS", "COLLNET")  # algorithms in which switches add up


class Node(NamedTuple):
    """What a node brings: its ports, what joins its GPUs, and how many it has."""

    uplink: Uplink
    inside: Inside
    gpus: int = 1


@dataclass(frozen=True)
class Use:
    """Who ran a collective, and how NCCL did it according to its log."""

    world_size: int
    ranks_per_node: int = 1
    op: str = "all_reduce"
    algorithm: str = ""  # "RING SIMPLE"; "" where no log says it
    has_log: bool = False
    is_nccl: bool = True
    rack_ranks: int = 0  # so many ranks are in one NVLink domain of several nodes (MNNVL); 0 where there is none
    size_bytes: int = 0  # 0 where it is not known

    @property
    def name(self) -> str:
        """The algorithm alone."""
        return self.algorithm.partition(" ")[0]

    @property
    def together(self) -> int:
        """How many nodes NVLink joins: to NCCL they are one, with the ports of all."""
        return max(1, self.rack_ranks // self.ranks_per_node)


def expected(nodes: Mapping[str, Node], use: Use, streams: Sequence[Stream] = ()) -> Expected | None:
    """The bus bandwidth of a large collective over these nodes, with its derivation; None where no figure is known.

    Raw streams stand in where a node's ports have no rate, and where TCP is so fast that a processor may be the limit.
    """
    if use.op in ("gather", "scatter"):
        return None
    if len(nodes) < 2:
        return within(nodes, use)
    if use.rack_ranks >= use.world_size:
        return _over_a_rack(nodes, use)
    unknown = [name for name, node in nodes.items() if not node.uplink.nics]
    if unknown:
        return _by_streams(nodes, unknown, streams)
    few = {name: _share(node, use) for name, node in nodes.items()}
    if use.op in ("sendrecv", "all_to_all"):
        return _by_the_ports_of_one_gpu(nodes, use)
    weakest = min(few, key=lambda name: few[name].uplink.gbytes_per_s)
    uplink = few[weakest].uplink
    lines = _ports(weakest, uplink)
    factor, words = _factor(use, -(-len(nodes) // use.together))
    network = uplink.gbytes_per_s * factor * use.together
    lines += [said("NVLink joins {together} nodes each, which bring their ports together", use.together)] * (
        use.together > 1
    )
    lines.append(f"{words}: {network:.5g} GB/s")
    # Between racks healthy clusters differ most: 346 GB/s over 20 of them, 740 over one (CoreWeave).
    usual, least = network, uplink.least * network / use.together
    if use.ranks_per_node < nodes[weakest].gpus:
        lines.append(
            said(
                "{ranks_per_node} of {gpus} GPUs a node use their share of the ports",
                use.ranks_per_node,
                nodes[weakest].gpus,
            )
        )
    if use.ranks_per_node > 1:
        slowest = min(nodes, key=lambda name: _inside(nodes[name].inside, use)[0])
        inside, at_least, by = _inside(nodes[slowest].inside, use)
        if inside < usual:
            lines.append(said("within {slowest} it runs over {by} at {inside:.5g} GB/s", slowest, by, inside))
        usual, least = min(usual, inside), min(least, at_least)
        if at_least < uplink.least * network / use.together and at_least < inside:
            lines.append(said("what {by} carries differs among healthy nodes", by or "the way between GPUs"))
    if uplink.reason:
        lines.append(uplink.reason)
    bound = _bound(nodes, use, lines)
    is_fast_tcp = any(nic.transport == "TCP" and nic.rate_gbits > TCP_STREAM_SURE_GBITS for nic in uplink.nics)
    if is_fast_tcp and streams and usual_stream(streams) < usual:
        usual = usual_stream(streams)
        least = min(least, usual)
        lines.append(
            said("raw TCP, median of each node's best: {usual:.5g} GB/s is what a processor drives here", usual)
        )
    return _expectation(usual, least, bound, lines)


def within(nodes: Mapping[str, Node], use: Use) -> Expected | None:
    """What the ranks of a node show among each other; None where nothing is known of what joins them."""
    known = {name: node for name, node in nodes.items() if node.inside.kind}
    if len(known) < len(nodes) or not known or use.op == "all_to_all" or use.ranks_per_node < 2:
        return None
    weakest = min(known, key=lambda name: _inside(known[name].inside, use)[0])
    inside = known[weakest].inside
    figure, least, by = _inside(inside, use)
    if use.op == "sendrecv":
        figure, least = inside.pair, min(inside.pair, inside.least)
    lines = [said("within {weakest} it runs over {by} at {figure:.5g} GB/s", weakest, by, figure)]
    if least < figure:
        lines.append(said("what {by} carries differs among healthy nodes", by))
    bound = None
    if inside.kind == "NVLink":
        # Where the switch adds up (NVLS), each GPU sends its data once instead of 2(n-1)/n times.
        factor = 2 * (use.ranks_per_node - 1) / use.ranks_per_node
        bound = inside.most * factor
        words = said("a switch that adds up gives at most {most:.5g} x 2(n-1)/n = {factor:.4g}", inside.most, factor)
        lines.append(f"{words}: {bound:.5g} GB/s")
    else:
        lines.append(said("no upper limit is known for {kind}", inside.kind))
    return _expectation(figure, least, bound, lines)


def _expectation(usual: float, least: float, bound: float | None, lines: list[str]) -> Expected:
    """The expectation: the figure, or only its floor."""
    is_floor = least < 0.95 * usual
    if is_floor:
        lines.append(said("so it is only compared with a floor of {least:.5g} GB/s", least))
    figure = least if is_floor else usual
    return Expected(busbw_gbytes_per_s=figure, bound_gbytes_per_s=bound, derivation=tuple(lines), is_floor=is_floor)


def _ports(name: str, uplink: Uplink) -> list[str]:
    lines = [f"{name}: {nic}" for nic in uplink.nics]
    if len(lines) > 1:
        lines.append(
            said("{name}: {lines} ports together {gbytes_per_s:.5g} GB/s", name, len(lines), uplink.gbytes_per_s)
        )
    return lines


def _share(node: Node, use: Use) -> Node:
    """The node with the ports that the ranks in use are near to: each its share."""
    ports = sorted(node.uplink.fast().nics, key=lambda nic: -nic.gbytes_per_s)
    if use.ranks_per_node >= node.gpus:
        return node._replace(uplink=node.uplink.fast())
    return node._replace(uplink=node.uplink.only(ports[: use.ranks_per_node * max(1, len(ports) // node.gpus)]))


def _factor(use: Use, nodes: int) -> tuple[float, str]:
    """Bus bandwidth over what a node sends, and the words for it."""
    n, g = use.world_size, use.ranks_per_node * use.together
    if use.op == "all_reduce" and use.name.startswith(SWITCHED) and use.name != "NVLS_TREE":
        words = said(
            "switches add up ({name}), so a node sends its data once, x 2(n-1)/n = {n}/{n2:g}", use.name, n - 1, n / 2
        )
        return 2 * (n - 1) / n, words
    if use.op == "all_reduce" and use.name in ("TREE", "NVLS_TREE") and nodes == 2:
        words = said(
            "a tree ({name}) over 2 nodes reduces within them first, x (n-1)/(n-g) = {n}/{n2}", use.name, n - 1, n - g
        )
        return (n - 1) / (n - g), words
    kind = said("{name} over", use.name) if use.name not in ("", "RING") else "a ring over"
    return 1.0, said("{kind} {nodes} nodes runs at the least of them", kind, nodes)


def _inside(inside: Inside, use: Use) -> tuple[float, float, str]:
    """What is usual within a node, the least of it, and the link that carries it."""
    if use.op == "all_reduce" and use.name in ("NVLS", "NVLS_TREE") and inside.nvls:
        figure = inside.nvls * (inside.nvls_below if use.size_bytes < NVLS_PLATEAU_BYTES else 1.0)
        return figure, figure, said("{kind} with NVLS", inside.kind)
    return inside.ring, inside.least, inside.kind


def _bound(nodes: Mapping[str, Node], use: Use, lines: list[str]) -> float | None:
    """What no algorithm can exceed, where it is known what carries the data."""
    if not all(node.uplink.is_bounded for node in nodes.values()):
        lines.append("no upper limit is known for such ports")
        return None
    if use.together > 1 or (not use.has_log and any(bool(node.inside.racks) for node in nodes.values())):
        lines.append("NVLink may join these nodes, so nothing bounds them")
        return None
    n, g = use.world_size, use.ranks_per_node
    factor = (n - 1) / (n - g)
    words = said("at most x (n-1)/(n-g) = {n}/{n2}", n - 1, n - g)
    by_switches = use.is_nccl and use.op == "all_reduce" and use.name not in ("RING", "TREE", "NVLS_TREE", "PAT")
    if by_switches and 2 * (n - 1) / n > factor:
        factor, words = 2 * (n - 1) / n, said("at most, where switches add up, x 2(n-1)/n = {n}/{n2:g}", n - 1, n / 2)
    bound = min(node.uplink.gbytes_per_s for node in nodes.values()) * factor
    lines.append(f"{words}: {bound:.5g} GB/s")
    return bound


def _by_the_ports_of_one_gpu(nodes: Mapping[str, Node], use: Use) -> Expected:
    """One GPU sends to one other over the ports next to it, however many the node has."""

    def of_one(node: Node) -> Uplink:
        ports = sorted(node.uplink.fast().nics, key=lambda nic: -nic.gbytes_per_s)
        return node.uplink.only(ports[: max(1, len(ports) // max(1, node.gpus))])

    n, g = use.world_size, use.ranks_per_node
    weakest = min(nodes, key=lambda name: of_one(nodes[name]).gbytes_per_s)
    uplink, whole = of_one(nodes[weakest]), min(node.uplink.gbytes_per_s for node in nodes.values())
    lines = [
        *_ports(weakest, uplink),
        said("{op} goes over the ports of one GPU: {gbytes_per_s:.5g} GB/s", use.op, uplink.gbytes_per_s),
    ]
    usual, least, bound = uplink.gbytes_per_s, uplink.least * uplink.gbytes_per_s, whole
    if use.op == "all_to_all":
        usual, bound = min(usual, whole / g), whole / g * (n - 1) / (n - g * use.together)
        least = min(least, LEAST_OF_ALL_TO_ALL * usual)
        lines.append("what many flows at once leave depends on the switches")
    if g > 1:
        pair = min(node.inside.pair for node in nodes.values())
        sure = min(node.inside.least for node in nodes.values())
        if pair < usual:
            lines.append(said("from GPU to GPU within a node: {pair:.5g} GB/s", pair))
        usual, least = min(usual, pair), min(least, pair, sure)
    is_bounded = all(node.uplink.is_bounded for node in nodes.values())
    if uplink.reason:
        lines.append(uplink.reason)
    return _expectation(usual, least, bound if is_bounded else None, lines)


def _over_a_rack(nodes: Mapping[str, Node], use: Use) -> Expected | None:
    """NVLink joins the nodes: its rate counts, and the ports do not."""
    inside = min((node.inside for node in nodes.values()), key=lambda one: one.ring)
    if math.isinf(inside.ring) or use.op == "all_to_all":
        return None
    adds_up = use.op == "all_reduce" and use.name in ("NVLS", "NVLS_TREE") and bool(inside.racks)
    figure = inside.pair if use.op == "sendrecv" else inside.ring
    figure, least = _added_up_in_rack(inside.racks, use.world_size) if adds_up else (figure, figure)
    line = said(
        "NVLink joins the {nodes} nodes (MNNVL){adds_up}: {figure:.5g} GB/s",
        len(nodes),
        " with NVLS" if adds_up else "",
        figure,
    )
    return _expectation(figure, least, None, [line])


def _added_up_in_rack(published: Sequence[tuple[int, float]], gpus: int) -> tuple[float, float]:
    """What is usual over so many GPUs of a rack, and the least: no more than fewer GPUs have shown."""
    count, figure = max((row for row in published if row[0] <= gpus), default=published[0])
    most = max(value for _, value in published)
    usual = min(most, figure * added_up(gpus) / added_up(count))
    return usual, min(usual, figure)


def _by_streams(nodes: Mapping[str, Node], unknown: list[str], streams: Sequence[Stream]) -> Expected | None:
    if not streams:
        return None
    usual = usual_stream(streams)
    reasons = ", ".join(dict.fromkeys(filter(None, (nodes[name].uplink.reason for name in unknown))))
    unknown_rates = said("no link rate is known on {unknown}", fold(unknown))
    if reasons:
        unknown_rates = said("no link rate is known on {unknown}: {reasons}", fold(unknown), reasons)
    return Expected(
        busbw_gbytes_per_s=usual,
        bound_gbytes_per_s=None,
        is_by_streams=True,
        derivation=(
            unknown_rates,
            said("raw TCP, median of each node's best: {usual:.5g} GB/s", usual),
        ),
    )
