"""What does the kernel grant the job here, and which of its modules and options stand in the way of devices?"""

from __future__ import annotations

import os

from preflight.node.agent import roots
from preflight.node.agent.missing import (
    entries,
    missing,
    missing_because,
    must_read,
    read_lines,
    read_text_or_missing,
)
from preflight.node.sources import choices
from preflight.node.sources.kernel import log
from preflight.node.subjects.network import numbered, shows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from collections.abc import Set as AbstractSet
    from typing import Any, Union

    from preflight.node.agent.missing import Missing

    CountOrMissing = Union[int, Missing]
    TextOrMissing = Union[str, Missing]
    Group = tuple[str, bool, AbstractSet[str]]

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
    *("numa", "ipv6.disable", "selinux", "enforcing", "nox2apic", "noapic", "acpi", "swiotlb", "pcie_aspm"),
    *("systemd.unified_cgroup_hierarchy", "cgroup_disable", "systemd.unit", "single", "preempt", "irqaffinity"),
    *("rcu_nocbs", "cpuidle.off", "pti", "nopti", "spectre_v2", "spec_store_bypass_disable", "retbleed", "tsx"),
    *("fips", "init_on_alloc", "init_on_free", "slub_debug", "slab_debug", "page_poison", "debug_pagealloc"),
    *("iommu.passthrough", "iommu.strict", "memmap", "movablecore", "kernelcore", "nomodeset", "lockdown"),
    *("modprobe.blacklist", "module_blacklist", "rd.driver.blacklist", "cgroup_no_v1", "nopcid", "nosmap"),
)
POLICY = "Transmit Hash Policy"  # only in the modes that spread packets by it
PARTNER = "Partner Mac Address"  # of the switch, for LACP; only root is shown it
FAILURES = "Link Failure Count"
CONTROLLERS = frozenset(("cpu", "memory", "pids"))
# Whether it is of version 1 -> controller -> the files of a control group that hold a quota of that.
QUOTAS: dict[bool, dict[str, tuple[str, ...]]] = {
    False: {"memory": ("memory.max", "memory.high"), "pids": ("pids.max",)},
    True: {"memory": ("memory.limit_in_bytes",), "pids": ("pids.max",)},
}
UNLIMITED_FROM = 1 << 60  # cgroup v1 writes a figure near the largest integer instead of "max"


def collect(arguments: dict[str, Any]) -> dict[str, Any]:
    """Facts of the subject kernel."""
    proc, sysfs = arguments["proc"], arguments["sysfs"]
    modules = loaded(proc)
    named = numbered(arguments)
    sysctls = arguments.get("sysctls", [])  # the names of those that are wanted
    return {
        "modules": modules,
        "is_driver_open": is_driver_open(proc),
        "peer_memory": peer_memory(f"{sysfs}/kernel/mm"),
        "boot_options": boot_options(proc),
        "has_iommu": has_iommu(sysfs),
        **governors(f"{sysfs}/devices/system/cpu/cpufreq"),
        **memory(proc),
        **choices.collect(proc, sysfs),
        "transparent_hugepages": chosen(read_lines(f"{sysfs}/kernel/mm/transparent_hugepage/enabled")),
        "oom_kills": field(f"{proc}/vmstat", "oom_kill"),
        "cpus_allowed": cpus_allowed(arguments),
        **cgroup(proc, f"{sysfs}/fs/cgroup"),
        **bonds(f"{proc}/net/bonding", sysfs, named),
        **link_errors(proc, named),
        "network_settings": settings(proc, [name for name in sysctls if name.startswith("net.")]),
        "settings": settings(proc, [name for name in sysctls if not name.startswith("net.")]),
        "log": log.collect(arguments.get("kmsg", f"{roots.root_of(arguments)}/dev/kmsg")),
    }


def loaded(proc: str) -> list[str] | Missing:
    """Those of MODULES that are loaded; one that is built in is not listed, as nowhere."""
    text = read_lines(f"{proc}/modules")
    if isinstance(text, dict):
        is_nowhere = text["kind"] == "absent"
        return missing(f"this kernel has no {proc}/modules to list its drivers", "absent") if is_nowhere else text
    names = {line.split(" ", 1)[0] for line in text.splitlines()}
    return [name for name in MODULES if name in names]


def is_driver_open(proc: str) -> bool | Missing:
    """Whether NVIDIA's kernel modules are the open ones, which alone share memory by dma-buf."""
    text = read_lines(f"{proc}/driver/nvidia/version")
    if isinstance(text, dict):
        return missing("the NVIDIA driver is not loaded", "absent") if text["kind"] == "absent" else text
    return "Open Kernel Module" in text


