"""Which NVLinks are up, what have they counted, who reaches whom, and how near are GPUs and network adapters?"""

from __future__ import annotations

import re
from itertools import takewhile

from preflight.node.agent.missing import missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

GPU_LINE = re.compile(r"^GPU (\d+): ")
LINK_LINE = re.compile(r"^\s+Link (\d+): (.*)$")
RATE = re.compile(r"^[\d.]+ GB/s|^active\b", re.IGNORECASE)
SPEED = re.compile(r"^\s+Link \d+: (\d+(?:\.\d+)?) GB/s")
ALL_INACTIVE = "all links are inactive"
NO_NVLINK = ("does not have or support nvlink", "nvlink queries are not supported", "not supported")
GPU_ID = re.compile(r"\(UUID: (GPU-[\w-]+)\)")
COUNTER_LINE = re.compile(r"^\s+Link (\d+): (.*(?:Errors|recovery (?:successful |failed )?events)): (\d+)\s*$")
ACCESS = ("X", "OK", "CNS", "GNS", "TNS", "NS", "DR", "U")
ESCAPES = re.compile("\x1b\\[[0-9;]*m")
OTHER_COLUMNS = ("CPU", "NUMA", "GPU", "Affinity")  # "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"
NAMED = re.compile(r"^\s*(NIC\d+):\s+(\S+)")
RELATION = re.compile(r"^(X|SYS|NODE|PHB|PXB|PIX|NV\d+|PSB|NVB|C2C)$")


def nvlinks(text: str) -> dict[int, dict[str, Any]]:
    """GPU index -> its active and inactive links, or why there are none to count, from `nvidia-smi nvlink -s`.

    ValueError where the text lists no GPU.
    """
    return {int(heading.split(":")[0][4:]): _links(lines) for heading, lines in _of_gpus(text, "-s")}


def speeds(text: str) -> dict[int, float]:
    """GPU index -> the rate of its slowest active link in GB/s, where `nvidia-smi nvlink -s` prints any."""
    found = {}
    for heading, lines in _of_gpus(text, "-s"):
        rates = [float(rate.group(1)) for rate in map(SPEED.search, lines) if rate]
        if rates:
            found[int(heading.split(":")[0][4:])] = min(rates)
    return found


def errors(text: str) -> dict[str, dict[str, Any]]:
    """What the links of each GPU have counted, or why that is not known, from `nvidia-smi nvlink -e`.

    A GPU is known by its UUID, where none is printed by its index. Of the counters only those that are not 0 are told,
    with how many there are; bit errors that FEC corrects grow on every link of Blackwell and are none of them.
    ValueError where the text lists no GPU.
    """
    found = {}
    for heading, lines in _of_gpus(text, "-e"):
        uuid = GPU_ID.search(heading)
        found[uuid.group(1) if uuid else heading.split(":")[0][4:]] = _errors(lines)
    return found


def _errors(lines: list[str]) -> dict[str, Any]:
    """The counters among the lines of one GPU; each link must have as many of them as the others."""
    links: dict[str, int] = {}
    counted: dict[str, int] = {}
    for number, name, count in (line.groups() for line in map(COUNTER_LINE.match, lines) if line):
        links[number] = links.get(number, 0) + 1
        if int(count):
            counted[f"link {number}: {name}"] = int(count)
    text = " ".join(" ".join(lines).split())
    if not links:
        is_known = not text or ALL_INACTIVE in text.lower() or any(words in text.lower() for words in NO_NVLINK)
        return missing(f"nvidia-smi nvlink -e says {text[:200] or 'nothing'}", "absent" if is_known else "failed")
    if len(set(links.values())) > 1 or not re.search(r": \S*\d\S*$", text):
        return missing("nvidia-smi nvlink -e was cut short")
    return {"links": len(links), "counters": sum(links.values()), "counted": counted}


