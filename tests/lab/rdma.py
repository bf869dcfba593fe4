"""What does /sys/class/infiniband hold on a host with ConnectX adapters?

The shape is that of mlx5 captures: RoCE ports list each address twice (v1, v2), tables are long and mostly zero, and
type and netdev of an empty index cannot be read (EINVAL).
"""

import ipaddress
from collections.abc import Collection, Sequence
from dataclasses import dataclass

ROOT = "/sys/class/infiniband"
GID_TABLE_ENTRIES = 255
EMPTY_GID = ":".join(["0000"] * 8)
# Reading this file fails with EINVAL, as reading the attributes of an empty GID does.
UNREADABLE = "/sys/class/net/lo/speed"
ROCE_V1, ROCE_V2 = "IB/RoCE v1", "RoCE v2"
COUNTERS = (
    "VL15_dropped excessive_buffer_overrun_errors link_downed link_error_recovery local_link_integrity_errors "
    "multicast_rcv_packets multicast_xmit_packets port_rcv_constraint_errors port_rcv_data port_rcv_errors "
    "port_rcv_packets port_rcv_remote_physical_errors port_rcv_switch_relay_errors port_xmit_constraint_errors "
    "port_xmit_data port_xmit_discards port_xmit_packets port_xmit_wait symbol_error unicast_rcv_packets "
    "unicast_xmit_packets"
)
HW_COUNTERS = (
    "duplicate_request implied_nak_seq_err lifespan local_ack_timeout_err np_cnp_sent np_ecn_marked_roce_packets "
    "out_of_buffer out_of_sequence packet_seq_err req_cqe_error resp_cqe_error rnr_nak_retry_err rp_cnp_handled "
    "rx_icrc_encapsulated rx_read_requests rx_write_requests"
)


@dataclass(frozen=True)
class RdmaDevice:
    """One adapter with one port; the texts are those that sysfs shows."""

    name: str = "mlx5_0"
    link_layer: str = "Ethernet"
    rate: str = "200 Gb/sec (4X HDR)"
    state: str = "4: ACTIVE"
    phys_state: str = "5: LinkUp"
    netdev: str = "eth0"
    hca_type: str = "MT4123"
    fw_ver: str = "20.39.2048"
    board_id: str = "MT_0000000223"
    numa_node: int = 0


@dataclass(frozen=True)
class Gid:
    """One entry of a port's GID table."""

    address: str
    type: str
    netdev: str


def tree(
    devices: Sequence[RdmaDevice], *, address: str, missing_gids: Collection[int]
) -> tuple[dict[str, str], dict[str, str]]:
    """Files and symbolic links below ROOT for a host with this IPv4 address."""
    files: dict[str, str] = {}
    links: dict[str, str] = {}
    for number, device in enumerate(devices):
        guid = 0xB83FD20300000000 + (int(ipaddress.ip_address(address)) & 0xFFFF) * 0x100 + number
        files |= {f"{device.name}/{name}": f"{text}\n" for name, text in _adapter(device, guid).items()}
        files |= {f"{device.name}/ports/1/{name}": f"{text}\n" for name, text in _port(device, guid).items()}
        gids = {index: gid for index, gid in enumerate(_gids(device, guid, address)) if index not in missing_gids}
        for index in range(GID_TABLE_ENTRIES):
            port = f"{device.name}/ports/1"
            if index in gids:
                files[f"{port}/gids/{index}"] = f"{gids[index].address}\n"
                files[f"{port}/gid_attrs/types/{index}"] = f"{gids[index].type}\n"
                files[f"{port}/gid_attrs/ndevs/{index}"] = f"{gids[index].netdev}\n"
            else:
                files[f"{port}/gids/{index}"] = f"{EMPTY_GID}\n"
                links[f"{port}/gid_attrs/types/{index}"] = UNREADABLE
                links[f"{port}/gid_attrs/ndevs/{index}"] = UNREADABLE
        links[f"{device.name}/device/net/{device.netdev}"] = f"/sys/class/net/{device.netdev}"
    return files, links


def _adapter(device: RdmaDevice, guid: int) -> dict[str, str]:
    return {
        "node_type": "1: CA",
        "node_desc": f"{device.name} ConnectX",
        "node_guid": _groups(guid, 16),
        "sys_image_guid": _groups(guid, 16),
        "fw_ver": device.fw_ver,
        "hca_type": device.hca_type,
        "hw_rev": "0",
        "board_id": device.board_id,
        "device/numa_node": str(device.numa_node),
        "device/vendor": "0x15b3",
    }


def _port(device: RdmaDevice, guid: int) -> dict[str, str]:
    is_infiniband = device.link_layer == "InfiniBand"
    return {
        "state": device.state,
        "phys_state": device.phys_state,
        "rate": device.rate,
        "link_layer": device.link_layer,
        "lid": f"0x{guid & 0xFFF:x}" if is_infiniband else "0x0",
        "sm_lid": "0x1" if is_infiniband else "0x0",
        "sm_sl": "0",
        "lid_mask_count": "0",
        "cap_mask": "0xa651e848" if is_infiniband else "0x00010000",
        "pkeys/0": "0xffff",
        **{f"counters/{name}": "0" for name in COUNTERS.split()},
        **{f"hw_counters/{name}": "10" if name == "lifespan" else "0" for name in HW_COUNTERS.split()},
    }


def _gids(device: RdmaDevice, guid: int, address: str) -> list[Gid]:
    link_local = _groups(0xFE80 << 112 | guid, 32)
    if device.link_layer == "InfiniBand":
        return [Gid(link_local, ROCE_V1, device.netdev)]
    mapped = _groups(0xFFFF << 32 | int(ipaddress.ip_address(address)), 32)
    return [Gid(gid, kind, device.netdev) for gid in (link_local, mapped) for kind in (ROCE_V1, ROCE_V2)]


def _groups(number: int, digits: int) -> str:
    text = f"{number:0{digits}x}"
    return ":".join(text[start : start + 4] for start in range(0, digits, 4))
