"""How does each subject that a node reports look, field by field, as it crosses the wire?"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Annotated, Literal, TypeVar

import msgspec

from preflight.errors import BlockedBy, FactMissing, MissingKind

T = TypeVar("T")
Text = Annotated[str, msgspec.Meta(max_length=4096)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The base of everything a node may send: frozen, and an unknown key is an error."""


class Missing(Value):
    """A fact that could not be had: in the place of the value, with the reason."""

    missing: Text
    kind: MissingKind = "failed"


def present(value: T | Missing, fact: str) -> T:
    """The value itself, or FactMissing with the reason: a fact we lack is never None, 0 or the empty string."""
    if isinstance(value, Missing):
        raise FactMissing(fact, value.missing, value.kind)
    return value


def or_none(value: Text | Missing, fact: str) -> str:
    """The value, "none" where the thing is known to be absent, FactMissing where nobody could tell."""
    if isinstance(value, Missing) and value.kind == "absent":
        return "none"
    return present(value, fact)


def is_loopback(address: str) -> bool:
    """Whether an address leads back to the machine that asks."""
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


class Identity(Value):
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


class Address(Value):
    """An address of an interface."""

    address: Text
    prefix_length: Count
    family: Literal["inet", "inet6"]


class Interface(Value):
    """A network interface as the kernel of the node's own network namespace tells it."""

    name: Text
    index: Count
    addresses: tuple[Address, ...]
    mtu: Count
    speed_mbps: Count  # 0 where the driver tells none
    is_up: bool
    is_loopback: bool
    is_physical: bool | Missing  # has a /sys/class/net/<name>/device

    def holds_any(self, addresses: Iterable[str]) -> bool:
        """Whether the interface has one of `addresses`."""
        return bool({held.address for held in self.addresses} & set(addresses))

    def subnet(self) -> str:
        """The subnet of the address that peers connect to: "10.0.0.0/24"."""
        try:
            wanted = self.address("inet")
        except FactMissing:
            wanted = self.address("inet6")
        (prefix,) = {held.prefix_length for held in self.addresses if held.address == wanted}
        return str(ipaddress.ip_interface(f"{wanted.partition('%')[0]}/{prefix}").network)

    def rate_told(self) -> str:
        """The link rate as a message says it; a port that tells none differs from one that does."""
        try:
            return f"{self.rate_mbps()} Mbit/s"
        except FactMissing as missing:
            if missing.kind != "absent":
                raise
            return "no rate told"

    def address(self, family: Literal["inet", "inet6"] = "inet") -> str:
        """The first address of a family that is not link-local."""
        for address in self.addresses:
            if address.family == family and not address.address.lower().startswith(("fe80:", "169.254.")):
                return address.address
        raise FactMissing(f"{family} address of {self.name}", "the interface has none", "absent")

    def rate_mbps(self) -> int:
        """The link rate: only a real device's figure above 0 is one (veth says 10000 and means nothing)."""
        if not present(self.is_physical, f"device of {self.name}"):
            raise FactMissing(f"rate of {self.name}", "not a hardware interface", "absent")
        if self.speed_mbps == 0:
            raise FactMissing(f"rate of {self.name}", "the driver tells no speed", "absent")
        return self.speed_mbps


class Gateway(Value):
    """A default route."""

    interface: Text
    address: Text
    family: Literal["inet", "inet6"]


class Network(Value):
    """Interfaces, default gateways and the ephemeral port range (inclusive)."""

    interfaces: tuple[Interface, ...]
    gateways: tuple[Gateway, ...]
    ephemeral_ports: tuple[Port, Port]
    # Filled in by the controller from the job's variables (facts.selection), never sent by a node.
    training: Text | Missing = Missing("not chosen yet")

    def interface(self, name: str) -> Interface:
        """The interface of that name."""
        for interface in self.interfaces:
            if interface.name == name:
                return interface
        raise FactMissing(f"interface {name}", "not on this node", "absent")

    @property
    def training_interface(self) -> Interface:
        """The interface that the job's collectives will use."""
        if isinstance(self.training, Missing):
            raise BlockedBy("network.training_interface_exists", detail=self.training.missing)
        return self.interface(self.training)

    def training_trouble(self) -> str:
        """Why peers cannot reach this node on its training interface, "" where nothing is known against it."""
        if isinstance(self.training, Missing):
            return self.training.missing
        if self.interface(self.training).is_loopback:
            return f"the training interface is {self.training}: no peer can reach it"
        return ""

    def holder_of(self, address: str) -> Interface:
        """The interface that has `address`."""
        for interface in self.interfaces:
            if any(held.address == address for held in interface.addresses):
                return interface
        raise FactMissing(f"interface with address {address}", "no interface of this node has it", "absent")

    def holds_any(self, addresses: Iterable[str], *, reachable: bool = False) -> bool:
        """Whether an interface of this node has one of `addresses`; `reachable` leaves loopback out."""
        held = {held.address.partition("%")[0] for interface in self.interfaces for held in interface.addresses}
        wanted = {address.partition("%")[0] for address in addresses}
        # Every 127.x.x.x leads to the node itself, though its loopback interface lists one only.
        return any(not reachable if is_loopback(address) else address in held for address in wanted)

    @property
    def reachable_addresses(self) -> frozenset[str]:
        """Every address of the node that is not loopback."""
        every = {held.address for interface in self.interfaces for held in interface.addresses}
        return frozenset(address for address in every if not is_loopback(address))


