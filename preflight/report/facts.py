"""Which facts stand in the table of `preflight facts`, one row each, and how does each read in a few words?"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from preflight.facts import selection
from preflight.facts.cluster import Row
from preflight.facts.node import NodeFacts
from preflight.facts.value import or_none, present
from preflight.judge.tables import gids
from preflight.judge.tables.gpus import parity as gpu_parity
from preflight.judge.tables.kernel import parity as kernel_parity
from preflight.judge.tables.network import nccl_interfaces
from preflight.said import joined, said
from preflight.said.errors import FactMissing, NotApplicable


def _or_reason(read: Callable[[NodeFacts], str]) -> Callable[[NodeFacts], str]:
    """The fact, or why there is none, in brackets."""

    def value(node: NodeFacts) -> str:
        try:
            return read(node)
        except FactMissing as missing:
            return f"({missing.reason})"
        except NotApplicable as why:
            return f"({why})"

    return value


def _training(node: NodeFacts) -> str:
    interface = node.network.training_interface
    return f"{interface.name} {', '.join(f'{a.address}/{a.prefix_length}' for a in interface.addresses)}"


def _speed(node: NodeFacts) -> str:
    return f"{node.network.training_interface.rate_mbps()} Mb/s"


def _gateway(node: NodeFacts) -> str:
    return (
        joined([said("{address} by {interface}", way.address, way.interface) for way in node.network.gateways], ", ")
        or "none"
    )


def _gpus(node: NodeFacts) -> str:
    devices = present(node.gpu.devices, "GPUs")
    names = sorted({device.name for device in devices})
    return f"{len(devices)} x {', '.join(names)}" if devices else "none"


def _rdma(node: NodeFacts) -> str:
    devices = node.rdma.devices
    return ", ".join(f"{d.name} {'/'.join(port.state for port in d.ports)}" for d in devices) or "none"


def _rates(node: NodeFacts) -> str:
    counts: dict[str, int] = {}
    for hca in node.active_hcas():
        counts[hca.port.rate_text()] = counts.get(hca.port.rate_text(), 0) + 1
    return ", ".join(f"{count} x {rate}" for rate, count in counts.items())


def _gid_indices(node: NodeFacts) -> str:
    indices = gids.right_indices(node)
    if not indices:
        raise FactMissing("GID index", "no RoCE port with a routable address", "absent")
    return ", ".join(map(str, sorted(set(indices.values()))))


def _variables(node: NodeFacts) -> str:
    return " ".join(f"{name}={v.value}" for name, v in sorted(node.environment.variables.items())[:8]) or "none"


def _memlock(node: NodeFacts) -> str:
    limit = node.limits.memlock_soft_bytes
    return f"{limit >> 10} KiB" if isinstance(limit, int) else str(limit)  # as `ulimit -l` counts


def _shm(node: NodeFacts) -> str:
    return said("{present:.0f} MiB free", present(node.limits.shm_free_bytes, "/dev/shm") / 2**20)


def _nccl_interfaces(node: NodeFacts) -> str:
    return ", ".join(interface.name for interface in nccl_interfaces.of_nccl(node)) or "none"


def _gloo_interface(node: NodeFacts) -> str:
    return selection.gloo_interface(node.network, node.identity, node.value("GLOO_SOCKET_IFNAME")).name


def _look_up(node: NodeFacts) -> str:
    seconds = [route.reverse_seconds for route in node.peers.routes if isinstance(route.reverse_seconds, float)]
    return said("{max:.1f} ms", max(seconds) * 1000) if seconds else "not asked"


def _rdma_libraries(node: NodeFacts) -> str:
    machine = node.machine
    return said(
        "{or_none}, driver {or_none2}",
        or_none(machine.rdma_core, "rdma-core"),
        or_none(machine.rdma_driver, "RDMA driver"),
    )


def _places(node: NodeFacts) -> str:
    places = [place for place in node.files.places if not place.trouble]
    return ", ".join(f"{place.path} {place.free_bytes / 2**30:.0f} GiB" for place in places) or "none"


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
    "NCCL would take": _nccl_interfaces,
    "Gloo would take": _gloo_interface,
    "slowest name look-up": _look_up,
    "default gateway": _gateway,
    "ephemeral ports": lambda node: "{}-{}".format(*node.network.ephemeral_ports),
    "python": lambda node: node.software.python,
    "torch": lambda node: present(node.software.torch, "torch"),
    "CUDA of torch": lambda node: present(node.software.torch_cuda, "CUDA"),
    "cuDNN": lambda node: present(node.software.cudnn, "cuDNN"),
    "NCCL": lambda node: present(node.software.nccl, "NCCL"),
    "processor": lambda node: or_none(node.machine.cpu_model, "processor"),
    "packages": lambda node: str(len(node.software.packages)),
    "compilers": lambda node: ", ".join(sorted(node.machine.compilers)) or "none",
    "GPUs": _gpus,
    "driver": lambda node: present(node.gpu.driver, "driver"),
    "CUDA of the driver": lambda node: present(node.gpu.cuda_driver, "CUDA of the driver"),
    "power limit": lambda node: gpu_parity.of_all(node, "power_limit_watts", "power limit", unit=" W"),
    "NVLinks of a GPU": lambda node: node.gpu.nvlinks(),
    "near the GPUs": lambda node: present(node.gpu.topology, "topology").summary(),
    "RDMA": _rdma,
    "RDMA libraries": _rdma_libraries,
    "rate of RDMA": _rates,
    "right GID index": _gid_indices,
    "adapters to GPUs": lambda node: node.kernel.gpudirect(node.identity.kernel),
    "CPUs for the job": lambda node: f"{node.kernel.cpus():g}",
    "boot options": lambda node: " ".join(present(node.kernel.boot_options, "boot options")) or "none",
    "memlock": _memlock,
    "open files": lambda node: str(node.limits.nofile_soft),
    "/dev/shm": _shm,
    "free": _places,
    "time service": lambda node: ", ".join(present(node.machine.time_services, "time service")) or "none seen",
    "clock offset": lambda node: said("{offset_seconds:+.1f} ms", node.clock.offset_seconds * 1000),
    "variables": _variables,
}
ROWS: dict[str, Callable[[NodeFacts], str]] = {title: _or_reason(read) for title, read in READERS.items()}

# Rows that differ from node to node by nature: there, a difference is nothing to look at.
OWN = (
    "hostname",
    "FQDN",
    "own name resolves to",
    "training interface",
    "memory",
    "/dev/shm",
    "clock offset",
    "free",
    "slowest name look-up",
)


# Rows that move from run to run by nature.
VARYING = ("/dev/shm", "clock offset", "free", "slowest name look-up")
# In `lasting` every package and variable is a fact of its own.
COUNTED = ("packages", "variables")


def _in_words(row: Row) -> Callable[[NodeFacts], str]:
    return lambda node: str(row.key(node))


LASTING = {
    **{title: read for title, read in ROWS.items() if title not in (*VARYING, *COUNTED)},
    **{row.what: _or_reason(_in_words(row)) for row in (*gpu_parity.SAME, *kernel_parity.SAME)},
}


def row_values(node: NodeFacts) -> dict[str, str]:
    """Title -> value of every row, for one node."""
    return {title: read(node) for title, read in ROWS.items()}


def lasting(node: NodeFacts) -> dict[str, str]:
    """What should be the same in the next run: the rows, what must be the same on every node, packages, variables."""
    facts = {title: read(node) for title, read in LASTING.items()}
    with contextlib.suppress(FactMissing):
        facts |= {said("package {name}", name): version for name, version in node.software.packages.items()}
    with contextlib.suppress(FactMissing):
        facts |= {
            said("variable {name}", name): variable.value for name, variable in node.environment.variables.items()
        }
    return facts


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
        """Whether nodes that should have the same value do not."""
        return len(self.values) > 1 and not self.is_own


def compared(facts: Mapping[str, Mapping[str, str]]) -> tuple[Compared, ...]:
    """Node -> title -> value, as `row_values` gives them, turned into rows; those that differ come first."""
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
