"""What does the kernel's log tell of GPUs, adapters, memory, disks and tasks that hang?"""

from __future__ import annotations

from dataclasses import replace

from .faults import Fault, Fits, Plant, both, file, gone, logged
from .faults_gpu import AMD, is_amd, is_confined, lost_gpu, of
from .faults_rdma import has_ports, is_efa
from .folder import Folder
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
AVC = "audit: type=1400 audit(1.2:3): avc:  denied  { open } for  pid=7"
APPARMOR = 'audit: type=1400 audit(1.2:3): apparmor="DENIED" operation="open" profile="docker-default"'
CONTAINER = "scontext=system_u:system_r:container_t:s0:c1"
HOST = (
    ("firmware of an adapter", "mlx5_core 0000:e1:00.0: print_health_info:504: synd 0x1: firmware internal error",
     "firmware internal error"),
    ("firmware that counts no more", "mlx5_core 0000:e1:00.0: print_health_info:431: Health issue observed, firmware",
     "Health issue"),
    ("adapter given up", "mlx5_core 0000:e1:00.0: poll_health:840:(pid 0): Fatal error 3 detected", "Fatal error"),
    ("commands that stall", "bnxt_en 0000:31:00.0: QPLIB: bnxt_re_is_fw_stalled: FW STALL Detected. cmdq[0xe]",
     "STALL"),
    ("engine of Intel's adapter", "ice 0000:4c:00.0 rocep76s0: Requesting a reset", "reset"),
    ("accelerator of Habana", "habanalabs 0000:1a:00.0: Failed to initialize hl2. Device is NOT usable !", "hl2"),
    ("accelerator of Intel", "xe 0000:03:00.0: [drm] CRITICAL: Xe has declared device 0000:03:00.0 as wedged.", "Xe"),
    ("hot adapter", "mlx5_core 0000:e1:00.0: temp_warn:162: High temperature on sensors with bit set 0 1", "High"),
    ("adapter without its package", "ice 0000:e1:00.0: The DDP package file was not found. Entering Safe Mode", "Safe"),
    ("hot chip", "bnxt_en 0000:e1:00.0 eno1: Chip temperature has gone above the critical thermal threshold!", "Chip"),
    ("conntrack table", "nf_conntrack: nf_conntrack: table full, dropping packet", "table full"),
    ("neighbour table", "neighbour: arp_cache: neighbor table overflow!", "overflow"),
    ("memory of TCP", "TCP: out of memory -- consider tuning tcp_mem", "out of memory"),
    ("its address twice", "IPv6: eno1: IPv6 duplicate address fd00::1 used by 94:6d:ae:00:00:01 detected!", "IPv6"),
    ("cable of Ethernet", "ixgbe 0000:e1:00.0 eno1: NIC Link is Down", "Link is Down"),
    ("member of a bond", "bond0: (slave eno1): link status definitely down, disabling slave", "definitely down"),
    ("adapter that hangs", "e1000e 0000:00:1f.6 eno1: Detected Hardware Unit Hang:", "Unit Hang"),
    ("XFS", "XFS (dm-0): Corruption of in-memory data (0x8) detected at x. Shutting down filesystem.", "XFS"),
    ("ext4", "EXT4-fs error (device sda2): ext4_find_entry:1455: inode #2: reading directory lblock 0", "EXT4"),
    ("Lustre", "LustreError: 167-0: a-MDT0000-mdc: This client was evicted by a-MDT0000; it will fail.", "evicted"),
    ("Ceph", "ceph: [9d8]: mds0 hung", "mds0"),
    ("NVMe gone", "nvme nvme0: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0xffff", "controller"),
    ("medium of a disk", "critical medium error, dev sda, sector 123456 op 0x0:(READ) phys_seg 1", "medium"),
    ("RAID", "md/raid1:md0: Disk failure on nvme1n1p1, disabling device.", "Disk failure"),
    ("page fault", "BUG: unable to handle page fault for address: ffffb2d4c0a3f000", "BUG"),
    ("protection fault", "general protection fault, probably for non-canonical address 0xdead: 0000 [#1]", "general"),
    ("no pages in a row", "python3: page allocation failure: order:5, mode:0x40dc0", "allocation"),
    ("IOMMU of Intel", "DMAR: [DMA Read NO_PASID] Request device [13:00.0] fault addr 0x7f2b0000", "fault addr"),
    ("IOMMU of AMD", "AMD-Vi: Event logged [IO_PAGE_FAULT device=13:00.0 address=0x7f2b0000]", "IO_PAGE_FAULT"),
    ("poisoned memory", "Memory failure: 0x1a2b: Killing python:4711 due to hardware memory corruption", "Killing"),
    ("NMI", "NMI: PCI system error (SERR) for reason a1 on CPU 0.", "SERR"),
    ("clock of the CPUs", "clocksource: timekeeping watchdog on CPU3: Marking clocksource 'tsc' as unstable", "tsc"),
    ("record of the last boot", "BERT: Error records from previous boot: [Hardware Error]: event severity: fatal",
     "previous boot"),
    ("record of firmware", "{1}[Hardware Error]: event severity: recoverable", "recoverable"),
    ("port contained by firmware", "pcieport 0000:10:01.0: EDR: EDR event received", "EDR"),
    ("adapter not initialised", "mlx5_core 0000:e1:00.0: probe_one:1688: mlx5_init_one failed with error code -110",
     "mlx5_init_one"),
    ("Slingshot", "cxi_core 0000:c3:00.0: cxi3[hsn3]: C_EC_UNCOR_NS: C1_PCT error: tct_cam_ucor (42)", "tct_cam_ucor"),
    ("port contained", "pcieport 0000:10:01.0: DPC: containment event, status:0x1f01 source:0x0000", "DPC"),
    ("slot without its card", "pcieport 0000:10:01.0: pciehp: Slot(12): Link Down", "Slot(12)"),
    ("device gone", "nvidia 0000:13:00.0: Unable to change power state from D3cold to D0, device inaccessible",
     "inaccessible"),
    ("firmware of an adapter stuck", "mlx5_core: probe of 0000:e1:00.0 failed with error -16", "probe of"),
    ("adapter of Amazon's", "ena 0000:00:05.0 ens5: Keep alive watchdog timeout.", "atchdog"),
    ("EFA silent", "infiniband rdmap16s27: The device didn't send any completion for admin cmd CREATE_QP(1)", "admin"),
    ("adapter of Microsoft's", "mana 39d4:00:02.0: HWC: Request timed out!", "HWC"),
    ("adapter of AMD's", "ionic 0000:24:00.0: FW heartbeat stalled at 1342169688", "heartbeat"),
    ("queue of an adapter", "mlx5_core 0000:e1:00.0 eth1: TX timeout detected", "TX timeout"),
    ("commands of an adapter", "bnxt_en 0000:31:00.0: Error (timeout: 500015) msg {0x41 0x1f} len:0", "timeout"),
    ("hot Omni-Path", "hfi1 0000:24:00.0: hfi1_0: Critical temperature reached! Forcing device into freeze mode!",
     "Critical"),
    ("device denied by SELinux", f'{AVC} comm="py" path="/dev/nvidia0" {CONTAINER} permissive=0', "denied"),
    ("device denied by AppArmor", f'{APPARMOR} name="/dev/infiniband/uverbs0" pid=7 comm="py"', "DENIED"),
    ("requests dropped", "TCP: request_sock_TCP: Possible SYN flooding on port 29500. Dropping request.", "SYN"),
    ("adapter of Google's", "gve 0000:00:0b.0: AQ commands timed out, need to reset AQ", "AQ commands"),
    ("queue of Intel's adapter", "ixgbe 0000:3b:00.0 eno1: Detected Tx Unit Hang", "Tx Unit Hang"),
    ("disk behind XFS", "XFS (nvme1n1): Filesystem has been shut down due to log error (0x2).", "shut down"),
    ("function taken away", "hv_netvsc 000d3a6e-1a2b-000d-3a6e-1a2b000d3a6e eth0: Data path switched from VF: enP1s1",
     "switched from"),
    ("too hot to run", "thermal thermal_zone0: critical temperature reached (105 C), shutting down", "temperature"),
)  # fmt: skip
GPU_HOST = (
    ("GSP silent", "NVRM: _kgspIsHeartbeatTimedOut: Heartbeat timed out, gpu 0000:13:00.0", "Heartbeat"),
    ("GSP crashed", "NVRM: kgspHealthCheck_TU102: ****** GSP-CrashCat Report *******", "GSP-CrashCat"),
    (
        "reset required",
        "NVRM: nvAssertOkFailedNoLog: Assertion failed: Reset required [NV_ERR_RESET_REQUIRED] (0x62)",
        "RESET_REQUIRED",
    ),
    ("NVSwitch not probed", "nvidia-nvswitch: probe of 0000:f5:00.0 failed with error -5", "nvswitch"),
    ("without its memory", "NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:", "I/O region"),
)
LOST_HOST = (  # of a GPU that the driver does not list
    ("not initialized", 60.0, "NVRM: GPU {lost}: RmInitAdapter failed! (0x62:0x40:2477)", "RmInitAdapter"),
    ("not probed", 60.0, "nvidia: probe of {lost} failed with error -1", "probe of"),
    ("not probed by a newer kernel", 60.0, "nvidia {lost}: probe with driver nvidia failed with error -1", "probe"),
    ("lost the day before", 1e5, "NVRM: Xid (PCI:{lost}): 79, pid=0, GPU has fallen off the bus.", "Xid 79"),
    ("lost long ago", 1e6, r"NVRM: The NVIDIA GPU {lost}\x0aNVRM: (PCI ID: 10de:26b5) has\x0aNVRM: fallen off the bus",
     "fallen off the bus"),
)  # fmt: skip
AMD_HOST = (
    ("amdgpu worn", "amdgpu 0000:13:00.0: amdgpu: This GPU is in BAD status.", "BAD"),
    ("amdgpu wearing", "amdgpu 0000:13:00.0: amdgpu: Saved bad pages 32 reaches threshold value 32", "bad pages"),
    ("amdgpu fatal", "amdgpu 0000:13:00.0: {1}uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!",
     "ERREVENT"),
    ("amdgpu not recovered", "amdgpu 0000:13:00.0: amdgpu: GPU Recovery Failed: -19", "Recovery"),
    ("amdgpu poison", "amdgpu 0000:13:00.0: amdgpu: {3} RAS poison consumption, kick off gpu reset flow", "poison"),
    ("amdgpu gone", "amdgpu 0000:13:00.0: amdgpu: device lost from bus!", "lost from bus"),
    ("amdgpu without its queues", "amdgpu: The cp might be in an unrecoverable state due to unsuccessful preemption",
     "unrecoverable"),
    ("amdgpu beyond its threshold", "amdgpu 0000:13:00.0: amdgpu: RAS records:260 exceed, GPU will not be initialized.",
     "RAS records"),
    ("amdgpu without atomics", "kfd kfd: amdgpu: skipped device 1002:74a1, PCI rejects atomics 730<0", "atomics"),
    ("amdgpu not initialised", "[drm:amdgpu_device_ip_init [amdgpu]] *ERROR* hw_init of IP block <psp> failed -62",
     "IP block"),
    ("amdgpu throttled", "amdgpu 0000:13:00.0: amdgpu: WARN: GPU is throttled, expect performance decrease. HBM",
     "throttled"),
    ("amdgpu deferred", "amdgpu 0000:13:00.0: amdgpu: {5} socket: 0, 3 new deferred hardware errors detected in umc",
     "deferred"),
    ("amdgpu controller", "amdgpu 0000:13:00.0: amdgpu: SMU: I'm not done with your previous command!", "SMU"),
)  # fmt: skip
LINES += tuple((name, text, LOG, words, logs) for name, text, words in HOST)
LINES += tuple((name, text, GPU_LOG, words, of(logs)) for name, text, words in GPU_HOST)
LINES += tuple((name, text, GPU_LOG, words, lambda p: is_amd(p) and logs(p)) for name, text, words in AMD_HOST)


