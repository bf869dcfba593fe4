"""What does the kernel's log tell of GPUs, adapters, memory, disks and tasks that hang?"""

from __future__ import annotations

from .faults import Fault, Fits, logged
from .faults_gpu import is_amd, of
from .faults_rdma import has_ports
from .platform import Platform

LOG = "kernel.log_tells_of_nothing_broken"
GPU_LOG = "gpu.kernel_log_tells_of_no_broken_gpu"


def logs(platform: Platform) -> bool:
    """Whether the kernel's log may be read."""
    return platform.has_log and not platform.user_id


def of_vendor(vendor: str) -> Fits:
    """Whether the adapters are of this vendor."""
    return lambda platform: bool(platform.hcas) and platform.hcas[0].vendor == vendor and has_ports(platform)


LINES: tuple[tuple[str, str, str, str, Fits], ...] = (
    (
        "Xid 119",
        "NVRM: Xid (PCI:0000:13:00): 119, pid=881, name=python, Timeout after 6s of waiting for RPC",
        GPU_LOG,
        "Xid 119",
        of(logs),
    ),
    (
        "Xid 154",
        "NVRM: Xid (PCI:0000:13:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
        GPU_LOG,
        "Xid 154",
        of(logs),
    ),
    (
        "Xid 149",
        "NVRM: Xid (PCI:0000:13:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 04 (0x004505c6)",
        GPU_LOG,
        "Xid 149",
        of(logs),
    ),
    (
        "SXid",
        "nvidia-nvswitch3: SXid (PCI:0000:f5:00.0): 12028, Fatal, Link 44 egress non-posted PRIV error",
        GPU_LOG,
        "12028",
        of(lambda p: logs(p) and p.gpus.switches > 0),
    ),
    (
        "RmInitAdapter",
        "NVRM: GPU 0000:13:00.0: RmInitAdapter failed! (0x62:0x40:2477)",
        GPU_LOG,
        "RmInitAdapter",
        of(logs),
    ),
    (
        "amdgpu reset",
        "amdgpu 0000:13:00.0: amdgpu: GPU reset begin!",
        GPU_LOG,
        "GPU reset",
        lambda p: is_amd(p) and logs(p),
    ),
    (
        "amdgpu RAS",
        "amdgpu 0000:13:00.0: amdgpu: 2 uncorrectable hardware errors detected in UMC block",
        GPU_LOG,
        "uncorrectable",
        lambda p: is_amd(p) and logs(p),
    ),
    (
        "ring time-out",
        "[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring sdma0.0 timeout, signaled seq=5",
        GPU_LOG,
        "timeout",
        lambda p: is_amd(p) and logs(p),
    ),
    (
        "machine check",
        "mce: [Hardware Error]: CPU 12: Machine Check Exception: 5 Bank 4: be00000000800400",
        LOG,
        "Machine Check",
        logs,
    ),
    (
        "memory error",
        "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0 (channel:0 slot:0)",
        LOG,
        "EDAC",
        logs,
    ),
    ("hung task", "INFO: task python3:48213 blocked for more than 122 seconds.", LOG, "blocked for more", logs),
    ("soft lockup", "watchdog: BUG: soft lockup - CPU#12 stuck for 26s! [nccl-proxy:4711]", LOG, "soft lockup", logs),
    (
        "transmit queue",
        "NETDEV WATCHDOG: ens60np0 (bnxt_en): transmit queue 3 timed out 5012 ms",
        LOG,
        "timed out",
        logs,
    ),
    ("read-only disk", "EXT4-fs (nvme0n1p2): Remounting filesystem read-only", LOG, "read-only", logs),
    ("disk time-out", "nvme nvme0: I/O 22 QID 4 timeout, aborting", LOG, "timeout", logs),
    ("file server", "nfs: server 10.77.0.200 not responding, still trying", LOG, "not responding", logs),
    (
        "hot CPU",
        "mce: CPU12: Package temperature above threshold, cpu clock throttled (total events = 31)",
        LOG,
        "throttled",
        logs,
    ),
    (
        "command time-out",
        "mlx5_core 0000:34:00.0: wait_func:1187:(pid 1): CREATE_MKEY(0x200) timeout. Will cause a leak",
        LOG,
        "timeout",
        lambda p: logs(p) and of_vendor("0x15b3")(p),
    ),
    (
        "module of another port",
        "mlx5_core 0000:34:00.0: Port module event[error]: module 0, Cable error, High Temperature",
        LOG,
        "Cable error",
        lambda p: logs(p) and of_vendor("0x15b3")(p),
    ),
    (
        "firmware error",
        "bnxt_en 0000:34:00.0 ens62np0: Firmware non-fatal reset event received",
        LOG,
        "Firmware",
        lambda p: logs(p) and of_vendor("0x14e4")(p),
    ),
)
FAULTS = tuple(Fault(f"log: {name}", logged(text), check, words, fits) for name, text, check, words, fits in LINES)
