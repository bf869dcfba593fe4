"""What does sysfs hold on a node: its PCI tree, its interfaces, its RDMA devices?

Paths and words are those of the kernel's Documentation/ABI (sysfs-bus-pci, sysfs-class-net, sysfs-class-infiniband).
A value of the tree is a file's text or bytes, or a `Link` to another path of the tree.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from dataclasses import dataclass

from .platform import Hca, Nic, Platform

Tree = dict[str, "str | bytes | Link"]
EMPTY_GID = ":".join(["0000"] * 8)
COUNTERS = (
    *("VL15_dropped", "excessive_buffer_overrun_errors", "link_downed", "link_error_recovery"),
    *("local_link_integrity_errors", "port_rcv_constraint_errors", "port_rcv_data", "port_rcv_errors"),
    *("port_rcv_packets", "port_rcv_remote_physical_errors", "port_xmit_constraint_errors", "port_xmit_data"),
    *("port_xmit_discards", "port_xmit_wait", "symbol_error"),
)
HW_COUNTERS = ("local_ack_timeout_err", "out_of_buffer", "packet_seq_err", "rnr_nak_retry_err", "rx_icrc_encapsulated")
HW_COUNTERS_OF = {
    "0x14e4": (
        *("active_qps", "rx_pkts", "tx_pkts", "to_retransmits", "seq_err_naks_rcvd", "max_retry_exceeded"),
        *("rnr_naks_rcvd", "unrecoverable_err", "oos_drop_count", "rx_roce_error_pkts", "rx_roce_discard_pkts"),
        *("tx_roce_errors", "rx_out_of_buffer", "rx_out_of_sequence", "rx_ecn_marked", "tx_cnp_pkts"),
    ),
    "0x1dd8": (
        *("tx_rdma_ucast_pkts", "rx_rdma_ucast_pkts", "tx_rdma_ack_timeout", "rx_rdma_mtu_discard_pkts"),
        *("req_tx_retry_excd_err", "resp_rx_outof_buf", "resp_rx_outof_seq", "req_rx_rnr_retry_err"),
    ),
    "0x8086": ("ip4InOctets", "ip4InDiscards", "ip4InTruncPkts", "rxVlanErr", "tcpRetransSegs", "cnpHandled"),
    "0x1d0f": (
        *("tx_pkts", "rx_pkts", "rx_drops", "retrans_pkts", "retrans_timeout_events"),
        *("unresponsive_remote_events", "impaired_remote_conn_events"),
    ),
}
CLASSES = {"nvidia": ("0x10de", "0x030200"), "amd": ("0x1002", "0x120000")}
VENDORS = {
    "virtio_net": "0x1af4",
    "r8169": "0x10ec",
    "atlantic": "0x1d6a",
    "iwlwifi": "0x8086",
    "mlx5_core": "0x15b3",
    "efa": "0x1d0f",
    "ena": "0x1d0f",
    "gve": "0x1ae0",
    "bnxt_en": "0x14e4",
    "cxi_ss1": "0x17db",
}
SPEEDS = {3: "8.0 GT/s PCIe", 4: "16.0 GT/s PCIe", 5: "32.0 GT/s PCIe", 6: "64.0 GT/s PCIe"}


@dataclass(frozen=True)
class Link:
    """A symbolic link to a path from the tree's root."""

    to: str


def folder_of(address: str) -> str:
    """Where a PCI function stands in the tree: its host bridge, a root port, a switch, a port of the switch.

    On the first bus, as of a virtual machine, there is nothing above it but the host bridge, and on the first behind a
    root port nothing but that. The bridges have numbers that no device of a platform has.
    """
    domain, bus = address.split(":")[:2]
    if bus == "00":
        return f"devices/pci{domain}:00/{address}"
    root = (int(bus, 16) - 1) & 0xF0
    parts = [f"{domain}:{root:02x}:01.0", address]
    if int(bus, 16) > root + 2:
        parts[1:1] = [f"{domain}:{root + 1:02x}:1c.0", f"{domain}:{root + 2:02x}:1c.1"]
    return "/".join([f"devices/pci{domain}:{root:02x}", *parts])


