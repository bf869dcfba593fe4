"""Which GIDs and counters does sysfs have of an RDMA port, and which of them could not be read?"""

from __future__ import annotations

from preflight.node.agent.missing import entries, missing, read_lines, read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from preflight.node.agent.missing import TextOrMissing

    Rows = list[dict[str, Any]]

LARGEST_COUNTER = 1 << 62
OF_DEVICES = ("no_completion_cmds",)  # what a driver (efa) counts of a device, not of its ports: commands unanswered
GID_DIGITS = len(":".join(["0000"] * 8))
GID_KINDS = ("IB/RoCE v1", "RoCE v1", "RoCE v2")


def gids(folder: str, *, proc: str) -> tuple[Rows, list[str]]:
    """The GID table without its empty rows, and the files of it that say nothing.

    An empty row is all zeros (RoCE), or the subnet's prefix and a zero interface id (InfiniBand). The kernel has a type
    for each row: one with a type alone was lost. What no row of the port has, as the netdev on InfiniBand, is no loss.
    """
    found: Rows = []
    lost = [f"gids/{name}" for name in entries(f"{folder}/gid_attrs/types") if name not in entries(f"{folder}/gids")]
    for index in sorted(int(name) for name in entries(f"{folder}/gids") if name.isdecimal()):
        try:
            gid = read_text(f"{folder}/gids/{index}")
        except PermissionError:
            lost.append(f"gids/{index}")
            continue
        except OSError:  # older kernels refuse an empty row
            continue
        if len(gid) != GID_DIGITS:
            lost.append(f"gids/{index}")
        elif gid[len(gid) // 2 :].strip("0:"):
            netdev = read_lines(f"{folder}/gid_attrs/ndevs/{index}")
            kind = read_lines(f"{folder}/gid_attrs/types/{index}")
            if isinstance(kind, str) and kind not in GID_KINDS:
                kind = missing(f"no type of a GID: {kind}")
            tag = vlan(netdev, proc=proc)
            found.append({"index": index, "gid": gid, "netdev": netdev, "kind": kind, **({"vlan": tag} if tag else {})})
    for key, place in (("netdev", "ndevs"), ("kind", "types")):
        is_told = any(isinstance(row[key], str) for row in found)
        lost += [
            f"gid_attrs/{place}/{row['index']}"
            for row in found
            if isinstance(row[key], dict) and (is_told or row[key]["kind"] != "absent")
        ]
    return found, lost


def vlan(netdev: TextOrMissing, *, proc: str) -> int:
    """The VLAN of a netdev, 0 where it has none."""
    try:
        text = read_text(f"{proc}/net/vlan/{netdev}") if isinstance(netdev, str) else ""
    except OSError:
        return 0
    tag = text.partition("VID: ")[2].split(None, 1)[:1]
    return int(tag[0]) if tag and tag[0].isdecimal() else 0


def counters(port: str) -> tuple[dict[str, int], list[str]]:
    """The counters of a port that are numbers, and those that were cut short or closed; "N/A (no PMA)" is none."""
    found: dict[str, int] = {}
    lost: list[str] = []
    for folder in ("counters", "hw_counters"):
        for name in entries(f"{port}/{folder}"):
            text = read_lines(f"{port}/{folder}/{name}")
            if isinstance(text, dict) and (text["kind"] == "denied" or text["missing"].startswith(port)):
                lost.append(name)
            elif isinstance(text, str) and text.isdecimal() and int(text) < LARGEST_COUNTER:
                found[name] = int(text)
    for name in OF_DEVICES:
        text = read_lines(f"{port}/../../hw_counters/{name}")
        if isinstance(text, str) and text.isdecimal() and int(text) < LARGEST_COUNTER:
            found[name] = int(text)
    return found, lost


def compare_counters(devices: list[dict[str, Any]], folder: str) -> None:
    """Note at each port which counters it lacks that another port of the node has, on an adapter of the same model.

    Files are compared, not values: a port without an agent of its own says "N/A", and has lost nothing.
    """
    of_kind: dict[str, list[tuple[dict[str, Any], set[str]]]] = {}
    for device in devices:
        for port in device["ports"]:
            place = f"{folder}/{device['name']}/ports/{port['number']}"
            names = {*entries(f"{place}/counters"), *entries(f"{place}/hw_counters")}
            of_kind.setdefault(f"{device['model']} {port['link_layer']} {port['number']}", []).append((port, names))
    for ports in of_kind.values():
        every = {name for _, names in ports for name in names}
        for port, names in ports:
            port["unread"] = [*port["unread"], *sorted(every - names)]
