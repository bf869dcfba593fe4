"""What is a platform: interfaces, RDMA adapters, GPUs, kernel, files and variables, for any number of nodes?

A description holds what all nodes of the platform have in common; texts with ``{n}`` are each node's own. What a node's
folder is made of (``folder.py``) follows from it, in the form in which the kernel and the programs write it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Nic:
    """A network interface; without a PCI place it is a virtual one."""

    name: str
    addresses: tuple[str, ...] = ()  # "10.77.0.{n}/24"
    speed_mbps: int = 0  # as ethtool reports it; 0: the driver reports none
    mtu: int = 1500
    pci: str = ""  # "0000:e1:00.0"
    driver: str = "mlx5_core"
    is_up: bool = True


@dataclass(frozen=True)
class Hca:
    """An RDMA device with one port."""

    name: str
    link_layer: str = "InfiniBand"
    rate: str = "400 Gb/sec (4X NDR)"
    netdev: str = ""
    netdev_vlan: str = ""  # a VLAN interface over the netdev, whose addresses stand in the table too
    hca_type: str = "MT4129"
    board_id: str = "MT_0000000838"
    firmware: str = "28.39.1002"
    pci: str = ""
    node_type: str = "1: CA"
    active_mtu: int = 4096
    pkeys: tuple[str, ...] = ("0xffff",)
    rows: int = 16  # of the GID table, empty ones included


@dataclass(frozen=True)
class Gpus:
    """All GPUs of a node: one model."""

    name: str
    count: int = 8
    architecture: str = "Hopper"
    memory_mib: int = 81559
    watts: float = 700.0
    device_id: str = "233010DE"
    generation: int = 5
    nvlinks: int = 18
    link_gbytes: str = "26.562"
    has_fabric: bool = True
    pci: tuple[str, ...] = ()
    switches: int = 4
    driver: str = "570.133.20"
    cuda: str = "12.8"
    is_open: bool = True
    vendor: str = "nvidia"
    clique: str = "0"
    cluster: str = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True)
class Platform:
    """A kind of machine, and the source that says what it looks like."""

    name: str
    source: str
    nics: tuple[Nic, ...]
    hcas: tuple[Hca, ...] = ()
    gpus: Gpus | None = None
    hostname: str = "node{n}"
    hosts: str = ""  # further lines of /etc/hosts; the peers stand there anyway
    domain: str = ""  # of full names, which are then all that a node knows its peers by
    own_name: str = ""  # the address that a node's own name has on it; "" for that of its first interface
    environment: Mapping[str, str] = field(default_factory=dict)
    etc: Mapping[str, str] = field(default_factory=dict)  # "nccl.conf" -> text
    kernel: str = "5.15.0-1066-generic"
    machine: str = "x86_64"
    cpu: str = "Intel(R) Xeon(R) Platinum 8480C"
    cpus: int = 224
    memory_gib: int = 2048
    modules: tuple[str, ...] = ()
    boot: str = "ro console=tty0 iommu=pt"
    processes: tuple[str, ...] = ("systemd", "chronyd")
    gateway: str = "10.77.0.254"
    user_id: int = 0
    memlock: int = -1
    nofile: int = 1048576
    nproc: int = -1
    shared_memory_gib: int = 256
    torch: str = "2.7.1"
    nccl: str = "2.26.2"
    has_log: bool = True
    ofed: str = ""  # /sys/module/mlx5_core/version
    iommu: str = "identity"  # of the PCI functions; "" without an IOMMU
    cgroup: Mapping[str, str] = field(default_factory=dict)  # "memory.max" -> text
    container: bool = False
    group: str = "0::/user.slice/user-0.slice/session-3.scope"  # the control group of a login
    has_rdma_core: bool = True
    files: Mapping[str, str] = field(default_factory=dict)  # further files of the root: "opt/x.xml" -> text
    topology: str = "rails"  # how far each adapter is from each GPU: rails (each GPU its own), shared, none
    log: tuple[str, ...] = ("6|pci 0000:00:00.0: [8086:09a2] type 00 class 0x088000",)
    over_ssh: bool = True  # whether the lab's single network can stand for the one this platform trains on
