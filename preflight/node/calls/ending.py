"""What has moved on this node since the run began: port states, error counters, the kernel's log, processes killed?"""

from __future__ import annotations

from preflight.node.agent import roots
from preflight.node.agent.missing import entries
from preflight.node.sources import pci, rdma_ports, rdma_tables
from preflight.node.sources.kernel import log
from preflight.node.subjects import gpu, kernel, network

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from preflight.node.agent.channel import Channel


def run(arguments: dict[str, Any], channel: Channel) -> dict[str, Any]:
    """Emit the facts of the subject ending."""
    channel.emit({"facts": collect(arguments)})
    return {}


def collect(arguments: dict[str, Any]) -> dict[str, Any]:
    """Facts of the subject ending."""
    folder = f"{arguments['sysfs']}/class/infiniband"
    ports = {}
    for device in entries(folder):
        for number in entries(f"{folder}/{device}/ports"):
            place = f"{folder}/{device}/ports/{number}"
            counted, _ = rdma_tables.counters(place)
            ports[f"{device}:{number}"] = {"state": rdma_ports.state(place), "counters": counted}
    proc = arguments["proc"]
    kills = kernel.field(f"{proc}/vmstat", "oom_kill")
    return {
        "ports": ports,
        "oom_kills": kills,
        **kernel.link_errors(proc, network.numbered(arguments)),
        "carrier_changes": network.carriers(arguments),
        "nvlink_errors": gpu.errors_now(arguments),
        "gpus_counted": pci.counted_by_gpus(arguments["sysfs"], pci.functions(arguments["sysfs"])),
        "log": log.collect(arguments.get("kmsg", f"{roots.root_of(arguments)}/dev/kmsg")),
    }
