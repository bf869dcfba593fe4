"""What is a platform: interfaces, RDMA adapters, GPUs, kernel, files and variables, for any number of nodes?

A description holds what all nodes of the platform have in common; texts with ``{n}`` are each node's own. What a node's
folder is made of (``folder.py``) follows from it, in the form in which the kernel and the programs write it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from . import hardware_log


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
    members: tuple[str, ...] = ()  # of a bond: names of interfaces that stand in the platform too


@dataclass(frozen=True)
class Hca:
    """A port of an RDMA device; several of one name are the ports of one device."""

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
    can_open: bool = True  # whether a container was given its device file
    rows: int = 16  # of the GID table, empty ones included
    port: int = 1
    state: str = "4: ACTIVE"
    physical_state: str = "5: LinkUp"
    gid_kinds: tuple[str, ...] = ("IB/RoCE v1", "RoCE v2")  # the types of rows that the driver makes of each address
    has_counters: bool = True  # the folder counters; every driver has hw_counters
    vendor: str = "0x15b3"
    card: str = ""  # that several functions are of; "" where each is its own
    generation: int = 0  # of PCIe; 0: as its rate needs
    lanes: int = 16


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
    ecc: bool | None = None  # None: as its memory says
    persistence: str = "Enabled"
    has_screen: bool = False  # a display and its server on the first GPU
    is_on_bus: bool = True  # in WSL the kernel has no PCI function of a GPU
    tool: str = ""  # of AMD: "rocm7" for the newer form of amd-smi
    has_mig: bool | None = None
    has_proc: bool = True  # /proc/driver/nvidia
    pci_class: str = ""  # "" for that of the vendor's newer boards
    dies: int = 1  # of a module, each a GPU of its own; the first tells the power of all
    has_module_power: bool = False  # of a superchip: nvidia-smi tells the module's power beside the GPU's

    @property
    def has_ecc(self) -> bool:
        """Whether its memory corrects errors: of the models here, large boards and data-centre cards."""
        return self.memory_mib > 40000 if self.ecc is None else self.ecc

    @property
    def can_split(self) -> bool:
        """Whether the model has MIG."""
        return self.memory_mib > 60000 if self.has_mig is None else self.has_mig

    @property
    def generation_of_driver(self) -> int:
        """The first figure of the driver's version."""
        return int(self.driver.partition(".")[0])


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
    cuda_of_torch: str = "12.8"
    numpy: str = "2.2.6"
    has_log: bool = True
    ofed: str = ""  # /sys/module/mlx5_core/version
    iommu: str = "identity"  # of the PCI functions; "" without an IOMMU
    cgroup: Mapping[str, str] = field(default_factory=dict)  # "memory.max" -> text
    container: bool = False
    group: str = "0::/user.slice/user-0.slice/session-3.scope"  # the control group of a login
    has_rdma_core: bool = True
    files: Mapping[str, str] = field(default_factory=dict)  # further files of the root: "opt/x.xml" -> text
    topology: str = "rails"  # how far each adapter is from each GPU: rails (each GPU its own), shared, none
    log: tuple[str, ...] = hardware_log.AT_START  # of the kernel, while the machine came up
    log_since: tuple[str, ...] = hardware_log.SINCE  # and five minutes ago
    governor: str = "performance"  # "" where the CPUs' frequency is not the kernel's to choose
    scaling_driver: str = "intel_pstate"
    is_guest: bool = False  # of a hypervisor: no bridges above its devices, and no links that their files know
    cpu_line: str = "model name\t: {cpu}"  # of /proc/cpuinfo
    outputs: Mapping[str, str] = field(default_factory=dict)  # "nvidia-smi topo -m" -> what it prints instead
    over_ssh: bool = True  # whether the lab's single network can stand for the one this platform trains on
