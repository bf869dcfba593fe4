"""Which RDMA devices does this node have, and what does sysfs say of their ports?"""

from __future__ import annotations

import os

from preflight.node.missing import missing, read_text, read_text_or_missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Union

    from preflight.node.missing import TextOrMissing

    RateOrMissing = Union[float, dict[str, str]]

NOT_TOLD = "UNKNOWN"  # as the kernel itself writes a state that it cannot name
LARGEST_COUNTER = 1 << 62


def collect(arguments: dict[str, Any]) -> dict[str, Any]:
    """Facts of the subject rdma."""
    folder = f"{arguments['sysfs']}/class/infiniband"
    return {"devices": [device(f"{folder}/{name}", name=name) for name in entries(folder)]}


def device(folder: str, *, name: str) -> dict[str, Any]:
    """One device; the MIC's scif0 and the like have no ports."""
    ports = [number for number in entries(f"{folder}/ports") if number.isdecimal()]
    return {
        "name": name,
        "firmware": read_text_or_missing(f"{folder}/fw_ver"),
        "board": read_text_or_missing(f"{folder}/board_id"),
        "node_type": word(read_text_or_missing(f"{folder}/node_type")),
        "ports": [port(f"{folder}/ports/{number}", number=int(number)) for number in sorted(ports, key=int)],
    }


def port(folder: str, *, number: int) -> dict[str, Any]:
    """One port; each file is read for itself, for drivers leave out and refuse different ones."""
    state = word(read_text_or_missing(f"{folder}/state"))
    link_layer = read_text_or_missing(f"{folder}/link_layer")
    return {
        "number": number,
        "state": state if isinstance(state, str) else NOT_TOLD,
        "physical_state": word(read_text_or_missing(f"{folder}/phys_state")),
        "rate_gbps": rate_gbps(read_text_or_missing(f"{folder}/rate")),
        "link_layer": link_layer if isinstance(link_layer, str) else NOT_TOLD,
        "gids": gids(folder),
        "lid": read_text_or_missing(f"{folder}/lid"),
        "sm_lid": read_text_or_missing(f"{folder}/sm_lid"),
        "counters": {**counters(f"{folder}/counters"), **counters(f"{folder}/hw_counters")},
    }


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


def gids(folder: str) -> list[dict[str, Any]]:
    """The GID table without its empty rows.

    An empty row is all zeros (RoCE), or the subnet's prefix and a zero interface id (InfiniBand).
    """
    rows = []
    for index in sorted(int(name) for name in entries(f"{folder}/gids") if name.isdecimal()):
        try:
            gid = read_text(f"{folder}/gids/{index}")
        except OSError:  # a row that cannot be read cannot be used either
            continue
        if gid[len(gid) // 2 :].strip("0:"):
            rows.append(
                {
                    "index": index,
                    "gid": gid,
                    "kind": read_text_or_missing(f"{folder}/gid_attrs/types/{index}"),
                    "netdev": read_text_or_missing(f"{folder}/gid_attrs/ndevs/{index}"),
                }
            )
    return rows


def counters(folder: str) -> dict[str, int]:
    """The counters that are numbers; "N/A (no PMA)" is none."""
    found = {}
    for name in entries(folder):
        text = read_text_or_missing(f"{folder}/{name}")
        if isinstance(text, str) and text.isdecimal() and int(text) < LARGEST_COUNTER:
            found[name] = int(text)
    return found


def entries(folder: str) -> list[str]:
    """The sorted names in a folder, none where it is absent; a folder that we may not read is an error."""
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
