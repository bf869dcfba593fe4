"""What about a node's kernel, memory and CPUs costs speed or is fragile?

Sources: the kernel's admin guide (cpufreq, cgroup-v2, hugetlbpage) and field cases by their issue.
"""

from __future__ import annotations

from preflight.facts.node import NodeFacts
from preflight.facts.value import Missing, present
from preflight.judge.tables.faults import Fault
from preflight.judge.tables.network import links
from preflight.said import said
from preflight.said.errors import NotApplicable

# With these, "powersave" still goes to full speed under load; with every other driver it pins the lowest.
SCALES_IN_POWERSAVE = ("intel_pstate", "amd-pstate-epp")
SLOW_CLOCKS = ("hpet", "acpi_pm", "jiffies", "pit")
LEAST_AVAILABLE = 0.1
MOST_HUGE = 0.5
MOST_FILES = 0.9
GIB = 1 << 30


def _governor(node: NodeFacts) -> str:
    governors = present(node.kernel.governors, "CPU governors")
    driver = present(node.kernel.scaling_driver, "CPU frequency driver")
    pinned = "powersave" in governors and driver not in SCALES_IN_POWERSAVE
    return (
        said("CPU governor powersave with {driver}: the CPUs stay at their lowest frequency", driver) if pinned else ""
    )


def _memory(node: NodeFacts) -> str:
    available, total = present(node.kernel.memory_available_bytes, "free memory"), node.identity.memory_bytes
    if available >= LEAST_AVAILABLE * total:
        return ""
    swapped = node.kernel.swap_used_bytes
    swap = (
        ""
        if isinstance(swapped, Missing) or not swapped
        else said(", {swapped:.1f} GiB are swapped out", swapped / GIB)
    )
    return said("{available:.1f} of {total:.1f} GiB of memory are available{swap}", available / GIB, total / GIB, swap)


def _hugepages(node: NodeFacts) -> str:
    huge, total = present(node.kernel.hugepages_bytes, "huge pages"), node.identity.memory_bytes
    return (
        said("{huge:.1f} of {total:.1f} GiB of memory are set aside for huge pages", huge / GIB, total / GIB)
        if huge > MOST_HUGE * total
        else ""
    )


def _one_piece(node: NodeFacts) -> str:
    """GB10 shares the CPU's memory with its GPU, and takes what adapters register from the kernel's contiguous part."""
    if not any("GB10" in gpu.name for gpu in node.gpu.readable()) or not node.rdma.active_ports():
        raise NotApplicable("no GB10 with an RDMA port")
    held = present(node.kernel.cma_bytes, "CmaTotal")
    return "" if held else "CmaTotal is 0: ibv_reg_mr fails with Cannot allocate memory, and NCCL stops"


def _cpus(node: NodeFacts) -> str:
    gpus, cpus = len(node.gpu.readable()), node.kernel.cpus()
    if not gpus:
        raise NotApplicable("no GPU")
    return (
        said("{cpus:g} CPUs may be used here for {gpus} GPU{s}", cpus, gpus, "s" * (gpus != 1)) if cpus < gpus else ""
    )


def _quota(node: NodeFacts) -> str:
    gpus, limit = len(node.gpu.readable()), node.kernel.cgroup_memory_bytes
    if not gpus:
        raise NotApplicable("no GPU")
    if isinstance(limit, Missing) and limit.kind == "absent":
        return ""  # no quota at all
    limit = present(limit, "memory quota")
    quota = said("a quota of {limit:.1f} GiB of memory for {gpus} GPU{s}", limit / GIB, gpus, "s" * (gpus != 1))
    return quota if limit < 4 * GIB * gpus else ""


def processes(count: int) -> str:
    """So many processes, as a message says it."""
    return f"{count} process{'es' * (count != 1)}"


def _killed(node: NodeFacts) -> str:
    count = present(node.kernel.cgroup_oom_kills, "processes killed in the control group")
    return said("{processes} of this control group OOM-killed", processes(count)) if count else ""


def _overcommit(node: NodeFacts) -> str:
    refuses = present(node.kernel.memory_overcommit, "vm.overcommit_memory") == 2
    words = "vm.overcommit_memory is 2: what CUDA and data loaders reserve is refused, though memory is free"
    return words if refuses else ""


def _slow_clock(node: NodeFacts) -> str:
    source = present(node.kernel.clock_source, "clock source")
    slow = said("clock source {source}: each reading of the clock is slow, and there are thousands a step", source)
    return slow if source in SLOW_CLOCKS else ""


def _files(node: NodeFacts) -> str:
    held = present(node.kernel.files_held, "open files of the machine")
    words = said("{held:.0%} of the files that this machine may have open (fs.file-max) are open", held)
    return words if held >= MOST_FILES else ""


def _connections(node: NodeFacts) -> str:
    held = present(node.kernel.connections_held, "connections that the packet filter keeps track of")
    words = said(
        "the packet filter keeps track of {held:.0%} of the connections that it may, and drops new ones beyond", held
    )
    return words if held >= MOST_FILES else ""


def _threads(node: NodeFacts) -> str:
    held = present(node.kernel.cgroup_processes_held, "processes of the control group")
    words = said("this control group has {held:.0%} of the processes and threads that it may have", held)
    return words if held >= MOST_FILES else ""


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
        "processes of the control group",
        _threads,
        "`ps -eLo user= | sort | uniq -c` on the nodes named; end what an earlier job left, or raise TasksMax, "
        "`--pids-limit` or podPidsLimit",
        "kernel, Documentation/admin-guide/cgroup-v2.rst, pids.current",
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
        "contiguous memory",
        _one_piece,
        "start an earlier kernel on the nodes named (6.17 where 7.0.0-1019-nvidia runs), or one with `cma=` on its "
        "command line",
        "https://github.com/MiaAI-Lab/DeepSeek-v4.1-Flash-DGX-Sparks/issues/14",
    ),
    *links.FRAGILE,
)
