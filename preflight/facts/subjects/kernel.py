"""What does a node report of its kernel, of memory and CPUs granted, and and which lines of its log speak of faults?"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from preflight.facts.value import NOT_REPORTED, Count, Missing, Text, Value, present
from preflight.said import said
from preflight.said.errors import FactMissing


class LogEvent(Value, frozen=True):
    """A line of the kernel's log about broken hardware or an OOM kill."""

    # "xid", "sxid", "driver", "oom", "pcie", "link", "rdma", "network", "machine", "hang", "crash", "storage",
    # "wear" of a GPU, "accelerator" of another kind, "bandwidth" and "power" of a PCIe device, "denied" of its file,
    # "refused" by a limit,
    # "virtual" of a guest's interface, "module" that the kernel refused
    kind: Text
    code: Count  # the Xid; 0 elsewhere
    device: Text  # PCI address, or name of a device or module, "" where the line has none
    age_seconds: float
    text: Text


ONE_AT_A_TIME = "fault-tolerance"  # the modes of a bond in which one member carries all


class BondMember(NamedTuple):
    """A member of a bond; an aggregator is what LACP made of members whose other ends are one switch's."""

    bond: Text
    name: Text
    speed_mbps: Count | Missing
    aggregator: Count | Missing
    failures: Count | Missing = NOT_REPORTED  # how often its link went down since the bond exists


