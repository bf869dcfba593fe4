"""What do ibstat, show_gids and ibv_devinfo print, and which facts are in it?"""

from __future__ import annotations

import re

from preflight.node.agent.missing import missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NONE = "not reported by ibstat"
# show_gids: mlx5_0  1  3  0000:...:0a01  10.1.0.1  v2  eth2
GID_ROW = re.compile(
    r"^(\S+)\s+(\d+)\s+(\d+)\s+([0-9a-f:]{39})\s+(?:[\d.]+\s+)?v([12])(?:\s+(\S+))?\s*$", re.IGNORECASE
)
LAYERS = {"IB": "InfiniBand"}  # of old versions
STATES = {"Active": "ACTIVE", "Down": "DOWN", "Initializing": "INIT", "Armed": "ARMED"}


def ibstat(text: str) -> list[dict[str, Any]]:
    """Devices as facts, from `ibstat`; ValueError where it is cut short or is something else."""
    devices: list[dict[str, Any]] = []
    fields: dict[str, str] = {}
    announced: list[int] = []
    for line in text.splitlines():
        word = line.strip()
        if line.startswith("CA '"):
            fields = {}
            absent = missing(NONE, "absent")
            devices.append({"name": word[4:-1], "node_type": absent, "board": absent, "ports": [], "_": fields})
            announced.append(0)
        elif word.startswith("Port ") and word.endswith(":") and devices:
            fields = {"number": word[5:-1]}
            devices[-1]["ports"].append(fields)
        elif devices:
            name, colon, value = word.partition(":")
            if colon:
                fields[name.lower()] = value.strip()
    if not devices:
        raise ValueError(f"ibstat lists no adapter: {' '.join(text[-200:].split())}")
    for device in devices:
        _complete(device)
    return devices


def _complete(device: dict[str, Any]) -> None:
    """Turn the texts of one adapter into facts."""
    head = device.pop("_")
    count = head.get("number of ports", "")
    if not count.isdecimal() or int(count) != len(device["ports"]):
        raise ValueError(f"ibstat was cut short at {device['name']}")
    device["firmware"] = head.get("firmware version") or missing(NONE, "absent")
    device["model"] = head.get("ca type") or missing(NONE, "absent")
    ports = []
    for port in device["ports"]:
        # "Link layer" is the last line of a port.
        if "link layer" not in port or not port["link layer"]:
            raise ValueError(f"ibstat was cut short at {device['name']}")
        state = port.get("state", "")
        rate = port.get("rate", "").partition(" ")[0]  # "40 (FDR10)"
        ports.append(
            {
                "number": int(port["number"]),
                "state": STATES.get(state, state.upper() or "UNKNOWN"),
                "physical_state": port.get("physical state") or missing(NONE, "absent"),
                "rate_gbps": float(rate) if rate.replace(".", "", 1).isdecimal() else missing(NONE, "absent"),
                "link_layer": LAYERS.get(port["link layer"], port["link layer"]),
                "gids": [],
                "lid": _hexadecimal(port.get("base lid", "")),
                "sm_lid": _hexadecimal(port.get("sm lid", "")),
                "counters": {},
            }
        )
    device["ports"] = ports


def _hexadecimal(text: str) -> Any:
    """A decimal figure of ibstat as sysfs writes it."""
    return f"0x{int(text):x}" if text.isdecimal() else missing(NONE, "absent")


def show_gids(text: str) -> dict[tuple[str, int], list[dict[str, Any]]]:
    """Device and port -> rows of its GID table, from `show_gids`; ValueError where the closing count does not fit."""
    found: dict[tuple[str, int], list[dict[str, Any]]] = {}
    rows = 0
    for line in text.splitlines():
        row = GID_ROW.match(line.strip())
        if row:
            rows += 1
            device, port, index, gid, version, netdev = row.groups()
            kind = "RoCE v2" if version == "2" else "IB/RoCE v1"
            gid_row = {"index": int(index), "gid": gid.lower(), "kind": kind}
            gid_row["netdev"] = netdev or missing("not listed by show_gids", "absent")
            found.setdefault((device, int(port)), []).append(gid_row)
    count = re.search(r"^n_gids_found=(\d+)", text, re.MULTILINE)
    if count is None or int(count.group(1)) != rows:
        wanted = count.group(1) if count else "no"
        raise ValueError(f"show_gids was cut short: {rows} rows, {wanted} announced")
    return found


def active_mtus(text: str) -> dict[tuple[str, int], int]:
    """Device and port -> active MTU in bytes, from `ibv_devinfo`."""
    found: dict[tuple[str, int], int] = {}
    device, port = "", 0
    for line in text.splitlines():
        name, _, value = line.strip().partition(":")
        value = value.strip()
        if name == "hca_id":
            device = value
        elif name == "port" and value.isdecimal():
            port = int(value)
        elif name == "active_mtu" and device and port and value.split(" ")[0].isdecimal():
            found[device, port] = int(value.split(" ")[0])
    return found


def why_none(text: str) -> str:
    """Why libibverbs has no device, as `ibv_devinfo` says it; "" where it lists one, or has failed at something else.

    The warnings are of rdma-core's libibverbs/init.c: a library older or newer than the driver, or none for it.
    """
    if "hca_id:" in text or "No IB devices found" not in text:
        return ""
    lines = [line.strip() for line in text.splitlines()]
    reason = next((line for line in lines if re.search(r"kernel ABI|couldn't (?:load|open)|no userspace", line)), "")
    return f"ibv_devinfo: {(reason or 'No IB devices found')[:200]}"
