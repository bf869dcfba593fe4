"""What do the links of a node carry: the ports of the network that its job uses, and what joins its GPUs?

Every figure is in GB/s (1e9 bytes a second) of one direction.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from preflight.facts.fabric import Hca, chosen_hcas, hcas
from preflight.facts.pci import PciFunction
from preflight.facts.results import Transport
from preflight.facts.selection import Backend, nccl_interfaces
from preflight.facts.subjects.gpu import Gpu
from preflight.facts.subjects.network import Interface
from preflight.facts.value import Missing
from preflight.said import said
from preflight.said.errors import BlockedBy, FactMissing

if TYPE_CHECKING:
    from preflight.facts.node import NodeFacts

# One TCP stream on one core carries this much anywhere; on faster links the processor may be the limit.
TCP_STREAM_SURE_GBITS = 10.0
PCIE_EFFICIENCY = 0.88  # of what the coding leaves: headers and flow control
NARROW_LANES, NARROW_EFFICIENCY = 4, 0.777  # 12.25 of 15.75 GB/s is what one function of a DGX Spark shows (Gen5 x4)
ROCE_MTUS = (4096, 2048, 1024, 512, 256)
LEAST_OF_EFA = 0.6  # of its ports' rate: 300 of 400 GB/s is what AWS wants of a p5, 377 of 400 what a p6-b200 shows
LEAST_OF_PLUGIN = 0.4  # of the ports beside the training interface: Google accepts 60 of 100 GB/s over TCPX
LEAST_OF_PCIE = 0.2  # of the slot: rings of cards in Gen4 slots show 10 to 24 GB/s, and 6 by way of two processors
USUAL_OF_PCIE = 0.7
USUAL_OF_BRIDGE = 0.87  # two A100 PCIe under bridges: 208 of 240 (NVIDIA/nccl-tests#178)
LEAST_INSIDE = 5.0  # of GPUs that are joined in an unknown way: a ring over PCIe Gen3 and the host's memory
BRIDGED = re.compile(r"PCI|NVL$|\bA[1-4]0\b|RTX")  # cards, which NVLink joins by bridges
TRUSTED = re.compile(r"IB$|IBext|UCX")  # the networks of NCCL that drive RDMA ports as fast as their rate


class GpuLink(NamedTuple):
    """What NCCL makes of a link between GPUs of a model, and of a whole node or rack of them."""

    pattern: str  # of the name that the driver reports
    ring: float  # of one link, what a ring reaches (NCCL's own constants SM70_NVLINK_BW to SM100_NVLINK_BW)
    raw: float  # of one link, by the specification
    nvls: float = 0.0  # of one link, busbw of an all-reduce that the switches add up
    racks: tuple[tuple[int, float], ...] = ()  # busbw of such an all-reduce over so many GPUs of several trays
    nvls_below: float = 1.0  # the share of it that smaller all-reduces reach, up to NVLS_PLATEAU_BYTES


# NVLS: 475 to 482 on H100 and H200 (NVIDIA/nccl-tests#309, stas00/ml-engineering), 215 on H800 (aliyun/SimAI),
# 838 to 846 on B200, of 8 GPUs each; racks: 846 on 72 GB200 (CoreWeave, nccl-tests), 937 on 72 GB300 (Azure) and 697
# on 8 of them in two trays, of GB200 the same share.
NVLINKS = (
    GpuLink("P100", 18.0, 20.0),
    GpuLink("V100", 20.0, 25.0),
    GpuLink("A100|A800", 20.0, 25.0),
    GpuLink("H100|H200|H800|H20|GH200", 20.6, 25.0, 26.4),
    GpuLink("GB200", 40.1, 50.0, 46.6, ((8, 629.0), (72, 846.0)), 0.88),
    GpuLink("GB300", 40.1, 50.0, 46.6, ((8, 697.0), (72, 937.0)), 0.88),
    GpuLink("B200|B300", 40.1, 50.0, 46.6, nvls_below=0.88),
)
NVLS_GPUS = 8  # that the figures of nodes are of
NVLS_PLATEAU_BYTES = 8 << 30  # B200: 838 at 8 GiB, 740 at 4 GiB (stas00/ml-engineering, network/README.md)


class Mesh(NamedTuple):
    """AMD GPUs that are all joined to all by xGMI."""

    pattern: str
    ring: float  # busbw of an all-reduce within the node
    pair: float  # from one GPU to another, over one link
    is_sure: bool


# MI300X: 313 (stas00/ml-engineering), 314 (Azure); MI350 by its faster links.
MESHES = (Mesh("MI30[08]X|MI325X", 315.0, 48.0, True), Mesh("MI35[05]X", 378.0, 57.0, False))


@dataclass(frozen=True)
class Nic:
    """A network port that the job will use, with its rate and what protocol headers leave of it."""

    name: str
    rate_gbits: float
    transport: Literal["InfiniBand", "RoCE", "TCP", "EFA"]
    mtu_bytes: int
    slot_gbytes_per_s: float = math.inf  # what its share of the PCIe slot carries; inf where unknown
    functions: int = 1  # that share its cable, and each report the rate of all of it

    @property
    def efficiency(self) -> float:
        """The share of the line rate that is payload."""
        if self.transport == "InfiniBand":
            return self.mtu_bytes / (self.mtu_bytes + 26)
        if self.transport == "RoCE":
            return self.mtu_bytes / (self.mtu_bytes + 82)
        if self.transport == "EFA":
            return 1.0
        # 40 bytes of IP and TCP and 12 of time stamps within the MTU; 38 of Ethernet, preamble and gap around it.
        return (self.mtu_bytes - 52) / (self.mtu_bytes + 38)

    @property
    def gbytes_per_s(self) -> float:
        """What it can carry in one direction."""
        return min(self.rate_gbits / 8 * self.efficiency / self.functions, self.slot_gbytes_per_s)

    def __str__(self) -> str:
        share = said("{efficiency:.4f} ({transport}, mtu {mtu_bytes})", self.efficiency, self.transport, self.mtu_bytes)
        wire = self.rate_gbits / 8 * self.efficiency / self.functions
        share += said(" / {functions} functions of one cable", self.functions) if self.functions > 1 else ""
        slot = (
            said(", but its PCIe slot carries {slot_gbytes_per_s:.5g}", self.slot_gbytes_per_s)
            if self.slot_gbytes_per_s < wire
            else ""
        )
        return f"{self.name} {self.rate_gbits:g} Gbit/s / 8 x {share} = {wire:.5g} GB/s{slot}"


@dataclass(frozen=True)
class Uplink:
    """The ports that a node's job uses, and how far their rate tells what it reaches over them."""

    nics: tuple[Nic, ...]  # none where the rate of one of them is not known
    least: float = 1.0  # the share of their rate that a healthy node reaches at least; 1 where the rate is sure
    reason: str = ""  # why the rate is not sure
    is_bounded: bool = True  # whether nothing can be faster than these ports
    is_tcp: bool = False

    @property
    def gbytes_per_s(self) -> float:
        """What they carry together."""
        return sum(nic.gbytes_per_s for nic in self.nics)

    def fast(self) -> Uplink:
        """The uplink without ports below half the fastest rate: NCCL's rings have channels of one speed.

        Azure's nodes have a port of 80 Gbit/s for the host beside eight of 400 for the GPUs.
        """
        most = max((nic.rate_gbits for nic in self.nics), default=0.0)
        return self.only(nic for nic in self.nics if 2 * nic.rate_gbits >= most)

    def only(self, nics: Iterable[Nic]) -> Uplink:
        """The uplink with some of its ports."""
        return replace(self, nics=tuple(nics))


