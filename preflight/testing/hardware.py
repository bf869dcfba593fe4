"""Which hardware has a healthy node: interfaces, GPUs, RDMA devices?"""

from __future__ import annotations

import functools
from typing import Any, TypeVar

import msgspec

from preflight.facts.pci import PciFunction
from preflight.facts.subjects.gpu import Gpu, LinkErrors, Links
from preflight.facts.subjects.gpus.status import GpuStatus
from preflight.facts.subjects.gpus.topology import Topology, TopologyRow
from preflight.facts.subjects.network import Address, Interface
from preflight.facts.subjects.rdma import Gid, PciRequests, RdmaDevice, RdmaPort
from preflight.facts.value import Missing, Value

ABSENT = Missing("not there", "absent")
V = TypeVar("V", bound=Value)


def made(kind: type[V], **fields: Any) -> V:
    """Facts with these values. A fact that is not given is absent, so that a new one breaks no made-up cluster."""
    return kind(**{**dict.fromkeys(_required(kind), ABSENT), **fields})


@functools.cache  # msgspec evaluates every annotation of the class each time it is asked
def _required(kind: type[Value]) -> tuple[str, ...]:
    return tuple(field.name for field in msgspec.structs.fields(kind) if field.required)


def node_address(number: int) -> str:
    """The address of node1, node2, ... on their training interface."""
    return f"10.0.{number >> 8}.{number & 255}"


def loopback() -> Interface:
    """The interface lo."""
    held = (Address("127.0.0.1", 8, "inet"), Address("::1", 128, "inet6"))
    return made(
        Interface,
        name="lo",
        index=1,
        addresses=held,
        mtu=65536,
        speed_mbps=0,
        is_up=True,
        is_loopback=True,
        is_physical=False,
    )


def eth0(address: str, prefix: int) -> Interface:
    """An Ethernet interface of 25 Gbit/s."""
    held = (Address(address, prefix, "inet"), Address("fe80::1%eth0", 64, "inet6"))
    return made(
        Interface,
        name="eth0",
        index=2,
        addresses=held,
        mtu=9000,
        speed_mbps=25000,
        is_up=True,
        is_loopback=False,
        is_physical=True,
        mac="02:00:" + ":".join(f"{int(part) & 255:02x}" for part in address.split(".")) if "." in address else ABSENT,
    )


def _status() -> GpuStatus:
    return GpuStatus(
        firmware=(("GSP", "580.95"),),
        temperature_celsius=35.0,
        temperature_limit_celsius=87.0,
        memory_celsius=40.0,
        memory_limit_celsius=95.0,
        clock_mhz=1980.0,
        clock_default_mhz=1980.0,
        deferred_errors=0,
        performance_level="AUTO",
        partition="SPX/NPS1",
        link_fault="NO_ERRORS",
        is_persistent=True,
        has_ecc=True,
        has_ecc_pending=True,
        mig_pending="Disabled",
        uncorrected_errors=0,
        pages_retired=0,
        is_retirement_pending=False,
        rows_remapped=0,
        is_remapping_pending=False,
        has_remapping_failed=False,
        is_memory_beyond_repair=False,
        is_repair_pending=False,
        is_sram_worn=False,
        recovery="None",
        needs_reset=False,
        slowdowns=("gpu_idle",),
        performance_state="P0",
        pcie_generation=5,
        pcie_generation_max=5,
        pcie_width=16,
        pcie_width_max=16,
        power_limit_watts=700.0,
        power_default_watts=700.0,
        corrected_errors=0,
        banks_without_spare_rows=0,
        banks_with_one_spare_row=0,
        memory_used_mib=0,
        vbios="96.00.A5.00.03",
        fabric_health="Healthy",
        fabric_faults=(),
        nvlink_gbytes_per_s=26.562,
        fabric_state="Completed",
        fabric_status="Success",
    )


def _gpu(index: int) -> Gpu:
    place = f"pci0000:{index:02x}/0000:{index:02x}:00.0"
    function = PciFunction(place, index // 4, 16, 16, 32.0, 32.0, "identity", ())
    return made(
        Gpu,
        index=index,
        name="NVIDIA H200",
        uuid=f"GPU-{index}",
        memory_mib=143771,
        bus_id=f"00000000:{index:02x}:00.0",
        compute_mode="Default",
        mig_mode="Disabled",
        processes=0,
        status=_status(),
        links=Links(18, 0),
        link_errors=LinkErrors(18, 54, {}),
        pci=function,
    )


def topology(gpus: int, *, nearest: tuple[int, ...] = ()) -> Topology:
    """All GPUs joined by NVLink; each near an adapter, its own where `nearest` says nothing else."""
    near = nearest or tuple(range(gpus))
    columns = [f"{kind}{i}" for kind in ("GPU", "NIC") for i in range(gpus)]

    def relation(one: str, other: str) -> str:
        if one == other:
            return "X"
        if one[:3] == other[:3]:
            return "NV18" if one.startswith("GPU") else "SYS"
        gpu, adapter = sorted((one, other))
        return "PIX" if near[int(gpu[3:])] == int(adapter[3:]) else "SYS"

    rows = [TopologyRow(a, tuple(relation(a, b) for b in columns)) for a in columns]
    return Topology(tuple(rows), {f"NIC{i}": f"mlx5_{i}" for i in range(gpus)})


def gpus(count: int, **fields: Any) -> tuple[Gpu, ...]:
    """The GPUs of one node: H200, with other values where `fields` gives some."""
    access = [tuple("X" if one == other else "OK" for other in range(count)) for one in range(count)]
    return tuple(msgspec.structs.replace(_gpu(i), **{"peer_access": access[i], **fields}) for i in range(count))


def hca(index: int, number: int) -> RdmaDevice:
    """One RoCE adapter of 400 Gbit/s; `number` is the node's."""
    mapped = f"0000:0000:0000:0000:0000:ffff:0a01:{index:02x}{number & 255:02x}"
    gids = (
        Gid(0, "fe80:0000:0000:0000:0000:0000:0000:0001", "IB/RoCE v1", f"rdma{index}"),
        Gid(1, "fe80:0000:0000:0000:0000:0000:0000:0001", "RoCE v2", f"rdma{index}"),
        Gid(2, mapped, "IB/RoCE v1", f"rdma{index}"),
        Gid(3, mapped, "RoCE v2", f"rdma{index}"),
    )
    counters = dict.fromkeys(("link_downed", "symbol_error", "port_rcv_errors"), 0)
    port = made(
        RdmaPort,
        number=1,
        state="ACTIVE",
        physical_state="LinkUp",
        rate_gbps=400.0,
        link_layer="Ethernet",
        gids=gids,
        lid=ABSENT,
        sm_lid=ABSENT,
        counters=counters,
        width=4,
        active_mtu=4096,
        pkeys=("0xffff",),
        pfc_priorities="3",
        ecn_priorities="3",
        trust="dscp",
        traffic_class="106",
    )
    return made(
        RdmaDevice,
        name=f"mlx5_{index}",
        firmware="28.39",
        board="MT_0838",
        node_type="CA",
        ports=(port,),
        model="MT4129",
        open_error="",
        requests=PciRequests(512, is_relaxed=True, has_ats=False),
    )
