"""What does NCCL say of the library, its network and its paths?"""

from __future__ import annotations

import os
from typing import Any

NCCL_SIGNS = (
    *(" via ", "Using network", " : Using ", "coll channels", "Bytes -> Algo", "NCCL WARN", "GPU Direct RDMA"),
    *("NVLS multicast", " MNNVL ", "use ring PXN", "NET/Plugin", "NET plugin", "network plugin", "No device found"),
    *("Proceeding without NVLS", "NCCL_ALGO set by environment"),
)
NCCL_LINES = 400
DUMPS = ("TOPO", "GRAPH")


def dump_topology(log: str, rank: int) -> None:
    """Let NCCL write the topology that it detects and the graphs that it chooses, beside its log."""
    if os.environ.get("LOCAL_RANK", "0") == "0":  # one rank of each node; NCCL asks for its number in the job
        for dump in DUMPS:
            os.environ |= {f"NCCL_{dump}_DUMP_FILE": f"{log}-{dump}", f"NCCL_{dump}_DUMP_FILE_RANK": str(rank)}


def nccl_in_use() -> str:
    """The NCCL that this process has really mapped, and the version it says it is."""
    import torch

    with open("/proc/self/maps", encoding="utf-8") as file:
        paths = {line.split(maxsplit=5)[5].strip() for line in file if "libnccl.so" in line}
    nccl: Any = torch.cuda.nccl
    return f"{'.'.join(str(part) for part in nccl.version())} {' '.join(sorted(paths)) or 'linked into torch'}"


def bytes_so_far(path: str) -> int:
    """How much NCCL has written; 0 where nothing."""
    return os.path.getsize(path) if os.path.exists(path) else 0


def nccl_lines(path: str, *, begin: int = 0) -> list[str]:
    """What NCCL wrote about its network and its paths, from that byte on.

    Of thousands of channels one line for each path is kept, and of each operation one for each size.
    """
    kept: dict[str, str] = {}
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            file.seek(begin)
            for line in file:
                if any(sign in line for sign in NCCL_SIGNS):
                    message = line.partition(" NCCL ")[2] or line
                    _, is_path, way = message.partition(" via ")
                    kept.setdefault(way if is_path else message, line.strip()[:2100])  # 2 KiB list many ports
    except FileNotFoundError:  # it never came so far
        return []
    return list(kept.values())[:NCCL_LINES]


def nccl_dump(path: str) -> list[str]:
    """What NCCL found of this node (NCCL_TOPO_DUMP_FILE), or chose (NCCL_GRAPH_DUMP_FILE), a line for each part.

    Without what is each node's own (addresses, GUIDs, names), so that equal nodes give equal lines; [] without a dump.
    """
    from xml.etree import ElementTree as ET

    try:
        root = ET.parse(path).getroot()  # noqa: S314 - NCCL has just written it
    except (OSError, ET.ParseError):
        return []
    found: list[str] = []

    def walk(element: ET.Element, way: list[str]) -> None:
        values = element.attrib
        if element.tag == "cpu":
            found.append(
                f"CPU {values.get('numaid')}: {values.get('arch')} {values.get('vendor')} {values.get('modelid')}"
            )
            way = [f"NUMA {values.get('numaid')}"]
        elif element.tag == "pci":
            way = [*way, f"{values.get('link_speed', '?').replace(' PCIe', '')} x{values.get('link_width', '?')}"]
        elif element.tag == "gpu":
            links = sum(int(link.get("count", "1")) for link in element.iter("nvlink"))
            found.append(
                f"GPU {values.get('dev')}: {', '.join(way)}, {links} NVLinks, GPUDirect {values.get('gdr', '?')}"
            )
        elif element.tag == "net":
            speed = f"{values.get('speed', '?')} Mbit/s, GPUDirect {values.get('gdr', '?')}"
            found.append(f"adapter {values.get('dev')}: {', '.join(way)}, {speed}")
        elif element.tag == "graph":
            kinds = f"{values.get('typeintra')}/{values.get('typeinter')}"
            speeds = f"{values.get('speedintra')}/{values.get('speedinter')} GB/s"
            found.append(f"graph {values.get('id')}: {values.get('nchannels')} channels, {speeds}, {kinds}")
            return
        for child in element:
            walk(child, way)

    walk(root, [])
    return found[:NCCL_LINES]
