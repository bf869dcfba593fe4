"""Which RDMA devices does this node have, and what does sysfs say of their ports?"""

from __future__ import annotations

import os

from preflight.node.agent import programs
from preflight.node.agent.missing import in_order, missing, read_lines, read_text_or_missing
from preflight.node.sources import pci
from preflight.node.sources.rdma_tables import compare_counters, counters, entries, gids
from preflight.node.subjects.environment import job_variables

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
LIMIT_S = 5.0
QOS_TOOLS = ("mlnx_qos", "dcb")
ROCE_HEADER_BYTES = 96  # the kernel's own reckoning of what RoCE may put around its data (iboe_get_mtu)


def collect(arguments: dict[str, Any]) -> dict[str, Any]:
    """Facts of the subject rdma; a program is started only where there is a device to ask about."""
    sysfs = arguments["sysfs"]
    folder = f"{sysfs}/class/infiniband"
    names = entries(folder)
    # Device files are of this machine, not of a tree that was put elsewhere.
    dev = arguments.get("dev", "/dev" if sysfs == "/sys" else "")
    path = job_variables(arguments).get("PATH", ("", ""))[0]
    used = {os.path.basename(os.path.realpath(f"{folder}/{name}/device")) for name in names}
    lost = pci.unused_infiniband(pci.listed(arguments), used)
    if not names:
        devices = by_programs(path) if dev and os.path.isdir(f"{dev}/infiniband") else []
        return {"devices": devices, "without_driver": lost}
    devices = [device(f"{folder}/{name}", name=name, arguments={**arguments, "dev": dev}) for name in names]
    compare_counters(devices, folder)
    program = programs.find("ibv_devinfo", path) if dev else ""
    if program:
        with_mtus(devices, program)
    with_flow_control(devices, {name: programs.find(name, path) if dev else "" for name in QOS_TOOLS}, sysfs=sysfs)
    return {"devices": devices, "without_driver": lost}


def by_programs(path: str) -> list[dict[str, Any]]:
    """The devices as ibstat and show_gids list them, where sysfs has none; none where there is no ibstat either."""
    from preflight.node.sources import rdma_text

    commands = {"ibstat": programs.find("ibstat", path), "show_gids": programs.find("show_gids", path)}
    outputs = programs.run_all({name: [found] for name, found in commands.items() if found}, limit_s=LIMIT_S)
    text = outputs.get("ibstat")
    if text is None:
        return []
    if not isinstance(text, str):
        raise OSError(text["missing"])
    devices = rdma_text.ibstat(text)
    gids = outputs.get("show_gids")
    tables = rdma_text.show_gids(gids) if isinstance(gids, str) else {}
    for each in devices:
        for one in each["ports"]:
            one["gids"] = tables.get((each["name"], one["number"]), [])
    return devices


def with_mtus(devices: list[dict[str, Any]], program: str) -> None:
    """Fill in the active MTUs from ibv_devinfo: the kernel has no file of them."""
    from preflight.node.sources import rdma_text

    text = programs.run_all({"ibv_devinfo": [program]}, limit_s=LIMIT_S)["ibv_devinfo"]
    mtus = rdma_text.active_mtus(text) if isinstance(text, str) else {}
    unseen = rdma_text.why_none(text if isinstance(text, str) else text["missing"])
    for each in devices:
        # Those of EFA are for libfabric, which has a library of its own.
        if unseen and each["open_error"] == "" and any(one["link_layer"] in LINK_LAYERS[:2] for one in each["ports"]):
            each["open_error"] = unseen
        for one in each["ports"]:
            mtu = mtus.get((each["name"], one["number"]))
            if mtu is not None:
                one["active_mtu"] = mtu
            elif not mtus:  # it reported no port: its own words are the reason
                one.setdefault("active_mtu", missing(_first_words(text), "absent"))


def _first_words(text: TextOrMissing) -> str:
    said = text.split("\n") if isinstance(text, str) else [text["missing"]]
    return f"ibv_devinfo: {next((line.strip()[:200] for line in said if line.strip()), 'no output')}"


def with_flow_control(devices: list[dict[str, Any]], tools: dict[str, str], *, sysfs: str) -> None:
    """Fill in which priorities of the active RoCE ports are lossless; one tool, once for each network device."""
    from preflight.node.sources import qos

    ports = [
        (each, one, netdev)
        for each in devices
        for one in each["ports"]
        if one["state"] == "ACTIVE" and one["link_layer"] == "Ethernet"
        for netdev in sorted({row["netdev"] for row in one["gids"] if isinstance(row["netdev"], str)})[:1]
    ]
    asked = {netdev: qos.command(tools, netdev) for _, _, netdev in ports}
    said = programs.run_all({name: argv for name, argv in asked.items() if argv}, limit_s=LIMIT_S)
    for each, one, netdev in ports:
        number, device = one["number"], each["name"]
        text = said.get(netdev, "")
        one.update(qos.described(text, sysfs=sysfs, netdev=netdev, device=device, number=number))


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
