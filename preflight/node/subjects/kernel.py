"""What does the kernel grant the job here, and which of its modules and options stand in the way of devices?"""

from __future__ import annotations

import os

from preflight.node.agent.missing import (
    missing,
    missing_because,
    must_read,
    read_lines,
    read_text,
    read_text_or_missing,
)
from preflight.node.sources import choices, kernel_log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Union

    from preflight.node.agent.missing import Missing

    CountOrMissing = Union[int, Missing]

MODULES = (
    *("nvidia", "nvidia_uvm", "nvidia_peermem", "nv_peer_mem", "gdrdrv", "amdgpu", "amdkfd"),
    *("ib_core", "ib_uverbs", "rdma_ucm", "mlx5_ib", "mlx5_core", "mlx4_ib", "bnxt_re", "irdma", "hfi1", "qedr"),
    *("efa", "efa_nv_peermem", "erdma", "ib_umad", "knem"),
)
BOOT_OPTIONS = (
    *("mitigations", "nosmt", "maxcpus", "nr_cpus", "mem", "idle", "clocksource", "tsc", "nohz_full"),
    *("intel_pstate", "amd_pstate", "intel_idle.max_cstate"),
    *("iommu", "intel_iommu", "amd_iommu", "pci", "pcie_acs_override", "hugepages", "hugepagesz"),
    *("default_hugepagesz", "transparent_hugepage", "numa_balancing", "isolcpus", "processor.max_cstate"),
)
NETWORK_SETTINGS = (
    *("core.rmem_max", "core.wmem_max", "core.netdev_max_backlog", "core.somaxconn", "core.default_qdisc"),
    *("ipv4.tcp_rmem", "ipv4.tcp_wmem", "ipv4.tcp_congestion_control", "ipv4.tcp_mtu_probing"),
    *("ipv4.conf.all.rp_filter", "ipv4.conf.all.arp_ignore", "ipv4.conf.all.arp_announce"),
)
UNLIMITED_FROM = 1 << 60  # cgroup v1 writes a figure near the largest integer instead of "max"


def collect(arguments: dict[str, Any]) -> dict[str, Any]:
    """Facts of the subject kernel."""
    proc, sysfs = arguments["proc"], arguments["sysfs"]
    modules = loaded(proc)
    return {
        "modules": modules,
        "is_driver_open": is_driver_open(proc),
        "boot_options": boot_options(proc),
        "has_iommu": has_iommu(sysfs),
        **governors(f"{sysfs}/devices/system/cpu/cpufreq"),
        **memory(proc),
        **choices.collect(proc, sysfs),
        "transparent_hugepages": chosen(read_lines(f"{sysfs}/kernel/mm/transparent_hugepage/enabled")),
        "oom_kills": field(f"{proc}/vmstat", "oom_kill"),
        "cpus_allowed": len(os.sched_getaffinity(0)),
        **cgroup(proc, f"{sysfs}/fs/cgroup"),
        "bonds": bonds(f"{proc}/net/bonding"),
        "bond_modes": bond_modes(f"{proc}/net/bonding"),
        "bond_members": bond_members(f"{proc}/net/bonding"),
        "link_errors": link_errors(proc),
        "network_settings": network_settings(proc),
        "log": kernel_log.collect(arguments.get("kmsg", "/dev/kmsg")),
    }


def loaded(proc: str) -> list[str] | Missing:
    """Those of MODULES that are loaded; one that is built in is not listed, as nowhere."""
    text = read_lines(f"{proc}/modules")
    if isinstance(text, dict):
        return text
    names = {line.split(" ", 1)[0] for line in text.splitlines()}
    return [name for name in MODULES if name in names]


def is_driver_open(proc: str) -> bool | Missing:
    """Whether NVIDIA's kernel modules are the open ones, which alone share memory by dma-buf."""
    text = read_lines(f"{proc}/driver/nvidia/version")
    return "Open Kernel Module" in text if isinstance(text, str) else text


def boot_options(proc: str) -> list[str] | Missing:
    """The options of BOOT_OPTIONS that the kernel was started with."""
    text = must_read(f"{proc}/cmdline")
    if not isinstance(text, str):
        return text
    return [word for word in text.split() if word.partition("=")[0] in BOOT_OPTIONS]


