"""What breaks with RDMA, as sysfs, device files and the job's variables tell it?"""

from __future__ import annotations

from dataclasses import replace

from . import sysfs
from .faults import Fault, file, gone, limit, replaced, training, variables
from .faults_node import COMPANIONS
from .folder import TWIN, Folder
from .platform import Hca, Platform

MATCHES = "rdma.nccl_ib_hca_matches_a_port"


def has_ports(platform: Platform) -> bool:
    """Whether NCCL talks over ports itself; a job on CPUs leaves them alone."""
    return bool(platform.hcas and platform.gpus) and platform.hcas[0].link_layer != "Unspecified"


def is_infiniband(platform: Platform) -> bool:
    """Whether the rails are InfiniBand."""
    return bool(platform.hcas and platform.gpus) and platform.hcas[0].link_layer == "InfiniBand"


def is_roce(platform: Platform) -> bool:
    """Whether the rails are Ethernet."""
    return bool(platform.hcas and platform.gpus) and platform.hcas[0].link_layer == "Ethernet"


def has_index(platform: Platform) -> bool:
    """Whether the row of the GID table is set."""
    return is_roce(platform) and "NCCL_IB_GID_INDEX" in platform.environment


def is_efa(platform: Platform) -> bool:
    """Whether the adapters are EFA."""
    return bool(platform.hcas) and platform.hcas[0].link_layer == "Unspecified"


def number(platform: Platform) -> int:
    """Which of the adapters breaks: the third that a job there may open, by its first port."""
    own = [index for index, hca in enumerate(platform.hcas) if hca.can_open and hca.port == 1]
    return own[min(2, len(own) - 1)]


def rail(platform: Platform) -> Hca:
    """The adapter that breaks, as node3 calls it."""
    hca = platform.hcas[number(platform)]
    return replace(hca, name=hca.name.format(n=3))


def port(platform: Platform) -> str:
    """Its port's folder."""
    return f"sys/class/infiniband/{rail(platform).name}/ports/1"


def of_port(name: str, text: str) -> object:
    """A file of the port says something else."""
    return lambda folder, platform: folder.write(f"{port(platform)}/{name}", text)


def down(folder: Folder, platform: Platform) -> None:
    """The cable is out."""
    folder.write(f"{port(platform)}/state", "1: DOWN\n")
    folder.write(f"{port(platform)}/phys_state", "2: Polling\n")


def unmanaged(folder: Folder, platform: Platform) -> None:
    """The link is there, the subnet manager is not."""
    folder.write(f"{port(platform)}/state", "2: INIT\n")
    folder.write(f"{port(platform)}/sm_lid", "0x0\n")


def lost(folder: Folder, platform: Platform) -> None:
    """The adapter does not come up: nothing of it is in the class."""
    name = rail(platform).name
    folder.remove(f"sys/class/infiniband/{name}")


def half(folder: Folder, platform: Platform) -> None:
    """The link came up at half its rate."""
    figure = float(rail(platform).rate.split(" ")[0])
    folder.write(f"{port(platform)}/rate", f"{figure / 2:g} Gb/sec (2X NDR)\n")


def without_row(folder: Folder, platform: Platform) -> None:
    """The address came after the driver had made its table."""
    chosen = int(platform.environment["NCCL_IB_GID_INDEX"])
    for index in (chosen - 1, chosen) if len(rail(platform).gid_kinds) > 1 else (chosen,):
        folder.write(f"{port(platform)}/gids/{index}", f"{sysfs.EMPTY_GID}\n")


def without_address(folder: Folder, platform: Platform) -> None:
    """Only the link-local rows are there."""
    for index in range(len(rail(platform).gid_kinds), rail(platform).rows):
        folder.write(f"{port(platform)}/gids/{index}", f"{sysfs.EMPTY_GID}\n")


def closed(folder: Folder, platform: Platform) -> None:
    """The container lacks a device file."""
    folder.remove(f"dev/infiniband/uverbs{number(platform)}")


def other_mtu(folder: Folder, platform: Platform) -> None:
    """The port was set to a small MTU: its interface on Ethernet, the port itself on InfiniBand."""
    hca = rail(platform)
    folder.sub(f"{TWIN}/outputs/ibv_devinfo", rf"(?s)(hca_id:\t{hca.name}\n.*?active_mtu:\t\t)\d+", r"\g<1>1024")
    if hca.link_layer == "Ethernet":
        folder.write(f"sys/class/net/{hca.netdev}/mtu", "1500\n")


def other_firmware(folder: Folder, platform: Platform) -> None:
    """An adapter was not updated with the others."""
    folder.write(f"sys/class/infiniband/{rail(platform).name}/fw_ver", "28.33.0800\n")


def without_plugin(folder: Folder, platform: Platform) -> None:
    """The image lacks what carries NCCL over EFA."""
    folder.remove("opt/amazon/ofi-nccl/lib/libnccl-net.so")


def small_requests(folder: Folder, platform: Platform) -> None:
    """The BIOS of this node lets an adapter ask for 128 bytes at once."""
    folder.write(f"sys/{sysfs.folder_of(rail(platform).pci)}/config", sysfs.adapter(read_request_bytes=128))


