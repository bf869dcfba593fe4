"""Which network, paths, channels and algorithms did NCCL really use, according to its log (NCCL_DEBUG=INFO)?

The forms are those of NCCL 2.10 to 2.30 (src/init.cc, enqueue.cc, transport/*.cc, plugin/net.cc) and of RCCL, which
writes the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from preflight.facts.results import Transport
from preflight.said import said

NETWORK = re.compile(r"NCCL INFO (?:Using network (.+?)|Assigned NET plugin (.+?) to comm)\s*$")
PORTS = re.compile(r"NCCL INFO NET/([^:/]+?) ?: Using (\[.*)")
PORT = re.compile(r"\[\d+\] ?([^\s={},]+)")
PLANES = re.compile(r"^([^:]+:\d+):[:\d]+/")  # mlx5_0:1:2:3/IB, with rail and plane, from 2.30 on
# Data Direct, of ConnectX-8 on: the same port by a function of its own; with NCCL_IB_DATA_DIRECT=2 it is there twice.
DATA_DIRECT = re.compile(r"^(\w+)_dma(?=:\d|$)")
CAPABLE = re.compile(r"NCCL INFO NET/(.+?) ?: GPU Direct RDMA (Enabled|Disabled) for HCA \d+ '([^']+)'")
# RCCL adds which communicator it is.
CHANNEL = re.compile(
    r"NCCL INFO (?:Channel|Ring|CollNet) \d+(?:/\d+)? : .*? via (\S.*?)(?: comm 0x\w+ nRanks \d+.*)?\s*$"
)
CHANNELS = re.compile(r"NCCL INFO (\d+) coll channels(?:, \d+ collnet channels)?(?:, (\d+) nvls channels)?")
MULTICAST = re.compile(r"NCCL INFO NVLS multicast support is (not )?available")
WITHOUT_NVLS = re.compile(
    r"Proceeding without NVLS support"
)  # 2.27, 2.28: said "available", then could not bind memory
RACK = re.compile(r"NCCL INFO (?:comm .* )?MNNVL ([01])(?: cliqueId \S+ cliqueSize (\d+))?(?:\s|$)")
PROXIED = re.compile(r"use ring PXN ([01])")
# Up to 2.26 each version of a symbol that a plugin lacks is logged before the one that it has.
LOST_PLUGIN = re.compile(
    r"NCCL INFO ((?:NET/Plugin ?: ?(?! ?Failed to find nccl(?:CollNet|NetPlugin_v)).*(?:No plugin found"
    r"|load (?:\([^)]*\) )?returned|Failed|Could not find)"
    r"|External network plugin|Failed to initialize NET plugin).*?)\s*$"
)
PLUGIN_WARNS = re.compile(r"NCCL WARN (NET/(?!IB\b|Socket\b|Plugin\b)\w+ .*?)\s*$")  # why it does not start
# 2.20 to 2.22 say no operation, 2.20 to 2.23 numbers; up to 2.19 nothing is said.
HELD = re.compile(r"NCCL INFO NCCL_ALGO set by environment to (\w+)")
TUNING = re.compile(r"NCCL INFO (?:(\w+): )?(\d+) Bytes -> Algo (\w+) proto (\w+)")
ALGORITHMS = ("TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT")
PROTOCOLS = ("LL", "LL128", "SIMPLE")
OPERATIONS = {
    "AllReduce": "all_reduce",
    "AllGather": "all_gather",
    "ReduceScatter": "reduce_scatter",
    "Broadcast": "broadcast",
    "Reduce": "reduce",
}


@dataclass(frozen=True)
class NcclUse:
    """What one rank's log says; empty where it says nothing."""

    network: str = ""  # as NCCL calls it: IB, Socket, AWS Libfabric
    ports: tuple[str, ...] = ()  # mlx5_0:1/RoCE, eth0:10.0.0.1<0>
    between_nodes: tuple[str, ...] = ()  # NET/IB/GDRDMA, NET/Socket, COLLNET/SHARP/GDRDMA
    within_node: tuple[str, ...] = ()  # P2P/CUMEM, SHM/direct
    channels: int = 0
    algorithm: str = ""  # of the largest all-reduce, else of the largest operation: "RING SIMPLE"
    algorithms: dict[str, str] = field(default_factory=dict)  # operation, "" where it is not named -> at its largest
    nvls_channels: int = 0
    nvls: str = ""  # "available" or "not available": whether switches can add up on this GPU
    is_rack: bool = False  # NVLink joins several nodes (MNNVL)
    rack_ranks: int = 0  # so many ranks are in the NVLink domain of this one; 0 where it is not said (2.20: all)
    is_proxied: bool = False  # a ring's traffic goes through the GPU next to the adapter (PXN)
    is_data_direct: bool = False  # adapters reach the memory of GPUs by a function of their own (mlx5_0_dma)
    gpudirect_ports: tuple[str, ...] = ()  # whose adapter can reach the memory of GPUs
    other_ports: tuple[str, ...] = ()  # whose adapter cannot
    lost_plugin: str = ""  # why no external network plugin was loaded