# The kernel's pcie_aer.c: each error by its name, and their sum.
AER = {
    "aer_dev_correctable": "RxErr 0\nBadTLP 0\nBadDLLP 0\nRollover 0\nTimeout 0\nNonFatalErr 0\nTOTAL_ERR_COR 0\n",
    "aer_dev_nonfatal": "Undefined 0\nDLP 0\nCmpltTO 0\nMalfTLP 0\nECRC 0\nTOTAL_ERR_NONFATAL 0\n",
    "aer_dev_fatal": "Undefined 0\nDLP 0\nSDES 0\nMalfTLP 0\nTOTAL_ERR_FATAL 0\n",
}


def pci(platform: Platform) -> Tree:
    """The bridges and functions of everything that the platform has on PCIe."""
    tree: Tree = {}
    gpus = platform.gpus
    for index in range(gpus.count if gpus and gpus.is_on_bus else 0):
        vendor, kind = CLASSES[gpus.vendor]
        kind = gpus.pci_class or kind
        device = f"0x{gpus.device_id[:4].lower()}"
        tree |= _function(gpus.pci[index], vendor, kind, device, gpus.generation, platform)
        if not platform.is_guest:
            tree |= {f"{folder_of(gpus.pci[index])}/{name}": text for name, text in AER.items()}
        if gpus.vendor == "amd":
            ras = f"{folder_of(gpus.pci[index])}/ras"
            tree |= {f"{ras}/{block}_err_count": "ue: 0\nce: 0\n" for block in ("umc", "sdma", "gfx")}
    for number in range(gpus.switches if gpus else 0):
        tree |= _function(f"0000:f{5 + number}:00.0", "0x10de", "0x068000", "0x22a3", 2, platform)
    for hca in platform.hcas:
        if hca.pci:
            vendor = VENDORS["efa"] if hca.link_layer == "Unspecified" else hca.vendor
            kind = "0x020700" if hca.link_layer == "InfiniBand" else "0x020000"
            generation = hca.generation or (6 if "800" in hca.rate else 5 if "400" in hca.rate else 4)
            tree |= _function(hca.pci, vendor, kind, "0x1021", generation, platform, lanes=hca.lanes)
            tree[f"{folder_of(hca.pci)}/config"] = adapter()[: 64 if platform.user_id else None]
    for nic in platform.nics:
        if nic.pci and f"{folder_of(nic.pci)}/vendor" not in tree:
            tree |= _function(nic.pci, VENDORS.get(nic.driver, "0x8086"), "0x020000", "0x101d", 4, platform)
    return tree


def _function(  # noqa: PLR0917
    address: str, vendor: str, kind: str, device: str, generation: int, platform: Platform, *, lanes: int = 16
) -> dict[str, str | bytes | Link]:
    place = folder_of(address)
    speed = SPEEDS.get(generation, "2.5 GT/s PCIe")
    width = str(lanes) if generation >= 3 else "2"
    if platform.is_guest:
        speed, width = "Unknown", "0"
    tree: Tree = {f"bus/pci/devices/{address}": Link(place)}
    words = {
        "vendor": vendor,
        "device": device,
        "class": kind,
        "numa_node": "-1" if platform.is_guest else str(int(int(address[5:7], 16) >= 0x50)),
        "current_link_speed": speed,
        "max_link_speed": speed,
        "current_link_width": width,
        "max_link_width": width,
        "enable": "1",
    }
    tree |= {f"{place}/{name}": f"{text}\n" for name, text in words.items()}
    if platform.iommu:
        tree[f"{place}/iommu_group/type"] = f"{platform.iommu}\n"
    parts = place.split("/")
    for count in range(3, len(parts)):  # the bridges
        bridge = "/".join(parts[:count])
        of_bridge = {"vendor": "0x1000", "class": "0x060400", "max_link_speed": speed, "max_link_width": width}
        tree |= {f"{bridge}/{name}": f"{text}\n" for name, text in of_bridge.items()}
        # Others than root are shown no more than the first 64 bytes.
        tree[f"{bridge}/config"] = config(acs=0)[: 64 if platform.user_id else None]
        tree[f"bus/pci/devices/{parts[count - 1]}"] = Link(bridge)
    return tree