def has_iommu(sysfs: str) -> bool | Missing:
    """Whether an IOMMU is on."""
    try:
        return bool(os.listdir(f"{sysfs}/class/iommu"))
    except FileNotFoundError:
        return False
    except OSError as error:
        return missing_because(error)


def governors(folder: str) -> dict[str, Any]:
    """Which governors the CPUs have, and the driver behind them."""
    try:
        policies = [name for name in os.listdir(folder) if name.startswith("policy")]
    except OSError as error:
        reason = missing_because(error)
        return {"governors": reason, "scaling_driver": reason}
    if not policies:
        reason = missing("the CPUs' frequency is not the kernel's to choose", "absent")
        return {"governors": reason, "scaling_driver": reason}
    texts = [must_read(f"{folder}/{policy}/scaling_governor") for policy in policies]
    lost = [text for text in texts if isinstance(text, dict)]
    return {
        "governors": lost[0] if lost else sorted({text for text in texts if isinstance(text, str)}),
        "scaling_driver": must_read(f"{folder}/{policies[0]}/scaling_driver"),
    }


def memory(proc: str) -> dict[str, Any]:
    """What of the memory is free, swapped out, or set aside for huge pages."""
    text = must_read(f"{proc}/meminfo")
    if isinstance(text, dict):
        names = ("memory_available_bytes", "swap_total_bytes", "swap_used_bytes", "hugepages_bytes")
        return dict.fromkeys(names, text)
    lines = text.splitlines()
    rows = {name: words.split() for name, _, words in (line.partition(":") for line in lines)}
    values = {name: int(words[0]) for name, words in rows.items() if words and words[0].isdecimal()}
    absent = missing("not reported by this kernel", "absent")

    def kib(name: str) -> CountOrMissing:
        return values[name] << 10 if name in values else absent

    total, free = values.get("SwapTotal"), values.get("SwapFree")
    pages, size = values.get("HugePages_Total"), values.get("Hugepagesize")
    return {
        "memory_available_bytes": kib("MemAvailable")
        if "MemAvailable" in values
        else missing(f"{proc}/meminfo has no MemAvailable"),
        "swap_total_bytes": kib("SwapTotal"),
        "swap_used_bytes": absent if total is None or free is None else total - free << 10,
        "hugepages_bytes": absent if pages is None or size is None else pages * size << 10,
    }


def chosen(text: Any) -> Any:
    """The word in brackets of "always [madvise] never"."""
    if not isinstance(text, str):
        return text
    word = text.partition("[")[2].partition("]")[0]
    return word or missing(f"no choice in {text[:80]!r}")


def bonds(folder: str) -> dict[str, dict[str, bool]]:
    """Each bond's members, and whether they are up."""
    found: dict[str, dict[str, bool]] = {}
    for bond in os.listdir(folder) if os.path.isdir(folder) else []:
        text = read_text_or_missing(f"{folder}/{bond}")
        member = ""
        for line in text.splitlines() if isinstance(text, str) else []:
            name, _, value = line.partition(": ")
            if name == "Slave Interface":
                member = value.strip()
            elif name == "MII Status" and member:
                found.setdefault(bond, {})[member] = value.strip() == "up"
    return found


def bond_modes(folder: str) -> dict[str, str]:
    """Each bond's mode: "IEEE 802.3ad Dynamic link aggregation", "fault-tolerance (active-backup)"."""
    found = {}
    for bond in os.listdir(folder) if os.path.isdir(folder) else []:
        text = read_text_or_missing(f"{folder}/{bond}")
        for line in text.splitlines() if isinstance(text, str) else []:
            if line.startswith("Bonding Mode"):
                found[bond] = line.partition(": ")[2].strip()
    return found