class Listener(Value):
    """A TCP port in use, and by whom where the kernel tells us."""

    address: Text
    port: Port
    program: Text | Missing
    pid: Count | Missing


class Ports(Value):
    """The listening TCP sockets of the node."""

    listeners: tuple[Listener, ...]


class Software(Value):
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


class Gpu(Value):
    """One GPU as nvidia-smi tells it."""

    index: Count
    name: Text
    uuid: Text
    memory_mib: Count | Missing
    bus_id: Text
    compute_mode: Text | Missing
    mig_mode: Text | Missing
    processes: Count | Missing

    def is_busy(self) -> bool:
        """Whether a program holds memory of it; a GPU that does not tell is taken for free."""
        return not isinstance(self.processes, Missing) and self.processes > 0

    def told(self) -> str:
        """The model as a message says it."""
        memory = "" if isinstance(self.memory_mib, Missing) else f" {self.memory_mib} MiB"
        return f"{self.name}{memory}" + (" in MIG mode" if self.mig_mode == "Enabled" else "")


class Gpus(Value):
    """The GPUs of a node and the driver that runs them; an empty tuple means that there is none."""

    devices: tuple[Gpu, ...] | Missing
    driver: Text | Missing
    cuda_driver: Text | Missing

    def trouble(self) -> str:
        """Why the GPUs of this node cannot be told, "" where they can, none being an answer."""
        return self.devices.missing if isinstance(self.devices, Missing) else ""

    def readable(self) -> tuple[Gpu, ...]:
        """The GPUs, blocked where the driver does not tell them."""
        if isinstance(self.devices, Missing):
            raise BlockedBy("gpu.devices_are_readable", detail=self.devices.missing)
        return self.devices

    def models(self) -> str:
        """Each model once, with its memory and whether it is partitioned: "NVIDIA H200 143771 MiB"."""
        if not self.readable():
            raise FactMissing("GPU model", "no GPU", "absent")
        return ", ".join(sorted({gpu.told() for gpu in self.readable()}))

    def driver_version(self) -> str:
        """The version of the driver; a node without GPUs needs none."""
        if not self.readable():
            raise FactMissing("driver", "no GPU", "absent")
        return present(self.driver, "driver")


class Gid(Value):
    """One row of a port's GID table."""

    index: Count
    gid: Text
    kind: Text | Missing  # "IB/RoCE v1" or "RoCE v2"
    netdev: Text | Missing


class RdmaPort(Value):
    """A port of an RDMA device as sysfs tells it."""

    number: Count
    state: Text  # "ACTIVE", "DOWN", "INIT", "ARMED"
    physical_state: Text | Missing  # "LinkUp", "Polling", "Disabled"
    rate_gbps: float | Missing
    link_layer: Text  # "InfiniBand" or "Ethernet"
    gids: tuple[Gid, ...]
    lid: Text | Missing
    sm_lid: Text | Missing
    counters: dict[Text, Count]

    def state_told(self) -> str:
        """The state as a message says it: "DOWN (Polling)"."""
        return self.state if isinstance(self.physical_state, Missing) else f"{self.state} ({self.physical_state})"

    def rate_told(self) -> str:
        """Rate and kind of the link as a message says them: "400 Gbit/s InfiniBand"."""
        return f"{present(self.rate_gbps, 'rate'):g} Gbit/s {self.link_layer}"


class RdmaDevice(Value):
    """An RDMA device (HCA)."""

    name: Text
    firmware: Text | Missing
    board: Text | Missing
    node_type: Text | Missing
    ports: tuple[RdmaPort, ...]


class Rdma(Value):
    """Every RDMA device of the node."""

    devices: tuple[RdmaDevice, ...]

    def active_ports(self) -> tuple[RdmaPort, ...]:
        """The ports that are up, of all devices."""
        return tuple(port for device in self.devices for port in device.ports if port.state == "ACTIVE")


class Variable(Value):
    """A variable of the job's environment and the layer it came from."""

    value: Text
    layer: Text  # "node", "--env", "/etc/nccl.conf", "~/.nccl.conf", a launch file


class Environment(Value):
    """The variables that steer a job, by allow-list; everything else stays on the node."""

    variables: dict[Text, Variable]


Limit = Count | Literal["unlimited"]


class Limits(Value):
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


class Route(Value):
    """How one peer is reached from the node: what its name gives here and where packets leave."""

    name: Text
    address: Text  # the peer's training address, as the controller told it
    resolved: tuple[Text, ...]  # what the peer's own hostname resolves to here
    resolved_fqdn: tuple[Text, ...]
    interface: Text | Missing
    source: Text | Missing

    def leaves_by(self) -> str:
        """The interface that packets to the peer leave by."""
        return present(self.interface, f"route to {self.name}")


class Peers(Value):
    """The routes to every other node, and the ports this node was asked to bind."""

    routes: tuple[Route, ...]
    master_addresses: tuple[Text, ...] | Missing  # what MASTER_ADDR resolves to here
    master_port_error: Text  # "" when the bind succeeded or was not asked
    master_port_holder: Text  # program and pid that hold it, "" when free or unknown

    def addresses_of_master(self) -> tuple[str, ...]:
        """What MASTER_ADDR resolves to on this node; empty where it knows no such name."""
        return present(self.master_addresses, "address of MASTER_ADDR")


class Clock(Value):
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
    "peers": Peers,
    "clock": Clock,
}