def peer_memory(folder: str) -> list[str] | Missing:
    """The modules that share a GPU's memory under the name that NCCL before 2.23 looks for."""
    names = entries(f"{folder}/memory_peers")
    if not names and not entries(folder):
        return missing(f"this kernel has no {folder}", "absent")
    return sorted(names)


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
        names = ("memory_available_bytes", "cma_bytes", "swap_total_bytes", "swap_used_bytes", "hugepages_bytes")
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
        "cma_bytes": kib("CmaTotal"),
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


def bonds(folder: str, sysfs: str, named: Callable[[], list[tuple[int, str]]]) -> dict[str, Any]:
    """Of each bond its mode and how it spreads packets, its members, whether they are up, and what each member tells.

    What a member's link or the bond's mode does not have is absent; a bond whose file tells no mode is unread.
    """
    up: dict[str, dict[str, bool]] = {}
    modes: dict[str, str] = {}
    policies: dict[str, str] = {}
    partners: dict[str, str] = {}
    rows: list[list[Any]] = []
    masters = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    places = {name: (f"{sysfs}/class/net/{name}", index) for index, name in named() if name not in masters}
    unread: dict[str, Missing] = {
        bond: missing(f"{folder}/{bond} is not there, and sysfs has the bond")
        for bond, (place, index) in places.items()
        if os.path.isdir(f"{place}/bonding") and shows(place, index)
    }
    for bond in masters:
        text = must_read(f"{folder}/{bond}")
        blocks = text.split("\nSlave Interface: ") if isinstance(text, str) else []
        head = _fields(blocks[0]) if blocks else {}
        if "Bonding Mode" not in head:
            unread[bond] = text if isinstance(text, dict) else missing(f"{folder}/{bond} names no mode")
            continue
        modes[bond] = head["Bonding Mode"]
        if POLICY in head:
            policies[bond] = head[POLICY].partition(" ")[0]
        if PARTNER in head:
            partners[bond] = head[PARTNER]
        for block in blocks[1:]:
            name, _, its_fields = block.partition("\n")
            member = _fields(its_fields)
            up.setdefault(bond, {})[name] = member.get("MII Status") == "up"
            figures = [member.get(name, "").partition(" ")[0] for name in ("Speed", "Aggregator ID", FAILURES)]
            known = [int(text) if text.isdecimal() else missing("not reported", "absent") for text in figures]
            rows.append([bond, name, *known])
    of_bonds = {"bonds": up, "bond_modes": modes, "bond_policies": policies, "bond_partners": partners}
    return {**of_bonds, "bond_members": rows, "bonds_unread": unread}


def _fields(block: str) -> dict[str, str]:
    """The first value of each name: details of the partners, further down, have names of their own."""
    found: dict[str, str] = {}
    for line in block.splitlines():
        name, _, value = line.strip().partition(": ")
        found.setdefault(name, value.strip())
    return found


def link_errors(proc: str, named: Callable[[], list[tuple[int, str]]]) -> dict[str, Any]:
    """Network interface -> packets that came or went broken: bad checksums, lost carrier; drops are not errors."""
    held = {name for _, name in named()}
    text = read_lines(f"{proc}/net/dev")
    if isinstance(text, dict):
        return {"link_errors": {}, "link_errors_unread": text}
    lines = (line.partition(":") for line in text.splitlines())
    figures = {name.strip(): words.split() for name, colon, words in lines if colon}
    lost = sorted((held & {name for _, name in named()}) - set(figures))  # there before and after
    if lost:
        return {"link_errors": {}, "link_errors_unread": missing(f"{proc}/net/dev has no line of {', '.join(lost)}")}
    return {"link_errors": {name: int(row[2]) + int(row[10]) for name, row in figures.items() if len(row) >= 16}}


def settings(proc: str, names: Sequence[str]) -> dict[str, TextOrMissing]:
    """Settings of sysctl by their names; what this kernel or namespace lacks is left out."""
    found: dict[str, TextOrMissing] = {}
    for name in names:
        text = read_lines(f"{proc}/sys/{name.replace('.', '/')}")
        if isinstance(text, str):
            found[name] = " ".join(text.split())
        elif text["kind"] != "absent":
            found[name] = text
    return found


