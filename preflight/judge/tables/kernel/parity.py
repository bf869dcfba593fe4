"""Which facts of the nodes' kernels, memory and CPUs should be the same on all of them?"""

from __future__ import annotations

from statistics import median

from preflight.facts.cluster import Cluster, Row
from preflight.facts.node import NodeFacts
from preflight.facts.value import Missing, present
from preflight.judge.tables.kernel.fragile import GIB
from preflight.judge.tables.network import links
from preflight.knowledge import sysctls
from preflight.said import said
from preflight.said.errors import Blame, BlameMany, FactMissing

UNLIMITED_CLOCK = 0.95


def _selinux(node: NodeFacts) -> str:
    held = node.kernel.enforces_selinux
    if isinstance(held, Missing) and held.kind == "absent":
        return "off"
    return "enforcing" if present(held, "SELinux") else "permissive"


def setting(name: str) -> Row:
    """A row for one setting of sysctl."""

    def key(node: NodeFacts) -> str:
        held = node.kernel.network_settings | node.kernel.settings
        if name not in held:
            raise FactMissing(name, "the kernel or the session does not show it", "absent")
        return present(held[name], name)

    return Row(
        name,
        key,
        said("`sysctl -w {name}='<the others' value>'` on the nodes named, and a line in /etc/sysctl.d", name),
    )


SAME = (
    *map(setting, sysctls.NAMES),
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
        "traffic shaping of the job's interfaces",
        links.shaping,
        "`tc qdisc show` on the nodes named; `tc qdisc del dev <interface> root` removes what a test has left: it "
        "delays, drops or holds back what the node sends",
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
        links.bonds_of_job,
        "`cat /proc/net/bonding/<bond>` on the nodes named; correct its mode and members in the network configuration",
    ),
    Row(
        "PCIe lanes of the interfaces",
        links.narrow_links,
        "`lspci -vv` (LnkSta) on the nodes named; reseat the adapter, or move it to a slot of full width",
    ),
    Row(
        "boot options for devices",
        lambda node: " ".join(sorted(present(node.kernel.boot_options, "boot options"))) or "none",
        "start the kernel of the nodes named with the others' options (`cat /proc/cmdline`), and reboot",
    ),
)


def _limit(share: float) -> str:
    return "none" if share >= UNLIMITED_CLOCK else said("{share:.0%} of the highest", share)


def _or_none(value: int | Missing) -> str:
    return (
        "none" if isinstance(value, Missing) and value.kind == "absent" else f"{present(value, 'quota') / GIB:.1f} GiB"
    )


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
            Blame(said("{held:.0f} GiB of memory, others have {middle:.0f}", held / GIB, middle / GIB), nodes=[name])
            for name, held in less.items()
        )
