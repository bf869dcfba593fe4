"""Will NCCL take good ports of a node, at full speed and into the GPUs' memory?

Sources: NCCL's net_ib.cc (which ports and GIDs it takes), and field cases by their issue.
"""

from __future__ import annotations

from collections.abc import Iterable

from preflight.facts.fabric import Hca
from preflight.facts.node import NodeFacts
from preflight.facts.value import Missing, present
from preflight.judge.tables import gids
from preflight.judge.tables.faults import Fault, active_ports
from preflight.judge.tables.rdma.parity import active_mtus
from preflight.knowledge.versions import is_within
from preflight.said import joined, said
from preflight.said.errors import FactMissing, NotApplicable


def _ignores_mismatch(node: NodeFacts) -> str:
    words = "NCCL_IGNORE_NET_MISMATCH=1 hides that nodes have other adapters than their peers: they hang instead"
    return words if node.value("NCCL_IGNORE_NET_MISMATCH") == "1" and node.rdma.devices else ""


def _mixed_layers(node: NodeFacts) -> str:
    """Ports of both kinds where NCCL has a reason to take either: the nearest to a GPU, or as fast as the others.

    An Ethernet port for storage or management, slower and farther than the fabric's, is on most InfiniBand nodes.
    """
    of_layer: dict[str, list[Hca]] = {}
    for hca in _fast_and_near(node):
        of_layer.setdefault(hca.port.link_layer, []).append(hca)
    if len(of_layer) < 2:
        return ""
    message = joined([said("{name} is {layer}", hcas[0].name, layer) for layer, hcas in sorted(of_layer.items())], ", ")
    return said("NCCL would use InfiniBand and Ethernet ports together: {message}", message)


def _fast_and_near(node: NodeFacts) -> list[Hca]:
    """The active ports that are as fast as the fastest, and near a GPU where it is known which are."""
    active = node.active_hcas()
    rates = {hca.name: hca.port.rate_gbps for hca in active if not isinstance(hca.port.rate_gbps, Missing)}
    fastest = max(rates.values(), default=0.0)
    found = [hca for hca in active if rates.get(hca.name, fastest) >= fastest]
    try:
        topology = present(node.gpu.topology, "topology")
    except FactMissing:
        return found
    near = {name for names in topology.nearest_adapters().values() for name in names}
    return [hca for hca in found if hca.device in near] or found


def used_ports(node: NodeFacts) -> Iterable[tuple[str, Hca]]:
    """The active ports without the Ethernet ones that NCCL has no reason to take, as those of a cloud's own network."""
    active = active_ports(node)
    if node.has_variable("NCCL_IB_HCA") and not node.value("NCCL_IB_HCA").startswith("^"):
        return active
    taken = {hca.name for hca in _fast_and_near(node)} if active else set()
    return [(name, hca) for name, hca in active if not hca.is_roce or name in taken]


def _slow_of_a_kind(node: NodeFacts) -> str:
    """A port slower than others on adapters of the same board."""
    rates: dict[str, dict[str, float]] = {}
    for hca in node.active_hcas():
        rate = hca.port.rate_gbps
        if hca.kind and not isinstance(rate, Missing):
            rates.setdefault(f"{hca.kind} {hca.port.link_layer}", {})[hca.name] = rate
    slow = [
        said("{name} links at {rate:g} Gbit/s, others of its board at {max:g}", name, rate, max(of_kind.values()))
        for of_kind in rates.values()
        for name, rate in of_kind.items()
        if rate < max(of_kind.values())
    ]
    return joined(slow)


def _old_default(node: NodeFacts) -> str:
    """Before 2.21 NCCL took GID 0, which is RoCE v1 and link-local, unless a variable says otherwise."""
    if node.has_variable("NCCL_IB_GID_INDEX"):
        return ""
    version = node.software.library_of_torch("nccl")
    roce = [hca.name for hca in node.active_hcas() if hca.port.link_layer == "Ethernet"]
    if version.count(".") < 2 or node.nccl_chooses_gids() or not roce:
        return ""
    return said(
        "NCCL {version} takes GID 0 where NCCL_IB_GID_INDEX is not set: RoCE v1, on {roce}", version, ", ".join(roce)
    )


def _narrow(node: NodeFacts) -> str:
    """An adapter on fewer lanes, or slower ones, than both it and its slot can do."""
    used = {hca.device for hca in node.active_hcas()}
    messages = []
    for device in node.rdma.devices:
        if device.name not in used or isinstance(device.pci, Missing):
            continue
        pairs = (
            ("x{:g}", device.pci.width, device.pci.width_max),
            ("{:g} GT/s", device.pci.speed, device.pci.speed_max),
        )
        for words, now, most in pairs:
            for value in (now, most):
                if isinstance(value, Missing) and value.kind != "absent":
                    raise FactMissing(said("PCIe link of {name}", device.name), value.missing, value.kind)
            if not isinstance(now, Missing) and not isinstance(most, Missing) and now < most:
                messages.append(
                    said(
                        "{name} is on PCIe {format}, where {format2} is possible",
                        device.name,
                        words.format(now),
                        words.format(most),
                    )
                )
    return joined(messages)


def _iwarp(node: NodeFacts) -> str:
    kinds = {
        device.name: present(device.node_type, said("node type of {name}", device.name)) for device in node.rdma.devices
    }
    names = [name for name, kind in kinds.items() if kind == "RNIC"]
    return said("{names} speaks iWARP, which NCCL leaves out", ", ".join(names)) if names else ""


