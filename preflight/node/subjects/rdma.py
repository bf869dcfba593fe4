"""Which RDMA devices does this node have, and what does sysfs say of their ports?"""

from __future__ import annotations

import os

from preflight.node.agent import programs, roots
from preflight.node.agent.missing import entries, missing
from preflight.node.sources import pci
from preflight.node.subjects.environment import job_variables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from preflight.node.agent.missing import TextOrMissing

LIMIT_S = 5.0
QOS_TOOLS = ("mlnx_qos", "dcb")
# The link layers of what ibv_devinfo lists: devices of EFA are for libfabric, which has a library of its own.
WITH_VERBS = ("InfiniBand", "Ethernet")


def collect(arguments: dict[str, Any]) -> dict[str, Any]:
    """Facts of the subject rdma; a program is started only where there is a device to ask about."""
    sysfs = arguments["sysfs"]
    folder = f"{sysfs}/class/infiniband"
    names = entries(folder)
    # Device files are of this machine, not of a tree that was put elsewhere.
    dev = arguments.get("dev", "/dev" if sysfs == "/sys" else "")
    root = roots.root_of(arguments)
    path = job_variables(arguments).get("PATH", ("", ""))[0]
    used = {os.path.basename(os.path.realpath(f"{folder}/{name}/device")) for name in names}
    lost = pci.unused_infiniband(pci.listed(arguments), used)
    if not names:
        devices = by_programs(path, root) if dev and os.path.isdir(f"{dev}/infiniband") else []
        return {"devices": devices, "without_driver": lost}
    from preflight.node.sources import rdma_ports, rdma_tables  # a node without devices does not pay for it

    devices = [rdma_ports.device(f"{folder}/{name}", name=name, arguments={**arguments, "dev": dev}) for name in names]
    rdma_tables.compare_counters(devices, folder)
    program = programs.find("ibv_devinfo", path, root) if dev else ""
    if program:
        with_mtus(devices, program)
    tools = {name: programs.find(name, path, root) if dev else "" for name in QOS_TOOLS}
    with_flow_control(devices, tools, sysfs=sysfs)
    return {"devices": devices, "without_driver": lost}


def by_programs(path: str, root: str = "") -> list[dict[str, Any]]:
    """The devices as ibstat and show_gids list them, where sysfs has none; none where there is no ibstat either."""
    from preflight.node.sources import rdma_text

    commands = {name: programs.find(name, path, root) for name in ("ibstat", "show_gids")}
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
        if unseen and each["open_error"] == "" and any(one["link_layer"] in WITH_VERBS for one in each["ports"]):
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
