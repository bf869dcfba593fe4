"""Which network, paths, channels and algorithms did NCCL really use, by its own log (NCCL_DEBUG=INFO)?"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

NETWORK = re.compile(r"NCCL INFO Using network (.+?)\s*$")
PORTS = re.compile(r"NCCL INFO NET/(\w+) : Using (.*)")
PORT = re.compile(r"\[\d+\](\S+)")
CHANNEL = re.compile(r"NCCL INFO (?:Channel|Ring) \d+(?:/\d+)? : .*? via (\S+)")
CHANNELS = re.compile(r"NCCL INFO (\d+) coll channels")
TUNING = re.compile(r"NCCL INFO (\w+): (\d+) Bytes -> Algo (\w+) proto (\w+)")
# Newer versions write names; the numbers are those of NCCL 2.8 to 2.22.
ALGORITHMS = ("TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT")
PROTOCOLS = ("LL", "LL128", "SIMPLE")


@dataclass(frozen=True)
class NcclUse:
    """What one rank's log says; empty where it says nothing."""

    network: str = ""  # as NCCL calls it: IB, Socket, AWS Libfabric
    ports: tuple[str, ...] = ()  # mlx5_0:1/RoCE, eth0:10.0.0.1<0>
    between_nodes: tuple[str, ...] = ()  # NET/IB/GDRDMA, NET/Socket
    within_node: tuple[str, ...] = ()  # P2P/CUMEM, SHM/direct
    channels: int = 0
    algorithm: str = ""  # of the largest operation: "RING SIMPLE"


def parse_nccl_log(lines: Iterable[str]) -> NcclUse:
    """The log of one rank; lines of other programs in between do no harm."""
    network, channels, largest, algorithm = "", 0, -1, ""
    ports: dict[str, tuple[str, ...]] = {}
    paths: dict[str, None] = {}
    for line in lines:
        if found := NETWORK.search(line):
            network = found[1]
        elif found := PORTS.search(line):
            ports[found[1]] = tuple(PORT.findall(found[2].split("; OOB")[0]))
        elif found := CHANNEL.search(line):
            paths[_without_numbers(found[1])] = None
        elif found := CHANNELS.search(line):
            channels = max(channels, int(found[1]))
        elif (found := TUNING.search(line)) and int(found[2]) >= largest:
            largest = int(found[2])
            algorithm = f"{_named(found[3], ALGORITHMS)} {_named(found[4], PROTOCOLS)}"
    if not network and ports:
        network = next(iter(ports))
    return NcclUse(
        network=network,
        ports=ports.get(network, next(iter(ports.values()), ())),
        between_nodes=tuple(sorted(path for path in paths if path.startswith("NET/"))),
        within_node=tuple(sorted(path for path in paths if not path.startswith("NET/"))),
        channels=channels,
        algorithm=algorithm,
    )


def _without_numbers(path: str) -> str:
    """NET/IB/3/GDRDMA -> NET/IB/GDRDMA: `ports` says which port it was."""
    return "/".join(part for part in path.split("/") if not re.fullmatch(r"\d+(\(\d+\))?", part))


def _named(text: str, names: tuple[str, ...]) -> str:
    return names[int(text)] if text.isdecimal() and int(text) < len(names) else text