@dataclass(frozen=True)
class Inside:
    """What joins the GPUs of a node; inf where it is not known."""

    kind: str  # "NVLink", "xGMI", "PCIe"; "" where it is not known
    ring: float  # busbw that a ring usually reaches
    least: float  # ... and reaches at least
    pair: float  # from one GPU to the next
    most: float = math.inf  # what the links carry by their specification
    nvls: float = 0.0  # busbw of an all-reduce that switches add up; 0 where they cannot
    nvls_below: float = 1.0  # the share of it below NVLS_PLATEAU_BYTES
    racks: tuple[tuple[int, float], ...] = ()  # busbw of such an all-reduce where NVLink joins nodes, by GPUs


ALONE = Inside("", math.inf, math.inf, math.inf)  # one rank a node
UNKNOWN = Inside("", math.inf, LEAST_INSIDE, math.inf)


def uplink_of(node: NodeFacts, *, backend: Backend, used: Transport | None = None) -> Uplink:
    """What a node's job talks over: by NCCL's log where there is one, else by the choice that NCCL will make."""
    network = used.network if used is not None else ""
    is_tcp = backend == "gloo"
    try:
        is_tcp = is_tcp or "Socket" in network or (not network and not _may_use_rdma(node))
        if is_tcp:
            return Uplink(tuple(_tcp(interface) for interface in _interfaces(node, backend, used)), is_tcp=True)
        if _is_of_efa(network, node):
            return _efa(node)
        ports = [hca for hca in chosen_hcas(node.rdma, node.value("NCCL_IB_HCA")) if hca.is_active]
        shared = Counter(hca.device for hca in ports)
        cables = Counter(cable for hca in ports if (cable := hca.cable))
        found = tuple(
            _rdma(hca, node, sharing=shared[hca.device], functions=cables[hca.cable] if hca.cable else 1)
            for hca in ports
        )
        if not network or TRUSTED.match(network):
            # Drivers differ in whether a bond has the rate of one leg or of all.
            return Uplink(found, is_bounded=not any("bond" in hca.device for hca in ports))
        return _of_plugin(node, network, found)
    except FactMissing as missing:
        return Uplink((), reason=str(missing), is_tcp=is_tcp)