FAULTS = (
    Fault(
        "small read requests of an adapter",
        small_requests,
        "rdma.adapters_ask_for_memory_alike_on_every_node",
        "MaxReadReq 128",
        lambda p: has_ports(p) and bool(rail(p).pci) and not p.user_id,
    ),
    Fault("rail down", down, "rdma.ports_are_active", "is DOWN (Polling)", has_ports),
    Fault("half rate of a rail", half, "rdma.ports_have_the_same_rate", "on node3", has_ports),
    Fault(
        "adapter gone",
        lost,
        lambda p: (
            MATCHES
            if rail(p).name in p.environment.get("NCCL_IB_HCA", "").strip("=").split(",")
            else "rdma.port_count_is_the_same_on_every_node"
        ),
        "",
        lambda p: bool(p.hcas and p.gpus),
    ),
    Fault(
        "no subnet manager",
        unmanaged,
        "rdma.infiniband_ports_have_a_subnet_manager",
        "waits for a subnet manager",
        is_infiniband,
    ),
    Fault(
        "subnet manager left", of_port("sm_lid", "0x0\n"), "rdma.ports_are_sound", "no subnet manager", is_infiniband
    ),
    Fault(
        "other partition",
        of_port("pkeys/0", "0x8005\n"),
        "rdma.partition_is_the_same_on_every_node",
        "0x0005",
        is_infiniband,
    ),
    Fault(
        "small active MTU",
        other_mtu,
        "rdma.active_mtu_is_the_same_on_every_node",
        "1024",
        lambda p: has_ports(p) and rail(p).netdev != training(p).name,
    ),
    Fault("missing GID row", without_row, "rdma.gid_index_exists_on_every_node", "GID index ", has_index),
    Fault(
        "RoCE v1 row",
        of_port("gid_attrs/types/3", "IB/RoCE v1\n"),
        "rdma.gid_index_is_routable_roce_v2",
        "wanted routable RoCE v2",
        lambda p: has_index(p) and len(rail(p).gid_kinds) > 1,
    ),
    Fault(
        "rail without an address",
        without_address,
        lambda p: "rdma.gid_index_exists_on_every_node" if has_index(p) else "rdma.roce_ports_have_an_address",
        "",
        is_roce,
    ),
    Fault("other firmware", other_firmware, COMPANIONS, "firmware of the RDMA adapters", lambda p: bool(p.hcas)),
    Fault(
        "other OFED",
        file("sys/module/mlx5_core/version", "5.8-3.0.7\n"),
        COMPANIONS,
        "RDMA driver",
        lambda p: bool(p.hcas) and not is_efa(p),
    ),
    Fault("device file missing", closed, "rdma.devices_can_be_opened", "cannot be opened", has_ports),
    Fault("wrong NCCL_IB_HCA", variables(NCCL_IB_HCA="mlx9_0"), MATCHES, "NCCL_IB_HCA=mlx9_0", has_ports),
    Fault("memlock", limit(memlock=65536), "limits.memlock_is_enough_for_rdma", "65536 bytes", has_ports),
    Fault(
        "flapping link",
        lambda folder, platform: folder.write(f"{port(platform)}/counters/link_downed", "2\n"),
        "rdma.no_link_went_down_during_the_run",
        "went down 2 times",
        lambda p: has_ports(p) and rail(p).has_counters,
        during=True,
    ),
    Fault(
        "link lost during the run",
        down,
        "rdma.no_link_went_down_during_the_run",
        "was ACTIVE and is DOWN",
        has_ports,
        during=True,
    ),
    Fault(
        "errors of a rail",
        lambda folder, platform: folder.write(f"{port(platform)}/counters/symbol_error", "900\n"),
        "rdma.no_errors_were_counted_during_the_run",
        "symbol_error",
        lambda p: has_ports(p) and rail(p).has_counters,
        during=True,
    ),
    Fault(
        "peermem not loaded",
        replaced("proc/modules", r"^nvidia_peermem .*\n", ""),
        "rdma.adapters_reach_gpu_memory",
        "neither nvidia_peermem nor dma-buf",
        lambda p: has_ports(p) and "nvidia_peermem" in p.modules and p.gpus is not None and not p.gpus.is_open,
    ),
    Fault(
        "EFA over TCP", variables(FI_PROVIDER="tcp"), "environment.nothing_is_left_from_debugging", "over TCP", is_efa
    ),
    Fault("EFA port down", down, "rdma.ports_are_active", "is DOWN", is_efa),
    Fault("EFA plugin missing", without_plugin, "rdma.plugin_of_nccl_is_there", "libnccl-net.so", is_efa),
    Fault(
        "TCPXO plugin missing",
        gone("var/lib/tcpxo/lib64/libnccl-net.so"),
        "rdma.plugin_of_nccl_is_there",
        "libnccl-net.so",
        lambda p: "NCCL_FASTRAK_IFNAME" in p.environment,
    ),
    Fault(
        "EFA driver not loaded",
        gone("sys/class/infiniband"),
        "rdma.port_count_is_the_same_on_every_node",
        "0 on node3",
        is_efa,
    ),
)
