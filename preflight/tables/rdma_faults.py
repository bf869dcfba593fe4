"""What can be wrong with an RDMA port that the job may use?

Sources: the InfiniBand Architecture Specification (states, partition keys), NCCL's net_ib.cc (which ports and GIDs it
takes), and field cases by their issue.
"""

from __future__ import annotations

from preflight.errors import FactMissing
from preflight.facts.fabric import Hca, classify
from preflight.facts.node import NodeFacts
from preflight.facts.value import Missing, present
from preflight.tables.faults import Fault

# What counts errors of link or transport; flow counters and those of mere congestion are left out.
ERROR_COUNTERS = (
    *("symbol_error", "link_error_recovery", "port_rcv_errors", "port_rcv_remote_physical_errors"),
    *("local_link_integrity_errors", "excessive_buffer_overrun_errors", "port_xmit_constraint_errors"),
    *("port_rcv_constraint_errors", "port_xmit_discards", "local_ack_timeout_err", "packet_seq_err"),
    *("rnr_nak_retry_err", "req_cqe_error", "resp_cqe_error", "rx_icrc_encapsulated", "out_of_buffer"),
)
FULL_MEMBER = 0x8000


def _unopenable(hca: Hca) -> str:
    error = present(hca.open_error, "device file")
    return f"it cannot be opened: {error}" if error else ""


OPENABLE = (
    Fault(
        "device file",
        _unopenable,
        "give the container its devices (`--device=/dev/infiniband`, on Kubernetes the device plugin's resource), and "
        "load ib_uverbs on the nodes named; all nodes must open the same set",
        "NVIDIA/nccl#2428, NVIDIA/nccl#451",
    ),
)


def _unmanaged(hca: Hca) -> str:
    if hca.port.link_layer != "InfiniBand":
        raise FactMissing("subnet manager", "the link is no InfiniBand", "absent")
    waits = hca.port.state in ("INIT", "ARMED")
    return f"it waits for a subnet manager ({hca.port.state_text()})" if waits else ""


def _limited(hca: Hca) -> str:
    keys = present(hca.port.pkeys, "partition keys")
    if hca.port.link_layer != "InfiniBand":
        raise FactMissing("partition keys", "the link is no InfiniBand", "absent")
    held = {int(key, 16) for key in keys}
    return (
        "" if held & {0xFFFF} or any(key & FULL_MEMBER for key in held) else f"limited member only ({', '.join(keys)})"
    )


MANAGED = (
    Fault(
        "subnet manager",
        _unmanaged,
        "`sminfo` on the nodes named; start OpenSM (or the switch's subnet manager), then the port becomes ACTIVE",
        "InfiniBand Architecture Specification, port states",
    ),
)


def _without_manager(hca: Hca) -> str:
    if hca.port.link_layer != "InfiniBand":
        raise FactMissing("subnet manager", "the link is no InfiniBand", "absent")
    lid = present(hca.port.sm_lid, "LID of the subnet manager")
    return "it knows no subnet manager (sm_lid 0)" if int(lid, 16) == 0 else ""


def _local_only(hca: Hca) -> str:
    """Rows that all end at the layer 2 segment: the interface has no address."""
    if hca.port.link_layer != "Ethernet":
        raise FactMissing("GID table", "the link is no Ethernet", "absent")
    scopes = {classify(gid).scope for gid in hca.port.gids} - {"empty"}
    return "all its GIDs are link-local: its interface has no address" if scopes == {"link-local"} else ""


def _wide(hca: Hca) -> str:
    width = present(hca.port.width, "width of the link")
    named = hca.port.link_layer == "InfiniBand" and width == 1
    # One lane of EDR is how some adapters reach 25 Gbit/s; a wide link that came up on one lane is far slower.
    return f"one lane only, {hca.port.rate_text()}" if named and present(hca.port.rate_gbps, "rate") < 25 else ""


