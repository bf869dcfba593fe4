"""What does sysfs say of an RDMA device and of its ports?"""

from __future__ import annotations

import os

from preflight.node.agent.missing import entries, in_order, missing, read_lines, read_text_or_missing
from preflight.node.sources import pci
from preflight.node.sources.rdma_tables import counters, gids

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Union

    from preflight.node.agent.missing import Missing, TextOrMissing

    CountOrMissing = Union[int, Missing]
    RateOrMissing = Union[float, dict[str, str]]

UNKNOWN_STATE = "UNKNOWN"  # as the kernel itself writes a state that it cannot name
# What the kernel writes (drivers/infiniband/core/sysfs.c); another word is one that was cut short, and tells nothing.
STATES = ("NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER")
LINK_LAYERS = ("InfiniBand", "Ethernet", "Unspecified")
EMPTY_KEY = "0x0000"
ROCE_HEADER_BYTES = 96  # the kernel's own reckoning of what RoCE may put around its data (iboe_get_mtu)


def device(folder: str, *, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """One device; the MIC's scif0 and the like have no ports."""
    ports = [number for number in entries(f"{folder}/ports") if number.isdecimal()]
    model = read_text_or_missing(f"{folder}/hca_type")
    function = f"{folder}/device"
    is_pci = os.path.exists(f"{function}/vendor") and pci.is_address(os.path.basename(os.path.realpath(function)))
    return {
        "name": name,
        "firmware": read_lines(f"{folder}/fw_ver") or missing("its driver reports no firmware", "absent"),
        "board": read_lines(f"{folder}/board_id"),
        "node_type": node_type(f"{folder}/node_type"),
        "ports": [
            port(f"{folder}/ports/{number}", number=int(number), arguments=arguments)
            for number in sorted(ports, key=int)
        ],
        "model": model,
        "card": card(f"{folder}/sys_image_guid"),
        "open_error": open_error(folder, dev=arguments["dev"]),
        **({"pci": in_order(pci.describe(function)), "requests": in_order(pci.requests(function))} if is_pci else {}),
    }


def open_error(folder: str, *, dev: str) -> TextOrMissing:
    """Why the device cannot be opened by a program such as NCCL, "" where it can."""
    names = [name for name in entries(f"{folder}/device/infiniband_verbs") if name.startswith("uverbs")]
    if not names or not dev:
        return missing("no device file is known", "absent")
    path = f"{dev}/infiniband/{names[0]}"
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        return f"{path}: {error.strerror}"
    return ""


def port(folder: str, *, number: int, arguments: dict[str, Any]) -> dict[str, Any]:
    """One port; each file is read for itself, for drivers leave out and refuse different ones."""
    link_layer = read_text_or_missing(f"{folder}/link_layer")
    rate = read_text_or_missing(f"{folder}/rate")
    table, lost_gids = gids(folder, proc=arguments.get("proc", "/proc"))
    counted, lost_counters = counters(folder)
    facts = {
        "number": number,
        "state": state(folder),
        "physical_state": word(read_text_or_missing(f"{folder}/phys_state")),
        "rate_gbps": rate_gbps(rate),
        "link_layer": link_layer if link_layer in LINK_LAYERS else UNKNOWN_STATE,
        "gids": table,
        "lid": read_lines(f"{folder}/lid"),
        "sm_lid": read_lines(f"{folder}/sm_lid"),
        "counters": counted,
        "unread": [*lost_gids, *lost_counters],
        "width": width(rate),
        "pkeys": pkeys(f"{folder}/pkeys"),
    }
    if link_layer == "Ethernet":
        facts["active_mtu"] = mtu_of(table, sysfs=arguments["sysfs"])
        facts["label"] = label_of(table, sysfs=arguments["sysfs"])
    return facts


def node_type(path: str) -> TextOrMissing:
    """The name in "1: CA"; the kernel has this file of every device."""
    text = word(read_lines(path))
    return missing(f"{path}: {text['missing']}") if isinstance(text, dict) and text["kind"] == "absent" else text


def state(folder: str) -> str:
    """The state of a port: "ACTIVE", "DOWN", or "UNKNOWN"."""
    state = word(read_text_or_missing(f"{folder}/state"))
    return state if isinstance(state, str) and state in STATES else UNKNOWN_STATE


def width(rate: TextOrMissing) -> CountOrMissing:
    """The lanes in "200 Gb/sec (4X HDR)"."""
    if not isinstance(rate, str):
        return rate
    figure = rate.partition("(")[2].partition("X")[0].strip()
    return int(figure) if figure.isdecimal() else missing(f"no width in {rate}", "absent")


def pkeys(folder: str) -> list[str] | Missing:
    """The partition keys, without the empty rows at the end of the table."""
    numbers = sorted(int(name) for name in entries(folder) if name.isdecimal())
    keys = []
    for number in numbers:
        row = read_text_or_missing(f"{folder}/{number}")
        if isinstance(row, dict):
            return row
        if len(row) != len(EMPTY_KEY):
            return missing(f"{folder}/{number} was cut short")
        keys.append(row)
    while keys and int(keys[-1], 16) == 0:
        keys.pop()
    if numbers[: len(keys)] != list(range(len(keys))):
        return missing(f"{folder} lacks a row")
    return keys or missing("the port reports no partition key", "absent")


def mtu_of(table: list[dict[str, Any]], *, sysfs: str) -> CountOrMissing:
    """RoCE's active MTU: the largest that fits a packet of the netdev with its headers."""
    names = {row["netdev"] for row in table if isinstance(row["netdev"], str)}
    texts = [read_text_or_missing(f"{sysfs}/class/net/{name}/mtu") for name in sorted(names)]
    mtus = [int(text) for text in texts if isinstance(text, str) and text.isdecimal()]
    if not mtus:
        return missing("no netdev of the port reports its MTU", "absent")
    fitting = [size for size in (256, 512, 1024, 2048, 4096) if size + ROCE_HEADER_BYTES <= max(mtus)]
    return fitting[-1] if fitting else missing(f"the netdev's MTU is {max(mtus)}")


def label_of(table: list[dict[str, Any]], *, sysfs: str) -> TextOrMissing:
    """What the driver calls the socket that the port's cable is in; functions of one card may share one."""
    for name in sorted({row["netdev"] for row in table if isinstance(row["netdev"], str)}):
        text = read_text_or_missing(f"{sysfs}/class/net/{name}/phys_port_name")
        if isinstance(text, str) and text:
            return text
    return missing("no netdev of the port names its socket", "absent")


def card(path: str) -> TextOrMissing:
    """The GUID that all functions of a card have; zeros are none."""
    text = read_text_or_missing(path)
    has_none = isinstance(text, dict) or not text.strip("0:")
    return missing("the driver names no card", "absent") if has_none else text


def word(text: TextOrMissing) -> TextOrMissing:
    """The name in "4: ACTIVE"."""
    if isinstance(text, str):
        number, _, name = text.partition(":")
        return name.strip() or number or missing("the file is empty")
    return text


def rate_gbps(text: TextOrMissing) -> RateOrMissing:
    """The figure in "200 Gb/sec (4X HDR)"."""
    if not isinstance(text, str):
        return text
    figure, _, unit = text.partition(" ")
    if not unit.startswith("Gb/sec") or not figure.replace(".", "", 1).isdecimal():
        return missing(f"not a rate: {text}")
    return float(figure)
