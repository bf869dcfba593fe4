"""Which priorities of an Ethernet port are lossless, and which marking does its adapter trust?

By `mlnx_qos` of NVIDIA's driver packages, else by `dcb` of iproute2; ECN and the default traffic class stand in sysfs.
"""

from __future__ import annotations

import os
import re

from preflight.node.agent.missing import missing, read_text_or_missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from preflight.node.agent.missing import TextOrMissing

PRIORITIES = 8
# mlnx_qos: a line of priorities, and below it which are enabled.
ENABLED = re.compile(r"PFC configuration:.*?enabled((?:\s+[01]){8})", re.DOTALL)
TRUST = re.compile(r"Priority trust state: *(\w+)")
# dcb pfc show: "prio-pfc 0:off 1:off 2:off 3:on ..."
BY_DCB = re.compile(r"prio-pfc((?:\s+[0-7]:(?:on|off))+)")


def mlnx_qos(text: str) -> dict[str, str]:
    """The lossless priorities and the trust state that `mlnx_qos -i` prints; what it does not say is left out."""
    found = {}
    enabled = ENABLED.search(text)
    if enabled:
        found["pfc_priorities"] = _listed(place for place, flag in enumerate(enabled.group(1).split()) if flag == "1")
    trust = TRUST.search(text)
    if trust:
        found["trust"] = trust.group(1)
    return found


def dcb(text: str) -> dict[str, str]:
    """The lossless priorities that `dcb pfc show` prints."""
    states = BY_DCB.search(text)
    pairs = [pair.split(":") for pair in states.group(1).split()] if states else []
    return {"pfc_priorities": _listed(int(number) for number, state in pairs if state == "on")} if states else {}


def ecn(folder: str) -> TextOrMissing:
    """The priorities whose congestion the adapter marks and heeds, from the folder ecn/ of a network device."""
    found = []
    for number in range(PRIORITIES):
        texts = [read_text_or_missing(f"{folder}/{end}/enable/{number}") for end in ("roce_np", "roce_rp")]
        if any(isinstance(text, str) for text in texts):
            found.append((number, all(text == "1" for text in texts)))
    if not found:
        return missing("the driver reports no ECN of its priorities", "absent")
    return _listed(number for number, is_on in found if is_on)


def traffic_class(folder: str) -> TextOrMissing:
    """The traffic class that all connections get, from tc/<port>/ of an RDMA device: "Global tclass=106" is 106."""
    text = read_text_or_missing(f"{folder}/traffic_class")
    if not isinstance(text, str):
        return missing("the driver reports no default traffic class", "absent")
    return text.partition("=")[2].strip() or text or missing("the file is empty", "absent")


def command(programs: dict[str, str], netdev: str) -> list[str]:
    """What to start for a network device; nothing where neither tool is there."""
    if programs.get("mlnx_qos"):
        return [programs["mlnx_qos"], "-i", netdev]
    return [programs["dcb"], "pfc", "show", "dev", netdev] if programs.get("dcb") else []


def described(printed: TextOrMissing, *, sysfs: str, netdev: str, device: str, number: int) -> dict[str, Any]:
    """All facts of one port, by what a tool said of its network device."""
    reported = {**dcb(printed), **mlnx_qos(printed)} if isinstance(printed, str) else {}
    absent = missing("neither mlnx_qos nor dcb reports it", "absent")
    return {
        "pfc_priorities": reported.get("pfc_priorities", absent),
        "trust": reported.get("trust", absent),
        "ecn_priorities": ecn(f"{sysfs}/class/net/{os.path.basename(netdev)}/ecn"),
        "traffic_class": traffic_class(f"{sysfs}/class/infiniband/{device}/tc/{number}"),
    }


def _listed(numbers: Any) -> str:
    return ", ".join(str(number) for number in numbers) or "none"
