"""What does a node report of its kernel, of memory and CPUs granted, and and which lines of its log speak of faults?"""

from __future__ import annotations

import msgspec

from preflight.errors import FactMissing
from preflight.facts.subjects.gpu import NOT_REPORTED
from preflight.facts.value import Count, Missing, Text, Value, present


class LogEvent(Value, frozen=True):
    """A line of the kernel's log about broken hardware or an OOM kill."""

    kind: Text  # "xid", "sxid", "driver", "oom", "pcie", "rdma", "machine", "hang", "storage"
    code: Count  # the Xid; 0 elsewhere
    device: Text  # PCI address or device name, "" where the line has none
    age_seconds: float
    text: Text


class Kernel(Value, frozen=True, kw_only=True):
    """Kernel, memory and CPUs, in the context the job will have."""

    modules: tuple[Text, ...] | Missing  # those that RDMA and GPUs need
    is_driver_open: bool | Missing  # NVIDIA's open kernel modules; absent without a driver
    boot_options: tuple[Text, ...] | Missing  # of iommu, pci, hugepages
    has_iommu: bool | Missing
    governors: tuple[Text, ...] | Missing  # each that a CPU has
    scaling_driver: Text | Missing
    memory_available_bytes: Count | Missing
    swap_total_bytes: Count | Missing
    swap_used_bytes: Count | Missing
    hugepages_bytes: Count | Missing  # set aside for huge pages
    transparent_hugepages: Text | Missing
    oom_kills: Count | Missing  # of the whole machine since it started
    cpus_allowed: Count
    cgroup_cpus: float | Missing  # absent where there is no quota
    cgroup_memory_bytes: Count | Missing
    cgroup_oom_kills: Count | Missing
    bonds: dict[Text, dict[Text, bool]] = msgspec.field(default_factory=dict)  # bond -> member -> whether it is up
    bond_modes: dict[Text, Text] = msgspec.field(default_factory=dict)  # bond -> "802.3ad", "active-backup"
    log: tuple[LogEvent, ...] | Missing = NOT_REPORTED
    cgroup_processes: Count | Missing = NOT_REPORTED  # processes and threads that the control group may have
    link_errors: dict[Text, Count] = msgspec.field(
        default_factory=dict
    )  # network interface -> rx/tx errors since it exists
    network_settings: dict[Text, Text] = msgspec.field(default_factory=dict)  # sysctl's, "net.core.rmem_max" -> value

    def events(self, kind: str, *, within_seconds: float) -> tuple[LogEvent, ...]:
        """The kernel's lines of one kind that are not too old."""
        log = present(self.log, "kernel log")
        return tuple(event for event in log if event.kind == kind and event.age_seconds <= within_seconds)

    def cpus(self) -> float:
        """How many CPUs the job may use: those it may run on, or less by a quota."""
        return min(self.cpus_allowed, self.cgroup_cpus) if isinstance(self.cgroup_cpus, float) else self.cpus_allowed

    def processes(self, limit: int | str) -> int | str:
        """How many processes and threads the job may have: by its user's limit, or less by its control group's."""
        quota = self.cgroup_processes
        if isinstance(quota, Missing):
            return limit
        return quota if isinstance(limit, str) else min(limit, quota)

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
