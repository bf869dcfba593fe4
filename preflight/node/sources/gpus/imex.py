"""Does NVIDIA's IMEX run here, with which nodes, and what does it say of them?

IMEX lets the GPUs of several nodes that one NVLink fabric joins (NVL72) map each other's memory.
"""

from __future__ import annotations

import os
import re

from preflight.node.agent import programs, roots
from preflight.node.agent.missing import missing, missing_because, read_text
from preflight.node.sources.gpus import printed_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from preflight.node.agent.missing import Missing

DAEMON = "nvidia-imex"
PROGRAM = "nvidia-imex-ctl"
LIMIT_S = 5.0
NODES = "nvidia-imex/nodes_config.cfg"
STATE_LINE = re.compile(r"^Domain State: *(\w+)", re.MULTILINE)
NODE_LINE = re.compile(r"^Node #\d+ +[*-] +(\S+?)[ *]+- +(\w+)", re.MULTILINE)
READY = "READY"


def collect(arguments: dict[str, Any], path: str, *, sees_processes: bool) -> dict[str, Any]:
    """Facts of Imex; `sees_processes` tells whether all processes of the machine are seen from here."""
    root = roots.root_of(arguments)
    return {
        "is_running": is_running(arguments["proc"], sees_processes=sees_processes),
        "nodes": nodes(f"{root}/etc/{NODES}"),
        **status(path, root),
    }


def is_running(proc: str, *, sees_processes: bool) -> bool | Missing:
    """Whether the daemon runs; from inside a container its process may not be seen."""
    if runs(proc, DAEMON):
        return True
    return False if sees_processes else missing("a container does not see the processes of its host", "absent")


def runs(proc: str, name: str) -> bool:
    """Whether a process has this name, of which the kernel keeps 15 characters: the whole of it, or its beginning."""
    for entry in os.listdir(proc):
        if entry.isdigit():
            try:
                with open(f"{proc}/{entry}/comm", encoding="utf-8", errors="backslashreplace") as file:
                    comm = file.read().strip()
            except OSError:
                continue
            if comm == name or (len(name) >= 15 and comm.startswith(name[:15])):
                return True
    return False


def nodes(path: str) -> list[str] | Missing:
    """The nodes of the domain as the daemon was told them: addresses or names, one a line."""
    try:
        text = read_text(path)
    except OSError as error:
        return missing_because(error)
    found = [line.partition("#")[0].strip() for line in text.splitlines()]
    named = sorted({word for word in found if word})
    return named or missing(f"{path} names no node")


def status(path: str, root: str = "") -> dict[str, Any]:
    """What the daemon says of its domain: UP, DEGRADED or DOWN, and which nodes of it are not ready."""
    program = programs.find(PROGRAM, path, root)
    if not program:
        absent = missing(f"{PROGRAM} not found", "absent")
        return {"state": absent, "not_ready": absent}
    outputs = programs.run_all({"json": [program, "-N", "-j"], "text": [program, "-N"]}, limit_s=LIMIT_S)
    failed = []
    for form, read in (("json", of_json), ("text", of_text)):
        text = outputs[form]
        try:
            if isinstance(text, str):
                return read(text)
            failed.append(text["missing"])
        except ValueError as error:
            failed.append(str(error))
    reason = missing("; ".join(dict.fromkeys(failed)))
    return {"state": reason, "not_ready": reason}


def of_json(text: str) -> dict[str, Any]:
    """State and nodes from `nvidia-imex-ctl -N -j`. ValueError where that is not whole."""
    start = text.find("{")
    if start < 0:
        raise ValueError(f"{PROGRAM} printed no JSON: {' '.join(text[-200:].split())}")
    try:
        reported = printed_json.value_at(text, start)[0]
        state, found = str(reported["status"]), list(reported["nodes"].values())
        unready = [f"{one['host']} {one['status']}" for one in found if one["status"] != READY]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{PROGRAM} printed broken JSON: {error}") from None
    return {"state": state, "not_ready": sorted(unready)}


def of_text(text: str) -> dict[str, Any]:
    """State and nodes from `nvidia-imex-ctl -N`, whose last line is the state of the domain."""
    state = STATE_LINE.search(text)
    found = NODE_LINE.findall(text)
    if not state or not found:
        raise ValueError(f"{PROGRAM} reported no state: {' '.join(text[-200:].split())}")
    return {
        "state": state.group(1),
        "not_ready": sorted(f"{host} {answer}" for host, answer in found if answer != READY),
    }