class Kernel(Value, frozen=True, kw_only=True):
    """Kernel, memory and CPUs, in the context the job will have."""

    modules: tuple[Text, ...] | Missing  # those that RDMA and GPUs need
    is_driver_open: bool | Missing  # NVIDIA's open kernel modules; absent without a driver
    peer_memory: tuple[Text, ...] | Missing = NOT_REPORTED  # modules that share GPU memory as NCCL before 2.23 looks
    boot_options: tuple[Text, ...] | Missing  # of iommu, pci, hugepages
    has_iommu: bool | Missing
    governors: tuple[Text, ...] | Missing  # each that a CPU has
    scaling_driver: Text | Missing
    memory_available_bytes: Count | Missing
    cma_bytes: Count | Missing = NOT_REPORTED  # kept together for devices that want memory in one piece
    swap_total_bytes: Count | Missing
    swap_used_bytes: Count | Missing
    hugepages_bytes: Count | Missing  # set aside for huge pages
    transparent_hugepages: Text | Missing
    oom_kills: Count | Missing  # of the whole machine since it started
    cpus_allowed: Count | Missing
    cgroup_cpus: float | Missing  # absent where there is no quota
    cgroup_memory_bytes: Count | Missing
    cgroup_oom_kills: Count | Missing
    bonds: dict[Text, dict[Text, bool]] = msgspec.field(default_factory=dict)  # bond -> member -> whether it is up
    bond_modes: dict[Text, Text] = msgspec.field(default_factory=dict)  # bond -> "802.3ad", "active-backup"
    bond_policies: dict[Text, Text] = msgspec.field(default_factory=dict)  # bond -> "layer3+4": which link a flow takes
    bond_partners: dict[Text, Text] = msgspec.field(default_factory=dict)  # bond -> the switch's address, to root only
    bond_members: tuple[BondMember, ...] = ()
    bonds_unread: dict[Text, Missing] = msgspec.field(default_factory=dict)  # bond -> why its file tells nothing
    log: tuple[LogEvent, ...] | Missing = NOT_REPORTED
    cgroup_processes: Count | Missing = NOT_REPORTED  # processes and threads that the control group may have
    cgroup_processes_held: float | Missing = NOT_REPORTED  # the share of these that are there
    # network interface -> rx/tx errors since it exists
    link_errors: dict[Text, Count] = msgspec.field(default_factory=dict)
    link_errors_unread: Missing = NOT_REPORTED  # why there are none, where the kernel's table could not be read
    memory_overcommit: Count | Missing = NOT_REPORTED  # vm.overcommit_memory: 2 refuses what is not backed by memory
    numa_balancing: Count | Missing = NOT_REPORTED  # kernel.numa_balancing: 0 leaves pages where they are
    files_held: float | Missing = NOT_REPORTED  # share of the files that the whole machine may have open
    connections_held: float | Missing = NOT_REPORTED  # share of those that the packet filter may keep track of
    enforces_selinux: bool | Missing = NOT_REPORTED  # absent where SELinux is off
    users_make_namespaces: bool | Missing = NOT_REPORTED  # user namespaces, which containers of users need
    most_processes: Count | Missing = NOT_REPORTED  # of the whole machine, threads included: pid_max, threads-max
    has_smt: bool | Missing = NOT_REPORTED  # two threads a core
    has_boost: bool | Missing = NOT_REPORTED  # beyond the base frequency
    clock_source: Text | Missing = NOT_REPORTED  # "tsc"; with "hpet" or "acpi_pm" each look at the clock is slow
    clock_share: float | Missing = NOT_REPORTED  # of its highest frequency, to which the slowest CPU is held
    # sysctl's, "net.core.rmem_max" -> value; what a kernel or a namespace does not have is left out
    network_settings: dict[Text, Text | Missing] = msgspec.field(default_factory=dict)
    settings: dict[Text, Text | Missing] = msgspec.field(default_factory=dict)  # those of vm. and kernel.

    def events(self, kind: str, *, within_seconds: float) -> tuple[LogEvent, ...]:
        """The kernel's lines of one kind that are not too old."""
        log = present(self.log, "kernel log")
        return tuple(event for event in log if event.kind == kind and event.age_seconds <= within_seconds)

    def needs_bonds(self) -> None:
        """Leave the question where the file of a bond could not be read."""
        for bond, reason in self.bonds_unread.items():
            raise FactMissing(bond, reason.missing, reason.kind)

    def is_bond(self, name: str) -> bool:
        """Whether an interface is a bond, even if its file could not be read."""
        return name in self.bonds or name in self.bonds_unread

    def bond_rate_mbps(self, bond: str) -> int:
        """What the members of a bond that are up carry: together, or one of them where the mode is so."""
        if bond in self.bonds_unread:
            raise FactMissing(
                said("rate of {bond}", bond), self.bonds_unread[bond].missing, self.bonds_unread[bond].kind
            )
        up = [one for one in self.bond_members if one.bond == bond and self.bonds[bond].get(one.name)]
        together: dict[Count | Missing, int] = {}  # LACP sends over the members of one aggregator
        for one in up:
            together[one.aggregator] = together.get(one.aggregator, 0) + present(
                one.speed_mbps, said("rate of {name}", one.name)
            )
        if not together:
            raise FactMissing(said("rate of {bond}", bond), "no member is up", "absent")
        if self.bond_modes.get(bond, "").startswith(ONE_AT_A_TIME):
            return min(present(one.speed_mbps, said("rate of {name}", one.name)) for one in up)
        return max(together.values())

    def cpus(self) -> float:
        """How many CPUs the job may use: those it may run on, or less by a quota."""
        allowed = present(self.cpus_allowed, "CPUs that may be used")
        if isinstance(self.cgroup_cpus, Missing) and self.cgroup_cpus.kind == "absent":
            return allowed
        return min(allowed, present(self.cgroup_cpus, "quota of CPUs"))

    def processes(self, limit: int | str) -> int | str:
        """How many processes and threads the job may have: by its user's limit, its control group's, the machine's."""
        quotas = (limit, self.cgroup_processes, self.most_processes)
        for quota in quotas:
            if isinstance(quota, Missing) and quota.kind != "absent":
                raise FactMissing("number of processes", quota.missing, quota.kind)
        return min((quota for quota in quotas if isinstance(quota, int)), default=limit)

    def gpudirect(self, kernel: str) -> str:
        """How network adapters can reach the GPUs' memory: "nvidia_peermem", "dma-buf" or "none"."""
        modules = present(self.modules, "kernel modules")
        if not modules:  # a driver of GPUs or adapters is one
            raise FactMissing("kernel modules", "none of the drivers of GPUs and adapters is listed in /proc/modules")
        for name in ("nvidia_peermem", "nv_peer_mem", "amdgpu", "efa_nv_peermem"):
            if name in modules:
                return name
        is_open = present(self.is_driver_open, "kind of the NVIDIA driver")
        digits = [int(part) if part.isdecimal() else 0 for part in kernel.replace("-", ".").split(".")[:2]]
        return "dma-buf" if is_open and digits >= [5, 12] else "none"