def _of_gpus(text: str, option: str) -> list[tuple[str, list[str]]]:
    """The heading and the lines of each GPU; ValueError where there is none."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if GPU_LINE.match(line):
            found.append((line, []))
        elif found and line.strip() and not line.startswith("WARNING"):
            found[-1][1].append(line)
    if not found:
        raise ValueError(f"nvidia-smi nvlink {option} lists no GPU: {' '.join(text[-200:].split())}")
    return found


def _links(lines: list[str]) -> dict[str, Any]:
    """The active and inactive links among the lines of one GPU."""
    text = " ".join(" ".join(lines).split())
    links = [link.group(2) for link in map(LINK_LINE.match, lines) if link]
    inactive = sum(re.search(r"inactive|down|disabled|\boff\b", words.lower()) is not None for words in links)
    active = sum(RATE.search(words) is not None for words in links)
    if active or inactive:
        return {"active": active, "inactive": inactive}
    if ALL_INACTIVE in text.lower():
        return {"active": 0, "inactive": 1}  # how many there are is not printed
    is_known = not text or any(words in text.lower() for words in NO_NVLINK)
    return missing(f"nvidia-smi nvlink -s says {text[:200] or 'nothing'}", "absent" if is_known else "failed")


def peer_access(read: str, write: str) -> list[list[str]]:
    """The matrix of `nvidia-smi topo -p2p r` with that of `-p2p w`: "X", "OK", or why not, as "CNS" or "NS".

    ValueError where one of them is not whole.
    """
    matrices = [_matrix(text, option) for text, option in ((read, "r"), (write, "w"))]
    if len(matrices[0]) != len(matrices[1]):
        raise ValueError("nvidia-smi topo -p2p r and w list another number of GPUs")
    return [[written if status == "OK" else status for status, written in zip(*rows)] for rows in zip(*matrices)]


def _matrix(text: str, option: str) -> list[list[str]]:
    lines = [ESCAPES.sub("", line).split() for line in text.splitlines()]
    start = next((i for i, words in enumerate(lines) if words[:1] == ["GPU0"]), -1)
    if start < 0:
        raise ValueError(f"nvidia-smi topo -p2p {option} printed no matrix: {' '.join(text[-200:].split())}")
    columns = lines[start]
    rows = lines[start + 1 : start + 1 + len(columns)]
    for name, row in zip(columns, [*rows, *[[]] * len(columns)]):
        if row[:1] != [name] or len(row) <= len(columns):
            raise ValueError(f"nvidia-smi topo -p2p {option} was cut short at {name}")
        if not all(status in ACCESS for status in row[1 : len(columns) + 1]):
            raise ValueError(f"nvidia-smi topo -p2p {option} says {' '.join(row)[:200]}")
    return [row[1 : len(columns) + 1] for row in rows]


def topology(text: str) -> dict[str, Any]:
    """The matrix of `nvidia-smi topo -m` with the adapters' names; ValueError where it is not whole.

    Columns are parted by tabs, in copies often by blanks; a header's cells such as "CPU Affinity" have a blank inside.
    """
    lines = [ESCAPES.sub("", line) for line in text.splitlines()]
    start = next((i for i, line in enumerate(lines) if line.split()[:1] == ["GPU0"]), -1)
    if start < 0:
        raise ValueError(f"nvidia-smi topo -m printed no matrix: {' '.join(text[-200:].split())}")
    # Before NIC0 and its legend came (515) adapters stood there by their own names: mlx5_0, ibp59s0, bnxt_re0.
    columns = list(takewhile(lambda word: word not in OTHER_COLUMNS, lines[start].split()))
    rows: list[dict[str, Any]] = []
    for line in lines[start + 1 :]:
        words = line.split()
        if not words or words[0] not in columns or len(rows) == len(columns):
            break
        relations = words[1 : len(columns) + 1]
        if len(relations) < len(columns) or not all(RELATION.match(word) for word in relations):
            raise ValueError(f"nvidia-smi topo -m was cut short at {words[0]}")
        rows.append({"device": words[0], "relations": relations})
    if [row["device"] for row in rows] != columns:
        raise ValueError(f"nvidia-smi topo -m was cut short: {len(rows)} rows for {len(columns)} devices")
    names = [NAMED.match(line) for line in lines]
    own = {name: name for name in columns if not re.match(r"^(GPU|NIC)\d+$", name)}
    return {"rows": rows, "adapters": {**own, **{name.group(1): name.group(2) for name in names if name}}}
