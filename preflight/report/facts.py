"""Which facts stand in the table of `preflight facts`, one row each, and how are they told in a word?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from preflight.errors import FactMissing
from preflight.facts.node import NodeFacts
from preflight.facts.values import present


def _or_reason(read: Callable[[NodeFacts], str]) -> Callable[[NodeFacts], str]:
    """The fact, or why there is none, in brackets."""

    def told(node: NodeFacts) -> str:
        try:
            return read(node)
        except FactMissing as missing:
            return f"({missing.reason})"

    return told


def _training(node: NodeFacts) -> str:
    interface = node.network.training_interface
    return f"{interface.name} {', '.join(f'{a.address}/{a.prefix_length}' for a in interface.addresses)}"


def _speed(node: NodeFacts) -> str:
    return f"{node.network.training_interface.rate_mbps()} Mb/s"


def _gateway(node: NodeFacts) -> str:
    return ", ".join(f"{way.address} by {way.interface}" for way in node.network.gateways) or "none"


def _gpus(node: NodeFacts) -> str:
    devices = present(node.gpu.devices, "GPUs")
    names = sorted({device.name for device in devices})
    return f"{len(devices)} x {', '.join(names)}" if devices else "none"


def _rdma(node: NodeFacts) -> str:
    devices = node.rdma.devices
    return ", ".join(f"{d.name} {'/'.join(port.state for port in d.ports)}" for d in devices) or "none"


def _variables(node: NodeFacts) -> str:
    return " ".join(f"{name}={v.value}" for name, v in sorted(node.environment.variables.items())[:8]) or "none"


def _shm(node: NodeFacts) -> str:
    return f"{present(node.limits.shm_free_bytes, '/dev/shm') / 2**20:.0f} MiB free"


READERS: dict[str, Callable[[NodeFacts], str]] = {
    "hostname": lambda node: node.identity.hostname,
    "FQDN": lambda node: node.identity.fqdn,
    "own name resolves to": lambda node: present(node.identity.hostname_address, "own name"),
    "kernel": lambda node: node.identity.kernel,
    "CPUs": lambda node: str(node.identity.cpu_count),
    "memory": lambda node: f"{node.identity.memory_bytes / 2**30:.1f} GiB",
    "training interface": _training,
    "its MTU": lambda node: str(node.network.training_interface.mtu),
    "its speed": _speed,
    "default gateway": _gateway,
    "ephemeral ports": lambda node: "{}-{}".format(*node.network.ephemeral_ports),
    "python": lambda node: node.software.python,
    "torch": lambda node: present(node.software.torch, "torch"),
    "CUDA of torch": lambda node: present(node.software.torch_cuda, "CUDA"),
    "cuDNN": lambda node: present(node.software.cudnn, "cuDNN"),
    "NCCL": lambda node: present(node.software.nccl, "NCCL"),
    "GPUs": _gpus,
    "driver": lambda node: present(node.gpu.driver, "driver"),
    "RDMA": _rdma,
    "memlock": lambda node: str(node.limits.memlock_soft_bytes),
    "open files": lambda node: str(node.limits.nofile_soft),
    "/dev/shm": _shm,
    "clock offset": lambda node: f"{node.clock.offset_seconds * 1000:+.1f} ms",
    "variables": _variables,
}
ROWS: dict[str, Callable[[NodeFacts], str]] = {title: _or_reason(read) for title, read in READERS.items()}

# Rows that differ from node to node by nature: there, a difference is nothing to look at.
OWN = ("hostname", "FQDN", "own name resolves to", "training interface", "memory", "/dev/shm", "clock offset")


def told(node: NodeFacts) -> dict[str, str]:
    """Every row of one node."""
    return {title: read(node) for title, read in ROWS.items()}


@dataclass(frozen=True)
class Compared:
    """One row over all nodes: each value with the nodes that have it, the most frequent first."""

    title: str
    values: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def is_own(self) -> bool:
        """Whether each node has its own by nature."""
        return self.title in OWN

    @property
    def differs(self) -> bool:
        """Whether nodes that should be alike are not."""
        return len(self.values) > 1 and not self.is_own


def compared(facts: Mapping[str, Mapping[str, str]]) -> tuple[Compared, ...]:
    """Node -> title -> value, as `told` makes them, turned into rows; those that differ come first."""
    rows: dict[str, dict[str, list[str]]] = {}
    for node, values in facts.items():
        for title, value in values.items():
            rows.setdefault(title, {}).setdefault(value, []).append(node)
    made = [
        Compared(title, tuple((value, tuple(nodes)) for value, nodes in sorted(values.items(), key=_frequent_first)))
        for title, values in rows.items()
    ]
    return tuple(sorted(made, key=lambda row: not row.differs))


def _frequent_first(item: tuple[str, list[str]]) -> int:
    return -len(item[1])