FRAGILE = (
    Fault(
        "known subnet manager",
        _without_manager,
        "`sminfo` on the nodes named; start the subnet manager again before the next port comes up",
        "InfiniBand Architecture Specification, PortInfo.MasterSMLID",
    ),
    Fault(
        "link-local GIDs",
        _local_only,
        "give the interface of the port its address (`ip addr add <address>/<prefix> dev <netdev>`) on the nodes named",
        "NVIDIA/nccl#769",
    ),
    Fault(
        "full membership",
        _limited,
        "make the nodes named full members of a partition on the subnet manager (partitions.conf: `ALL=full`)",
        "InfiniBand Architecture Specification, partitioning",
    ),
    Fault("lanes", _wide, "reseat or replace the cable of the port on the nodes named", "sysfs ports/*/rate"),
)


def _ignores_mismatch(node: NodeFacts) -> str:
    words = "NCCL_IGNORE_NET_MISMATCH=1 hides that nodes have other adapters than their peers: they hang instead"
    return words if node.value("NCCL_IGNORE_NET_MISMATCH") == "1" and node.rdma.devices else ""


def _mixed_layers(node: NodeFacts) -> str:
    layers = {hca.port.link_layer: hca.name for hca in node.active_hcas()}
    if len(layers) < 2:
        return ""
    message = ", ".join(f"{name} is {layer}" for layer, name in sorted(layers.items()))
    return f"NCCL would use InfiniBand and Ethernet ports together: {message}"


def _slow_of_a_kind(node: NodeFacts) -> str:
    """A port slower than others on adapters of the same board."""
    rates: dict[str, dict[str, float]] = {}
    for hca in node.active_hcas():
        rate = hca.port.rate_gbps
        if hca.kind and not isinstance(rate, Missing):
            rates.setdefault(hca.kind, {})[hca.name] = rate
    slow = [
        f"{name} links at {rate:g} Gbit/s, others of its board at {max(of_kind.values()):g}"
        for of_kind in rates.values()
        for name, rate in of_kind.items()
        if rate < max(of_kind.values())
    ]
    return "; ".join(slow)


def _old_default(node: NodeFacts) -> str:
    """Before 2.21 NCCL took GID 0, which is RoCE v1 and link-local, unless a variable says otherwise."""
    if node.has_variable("NCCL_IB_GID_INDEX"):
        return ""
    version = node.software.library_of_torch("nccl")
    digits = [int(part) for part in version.split(".")[:2] if part.isdecimal()]
    roce = [hca.name for hca in node.active_hcas() if hca.port.link_layer == "Ethernet"]
    if len(digits) < 2 or digits >= [2, 21] or not roce:
        return ""
    return f"NCCL {version} takes GID 0 where NCCL_IB_GID_INDEX is not set: RoCE v1, on {', '.join(roce)}"


NODES = (
    Fault(
        "ignored mismatch",
        _ignores_mismatch,
        "unset NCCL_IGNORE_NET_MISMATCH, and name the adapters that all nodes have in NCCL_IB_HCA",
        "NVIDIA/nccl#2428",
    ),
    Fault(
        "mixed link layers",
        _mixed_layers,
        "name the ports of one kind in NCCL_IB_HCA, for example `NCCL_IB_HCA==mlx5_0,mlx5_1`",
        "NCCL net_ib.cc: every active port is taken",
    ),
    Fault(
        "slow port",
        _slow_of_a_kind,
        "reseat or replace its cable, correct the switch's port, or leave it out of NCCL_IB_HCA",
        "sysfs ports/*/rate",
    ),
    Fault(
        "GID index of old NCCL",
        _old_default,
        "set NCCL_IB_GID_INDEX to the RoCE v2 row of `show_gids`, or use NCCL 2.21 and later",
        "NVIDIA/nccl release notes 2.21",
    ),
)