def bond_members(folder: str) -> list[list[Any]]:
    """[bond, member, Mbit/s, LACP aggregator] of each member; what the bond's mode or link does not have is absent."""
    found: list[list[Any]] = []
    for bond in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        text = read_text_or_missing(f"{folder}/{bond}")
        members: list[dict[str, str]] = []
        for line in text.splitlines() if isinstance(text, str) else []:
            name, _, value = line.strip().partition(": ")
            if name == "Slave Interface":
                members.append({})
            if members:  # details of the partners, further down, have names of their own
                members[-1].setdefault(name, value.strip())
        for member in members:
            figures = [member.get(name, "").partition(" ")[0] for name in ("Speed", "Aggregator ID")]
            known = [int(text) if text.isdecimal() else missing("not reported", "absent") for text in figures]
            found.append([bond, member["Slave Interface"], *known])
    return found


def link_errors(proc: str) -> dict[str, int]:
    """Network interface -> packets that came or went broken: bad checksums, lost carrier; drops are not errors."""
    text = read_lines(f"{proc}/net/dev")
    lines = text.splitlines() if isinstance(text, str) else []
    figures = {name.strip(): words.split() for name, colon, words in (line.partition(":") for line in lines) if colon}
    return {name: int(row[2]) + int(row[10]) for name, row in figures.items() if len(row) >= 16}


def network_settings(proc: str) -> dict[str, str]:
    """Those settings of sysctl that decide how fast TCP can be; what this kernel or namespace lacks is left out."""
    found = {}
    for name in NETWORK_SETTINGS:
        text = read_lines(f"{proc}/sys/net/{name.replace('.', '/')}")
        if isinstance(text, str):
            found[f"net.{name}"] = " ".join(text.split())
    return found


def field(path: str, name: str) -> CountOrMissing:
    """The figure behind a name in a file of "name figure" lines."""
    text = read_text_or_missing(path)
    if isinstance(text, dict):
        return text
    for line in text.splitlines():
        words = line.split()
        if len(words) == 2 and words[0] == name and words[1].isdecimal():
            return int(words[1])
    return missing(f"this kernel does not report {name}", "absent")


def cgroup(proc: str, root: str) -> dict[str, Any]:
    """The quotas of our own control group and of those above it, the tightest of each."""
    absent = missing("no quota", "absent")
    cpus: list[float] = []
    memories: list[int] = []
    kills: list[int] = []
    processes: list[int] = []
    for folder in _folders(proc, root):
        quota = read_text_or_missing(f"{folder}/cpu.max")
        if not isinstance(quota, str):
            parts = [read_text_or_missing(f"{folder}/cpu.cfs_{name}_us") for name in ("quota", "period")]
            quota = " ".join(part if isinstance(part, str) else "max" for part in parts)
        words = quota.split()
        if len(words) == 2 and all(word.isdecimal() for word in words) and int(words[1]):
            cpus.append(int(words[0]) / int(words[1]))
        for name in ("memory.max", "memory.high", "memory.limit_in_bytes"):
            text = read_text_or_missing(f"{folder}/{name}")
            if isinstance(text, str) and text.isdecimal() and int(text) < UNLIMITED_FROM:
                memories.append(int(text))
        text = read_text_or_missing(f"{folder}/pids.max")
        if isinstance(text, str) and text.isdecimal():
            processes.append(int(text))
        killed = field(f"{folder}/memory.events", "oom_kill")
        if isinstance(killed, int):
            kills.append(killed)
    return {
        "cgroup_cpus": round(min(cpus), 3) if cpus else absent,
        "cgroup_memory_bytes": min(memories) if memories else absent,
        "cgroup_processes": min(processes) if processes else absent,
        # The innermost group's count is that of the job's own context.
        "cgroup_oom_kills": kills[0] if kills else missing("the control group counts none", "absent"),
    }


def _folders(proc: str, root: str) -> list[str]:
    """The folders of our control groups, the innermost first."""
    try:
        lines = read_text(f"{proc}/self/cgroup").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            base = root
        elif {"memory", "cpu", "pids"} & set(controllers.split(",")):
            base = f"{root}/{controllers}"
        else:
            continue
        # Inside a container the path may be the host's, while what is mounted is our own group: then the root counts.
        parts = [part for part in path.split("/") if part and part != ".."]
        places = ["/".join([base, *parts[:count]]) for count in range(len(parts), 0, -1)]
        found += [place for place in places if os.path.isdir(place)] + [base]
    return found