class _Log:
    """What the lines so far have said."""

    def __init__(self) -> None:
        self.network = self.nvls = self.lost_plugin = self.warned = ""
        self.channels = self.nvls_channels = self.rack_ranks = 0
        self.is_rack = self.is_proxied = self.is_without_nvls = self.is_data_direct = False
        self.ports: dict[str, tuple[str, ...]] = {}
        self.paths: dict[str, None] = {}
        self.capable: dict[str, dict[str, bool]] = {}
        self.largest: dict[str, tuple[int, str]] = {}

    def take(self, line: str) -> None:
        if found := NETWORK.search(line):
            self.network = found[1] or found[2]
        elif found := PORTS.search(line):
            written = PORT.findall(found[2].split("; OOB")[0])
            self.ports[found[1]] = tuple(dict.fromkeys(PLANES.sub(r"\1/", self.of_port(port)) for port in written))
        elif found := CAPABLE.search(line):
            self.capable.setdefault(found[1], {})[self.of_port(found[3])] = found[2] == "Enabled"
        elif found := CHANNEL.search(line):
            self.paths[_without_numbers(found[1])] = None
        elif found := CHANNELS.search(line):
            self.channels = max(self.channels, int(found[1]))
            self.nvls_channels = max(self.nvls_channels, int(found[2] or 0))
        elif found := MULTICAST.search(line):
            self.nvls = "not available" if found[1] else "available"
        elif WITHOUT_NVLS.search(line):
            self.is_without_nvls = True
        elif found := RACK.search(line):
            self.is_rack = self.is_rack or found[1] == "1"
            self.rack_ranks = max(self.rack_ranks, int(found[2] or 0)) if self.is_rack else 0
        elif found := PROXIED.search(line):
            self.is_proxied = self.is_proxied or found[1] == "1"
        elif found := LOST_PLUGIN.search(line):
            self.lost_plugin = found[1]
        elif found := PLUGIN_WARNS.search(line):
            self.warned = self.warned or found[1]
        elif found := TUNING.search(line):
            name, size = OPERATIONS.get(found[1] or "", found[1] or ""), int(found[2])
            if size >= self.largest.get(name, (0, ""))[0]:
                chosen = f"{_named(found[3], ALGORITHMS)} {_named(found[4], PROTOCOLS)}"
                self.largest[name] = (size, chosen)

    def of_port(self, name: str) -> str:
        """The port as sysfs names it, even where it is reached by Data Direct."""
        self.is_data_direct = self.is_data_direct or DATA_DIRECT.match(name) is not None
        return DATA_DIRECT.sub(r"\1", name)


def parse_nccl_log(lines: Iterable[str]) -> NcclUse:
    """The log of one rank; lines of other programs in between are skipped."""
    log = _Log()
    for line in lines:
        log.take(line)
    network = log.network or next(iter(log.ports), "")
    capable = log.capable.get(network, {})
    ports = log.ports.get(network) or tuple(capable) or next(iter(log.ports.values()), ())
    between = ("NET/", "COLLNET/")
    at_most = max(log.largest.values(), default=(0, ""))
    return NcclUse(
        network=network,
        ports=ports,
        between_nodes=tuple(sorted(path for path in log.paths if path.startswith(between))),
        within_node=tuple(sorted(path for path in log.paths if not path.startswith(between))),
        channels=log.channels,
        algorithm=log.largest.get("all_reduce", at_most)[1],
        algorithms={name: chosen for name, (_, chosen) in log.largest.items()},
        nvls_channels=log.nvls_channels,
        nvls="not available" if log.is_without_nvls else log.nvls,
        is_rack=log.is_rack,
        rack_ranks=log.rack_ranks,
        is_proxied=log.is_proxied,
        is_data_direct=log.is_data_direct,
        gpudirect_ports=tuple(name for name, can in capable.items() if can),
        other_ports=tuple(name for name, can in capable.items() if not can),
        lost_plugin=log.warned or log.lost_plugin,
    )


def _without_numbers(path: str) -> str:
    """NET/IB/3/GDRDMA/Shared -> NET/IB/GDRDMA: `ports` says which port it was, and every path may share its buffers."""
    if path == "direct shared memory":  # up to 2.12
        return "SHM/direct"
    parts = path.split("/")
    return "/".join(part for part in parts if part != "Shared" and not re.fullmatch(r"\d+(\(\d+\)|\[\w+\])?", part))


def _named(text: str, names: tuple[str, ...]) -> str:
    return names[int(text)] if text.isdecimal() and int(text) < len(names) else text


def algorithm_of(transports: Iterable[Transport], op: str, operations: Sequence[str]) -> str:
    """The algorithm that most groups took for a collective at its largest size; "" where no log tells.

    Versions that name no operation mean the only one that was run.
    """
    names = (op, "") if len(operations) == 1 else (op,)
    reported = [one.algorithms[name] for one in transports for name in names if name in one.algorithms]
    return max(dict.fromkeys(reported), key=reported.count, default="")


def took_a_ring(lines: Sequence[str]) -> str:
    """Why nobody knows that a communicator for which NCCL_ALGO=Ring was set went by it; "" where its own log says so.

    Versions of NCCL before 2.20 do not write which algorithm they choose, but that they have read the variable.
    """
    chosen = parse_nccl_log(lines).algorithm
    if chosen and not chosen.startswith("RING"):
        return said("NCCL's log says that it took {chosen}", chosen)
    held = next((found[1] for line in lines if (found := HELD.search(line))), "")
    if chosen or held.lower() == "ring":
        return ""
    return said("NCCL's log does not say that it read NCCL_ALGO again")