def lost_since(age_seconds: float, text: str) -> Plant:
    """A GPU that the driver does not list, and what it logged of it so long ago."""

    def plant(folder: Folder, platform: Platform) -> None:
        lost_gpu(folder, platform)
        assert platform.gpus is not None
        lost = platform.gpus.pci[platform.gpus.count - 1]
        folder.log(text.format(lost=lost[:-2] if "Xid" in text else lost), age_seconds=age_seconds)

    return plant


def unloaded(*modules: str) -> Plant:
    """Modules that are not loaded; others are, on every machine."""

    def plant(folder: Folder, _: Platform) -> None:
        text = folder.path("proc/modules").read_text()
        kept = [line for line in text.splitlines() if line.split(" ", 1)[0] not in modules]
        folder.write("proc/modules", "".join(f"{line}\n" for line in kept) or "loop 1 0 - Live 0x0000000000000000\n")

    return plant


AGAINST = "disagrees about version of symbol"
MAGIC = "nvidia: version magic '6.8.0-45-generic SMP mod_unload ' should be '6.8.0-47-generic SMP mod_unload '"
ABSENT = "Unable to detect any GPU devices, check amdgpu version and module status (sudo modprobe amdgpu)\n"
NO_RDMA = gone("sys/class/infiniband")
DRIVERLESS = both(gone("usr/local/bin/nvidia-smi", "proc/driver"), unloaded("nvidia", "nvidia_uvm", "nvidia_peermem"))
REFUSED = (
    Fault("driver of another kernel", both(DRIVERLESS, logged(MAGIC)), LOG, "version magic",
          of(lambda p: logs(p) and p.gpus.is_on_bus)),
    Fault("driver without a key", both(DRIVERLESS, logged("Loading of module with unavailable key is rejected")),
          LOG, "unavailable key", of(lambda p: logs(p) and p.gpus.is_on_bus)),
    Fault("module of CUDA refused", both(unloaded("nvidia_uvm"), logged("nvidia_uvm: Unknown symbol nvUvm (err -2)")),
          GPU_LOG, "CUDA cannot start", of(lambda p: logs(p) and "nvidia" in p.modules)),
    Fault("peermem refused", both(unloaded("nvidia_peermem"), logged(f"nvidia_peermem: {AGAINST} ib_register_client")),
          LOG, "nvidia_peermem", of(lambda p: logs(p) and "nvidia_peermem" in p.modules and not p.gpus.is_open)),
    Fault("driver of the adapters refused", both(unloaded("mlx5_ib"), NO_RDMA, logged(f"mlx5_ib: {AGAINST} mlx5_x")),
          LOG, "mlx5_ib", lambda p: logs(p) and of_vendor("0x15b3")(p)),
    Fault("driver of EFA refused", both(unloaded("efa"), NO_RDMA, logged("efa: Unknown symbol ib_umem_get (err -2)")),
          LOG, "efa", lambda p: logs(p) and is_efa(p) and p.gpus is not None),
    Fault("amdgpu refused", both(unloaded("amdgpu"), file(AMD, ABSENT), logged(f"amdgpu: {AGAINST} module_layout")),
          LOG, "amdgpu", lambda p: is_amd(p) and logs(p)),
)  # fmt: skip
several = of(lambda p: logs(p) and p.gpus.count > 1 and not is_confined(p))  # type: ignore[union-attr]
FAULTS = (
    *(Fault(f"log: {name}", logged(text), check, words, fits) for name, text, check, words, fits in LINES),
    *(replace(fault, name=f"log: {fault.name}") for fault in REFUSED),
    *(Fault(f"log: {name}", lost_since(age, text), GPU_LOG, words, several) for name, age, text, words in LOST_HOST),
)