def _interfaces(node: NodeFacts, backend: Backend, used: Transport | None) -> tuple[Interface, ...]:
    if backend == "gloo":
        return (node.network.training_interface,)
    if used is not None and "Socket" in used.network:
        names = {port.partition(":")[0] for port in used.ports}
        return tuple(interface for interface in node.network.interfaces if interface.name in names)
    value, family = node.value("NCCL_SOCKET_IFNAME"), node.value("NCCL_SOCKET_FAMILY")
    return nccl_interfaces(node.network, value, socket_family=family)


def inside_of(node: NodeFacts, *, ranks: int) -> Inside:
    """What joins the GPUs of a node whose job has so many ranks there."""
    try:
        gpus = node.gpu.readable()
        joined = node.gpu.switches > 0 or all(gpu.is_on_a_baseboard for gpu in gpus)
        if not isinstance(node.gpu.topology, Missing):
            joined = node.gpu.topology.are_joined_by_nvlink()
    except (FactMissing, BlockedBy):
        return UNKNOWN
    if ranks < 2:
        return ALONE
    found = [_of_gpu(gpu, gpus=ranks, can_add_up=node.gpu.switches > 0 and ranks > 2) for gpu in gpus] if joined else []
    if found and all(one.kind == "NVLink" for one in found):
        return min(found, key=lambda one: one.ring)
    for mesh in MESHES:
        if gpus and all(re.search(mesh.pattern, gpu.name) for gpu in gpus):
            least = mesh.ring if mesh.is_sure else mesh.ring * LEAST_OF_EFA
            return Inside("xGMI", mesh.ring, least, mesh.pair)
    slot = min((slot_gbytes_per_s(gpu.pci, at_work=True) for gpu in gpus), default=math.inf)
    if any("AMD" in gpu.name for gpu in gpus) or math.isinf(slot):
        return UNKNOWN
    return Inside("PCIe", USUAL_OF_PCIE * slot, LEAST_OF_PCIE * slot, LEAST_OF_PCIE * slot, slot)


def slot_gbytes_per_s(function: PciFunction | Missing, *, at_work: bool = False) -> float:
    """What a PCIe slot carries of a device's data in one direction; inf where its speed or width is not known.

    ``at_work`` takes the speed that a GPU returns to from its rest.
    """
    if isinstance(function, Missing) or isinstance(function.speed, Missing) or isinstance(function.width, Missing):
        return math.inf
    most = function.speed_max
    speed = most if at_work and not isinstance(most, Missing) else function.speed
    coding = 128 / 130 if speed >= 8 else 0.8
    efficiency = NARROW_EFFICIENCY if function.width <= NARROW_LANES else PCIE_EFFICIENCY
    return speed / 8 * function.width * coding * efficiency


def _of_gpu(gpu: Gpu, *, gpus: int, can_add_up: bool) -> Inside:
    row = next((row for row in NVLINKS if re.search(rf"\b({row.pattern})\b", gpu.name)), None)
    if row is None or isinstance(gpu.links, Missing) or not gpu.links.active:
        return UNKNOWN
    links = gpu.links.active
    ring = links * row.ring * (USUAL_OF_BRIDGE if BRIDGED.search(gpu.name) else 1.0)
    nvls = links * row.nvls * min(1.0, added_up(gpus) / added_up(NVLS_GPUS)) if can_add_up else 0.0
    return Inside("NVLink", ring, ring, ring, links * row.raw, nvls, row.nvls_below, row.racks)


