"""What of a node's kernel, memory and CPUs costs speed or is fragile, and what should be the same on all nodes?

Sources: the kernel's admin guide (cpufreq, cgroup-v2, hugetlbpage, iommu), NVIDIA's GPUDirect documentation and NCCL's
troubleshooting page (ACS, IOMMU), and field cases by their issue.
"""

from __future__ import annotations

from statistics import median

from preflight.errors import Blame, BlameMany, FactMissing, NotApplicable
from preflight.facts.cluster import Cluster, Row
from preflight.facts.node import NodeFacts
from preflight.facts.subjects.kernel import ONE_AT_A_TIME
from preflight.facts.value import Missing, present
from preflight.tables.faults import Fault
from preflight.tables.network import interfaces, nccl_interfaces

# With these, "powersave" still goes to full speed under load; with every other driver it pins the lowest.
SCALES_IN_POWERSAVE = ("intel_pstate", "amd-pstate-epp")
SLOW_CLOCKS = ("hpet", "acpi_pm", "jiffies", "pit")
UNLIMITED_CLOCK = 0.95
LEAST_AVAILABLE = 0.1
OFTEN = 50  # a switch that restarts, or an interface that is configured again, takes a link down a few times
MOST_HUGE = 0.5
MOST_FILES = 0.9
GIB = 1 << 30


def _governor(node: NodeFacts) -> str:
    governors = present(node.kernel.governors, "CPU governors")
    driver = present(node.kernel.scaling_driver, "CPU frequency driver")
    pinned = "powersave" in governors and driver not in SCALES_IN_POWERSAVE
    return f"CPU governor powersave with {driver}: the CPUs stay at their lowest frequency" if pinned else ""


def _memory(node: NodeFacts) -> str:
    available, total = present(node.kernel.memory_available_bytes, "free memory"), node.identity.memory_bytes
    if available >= LEAST_AVAILABLE * total:
        return ""
    swapped = node.kernel.swap_used_bytes
    swap = "" if isinstance(swapped, Missing) or not swapped else f", {swapped / GIB:.1f} GiB are swapped out"
    return f"{available / GIB:.1f} of {total / GIB:.1f} GiB of memory are available{swap}"


def _hugepages(node: NodeFacts) -> str:
    huge, total = present(node.kernel.hugepages_bytes, "huge pages"), node.identity.memory_bytes
    return (
        f"{huge / GIB:.1f} of {total / GIB:.1f} GiB of memory are set aside for huge pages"
        if huge > MOST_HUGE * total
        else ""
    )


def _cpus(node: NodeFacts) -> str:
    gpus, cpus = len(node.gpu.readable()), node.kernel.cpus()
    if not gpus:
        raise NotApplicable("no GPU")
    return f"{cpus:g} CPUs may be used here for {gpus} GPU{'s' * (gpus != 1)}" if cpus < gpus else ""


def _quota(node: NodeFacts) -> str:
    gpus, limit = len(node.gpu.readable()), node.kernel.cgroup_memory_bytes
    if not gpus:
        raise NotApplicable("no GPU")
    if isinstance(limit, Missing) and limit.kind == "absent":
        return ""  # no quota at all
    limit = present(limit, "memory quota")
    quota = f"a quota of {limit / GIB:.1f} GiB of memory for {gpus} GPU{'s' * (gpus != 1)}"
    return quota if limit < 4 * GIB * gpus else ""


def _processes(count: int) -> str:
    return f"{count} process{'es' * (count != 1)}"


def _killed(node: NodeFacts) -> str:
    count = present(node.kernel.cgroup_oom_kills, "processes killed in the control group")
    return f"{_processes(count)} of this control group OOM-killed" if count else ""


def _overcommit(node: NodeFacts) -> str:
    refuses = present(node.kernel.memory_overcommit, "vm.overcommit_memory") == 2
    words = "vm.overcommit_memory is 2: what CUDA and data loaders reserve is refused, though memory is free"
    return words if refuses else ""


def _slow_clock(node: NodeFacts) -> str:
    source = present(node.kernel.clock_source, "clock source")
    slow = f"clock source {source}: each reading of the clock is slow, and there are thousands a step"
    return slow if source in SLOW_CLOCKS else ""


