"""Which GPU or adapter has a slower PCIe path than others of its kind, or a slot that gives it less power?

The kernel writes "limited by ... PCIe" of every device whose link, or one above it, is slower than the device itself
(pci.c, __pcie_print_link_status), and mlx5 that its slot advertises less power than the adapter may take (events.c).
Bridges, disks and boards that are built so have such lines on healthy machines: only what most of the like do not have
is a fault. The link of a device's own slot is judged by what sysfs says of it now.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress

from preflight.facts.cluster import Cluster
from preflight.facts.fabric import hcas
from preflight.facts.node import NodeFacts
from preflight.facts.pci import PciFunction
from preflight.facts.value import Missing
from preflight.said import said
from preflight.said.errors import Blame, FactMissing

KIND = "bandwidth"
LIMITED = re.compile(
    r"([\d.]+) Gb/s available PCIe bandwidth, limited by (\d\S* GT/s(?: PCIe)? x\d+) link at ([\w:.]+)"
)
FIX = (
    "reseat the riser or the board that holds the PCIe switch on the nodes named, set the slot's bifurcation and speed "
    "in the BIOS, and start the node again"
)
POWER = "power"
WATTS = re.compile(r"insufficient power on the PCIe slot \((\d+W)\)")
POWER_FIX = (
    "update the BIOS of the nodes named and the adapter's firmware; where the slot cannot give more, move the adapter"
)
Limit = tuple[float, str, str]  # Gbit/s, the device, "8.0 GT/s PCIe x8 link at 0000:16:00.0"


def limited(cluster: Cluster) -> list[Blame]:
    """A Blame for nodes with more, or slower, limited devices of a kind than most nodes; alone, than most of its own.

    A node whose log cannot be read is noted as unmeasured.
    """
    of_node = cluster.gather(_by_kind)
    blames = []
    for kind in dict.fromkeys(kind for kinds in of_node.values() for kind in kinds):
        have = {name: kinds[kind] for name, kinds in of_node.items() if kind in kinds}
        usual = _usual([tuple(rate for rate, _, _ in limits) for limits, _ in have.values()])
        for name, (limits, count) in have.items():
            rates = tuple(rate for rate, _, _ in limits)
            is_odd = len(rates) > len(usual) or (rates and min(rates) < min(usual))
            if len(have) == 1:  # nothing to compare with but devices of its kind on this node
                is_odd = kind[0] == "GPU" and 0 < 2 * len(limits) < count
            if is_odd:
                blames.append(Blame(_message(kind, limits), nodes=[name], fix=FIX))
    return blames


def underpowered(cluster: Cluster) -> list[Blame]:
    """A Blame for nodes where more adapters of a kind lack power than on most nodes: some boards advertise none."""
    if not any(cluster.gather(_lines_of_power).values()):
        return []
    of_node = cluster.gather(_weak)
    blames = []
    for kind in dict.fromkeys(kind for kinds in of_node.values() for kind in kinds):
        have = {name: kinds[kind] for name, kinds in of_node.items() if kind in kinds}
        counts = [len(weak) for weak in have.values()]
        usual = min(counts, key=lambda count: (-counts.count(count), count))
        for name, weak in have.items():
            if len(weak) > usual:
                words = said("adapter {weak}: its slot gives it less power than it may take", ", ".join(weak))
                blames.append(Blame(words, nodes=[name], fix=POWER_FIX))
    return blames


def _lines_of_power(node: NodeFacts) -> dict[str, str]:
    return {event.device: event.text for event in node.kernel.events(POWER, within_seconds=float("inf"))}


def _weak(node: NodeFacts) -> dict[tuple[str, str], list[str]]:
    """(Kind of device, model) -> the devices that lack power, with the power that the slot gives."""
    if any("GB10" in gpu.name for gpu in node.gpu.readable()):
        return {}  # on DGX Spark the line is harmless, NVIDIA says: the adapter is part of the board
    lines = _lines_of_power(node)
    found: dict[tuple[str, str], list[str]] = {}
    for kind, place in _devices(node):
        device = place.path.rpartition("/")[2]
        reported = WATTS.search(lines.get(device, ""))
        found.setdefault(kind, []).extend([f"{device} ({reported[1]})"] if reported else [])
    return found


def _usual(every: list[tuple[float, ...]]) -> tuple[float, ...]:
    """What most nodes have; of two that are as common the better."""
    return max(dict.fromkeys(every), key=lambda rates: (every.count(rates), -len(rates), sum(rates)), default=())


def _message(kind: tuple[str, str], limits: tuple[Limit, ...]) -> str:
    rate, _, link = limits[0]
    devices = ", ".join(device for _, device, _ in limits)
    return said(
        "{kind} {devices}: {rate:g} Gbit/s of PCIe, limited by the {link}, above its slot", kind[0], devices, rate, link
    )


def _by_kind(node: NodeFacts) -> dict[tuple[str, str], tuple[tuple[Limit, ...], int]]:
    """(What it is, its model) -> those that are limited, the slowest first, and how many there are."""
    lines = {event.device: event.text for event in node.kernel.events(KIND, within_seconds=float("inf"))}
    found: dict[tuple[str, str], tuple[tuple[Limit, ...], int]] = {}
    for kind, place in _devices(node):
        limits, count = found.get(kind, ((), 0))
        *above, device = place.path.split("/")
        reported = LIMITED.search(lines.get(device, ""))
        if reported and reported[3] not in (device, *above[-1:]):
            limits = tuple(
                sorted(
                    (
                        *limits,
                        (float(reported[1]), device, said("{reported} link at {reported2}", reported[2], reported[3])),
                    )
                )
            )
        found[kind] = limits, count + 1
    return found


def _devices(node: NodeFacts) -> Iterator[tuple[tuple[str, str], PciFunction]]:
    """Every GPU and RDMA adapter that is seen on the bus; what cannot be read is another check's to tell."""
    with suppress(FactMissing):
        for gpu in node.gpu.readable():
            if not isinstance(gpu.pci, Missing):
                yield ("GPU", gpu.name), gpu.pci
    with suppress(FactMissing):
        kinds = {hca.device: hca.kind for hca in hcas(node.rdma)}
        for device in node.rdma.devices:
            if not isinstance(device.pci, Missing):
                yield ("adapter", kinds.get(device.name, "")), device.pci