def config(*, acs: int) -> bytes:
    """A bridge's configuration space with an ACS capability whose control register says `acs`."""
    data = bytearray(0x200)
    data[0x100:0x104] = (0x000D | 1 << 16).to_bytes(4, "little")
    data[0x104:0x106] = (0x1F).to_bytes(2, "little")
    data[0x106:0x108] = acs.to_bytes(2, "little")
    return bytes(data)


def adapter(*, read_request_bytes: int = 512) -> bytes:
    """An adapter's configuration space: power management, then PCI Express with its control register; no ATS."""
    data = bytearray(0x200)
    data[0x34] = 0x40
    data[0x40:0x42] = bytes((0x01, 0x60))
    data[0x60:0x62] = bytes((0x10, 0x00))
    control = (read_request_bytes // 128).bit_length() - 1
    data[0x68:0x6A] = (control << 12 | 0x1F).to_bytes(2, "little")
    return bytes(data)


def mac(node: int, name: str) -> bytes:
    """An interface's own address."""
    return b"\x94\x6d\xae" + hashlib.sha256(f"{node} {name}".encode()).digest()[:3]


def interfaces(nics: tuple[Nic, ...], node: int) -> Tree:
    """class/net; lo and the indexes are filled in where the kernel has given them."""
    tree: Tree = {}
    for index, nic in enumerate((Nic("lo", mtu=65536), *nics), 1):
        words = {
            "ifindex": str(index),
            "mtu": str(nic.mtu),
            "operstate": "up" if nic.is_up else "down",
            "address": ":".join(f"{byte:02x}" for byte in mac(node, nic.name)),
            "speed": str(nic.speed_mbps or -1),
            "carrier_changes": "2",
            **({"duplex": "full"} if nic.speed_mbps else {}),
        }
        tree |= {f"class/net/{nic.name}/{name}": f"{text}\n" for name, text in words.items()}
        if found := re.search(r"n(p\d)$", nic.name):  # udev takes it from there
            tree[f"class/net/{nic.name}/phys_port_name"] = f"{found[1]}\n"
        if nic.pci:
            tree[f"class/net/{nic.name}/device"] = Link(folder_of(nic.pci))
        if nic.members:
            tree[f"class/net/{nic.name}/bonding/slaves"] = f"{' '.join(nic.members)}\n"
    return tree


def rdma(platform: Platform, node: int) -> Tree:
    """class/infiniband."""
    tree: Tree = {}
    for number, hca in enumerate(platform.hcas):
        base = f"class/infiniband/{hca.name}"
        guid = _guid(node, hca.name)
        words = {
            "node_type": hca.node_type,
            "node_desc": f"{platform.hostname.format(n=node)} {hca.name}",
            "node_guid": _groups(guid, 16),
            "sys_image_guid": _groups(_guid(node, hca.card or hca.name), 16),
            "fw_ver": hca.firmware,
            "hw_rev": "0",
            **({"hca_type": hca.hca_type} if hca.hca_type else {}),
            **({"board_id": hca.board_id} if hca.board_id else {}),
            **({"hw_counters/no_completion_cmds": "0"} if "unresponsive_remote_events" in hw_counters(hca) else {}),
        }
        tree |= {f"{base}/{name}": f"{text}\n" for name, text in words.items()}
        port = f"{base}/ports/{hca.port}"
        tree |= {f"{port}/{name}": f"{text}\n" for name, text in _port(hca, node, number).items()}
        for index, row in enumerate([*_gids(platform, hca, node, guid), *[None] * hca.rows][: hca.rows]):
            tree[f"{port}/gids/{index}"] = f"{row[0] if row else EMPTY_GID}\n"
            if row:
                tree[f"{port}/gid_attrs/types/{index}"] = f"{row[1]}\n"
                if row[2]:
                    tree[f"{port}/gid_attrs/ndevs/{index}"] = f"{row[2]}\n"
        if hca.pci:
            place = folder_of(hca.pci)
            tree[f"{base}/device"] = Link(place)
            if hca.port == 1:
                tree[f"{place}/infiniband_verbs/uverbs{number}/dev"] = f"231:{192 + number}\n"
    return tree


def _guid(node: int, name: str) -> int:
    return int.from_bytes(mac(node, name) + b"\x00\x03" + bytes(3), "big")


def _port(hca: Hca, node: int, number: int) -> dict[str, str]:
    is_infiniband = hca.link_layer == "InfiniBand"
    return {
        "state": hca.state,
        "phys_state": hca.physical_state,
        "rate": hca.rate,
        "link_layer": hca.link_layer,
        "lid": f"0x{node * 64 + number + 16:x}" if is_infiniband else "0x0",
        "sm_lid": "0x1" if is_infiniband else "0x0",
        "cap_mask": "0xa751e848" if is_infiniband else "0x00010000",
        **{f"pkeys/{row}": key for row, key in enumerate([*hca.pkeys, "0x0000", "0x0000"])},
        **({f"counters/{name}": "0" for name in COUNTERS} if hca.has_counters else {}),
        **{f"hw_counters/{name}": "0" for name in hw_counters(hca)},
    }


def hw_counters(hca: Hca) -> tuple[str, ...]:
    """Those that the driver of the adapter has: drivers/infiniband/hw of the kernel, AMD's ionic."""
    vendor = VENDORS["efa"] if hca.link_layer == "Unspecified" else hca.vendor
    return HW_COUNTERS_OF.get(vendor, HW_COUNTERS) if not hca.name.startswith("hfi1") else ()


def _gids(platform: Platform, hca: Hca, node: int, guid: int) -> list[tuple[str, str, str]]:
    own = _groups(0xFE80 << 112 | guid, 32)
    if hca.link_layer != "Ethernet":
        return [(own, "IB/RoCE v1", "")]
    rows = []
    for name in filter(None, (hca.netdev, hca.netdev_vlan)):
        held = [address for nic in platform.nics if nic.name == name for address in nic.addresses]
        found = [own]
        for text in held:
            address = ipaddress.ip_interface(text.format(n=node)).ip
            number = int(address) if address.version == 6 else 0xFFFF << 32 | int(address)
            found.append(_groups(number, 32))
        rows += [(gid, kind, name) for gid in found for kind in hca.gid_kinds]
    return rows


def _groups(number: int, digits: int) -> str:
    text = f"{number:0{digits}x}"
    return ":".join(text[start : start + 4] for start in range(0, digits, 4))


def cpu(platform: Platform) -> Tree:
    """What the CPUs' frequency driver and the kernel's memory management say."""
    policy = "devices/system/cpu/cpufreq/policy0"
    words = {
        "scaling_governor": platform.governor,
        "scaling_driver": platform.scaling_driver,
        "scaling_max_freq": "3800000",
        "cpuinfo_max_freq": "3800000",
    }
    is_intel = platform.scaling_driver == "intel_pstate"
    boost = {"intel_pstate/no_turbo": "0\n"} if is_intel else {"cpufreq/boost": "1\n"}
    clock = "arch_sys_counter" if platform.machine == "aarch64" else "kvm-clock" if platform.is_guest else "tsc"
    return {
        "devices/system/cpu/smt/active": f"{int(not platform.is_guest)}\n",
        "devices/system/clocksource/clocksource0/current_clocksource": f"{clock}\n",
        **({f"devices/system/cpu/{name}": text for name, text in boost.items()} if platform.governor else {}),
        **({f"{policy}/{name}": f"{text}\n" for name, text in words.items()} if platform.governor else {}),
        "kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
        **({"kernel/mm/memory_peers/nv_mem/version": "1.3\n"} if "nvidia_peermem" in platform.modules else {}),
    }
