"""Which subjects does a node report, and how does each look, field by field, as it crosses the wire?"""

from __future__ import annotations

from typing import Literal

import msgspec

from preflight.errors import BlockedBy, FactMissing
from preflight.facts.files import Files, Login, Mount, Place, Same, Shared, Trust
from preflight.facts.hardware import Gid, Gpu, Gpus, Rdma, RdmaDevice, RdmaPort
from preflight.facts.kernel import Ending, Kernel, LogEvent, PortEnd
from preflight.facts.machine import Machine
from preflight.facts.missing import Count, Missing, Port, Text, Value, or_none, present
from preflight.facts.network import (
    Address,
    Gateway,
    Interface,
    Listener,
    Network,
    Peers,
    Ports,
    Route,
    is_loopback,
)

__all__ = [
    "SUBJECTS",
    "Address",
    "Clock",
    "Count",
    "Ending",
    "Environment",
    "Files",
    "Gateway",
    "Gid",
    "Gpu",
    "Gpus",
    "Identity",
    "Interface",
    "Kernel",
    "Limit",
    "Limits",
    "Listener",
    "LogEvent",
    "Login",
    "Machine",
    "Missing",
    "Mount",
    "Network",
    "Peers",
    "Place",
    "Port",
    "PortEnd",
    "Ports",
    "Rdma",
    "RdmaDevice",
    "RdmaPort",
    "Route",
    "Same",
    "Shared",
    "Software",
    "Text",
    "Trust",
    "Value",
    "Variable",
    "is_loopback",
    "or_none",
    "present",
]


class Identity(Value, frozen=True):
    """Who the node says it is, and what its own names resolve to there."""

    hostname: Text
    fqdn: Text
    boot_id: Text
    kernel: Text
    machine: Text
    cpu_count: Count
    memory_bytes: Count
    user_id: Count
    hostname_address: Text | Missing  # gethostbyname(gethostname()), what gloo asks
    hostname_addresses: tuple[Text, ...]  # every address getaddrinfo gives for the hostname
    fqdn_addresses: tuple[Text, ...]
    context: Text  # where limits and environment were read: ssh, local, container

    @property
    def own_address(self) -> str:
        """What gloo would offer to its peers: the address of the node's own hostname."""
        if isinstance(self.hostname_address, Missing) and not self.hostname_addresses:
            raise BlockedBy("names.own_hostname_is_an_address_of_the_node", detail=self.hostname_address.missing)
        return present(self.hostname_address, "address of the node's own hostname")

    @property
    def is_named_loopback(self) -> bool:
        """Whether the node's own hostname leads, on that node, nowhere but to itself."""
        return not isinstance(self.hostname_address, Missing) and is_loopback(self.hostname_address)


class Software(Value, frozen=True):
    """The job's interpreter and what is installed for it; read from dist-info and version.py, never imported."""

    python: Text
    implementation: Text
    executable: Text
    libc: Text
    packages: dict[Text, Text]  # normalised distribution name -> version
    torch: Text | Missing
    torch_cuda: Text | Missing  # CUDA runtime torch was built for; absent for a CPU build
    torch_hip: Text | Missing
    cudnn: Text | Missing
    nccl: Text | Missing  # the library torch would load
    torch_path: Text | Missing
    # Every libnccl.so.2 that a process may meet -> its version, "" where it does not tell.
    nccl_copies: dict[Text, Text] = msgspec.field(default_factory=dict)
    # Package -> what it wants of others: "torchvision" -> {"torch": "==2.13.0"}.
    requirements: dict[Text, dict[Text, Text]] = msgspec.field(default_factory=dict)
    nccl_preloaded: Text = ""  # the one that LD_PRELOAD puts before all others

    def has_torch(self) -> bool:
        """Whether torch is installed; FactMissing where nobody could tell."""
        return or_none(self.torch, "torch") != "none"

    @property
    def torch_version(self) -> str:
        """The torch that the job imports, with its local part ("2.13.0+cu130")."""
        if not self.has_torch():
            raise BlockedBy("software.torch_is_installed", detail="no torch")
        return present(self.torch, "torch")

    def library_of_torch(self, name: Literal["torch_cuda", "torch_hip", "cudnn", "nccl"]) -> str:
        """The version of a library that torch was built for or would load, "none" where it does without."""
        return or_none(getattr(self, name), name) if self.torch_version else "none"

    @property
    def python_minor(self) -> str:
        """The part of the Python version that pickles and wheels depend on: "3.11"."""
        return ".".join(self.python.split(".")[:2])

    def version(self, package: str) -> str:
        """The installed version of a distribution."""
        if package not in self.packages:
            raise FactMissing(package, "not installed", "absent")
        return self.packages[package]


class Variable(Value, frozen=True):
    """A variable of the job's environment and the layer it came from."""

    value: Text
    layer: Text  # "node", "--env", "/etc/nccl.conf", "~/.nccl.conf", a launch file


class Environment(Value, frozen=True):
    """The variables that steer a job, by allow-list; everything else stays on the node."""

    variables: dict[Text, Variable]


Limit = Count | Literal["unlimited"]


class Limits(Value, frozen=True):
    """Limits in the context the job will have, and shared memory."""

    memlock_soft_bytes: Limit
    memlock_hard_bytes: Limit
    nofile_soft: Limit
    nofile_hard: Limit
    nproc_soft: Limit
    shm_total_bytes: Count | Missing
    shm_free_bytes: Count | Missing
    leftovers: tuple[Text, ...]  # /dev/shm/preflight-* of an earlier run

    def free_shared_memory_bytes(self) -> int:
        """What is free in /dev/shm."""
        return present(self.shm_free_bytes, "free bytes of /dev/shm")


class Clock(Value, frozen=True):
    """The node's wall clock against the controller's, by round trip."""

    offset_seconds: float
    uncertainty_seconds: float


SUBJECTS: dict[str, type[Value]] = {
    "identity": Identity,
    "network": Network,
    "ports": Ports,
    "software": Software,
    "gpu": Gpus,
    "rdma": Rdma,
    "environment": Environment,
    "limits": Limits,
    "machine": Machine,
    "kernel": Kernel,
    "peers": Peers,
    "files": Files,
    "trust": Trust,
    "clock": Clock,
    "ending": Ending,
}