def added_up(gpus: int) -> float:
    """What the bus bandwidth of an all-reduce follows that switches add up (NVLS), with the number of its GPUs.

    Each sends all of its data and, of the sum, one part in n: 2(n-1)/n over 1 + 1/n, less for few GPUs.
    """
    return (gpus - 1) / (gpus + 1)


def _may_use_rdma(node: NodeFacts) -> bool:
    if node.value("NCCL_IB_DISABLE") not in ("", "0"):
        return False
    return _has_only_efa(node) or any(hca.is_active for hca in chosen_hcas(node.rdma, node.value("NCCL_IB_HCA")))


def _is_of_efa(network: str, node: NodeFacts) -> bool:
    """Whether libfabric, or what NCCL will take, drives EFA: on HPE's Slingshot the same plugin drives interfaces."""
    if not network:
        return _has_only_efa(node)
    return ("Libfabric" in network or network == "OFI") and any(hca.is_efa for hca in hcas(node.rdma))


def _has_only_efa(node: NodeFacts) -> bool:
    ports = hcas(node.rdma)
    return any(hca.is_efa for hca in ports) and not any(hca.is_active for hca in ports)


def _efa(node: NodeFacts) -> Uplink:
    """EFA reports 100 Gbit/s whatever its generation, in the drivers of some years."""
    ports = [hca for hca in hcas(node.rdma) if hca.is_efa]
    nics = tuple(Nic(hca.name, _rate(hca), "EFA", 8928) for hca in ports)
    return Uplink(nics, LEAST_OF_EFA, "what EFA's plugin reaches of its ports' rate depends on its version", False)


def _of_plugin(node: NodeFacts, network: str, ports: tuple[Nic, ...]) -> Uplink:
    """The network of an unknown plugin: the RDMA ports, or the interfaces that nothing else uses."""
    own = node.network.training
    up = [one for one in node.network.interfaces if one.is_physical and one.is_up]
    if "Libfabric" in network:  # Slingshot: the training interface is one of its own
        nics = ports or _fastest(tuple(_tcp(one) for one in up if not isinstance(one.speed_mbps, Missing)))
    else:
        nics = ports or tuple(_tcp(one) for one in up if one.name != own)
    if not nics:
        raise FactMissing(
            "rate", said("which ports the network {network} of NCCL drives is not known", network), "absent"
        )
    return Uplink(
        nics, LEAST_OF_PLUGIN, said("how fast the network {network} of NCCL drives them is not known", network), False
    )


def _fastest(nics: tuple[Nic, ...]) -> tuple[Nic, ...]:
    most = max((nic.rate_gbits for nic in nics), default=0.0)
    return tuple(nic for nic in nics if nic.rate_gbits == most)


def _tcp(interface: Interface) -> Nic:
    return Nic(interface.name, interface.rate_mbps() / 1000, "TCP", interface.mtu)


def _rate(hca: Hca) -> float:
    rate = hca.port.rate_gbps
    if isinstance(rate, Missing):
        raise FactMissing(said("rate of {name}", hca.name), rate.missing, rate.kind)
    return rate


def _rdma(hca: Hca, node: NodeFacts, *, sharing: int, functions: int) -> Nic:
    slot = next(slot_gbytes_per_s(device.pci) for device in node.rdma.devices if device.name == hca.device) / sharing
    rate = _rate(hca)
    if hca.port.link_layer == "InfiniBand":
        mtu = hca.port.active_mtu
        return Nic(hca.name, rate, "InfiniBand", 4096 if isinstance(mtu, Missing) else mtu, slot, functions)
    netdevs = [gid.netdev for gid in hca.port.gids if not isinstance(gid.netdev, Missing)]
    if not netdevs:
        raise FactMissing(said("MTU of {name}", hca.name), "no netdev in its GID table", "absent")
    # RoCE's MTU is the largest power of two that fits the netdev's with its headers.
    room = node.network.interface(netdevs[0]).mtu - 58
    mtu = next((mtu for mtu in ROCE_MTUS if mtu <= room), ROCE_MTUS[-1])
    return Nic(hca.name, rate, "RoCE", mtu, slot, functions)