def cpus_allowed(arguments: dict[str, Any]) -> CountOrMissing:
    """On how many CPUs this process may run."""
    return missing("not asked of a tree of files") if roots.root_of(arguments) else len(os.sched_getaffinity(0))


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
    groups = _groups(proc, root)
    if isinstance(groups, dict):
        names = ("cgroup_cpus", "cgroup_memory_bytes", "cgroup_processes", "cgroup_processes_held", "cgroup_oom_kills")
        return dict.fromkeys(names, groups)

    def quotas(controller: str) -> list[Any]:
        files = [(folder, QUOTAS[is_first][controller]) for folder, is_first, held in groups if controller in held]
        return [_quota(f"{folder}/{name}") for folder, names in files for name in names]

    kills = [field(f"{folder}/memory.events", "oom_kill") for folder, is_first, _ in groups if not is_first]
    return {
        "cgroup_cpus": _tightest(
            [share for folder, is_first, held in groups if "cpu" in held for share in _shares(folder, is_first)]
        ),
        "cgroup_memory_bytes": _tightest(quotas("memory")),
        "cgroup_processes": _tightest(quotas("pids")),
        "cgroup_processes_held": _held([folder for folder, _, held in groups if "pids" in held]),
        # The innermost group's count is that of the job's own context.
        "cgroup_oom_kills": next(
            (kill for kill in kills if isinstance(kill, int) or kill["kind"] != "absent"),
            missing("the control group counts none", "absent"),
        ),
    }


def _held(folders: list[str]) -> float | Missing:
    """The largest share of its pids.max that a group has used; absent where none has such a quota."""
    shares = []
    for folder in folders:
        most = _quota(f"{folder}/pids.max")
        now = _quota(f"{folder}/pids.current") if isinstance(most, int) and most else None
        if isinstance(now, dict):
            return now
        if isinstance(most, int) and isinstance(now, int):
            shares.append(round(now / most, 2))
    return max(shares) if shares else missing("the control group has no quota of processes", "absent")


def _shares(folder: str, is_first: bool) -> list[float | Missing | None]:
    """How many CPUs a group may use: "200000 100000" of version 2, two files of version 1."""
    if is_first:
        pair = [_quota(f"{folder}/cpu.cfs_{name}_us") for name in ("quota", "period")]
    else:
        text = read_lines(f"{folder}/cpu.max")
        if isinstance(text, dict) and text["kind"] == "absent":
            return []
        pair = [_figure(text, word) for word in text.split()] if isinstance(text, str) else [text]
    lost: list[float | Missing | None] = [one for one in pair if isinstance(one, dict)]
    if lost or len(pair) != 2:
        return lost or [missing(f"{folder}/cpu.max holds no quota: {str(text)[:40]!r}")]
    quota, period = pair
    return [round(quota / period, 3) if isinstance(quota, int) and isinstance(period, int) and period else None]


def _quota(path: str) -> int | Missing | None:
    """A quota, nothing where there is none: no such file, or "max", or -1, or the largest figure there is."""
    text = read_lines(path)
    if isinstance(text, dict):
        return None if text["kind"] == "absent" else text
    return _figure(text, text)


def _figure(text: Any, word: str) -> int | Missing | None:
    if word in {"max", "-1"}:
        return None
    if not word.isdecimal():
        return missing(f"no quota: {str(text)[:40]!r}")
    return int(word) if int(word) < UNLIMITED_FROM else None


def _tightest(quotas: Sequence[float | Missing | None]) -> Any:
    """The smallest quota; the first that could not be read where one is, since it may be the tightest."""
    lost = [quota for quota in quotas if isinstance(quota, dict)]
    figures = [quota for quota in quotas if isinstance(quota, (int, float))]
    return lost[0] if lost else min(figures) if figures else missing("no quota", "absent")


def _groups(proc: str, root: str) -> list[Group] | Missing:
    """Our control groups, the innermost first: the folder, whether it is of version 1, and its controllers."""
    text = read_lines(f"{proc}/self/cgroup")
    if isinstance(text, dict):
        is_without = text["kind"] == "absent" and not (os.path.isdir(root) and os.listdir(root))
        return [] if is_without else missing(f"{proc}/self/cgroup: {text['missing']}")
    found: list[Group] = []
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        is_first = number != "0" or bool(controllers)
        held = CONTROLLERS.intersection(controllers.split(",")) if is_first else CONTROLLERS
        base = f"{root}/{controllers}" if is_first else root
        if held:
            # Inside a container the path may be the host's, while what is mounted is our own group: the root counts.
            parts = [part for part in path.split("/") if part and part != ".."]
            places = ["/".join([base, *parts[:count]]) for count in range(len(parts), 0, -1)]
            found += [(place, is_first, held) for place in [*filter(os.path.isdir, places), base]]
    return found
