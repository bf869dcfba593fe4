"""What does the kernel's log say of the node, and which processes did the kernel kill during the run?"""

from __future__ import annotations

from preflight.facts.node import NodeFacts
from preflight.facts.value import present
from preflight.judge.tables.faults import Fault
from preflight.judge.tables.gpus import drivers
from preflight.judge.tables.kernel.fragile import processes
from preflight.said import said

LOG_SECONDS = 24 * 3600.0


def _logged(node: NodeFacts, kind: str) -> str:
    texts = dict.fromkeys(event.text for event in node.kernel.events(kind, within_seconds=LOG_SECONDS))
    return (
        said(
            "{texts} line{s} in the kernel's log, the last: {list}",
            len(texts),
            "s" * (len(texts) != 1),
            list(texts)[-1],
        )
        if texts
        else ""
    )


LOG: tuple[Fault[NodeFacts], ...] = (
    Fault(
        "OOM kills",
        lambda node: _logged(node, "oom"),
        "find what took the memory (`dmesg -T | grep -i 'killed process'`); give the job more, or end the other",
        "kernel, mm/oom_kill.c",
    ),
    Fault("refused drivers", drivers.refused, drivers.FIX, drivers.SOURCE),
    Fault(
        "unlisted GPUs",
        drivers.unlisted,
        "`dmesg -T | grep -i -e nvrm -e amdgpu` on the nodes named; install the driver that the line asks for, or "
        "reboot, and replace the GPU if it comes back",
        "NVIDIA open-gpu-kernel-modules: nv-pci.c",
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
        "for a full table raise net.netfilter.nf_conntrack_max, net.ipv4.neigh.default.gc_thresh3 or net.ipv4.tcp_mem "
        "(`sysctl -w <name>=<more>`), for dropped requests net.core.somaxconn and net.ipv4.tcp_max_syn_backlog; where "
        "another machine has the address, give one of them its own; else look at the adapter's driver",
        "kernel, netfilter, neighbor tables, IPv6 address detection",
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
        "on the nodes named: for processes raise TasksMax of the slice or service, `--pids-limit` or podPidsLimit; for "
        "open files `sysctl -w fs.file-max=<more>`; for memory of data `ulimit -d unlimited`",
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
    return said("{processes} OOM-killed during this run", processes(after - before)) if after > before else ""


KILLED = (Fault("OOM kills during the run", _killed_since, "", "/proc/vmstat oom_kill"),)