def active_mtus(node: NodeFacts) -> dict[str, str]:
    """Each active port -> its active MTU; one whose netdev is the training interface is that interface's matter."""
    own = "" if isinstance(node.network.training, Missing) else node.network.training
    found = {}
    for hca in node.active_hcas():
        is_own = hca.is_roce and any(gid.netdev == own for gid in hca.port.gids)
        if not is_own and not (isinstance(hca.port.active_mtu, Missing) and hca.port.active_mtu.kind == "absent"):
            found[hca.name] = str(present(hca.port.active_mtu, "active MTU"))
    if not found:
        raise FactMissing("active MTU", "no port reports it", "absent")
    return found


def partitions(node: NodeFacts) -> dict[str, str]:
    """Each active InfiniBand port -> the partition that NCCL takes: the row at NCCL_IB_PKEY, else the first."""
    text = node.value("NCCL_IB_PKEY")
    row = int(text) if text.isdecimal() else 0
    found = {}
    for hca in node.active_hcas():
        keys = hca.port.pkeys
        if hca.port.link_layer == "InfiniBand" and not isinstance(keys, Missing):
            found[hca.name] = f"0x{int(keys[row], 16) & 0x7FFF:04x}" if row < len(keys) else "none"
    if not found:
        raise FactMissing("partition keys", "no InfiniBand port reports any", "absent")
    return found


def _device_initiated(node: NodeFacts) -> str:
    variables = node.environment.variables
    users = [name for name in ("NCCL_GIN_ENABLE", "NCCL_GIN_TYPE") if node.value(name) not in ("", "0")]
    users += sorted({name for name in variables if name.startswith("NVSHMEM_")})[:1]
    # torch brings NVSHMEM's library along, so that one says nothing.
    users += [name for name in ("deep-ep", "deep_ep") if name in node.software.packages]
    if not users:
        raise FactMissing("device-initiated traffic", "nothing of the job asks for it", "absent")
    small = [f"{name} has {mtu}" for name, mtu in active_mtus(node).items() if int(mtu) < 4096]
    return f"active MTU: {', '.join(small)}; {users[0]} needs 4096" if small else ""


def _without_gpudirect(node: NodeFacts) -> str:
    if not node.gpu.readable():
        raise FactMissing("GPUDirect", "no GPU", "absent")
    way = node.kernel.gpudirect(node.identity.kernel) if node.active_hcas() else "none"
    return "neither nvidia_peermem nor dma-buf: adapters cannot reach the GPUs' memory" if way == "none" else ""


def _flapped(node: NodeFacts) -> str:
    messages = []
    for hca in node.active_hcas():
        end = node.ending.ports.get(hca.name)
        if end is None:
            messages.append(f"{hca.name} is gone")
            continue
        if end.state != "ACTIVE":
            messages.append(f"{hca.name} was ACTIVE and is {end.state}")
        downs = end.counters.get("link_downed", 0) - hca.port.counters.get("link_downed", 0)
        if downs > 0:
            messages.append(f"{hca.name} went down {downs} times")
    return "; ".join(messages)


def _counted(node: NodeFacts) -> str:
    messages = []
    for hca in node.active_hcas():
        end = node.ending.ports.get(hca.name)
        for name in ERROR_COUNTERS if end is not None else ():
            before, after = hca.port.counters.get(name), end.counters.get(name) if end is not None else None
            if before is not None and after is not None and after > before:
                messages.append(f"{name} of {hca.name} grew by {after - before}")
    return "; ".join(messages)


# Rows about a node as a whole; an empty fix is the check's own.
DEVICE_INITIATED = (Fault("MTU of device-initiated traffic", _device_initiated, "", "NVIDIA/nccl#1957"),)
GPUDIRECT = (Fault("GPUDirect RDMA", _without_gpudirect, "", "NVIDIA/nccl#1343"),)
FLAPPED = (Fault("links", _flapped, "", "ROCm/rccl#1423"),)
COUNTED = (Fault("error counters", _counted, "", "InfiniBand Architecture Specification, PortCounters"),)
