"""What bandwidth should these nodes show?

Every figure is in GB/s (1e9 bytes a second) of one direction.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from preflight.errors import FactMissing
from preflight.facts.fabric import Hca, chosen_hcas
from preflight.facts.selection import Backend, nccl_interfaces
from preflight.facts.subjects.gpu import PciFunction
from preflight.facts.subjects.network import Interface
from preflight.facts.value import Missing
from preflight.hosts import fold
from preflight.measure.slow import usual as usual_stream
from preflight.results import Expected, Stream

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from preflight.facts.node import NodeFacts

# One TCP stream on one core carries this much anywhere; on faster links the processor may be the limit.
TCP_STREAM_SURE_GBITS = 10.0
PCIE_EFFICIENCY = 0.88  # of what the coding leaves: headers and flow control
# Of one link in one direction, by NCCL's own constants: what of the specification a ring reaches.
NVLINK_GBYTES_PER_S = {"A100": 20.0, "H100": 20.6, "H200": 20.6, "H800": 20.6, "B200": 40.1, "B300": 40.1}
NVLINK_RAW = 1.25  # the specification over what a ring reaches
ROCE_MTUS = (4096, 2048, 1024, 512, 256)


@dataclass(frozen=True)
class Nic:
    """A network port that the job will use, with its rate and what protocol headers leave of it."""

    name: str
    rate_gbits: float
    transport: Literal["InfiniBand", "RoCE", "TCP"]
    mtu_bytes: int
    slot_gbytes_per_s: float = math.inf  # what its share of the PCIe slot carries; inf where it is not known

    @property
    def efficiency(self) -> float:
        """The share of the line rate that is payload."""
        if self.transport == "InfiniBand":
            return self.mtu_bytes / (self.mtu_bytes + 26)
        if self.transport == "RoCE":
            return self.mtu_bytes / (self.mtu_bytes + 82)
        # 40 bytes of IP and TCP and 12 of time stamps within the MTU; 38 of Ethernet, preamble and gap around it.
        return (self.mtu_bytes - 52) / (self.mtu_bytes + 38)

    @property
    def gbytes_per_s(self) -> float:
        """What it can carry in one direction."""
        return min(self.rate_gbits / 8 * self.efficiency, self.slot_gbytes_per_s)

    def __str__(self) -> str:
        share = f"{self.efficiency:.4f} ({self.transport}, mtu {self.mtu_bytes})"
        wire = self.rate_gbits / 8 * self.efficiency
        slot = f", but its PCIe slot carries {self.slot_gbytes_per_s:.5g}" if self.slot_gbytes_per_s < wire else ""
        return f"{self.name} {self.rate_gbits:g} Gbit/s / 8 x {share} = {wire:.5g} GB/s{slot}"


def nics_of(node: NodeFacts, *, backend: Backend) -> tuple[Nic, ...]:
    """The ports the job's collectives will use on a node; empty where the rate of one of them is not known."""
    try:
        if backend == "gloo":
            return (_tcp(node.network.training_interface),)
        value = node.variable("NCCL_IB_HCA") if node.has_variable("NCCL_IB_HCA") else ""
        is_disabled = node.has_variable("NCCL_IB_DISABLE") and node.variable("NCCL_IB_DISABLE") != "0"
        hcas = [] if is_disabled else [hca for hca in chosen_hcas(node.rdma, value) if hca.is_active]
        if hcas:
            ports = Counter(hca.device for hca in hcas)
            return tuple(_rdma(hca, node, sharing=ports[hca.device]) for hca in hcas)
        value = node.variable("NCCL_SOCKET_IFNAME") if node.has_variable("NCCL_SOCKET_IFNAME") else ""
        return tuple(_tcp(interface) for interface in nccl_interfaces(node.network, value))
    except FactMissing:
        return ()


def slot_gbytes_per_s(function: PciFunction | Missing) -> float:
    """What a PCIe slot carries of a device's data in one direction; inf where its speed or width is not known."""
    if isinstance(function, Missing) or isinstance(function.speed, Missing) or isinstance(function.width, Missing):
        return math.inf
    coding = 128 / 130 if function.speed >= 8 else 0.8
    return function.speed / 8 * function.width * coding * PCIE_EFFICIENCY


def nvlink_gbytes_per_s(node: NodeFacts) -> float:
    """What a ring over the GPUs of a node carries over NVLink; inf where it is not known, or there is no NVLink."""
    try:
        gpus = node.gpu.devices
    except FactMissing:
        return math.inf
    found = [
        gpu.links.active * figure
        for gpu in (() if isinstance(gpus, Missing) else gpus)
        for model, figure in NVLINK_GBYTES_PER_S.items()
        if re.search(rf"\b{model}\b", gpu.name) and not isinstance(gpu.links, Missing) and gpu.links.active
    ]
    return min(found, default=math.inf)


