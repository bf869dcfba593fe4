"""Which NVLinks are up, and how near are GPUs and network adapters to each other?"""

from __future__ import annotations

import re

from preflight.node.agent.missing import missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

GPU_LINE = re.compile(r"^GPU (\d+): ")
LINK_LINE = re.compile(r"^\s+Link (\d+): (.*)$")
ALL_INACTIVE = "all links are inactive"
NO_NVLINK = ("does not have or support nvlink", "nvlink queries are not supported", "not supported")
ESCAPES = re.compile("\x1b\\[[0-9;]*m")
NAMED = re.compile(r"^\s*(NIC\d+):\s+(\S+)")
RELATION = re.compile(r"^(X|SYS|NODE|PHB|PXB|PIX|NV\d+|PSB|NVB|C2C)$")


def nvlinks(text: str) -> dict[int, dict[str, Any]]:
    """GPU index -> its active and inactive links, or why there are none to count, from `nvidia-smi nvlink -s`.

    ValueError where the text lists no GPU.
    """
    lines_of: dict[int, list[str]] = {}
    for line in text.splitlines():
        heading = GPU_LINE.match(line)
        if heading:
            lines_of[int(heading.group(1))] = []
        elif lines_of and line.strip() and not line.startswith("WARNING"):
            lines_of[max(lines_of)].append(line)
    if not lines_of:
        raise ValueError(f"nvidia-smi nvlink -s lists no GPU: {' '.join(text[-200:].split())}")
    return {index: _links(lines) for index, lines in lines_of.items()}


def _links(lines: list[str]) -> dict[str, Any]:
    """What the lines of one GPU say."""
    said = " ".join(" ".join(lines).split())
    links = [link.group(2) for link in map(LINK_LINE.match, lines) if link]
    if links:
        inactive = sum("inactive" in words.lower() for words in links)
        return {"active": len(links) - inactive, "inactive": inactive}
    if ALL_INACTIVE in said.lower():
        return {"active": 0, "inactive": 1}  # how many there are is not printed
    is_known = not said or any(words in said.lower() for words in NO_NVLINK)
    return missing(f"nvidia-smi nvlink -s says {said[:200] or 'nothing'}", "absent" if is_known else "failed")


def topology(text: str) -> dict[str, Any]:
    """The matrix of `nvidia-smi topo -m` with the adapters' names; ValueError where it is not whole.

    Columns are parted by tabs, in copies often by blanks; a header's cells such as "CPU Affinity" have a blank inside.
    """
    lines = [ESCAPES.sub("", line) for line in text.splitlines()]
    start = next((i for i, line in enumerate(lines) if line.split()[:1] == ["GPU0"]), -1)
    if start < 0:
        raise ValueError(f"nvidia-smi topo -m printed no matrix: {' '.join(text[-200:].split())}")
    columns = [word for word in lines[start].split() if re.match(r"^(GPU|NIC)\d+$|^mlx\d+_\w+$", word)]
    rows: list[dict[str, Any]] = []
    for line in lines[start + 1 :]:
        words = line.split()
        if not words or words[0] not in columns or len(rows) == len(columns):
            break
        relations = words[1 : len(columns) + 1]
        if len(relations) < len(columns) or not all(RELATION.match(word) for word in relations):
            raise ValueError(f"nvidia-smi topo -m was cut short at {words[0]}")
        rows.append({"device": words[0], "relations": relations, "affinity": _affinity(line, words, len(columns))})
    if [row["device"] for row in rows] != columns:
        raise ValueError(f"nvidia-smi topo -m was cut short: {len(rows)} rows for {len(columns)} devices")
    names = [NAMED.match(line) for line in lines]
    return {"rows": rows, "adapters": {name.group(1): name.group(2) for name in names if name}}


def _affinity(line: str, words: list[str], columns: int) -> Any:
    """What stands behind the relations: the CPUs and the memory near the GPU."""
    cells = [cell.strip() for cell in line.split("\t")][columns + 1 :] if "\t" in line else words[columns + 1 :]
    known = [cell for cell in cells[:2] if cell and cell != "N/A"]
    return " ".join(known) if known else missing("not listed by nvidia-smi topo", "absent")