NODES = (
    Fault(
        "PCIe link of adapters",
        _narrow,
        "reseat the adapter or its riser on the nodes named; set the slot's bifurcation and speed in the BIOS",
        "sysfs current_link_width, current_link_speed of device and slot",
    ),
    Fault(
        "protocol of the adapters",
        _iwarp,
        "have the driver speak RoCE on the nodes named (`options irdma roce_ena=1`, or devlink's enable_roce)",
        "NCCL net_ib.cc: only transports of InfiniBand",
    ),
    Fault(
        "NCCL_IGNORE_NET_MISMATCH",
        _ignores_mismatch,
        "unset NCCL_IGNORE_NET_MISMATCH, and name the adapters that all nodes have in NCCL_IB_HCA",
        "NVIDIA/nccl#2428",
    ),
    Fault(
        "link layers of the ports",
        _mixed_layers,
        "name the ports of one kind in NCCL_IB_HCA, for example `NCCL_IB_HCA==mlx5_0,mlx5_1`",
        "NCCL net_ib.cc: every active port is taken",
    ),
    Fault(
        "rates of like adapters",
        _slow_of_a_kind,
        "reseat or replace its cable, correct the switch's port, or leave it out of NCCL_IB_HCA",
        "sysfs ports/*/rate",
    ),
    Fault(
        "GID that NCCL chooses",
        gids.wrong_choice,
        "set NCCL_IB_GID_INDEX to the RoCE v2 row of `show_gids`, or NCCL_IB_ADDR_FAMILY=AF_INET6 without IPv4",
        "NCCL net_ib.cc: ncclIbGetGidIndex",
    ),
    Fault(
        "GID index of old NCCL",
        _old_default,
        "set NCCL_IB_GID_INDEX to the RoCE v2 row of `show_gids`, or use NCCL 2.21 and later",
        "NVIDIA/nccl release notes 2.21",
    ),
)


def _device_initiated(node: NodeFacts) -> str:
    variables = node.environment.variables
    users = [name for name in ("NCCL_GIN_ENABLE", "NCCL_GIN_TYPE") if node.value(name) not in ("", "0")]
    users += sorted({name for name in variables if name.startswith("NVSHMEM_")})[:1]
    # torch brings NVSHMEM's library along, so that one says nothing.
    users += [name for name in ("deep-ep", "deep_ep") if name in node.software.packages]
    if not users:
        raise NotApplicable("nothing of the job asks for device-initiated traffic")
    known = {name: int(present(mtu, said("active MTU of {name}", name))) for name, mtu in active_mtus(node).items()}
    small = [said("{name} has {mtu}", name, mtu) for name, mtu in known.items() if mtu < 4096]
    return said("active MTU: {small}; {users} needs 4096", ", ".join(small), users[0]) if small else ""


def _without_gpudirect(node: NodeFacts) -> str:
    if not node.gpu.readable():
        raise NotApplicable("no GPU")
    way = node.kernel.gpudirect(node.identity.kernel) if node.active_hcas() else "none"
    return "neither nvidia_peermem nor dma-buf: adapters cannot reach the GPUs' memory" if way == "none" else ""


STAGED_GBPS = 800.0  # what all adapters of a node carry where the host's memory, in between, carries a tenth of it


def _carries(node: NodeFacts) -> float:
    rates = (hca.port.rate_gbps for hca in node.active_hcas())
    return sum(rate for rate in rates if not isinstance(rate, Missing))


def _slows_many_adapters(node: NodeFacts) -> str:
    words = _under_another_name(node)
    return words if _carries(node) >= STAGED_GBPS else ""


def _slows_few_adapters(node: NodeFacts) -> str:
    words = _under_another_name(node)
    return words if _carries(node) < STAGED_GBPS else ""


def _under_another_name(node: NodeFacts) -> str:
    """A module that is loaded, where NCCL looks for it by the name of its predecessor, and takes it for absent."""
    if not node.gpu.readable():
        raise NotApplicable("no GPU")
    nccl, modules = node.software.library_of_torch("nccl"), present(node.kernel.modules, "kernel modules")
    serves = {"mlx5_ib", "mlx4_ib"} & set(modules) and node.active_hcas()
    if "nvidia_peermem" not in modules or not serves:
        raise NotApplicable("nvidia_peermem is not loaded, or there is no adapter that it serves")
    if not is_within(nccl, "<2.23"):
        return ""
    has_dma_buf = node.kernel.is_driver_open is True and is_within(node.identity.kernel, ">=5.12")
    if has_dma_buf or {"nv_mem", "nv_mem_nc"} & set(present(node.kernel.peer_memory, "memory_peers of the kernel")):
        return ""
    return said(
        "NCCL {nccl} does not know nvidia_peermem, which is loaded: it looks for /sys/kernel/mm/memory_peers/nv_mem, "
        "and does without GPUDirect RDMA (180 GB/s became 10 on two DGX)",
        nccl,
    )


# Rows about a node as a whole; an empty fix is the check's own.
DEVICE_INITIATED = (Fault("MTU of device-initiated traffic", _device_initiated, "", "NVIDIA/nccl#1957"),)
GPUDIRECT = (Fault("GPUDirect RDMA", _without_gpudirect, "", "NVIDIA/nccl#1343"),)
UNDER_ANOTHER_NAME = (
    Fault("name of the peer memory", _slows_many_adapters, "", "NVIDIA/nccl#1676"),
    Fault("name of the peer memory", _slows_few_adapters, "", "NVIDIA/nccl#1676", is_advisory=True),
)