def expected(
    nics: Mapping[str, Sequence[Nic]],
    streams: Sequence[Stream],
    *,
    world_size: int,
    ranks_per_node: int,
    nvlinks: Mapping[str, float] = MappingProxyType({}),
) -> Expected | None:
    """The bus bandwidth of a large all-reduce over these nodes, with its derivation; None where no link is used.

    `nics` has every node of the job, with an empty tuple where no rate is known: then the raw streams stand in.
    `nvlinks` has what NVLink carries within each node that has several ranks.
    """
    if len(nics) < 2:
        return None
    usual = usual_stream(streams) if streams else None
    unknown = [name for name, ports in nics.items() if not ports]
    if unknown:
        if usual is None:
            return None
        derivation = f"raw TCP, median of each node's best: {usual:.5g} GB/s"
        return Expected(
            busbw_gbytes_per_s=usual,
            bound_gbytes_per_s=None,
            derivation=(f"no link rate is known on {fold(unknown)}", derivation),
        )
    per_node = {name: sum(nic.gbytes_per_s for nic in ports) for name, ports in nics.items()}
    weakest = min(per_node, key=per_node.__getitem__)
    ring = per_node[weakest]
    lines = [f"{weakest}: {nic}" for nic in nics[weakest]]
    if len(nics[weakest]) > 1:
        lines.append(f"{weakest}: {len(nics[weakest])} ports together {ring:.5g} GB/s")
    lines.append(f"a ring over {len(nics)} nodes runs at the least of them: {ring:.5g} GB/s")
    within = min(nvlinks, key=nvlinks.__getitem__, default="")
    network = ring
    if within and nvlinks[within] < ring:
        ring = nvlinks[within]
        lines.append(f"within {within} the ring runs over NVLink at {ring:.5g} GB/s")
    # An algorithm that reduces within the node first sends less over the links than the ring that busbw supposes.
    factor = (world_size - 1) / (world_size - ranks_per_node)
    bound = network * factor
    lines.append(f"at most x (n-1)/(n-g) = {world_size - 1}/{world_size - ranks_per_node}: {bound:.5g} GB/s")
    if len(nics) == 2 and ranks_per_node > 1:
        lines.append("on two nodes a tree may come near that, where a ring does not (NCCL_ALGO=Ring compares)")
    is_fast_tcp = any(nic.transport == "TCP" and nic.rate_gbits > TCP_STREAM_SURE_GBITS for nic in nics[weakest])
    if is_fast_tcp and usual is not None and usual < ring:
        lines.append(f"raw TCP, median of each node's best: {usual:.5g} GB/s is what a processor drives here")
        ring = usual
    return Expected(busbw_gbytes_per_s=ring, bound_gbytes_per_s=bound, derivation=tuple(lines))


def expected_of_few(
    nics: Mapping[str, Sequence[Nic]],
    streams: Sequence[Stream],
    *,
    world_size: int,
    ranks_per_node: int,
    gpus_per_node: int,
    nvlinks: Mapping[str, float] = MappingProxyType({}),
) -> Expected | None:
    """The same where only some GPUs of a node take part: each uses its share of the ports, those near it."""
    few = {
        name: sorted(ports, key=lambda nic: -nic.gbytes_per_s)[: ranks_per_node * max(1, len(ports) // gpus_per_node)]
        for name, ports in nics.items()
    }
    found = expected(few, streams, world_size=world_size, ranks_per_node=ranks_per_node, nvlinks=nvlinks)
    whole = expected(nics, streams, world_size=world_size, ranks_per_node=ranks_per_node)
    if found is None or whole is None or ranks_per_node >= gpus_per_node:
        return found
    line = f"{ranks_per_node} of {gpus_per_node} GPUs a node use their share of the ports; all of them bound it"
    return Expected(
        busbw_gbytes_per_s=found.busbw_gbytes_per_s,
        bound_gbytes_per_s=whole.bound_gbytes_per_s,
        derivation=(*found.derivation, line),
    )


def expected_within(nvlinks: Mapping[str, float], *, ranks_per_node: int) -> Expected | None:
    """What the ranks of a node show among each other; None where no NVLink rate is known."""
    weakest = min(nvlinks, key=nvlinks.__getitem__, default="")
    if not weakest or math.isinf(nvlinks[weakest]):
        return None
    ring, factor = nvlinks[weakest], 2 * (ranks_per_node - 1) / ranks_per_node
    line = f"within {weakest} a ring runs over NVLink at {ring:.5g} GB/s"
    # Where the switch adds up (NVLS), each GPU sends its data once instead of 2(n-1)/n times.
    more = f"a switch that adds up gives at most x 2(n-1)/n = {factor:.4g}: {ring * factor * NVLINK_RAW:.5g} GB/s"
    return Expected(busbw_gbytes_per_s=ring, bound_gbytes_per_s=ring * factor * NVLINK_RAW, derivation=(line, more))


def _tcp(interface: Interface) -> Nic:
    return Nic(interface.name, interface.rate_mbps() / 1000, "TCP", interface.mtu)


def _rdma(hca: Hca, node: NodeFacts, *, sharing: int) -> Nic:
    slot = next(slot_gbytes_per_s(device.pci) for device in node.rdma.devices if device.name == hca.device) / sharing
    rate = hca.port.rate_gbps
    if isinstance(rate, Missing):
        raise FactMissing(f"rate of {hca.name}", rate.missing, rate.kind)
    if hca.port.link_layer == "InfiniBand":
        mtu = hca.port.active_mtu
        return Nic(hca.name, rate, "InfiniBand", 4096 if isinstance(mtu, Missing) else mtu, slot)
    netdevs = [gid.netdev for gid in hca.port.gids if not isinstance(gid.netdev, Missing)]
    if not netdevs:
        raise FactMissing(f"MTU of {hca.name}", "no netdev in its GID table", "absent")
    # RoCE's MTU is the largest power of two that fits the netdev's with its headers.
    room = node.network.interface(netdevs[0]).mtu - 58
    return Nic(hca.name, rate, "RoCE", next((mtu for mtu in ROCE_MTUS if mtu <= room), ROCE_MTUS[-1]), slot)