def _bonds(node: NodeFacts) -> str:
    node.kernel.needs_bonds()
    down = [
        f"{member} of {bond}"
        for bond, members in node.kernel.bonds.items()
        for member, is_up in members.items()
        if not is_up and any(members.values())
    ]
    return f"{', '.join(down)} is down: the bond has that much less bandwidth" if down else ""


NO_PARTNER = "00:00:00:00:00:00"  # of a bond whose LACP packets nobody has answered


def _uneven_bonds(node: NodeFacts) -> str:
    """Bonds whose members should carry traffic together, and cannot."""
    node.kernel.needs_bonds()
    found = []
    for bond, mode in node.kernel.bond_modes.items():
        up = node.kernel.bonds.get(bond, {})
        members = [one for one in node.kernel.bond_members if one.bond == bond and up.get(one.name)]
        if mode.startswith(ONE_AT_A_TIME):
            continue
        if node.kernel.bond_partners.get(bond) == NO_PARTNER and sum(up.values()) > 1:
            found.append(f"no switch speaks LACP with {bond}: one of its members carries all")
            continue
        groups = {one.name: one.aggregator for one in members if not isinstance(one.aggregator, Missing)}
        speeds = {one.name: one.speed_mbps for one in members if not isinstance(one.speed_mbps, Missing)}
        if len(set(speeds.values())) > 1:
            found.append(", ".join(f"{name} of {bond} links at {speed} Mbit/s" for name, speed in speeds.items()))
        elif len(set(groups.values())) > 1:
            found.append(f"{' and '.join(groups)} of {bond} are in different LACP aggregators: one of them carries all")
    return "; ".join(found)


def _links_of_job(node: NodeFacts) -> tuple[str, ...]:
    """The interfaces that the job's packets leave by: the training interface, RoCE ports, and the members of bonds.

    BlockedBy where there is none, for a training interface that is not there is another check's to tell.
    """
    names = [*interfaces.of_the_job(node)]
    if node.rdma.devices and not node.without_rdma():
        rows = [row for port in node.rdma.active_ports() for row in port.gids]
        names += [row.netdev for row in rows if isinstance(row.netdev, str)]
    there = {one.name for one in node.network.interfaces}
    names += [member for bond in names for member in node.kernel.bonds.get(bond, {})]
    found = tuple(name for name in dict.fromkeys(names) if name in there)
    return found or (node.network.training_interface.name,)


def _unsteady(node: NodeFacts) -> str:
    """Links that went down again and again since the machine, or the bond, was started."""
    counts: dict[str, int] = {
        one.name: one.failures for one in node.kernel.bond_members if not isinstance(one.failures, Missing)
    }
    untold = []
    for name in _links_of_job(node):
        changes = node.network.interface(name).carrier_changes
        if not isinstance(changes, Missing):
            counts[name] = max(counts.get(name, 0), changes // 2)
        elif name not in counts:
            untold.append(name)
    if not counts:
        raise FactMissing("link losses since the start", "the kernel counts none", "absent")
    if untold:
        raise FactMissing("link losses since the start", f"those of {', '.join(untold)} cannot be read")
    found = [
        f"{name} lost its link {count} times since it was created" for name, count in counts.items() if count >= OFTEN
    ]
    return "; ".join(found)


def _half_duplex(node: NodeFacts) -> str:
    """Links over which only one end sends at a time: what is sent meanwhile collides, and is sent again."""
    links = {name: node.network.interface(name).duplex for name in _links_of_job(node)}
    if all(isinstance(duplex, Missing) for duplex in links.values()):
        raise NotApplicable("no driver tells the duplex of the links")
    half = [name for name, duplex in links.items() if duplex == "half"]
    return f"{', '.join(half)} at half duplex: what both ends send at once is lost, and sent again" if half else ""


def _files(node: NodeFacts) -> str:
    held = present(node.kernel.files_held, "open files of the machine")
    words = f"{held:.0%} of the files that this machine may have open (fs.file-max) are open"
    return words if held >= MOST_FILES else ""


def _connections(node: NodeFacts) -> str:
    held = present(node.kernel.connections_held, "connections that the packet filter keeps track of")
    words = f"{held:.0%} of the connections that the packet filter may keep track of are there: it drops what is new"
    return words if held >= MOST_FILES else ""


def narrow_links(node: NodeFacts) -> str:
    """Which adapters behind the job's interfaces have fewer PCIe lanes than they and their slots could have."""
    found = {name: node.network.interface(name).lanes for name in _links_of_job(node)}
    known = {name: lanes for name, lanes in found.items() if not isinstance(lanes, Missing)}
    for name, lanes in found.items():
        if isinstance(lanes, Missing) and lanes.kind != "absent":  # it is an adapter, and may be the narrow one
            raise FactMissing(f"PCIe lanes of {name}", lanes.missing, lanes.kind)
    if not known:
        raise FactMissing("PCIe lanes of the interfaces", "no adapter reports them", "absent")
    few = [f"{name} x{now} of x{most}" for name, (now, most) in known.items() if now < most]
    return ", ".join(few) or "all lanes"


FRAGILE: tuple[Fault[NodeFacts], ...] = (
    Fault(
        "CPU governor", _governor, "`cpupower frequency-set -g performance` on the nodes named", "cpufreq, governors"
    ),
    Fault(
        "free memory",
        _memory,
        "`ps aux --sort=-rss | head` on the nodes named; end what an earlier job left",
        "/proc/meminfo, MemAvailable",
    ),
    Fault("huge pages", _hugepages, "`sysctl vm.nr_hugepages=0` on the nodes named", "hugetlbpage"),
    Fault(
        "CPUs",
        _cpus,
        "ask the scheduler for more (`--cpus-per-task`, the pod's cpu limit) on the nodes named",
        "cgroup-v2 cpu.max, sched_setaffinity",
    ),
    Fault("memory quota", _quota, "raise the job's memory (`--mem`, the pod's memory limit)", "cgroup-v2 memory.max"),
    Fault("earlier OOM kills", _killed, "raise the job's memory, or use less of it", "cgroup-v2 memory.events"),
    Fault(
        "overcommitment",
        _overcommit,
        "`sysctl -w vm.overcommit_memory=0` on the nodes named, and the same line in /etc/sysctl.d",
        "kernel, Documentation/mm/overcommit-accounting.rst",
    ),
    Fault(
        "clock source",
        _slow_clock,
        "`dmesg | grep -i clocksource` on the nodes named; start the kernel with `tsc=reliable`, or a newer BIOS",
        "kernel, Documentation/timers/timekeeping.rst",
    ),
    Fault(
        "open files of the machine",
        _files,
        "`sysctl -w fs.file-max=<more>` on the nodes named; `lsof | awk '{print $1}' | sort | uniq -c | sort -n` shows "
        "who holds them",
        "kernel, Documentation/admin-guide/sysctl/fs.rst, file-max and file-nr",
    ),
    Fault(
        "tracked connections",
        _connections,
        "`sysctl -w net.netfilter.nf_conntrack_max=<more>` on the nodes named; `conntrack -S` and `conntrack -L` show "
        "whose they are",
        "kernel, Documentation/networking/nf_conntrack-sysctl.rst",
    ),
    Fault(
        "duplex of the links",
        _half_duplex,
        "let both ends of the link negotiate (`ethtool -s <interface> autoneg on`, and the switch port alike)",
        "IEEE 802.3, kernel Documentation/ABI/testing/sysfs-class-net, duplex",
    ),
    Fault(
        "bond members",
        _bonds,
        "`cat /proc/net/bonding/<bond>` on the nodes named; replace the cable or correct the switch port",
        "kernel bonding documentation, MII monitoring",
    ),
    Fault(
        "members of bonds",
        _uneven_bonds,
        "`cat /proc/net/bonding/<bond>` on the nodes named; put both switch ports into one port channel, at one speed",
        "kernel bonding documentation, 802.3ad",
    ),
    Fault(
        "link losses since the start",
        _unsteady,
        "`dmesg -T | grep -i link` and `ethtool <interface>` on the nodes named; reseat or replace the cable",
        "kernel, Documentation/ABI/testing/sysfs-class-net, carrier_changes; bonding, Link Failure Count",
    ),
)


def _translates(node: NodeFacts) -> str:
    """An IOMMU that translates, with GPUs that talk over PCIe: what they send each other goes up to the root."""
    gpus = node.gpu.readable()
    kinds = [gpu.pci.iommu for gpu in gpus if not isinstance(gpu.pci, Missing)]
    if len(gpus) < 2 or not kinds:
        raise FactMissing("IOMMU of the GPUs", "fewer than two GPUs report it", "absent")
    if _are_joined(node):
        return ""
    if 0 < sum(isinstance(kind, Missing) for kind in kinds) < len(kinds):
        raise FactMissing("IOMMU of the GPUs", "it can be read for some of them only")
    translated = sorted({kind for kind in kinds if not isinstance(kind, Missing) and kind.startswith("DMA")})
    options = [] if isinstance(node.kernel.boot_options, Missing) else node.kernel.boot_options
    started = f" (the kernel was started with {' '.join(options)})" if options else ""
    words = f"the IOMMU translates what GPUs send each other over PCIe{started}: peer-to-peer may hang"
    return words if translated and node.value("NCCL_P2P_DISABLE") != "1" else ""


IOMMU = (
    Fault(
        "IOMMU",
        _translates,
        "start the kernel with `iommu=pt` (or `intel_iommu=off`, `amd_iommu=off`); NCCL_P2P_DISABLE=1 works around it",
        "NVIDIA/nccl#257",
    ),
)


def _are_joined(node: NodeFacts) -> bool:
    """Whether NVLink joins all GPUs: by the topology, and where that is not known by the kind of board."""
    topology = node.gpu.topology
    if isinstance(topology, Missing):
        return all(gpu.is_on_a_baseboard for gpu in node.gpu.readable())
    return topology.are_joined_by_nvlink()


def _redirects(node: NodeFacts) -> str:
    found: list[str] = []
    gpus = node.gpu.readable()
    functions = [gpu.pci for gpu in gpus if not isinstance(gpu.pci, Missing)]
    if not functions:
        raise FactMissing("bridges above the GPUs", "no GPU reports its PCI path", "absent")
    joined = _are_joined(node)
    for function in functions:
        found += present(function.redirecting_bridges, "ACS of the bridges above the GPUs")
    # With NVLink between all GPUs it still matters to the network adapters' way to them.
    if not found or len(gpus) < 2 or (joined and not node.rdma.devices):
        return ""
    bridges = ", ".join(sorted(set(found)))
    return f"ACS of {bridges} redirects what devices send each other to the root complex: slow, or hangs"


ACS = (
    Fault(
        "ACS",
        _redirects,
        "`setpci -s <bridge> ECAP_ACS+0x6.w=0000` on the bridges named, or switch ACS off in the BIOS",
        "NVIDIA/nccl#2079, NCCL troubleshooting: PCI Access Control Services",
    ),
)


def bonds_of_job(node: NodeFacts) -> str:
    """Mode, hash policy and number of members of the bonds behind the training interface and the RDMA ports."""
    node.kernel.needs_bonds()
    used = set(interfaces.of_the_job(node))
    used |= {row.netdev for device in node.rdma.devices for port in device.ports for row in port.gids
             if isinstance(row.netdev, str)}  # fmt: skip
    found = {
        bond: " ".join(filter(None, (bond, node.kernel.bond_modes.get(bond), node.kernel.bond_policies.get(bond))))
        + f" of {len(members)}"
        for bond, members in sorted(node.kernel.bonds.items())
        if bond in used
    }
    if not found:
        raise FactMissing("bonds", "the job uses none", "absent")
    return ", ".join(found.values())


def _selinux(node: NodeFacts) -> str:
    held = node.kernel.enforces_selinux
    if isinstance(held, Missing) and held.kind == "absent":
        return "off"
    return "enforcing" if present(held, "SELinux") else "permissive"


# What decides how fast TCP is, and whether a node with several interfaces answers on the right one.
NETWORK_SETTINGS = (
    *("net.core.rmem_max", "net.core.wmem_max", "net.core.netdev_max_backlog", "net.core.somaxconn"),
    *("net.core.default_qdisc", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem", "net.ipv4.tcp_congestion_control"),
    *("net.ipv4.tcp_mtu_probing", "net.ipv4.conf.all.rp_filter", "net.ipv4.conf.all.arp_ignore"),
    *("net.ipv4.conf.all.arp_announce", "net.ipv4.tcp_sack", "net.ipv4.tcp_window_scaling", "net.ipv4.tcp_timestamps"),
    "net.ipv6.conf.all.disable_ipv6",
)


# Whether a full NUMA node is reclaimed instead of using another one, whether pages of ranks are swapped out, how many
# files and pieces of memory a process may map, whether ranks of one user may read each other's memory, and whether a
# user may start containers.
SETTINGS = (
    *("vm.zone_reclaim_mode", "vm.swappiness", "vm.max_map_count", "kernel.yama.ptrace_scope"),
    "kernel.apparmor_restrict_unprivileged_userns",
)


def _setting(name: str) -> Row:
    """A row for one setting of sysctl."""

    def key(node: NodeFacts) -> str:
        held = node.kernel.network_settings | node.kernel.settings
        if name not in held:
            raise FactMissing(name, "the kernel or the session does not show it", "absent")
        return present(held[name], name)

    return Row(name, key, f"`sysctl -w {name}='<the others' value>'` on the nodes named, and a line in /etc/sysctl.d")


SAME = (
    *map(_setting, (*NETWORK_SETTINGS, *SETTINGS)),
    Row(
        "CPUs that may be used",
        lambda node: f"{node.kernel.cpus():g}",
        "ask for the same CPUs on every node (`--cpus-per-task`), or enable the missing ones (`lscpu`)",
    ),
    Row(
        "offloads of the training interface",
        lambda node: " ".join(present(node.network.training_interface.offloads, "offloads")) or "none",
        "`ethtool -K <interface> tso on gso on gro on` on the nodes named: without them a CPU is busy with each packet",
    ),
    Row(
        "vector instructions of the CPUs",
        lambda node: " ".join(present(node.machine.instructions, "vector instructions")) or "none",
        "give the nodes named the others' processors, or those of their virtual machine (`lscpu`): code that one node "
        'compiled into a shared cache ends on the other with "Illegal instruction"',
    ),
    Row(
        "CPU governors",
        lambda node: ", ".join(sorted(present(node.kernel.governors, "CPU governors"))),
        "`cpupower frequency-set -g performance` on all nodes",
    ),
    Row(
        "transparent huge pages",
        lambda node: present(node.kernel.transparent_hugepages, "transparent huge pages"),
        "write the others' choice to /sys/kernel/mm/transparent_hugepage/enabled on the nodes named",
    ),
    Row(
        "memory set aside for huge pages",
        lambda node: f"{present(node.kernel.hugepages_bytes, 'huge pages') / GIB:.1f} GiB",
        "`sysctl vm.nr_hugepages=<the others' count>` on the nodes named",
    ),
    Row(
        "memory quota",
        lambda node: _or_none(node.kernel.cgroup_memory_bytes),
        "give the job the same memory on every node (`--mem`, the pod's memory limit)",
    ),
    Row(
        "IOMMU",
        lambda node: "on" if present(node.kernel.has_iommu, "IOMMU") else "off",
        "switch it on or off in the BIOS of the nodes named as on the others; `iommu=pt` where it is on",
    ),
    Row(
        "swap",
        lambda node: "on" if present(node.kernel.swap_total_bytes, "swap") else "off",
        "`swapoff -a` on the nodes named, or swap on all: a node that swaps is slow where the others end",
    ),
    Row(
        "threads of a core (SMT)",
        lambda node: "on" if present(node.kernel.has_smt, "SMT") else "off",
        "switch SMT (Hyper-Threading) on or off in the BIOS of the nodes named as on the others",
    ),
    Row(
        "boost of the CPUs",
        lambda node: "on" if present(node.kernel.has_boost, "boost") else "off",
        "`cpupower frequency-info` on the nodes named; write the others' choice to cpufreq/boost or no_turbo",
    ),
    Row(
        "limit of the CPUs' clock",
        lambda node: _limit(present(node.kernel.clock_share, "limit of the CPUs' clock")),
        "`cpupower frequency-set -u <highest>` on the nodes named; `cpupower frequency-info` shows both limits",
    ),
    Row(
        "clock source",
        lambda node: present(node.kernel.clock_source, "clock source"),
        "`dmesg | grep -i clocksource` on the nodes named; start the kernel with `tsc=reliable`, or a newer BIOS",
    ),
    Row(
        "NUMA balancing",
        lambda node: "on" if present(node.kernel.numa_balancing, "NUMA balancing") else "off",
        "`sysctl -w kernel.numa_balancing=<the others' value>` on the nodes named: it moves pages under running ranks",
    ),
    Row(
        "SELinux",
        _selinux,
        "`setenforce 0` or 1 on the nodes named, and SELINUX in /etc/selinux/config, as on the others",
    ),
    Row(
        "containers of users",
        lambda node: "allowed" if present(node.kernel.users_make_namespaces, "user namespaces") else "refused",
        "`sysctl -w user.max_user_namespaces=<the others' value>` on the nodes named (Debian: also "
        "kernel.unprivileged_userns_clone=1): enroot, Apptainer and Podman need them",
    ),
    Row(
        "overcommitment of memory",
        lambda node: str(present(node.kernel.memory_overcommit, "vm.overcommit_memory")),
        "`sysctl -w vm.overcommit_memory=<the others' value>` on the nodes named",
    ),
    Row(
        "bonds of the job",
        bonds_of_job,
        "`cat /proc/net/bonding/<bond>` on the nodes named; correct its mode and members in the network configuration",
    ),
    Row(
        "PCIe lanes of the interfaces",
        narrow_links,
        "`lspci -vv` (LnkSta) on the nodes named; reseat the adapter, or move it to a slot of full width",
    ),
    Row(
        "boot options for devices",
        lambda node: " ".join(sorted(present(node.kernel.boot_options, "boot options"))) or "none",
        "start the kernel of the nodes named with the others' options (`cat /proc/cmdline`), and reboot",
    ),
)


def _limit(share: float) -> str:
    return "none" if share >= UNLIMITED_CLOCK else f"{share:.0%} of the highest"


def _or_none(value: int | Missing) -> str:
    return (
        "none" if isinstance(value, Missing) and value.kind == "absent" else f"{present(value, 'quota') / GIB:.1f} GiB"
    )


LOG_SECONDS = 24 * 3600.0
LEAST_MEMORY = 0.95  # of the median
LOST_MODULE, LEAST_SHARE_OF_MODULE = 7 * GIB, 0.01  # one of 32 modules is 3 %; kernels differ by far less


def needs_as_much_memory(cluster: Cluster) -> None:
    """Blame the nodes with less memory than the median, by more than kernels and firmware keep for themselves."""
    memory = cluster.gather(lambda node: node.identity.memory_bytes)
    middle = median(memory.values()) if memory else 0
    # A lost module is eight GiB or more; what kernels and firmware keep is a hundredth at most.
    least = max(LEAST_MEMORY * middle, middle - max(LOST_MODULE, LEAST_SHARE_OF_MODULE * middle))
    less = {name: held for name, held in memory.items() if held < least}
    if less:
        raise BlameMany(
            Blame(f"{held / GIB:.0f} GiB of memory, others have {middle / GIB:.0f}", nodes=[name])
            for name, held in less.items()
        )


def _logged(node: NodeFacts, kind: str) -> str:
    texts = dict.fromkeys(event.text for event in node.kernel.events(kind, within_seconds=LOG_SECONDS))
    return (
        f"{len(texts)} line{'s' * (len(texts) != 1)} in the kernel's log, the last: {list(texts)[-1]}" if texts else ""
    )


LOG: tuple[Fault[NodeFacts], ...] = (
    Fault(
        "OOM kills",
        lambda node: _logged(node, "oom"),
        "find what took the memory (`dmesg -T | grep -i 'killed process'`); give the job more, or end the other",
        "kernel, mm/oom_kill.c",
    ),
    Fault("PCIe errors", lambda node: _logged(node, "pcie"), "reseat the device on the nodes named", "PCIe AER"),
    Fault(
        "RDMA errors",
        lambda node: _logged(node, "rdma"),
        "reseat or replace the cable or the adapter on the nodes named",
        "mlx5_core",
    ),
    Fault(
        "accelerators",
        lambda node: _logged(node, "accelerator"),
        "`hl-smi` or `xpu-smi health -l` on the nodes named; reset the device or reboot, replace it if it comes back",
        "kernel, drivers/accel/habanalabs and drivers/gpu/drm/xe",
    ),
    Fault(
        "links",
        lambda node: _logged(node, "link"),
        "`dmesg -T | grep -i link` and `ethtool <interface>` on the nodes named; reseat or replace the cable",
        "kernel, drivers of network adapters",
    ),
    Fault(
        "virtual functions",
        lambda node: _logged(node, "virtual"),
        "reboot the nodes named, or take other machines: the cloud took the adapter's function from the guest, and all "
        "of its packets go through the hypervisor's software",
        "kernel, drivers/net/hyperv/netvsc_drv.c",
    ),
    Fault(
        "network errors",
        lambda node: _logged(node, "network"),
        "a table that is full: `sysctl net.netfilter.nf_conntrack_max=<more>`, net.ipv4.neigh.default.gc_thresh3 or "
        "net.ipv4.tcp_mem; requests dropped: net.core.somaxconn, net.ipv4.tcp_max_syn_backlog; an address that another "
        "machine has: give one of them its own; else the adapter's driver",
        "kernel, netfilter, neighbour tables, IPv6 address detection",
    ),
    Fault(
        "denied devices",
        lambda node: _logged(node, "denied"),
        "`ausearch -m avc -ts today` or `aa-status` on the nodes named; start the container with "
        "`--security-opt label=disable` (SELinux) or `--security-opt apparmor=unconfined`, or label its devices",
        "kernel, Documentation/admin-guide/LSM",
    ),
    Fault(
        "refused by a limit",
        lambda node: _logged(node, "refused"),
        "processes: TasksMax of the slice or service, `--pids-limit`, podPidsLimit; open files: `sysctl -w "
        "fs.file-max=<more>`; memory of data: `ulimit -d unlimited`, on the nodes named",
        "kernel/cgroup/pids.c, fs/file_table.c, mm/mmap.c",
    ),
    Fault(
        "crashes of the kernel",
        lambda node: _logged(node, "crash"),
        "`dmesg -T` around that line on the nodes named; reboot, and update kernel or driver",
        "kernel, Documentation/admin-guide/bug-hunting.rst",
    ),
    Fault(
        "machine errors",
        lambda node: _logged(node, "machine"),
        "`ras-mc-ctl --errors` or the BMC's event log on the nodes named; replace the module, look at the fans",
        "kernel, Documentation/admin-guide/RAS",
    ),
    Fault(
        "hangs",
        lambda node: _logged(node, "hang"),
        "`dmesg -T` around that line on the nodes named: a disk, a file server or a driver did not answer; reboot",
        "kernel, Documentation/admin-guide/lockup-watchdogs.rst",
    ),
    Fault(
        "storage errors",
        lambda node: _logged(node, "storage"),
        "`dmesg -T`, `nvme smart-log` and `mount` on the nodes named; repair the file system or its server",
        "kernel, block layer and NFS client",
    ),
)


def _killed_since(node: NodeFacts) -> str:
    before, after = present(node.kernel.oom_kills, "kills"), present(node.ending.oom_kills, "kills at the end")
    return f"{_processes(after - before)} OOM-killed during this run" if after > before else ""


def _errors_since(node: NodeFacts) -> str:
    """Of the interfaces that the job uses: what others count is not its matter."""
    for unread in (node.kernel.link_errors_unread, node.ending.link_errors_unread):
        if unread.kind != "absent":
            raise FactMissing("rx/tx errors", unread.missing, unread.kind)
    before, after = node.kernel.link_errors, node.ending.link_errors
    used = dict.fromkeys((node.network.training_interface.name, *(one.name for one in nccl_interfaces.of_nccl(node))))
    grown = {name: after[name] - before[name] for name in used if name in before and name in after}
    if not grown:
        raise FactMissing("rx/tx errors", "the kernel counts none", "absent")
    return "; ".join(f"{name} counted {count} rx/tx errors" for name, count in grown.items() if count > 0)


def _lost_since(node: NodeFacts) -> str:
    """The links that went down, those of bonds' members and of RoCE ports among them."""
    after = node.ending.carrier_changes
    before = {name: node.network.interface(name).carrier_changes for name in _links_of_job(node) if name in after}
    known = {name: after[name] - count for name, count in before.items() if isinstance(count, int)}
    if not known:
        raise FactMissing("link losses", "the kernel counts none", "absent")
    return "; ".join(f"{name} lost its link {_times((more + 1) // 2)}" for name, more in known.items() if more > 0)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


LINKS = (
    Fault("errors of interfaces", _errors_since, "", "kernel, Documentation/networking/statistics.rst"),
    Fault("link losses", _lost_since, "", "kernel, Documentation/ABI/testing/sysfs-class-net, carrier_changes"),
)
KILLED = (Fault("OOM kills during the run", _killed_since, "", "/proc/vmstat oom_kill"),)
