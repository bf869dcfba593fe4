"""Tests of preflight.node.sources.kernel.lines."""

import pytest

from tests.node.sources.kernel.reported import reported

# Kind, number of the Xid or 0, and PCI address or device -> the lines that tell them.
LINES = {
    ("xid", 79, "0000:c1:00"): (
        "NVRM: Xid (PCI:0000:c1:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    ),
    ("xid", 31, "0000:07:00"): ("NVRM: Xid (PCI:0000:07:00): 31, pid=4242, name=python, Ch 00000008",),
    ("sxid", 12028, "0000:05:00.0"): (
        "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error (First)",
    ),
    ("xid", 94, "0000:07:00"): (
        "NVRM: Xid (PCI:0000:07:00 GPU-I:05): 94, pid=4242, name=python, Contained: LTC (0x5,0x0)",
    ),
    ("driver", 0, "0000:13:00.0"): (
        "amdgpu 0000:13:00.0: amdgpu: ring sdma0 timeout, signaled seq=5, emitted seq=7",
        "NVRM: GPU 0000:13:00.0: RmInitAdapter failed! (0x62:0x40:2477)",
        "amdgpu 0000:13:00.0: amdgpu: GPU reset begin!",
        "NVRM: _kgspIsHeartbeatTimedOut: Heartbeat timed out, gpu 0000:13:00.0",
        "nvidia: probe of 0000:13:00.0 failed with error -1",
        "amdgpu 0000:13:00.0: amdgpu: Fatal error during GPU init",
        "nvidia 0000:13:00.0: probe with driver nvidia failed with error -1",
        "NVRM: The NVIDIA GPU 0000:13:00.0 (PCI ID: 10de:2330) has fallen off the bus",
        "amdgpu 0000:13:00.0: amdgpu: This GPU is in BAD status.",
        "amdgpu 0000:13:00.0: {1}uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!",
        "amdgpu 0000:13:00.0: {7} socket: 0, die: 1, 1 new uncorrectable hardware errors detected in umc block",
        "amdgpu 0000:13:00.0: amdgpu: GPU reset end with ret = -62",
        "amdgpu 0000:13:00.0: amdgpu: GPU Recovery Failed: -19",
        "amdgpu 0000:13:00.0: amdgpu: device lost from bus!",
        "amdgpu 0000:13:00.0: amdgpu: XGMI: Set topology failure on device 5a3b2c, hive 9f21, ret -22",
        "amdgpu 0000:13:00.0: amdgpu: MES might be in unrecoverable state, issue a GPU reset",
        "nvidia-nvswitch: probe of 0000:13:00.0 failed with error -5",
        "nvidia-nvswitch 0000:13:00.0: probe with driver nvidia-nvswitch failed with error -5",
    ),
    ("driver", 0, "0000:c1:00.0"): ("NVRM: GPU 0000:c1:00.0: GPU has fallen off the bus.",),
    ("oom", 0, ""): (
        "Out of memory: Killed process 4242 (python) total-vm:1kB",
        "Memory cgroup out of memory: Killed process 7 (python)",
    ),
    ("pcie", 0, "0000:80:01.0"): ("pcieport 0000:80:01.0: AER: Uncorrectable (Fatal) error message received",),
    ("rdma", 0, ""): (
        "NETDEV WATCHDOG: ens60np0 (bnxt_en): transmit queue 3 timed out 5012 ms",
        "infiniband irdma0: Requesting a reset",
        "mlx5_core: INFO: synd 0x8: unrecoverable hardware error",
        "infiniband rdmap16s27: The device didn't send any completion for admin cmd CREATE_QP(1) status 0",
    ),
    ("rdma", 0, "0000:c1:00.0"): (
        "mlx5_core 0000:c1:00.0: print_health_info:504:(pid 0): synd 0x1: firmware internal error",
        "mlx5_core 0000:c1:00.0: temp_warn:162:(pid 0): High temperature on sensors with bit set 0 1",
        "mlx5_core 0000:c1:00.0: poll_health:840:(pid 0): Fatal error 3 detected",
        "mlx5_core 0000:c1:00.0 eth1: TX timeout detected",
        "mlx5_core 0000:c1:00.0: mlx5_handle_bad_state:203:(pid 8): handling bad device here",
        "mlx5_core: probe of 0000:c1:00.0 failed with error -16",
        "mlx5_core 0000:c1:00.0: probe_one:1688:(pid 1): mlx5_init_one failed with error code -110",
        "mlx5_core 0000:c1:00.0 eth3: RX timeout on channel: 3, ICOSQ: 0x11c RQ: 0x119, CQ: 0x49f",
        "cxi_core 0000:c1:00.0: cxi0[hsn0]: C_EC_CRIT: C_PCT_EXT error: tct_tbl_dealloc (18)",
        "cxi_core 0000:c1:00.0: cxi3[hsn3]: C_EC_UNCOR_NS: C1_PCT error: tct_cam_ucor (42)",
        "cxi_core 0000:c1:00.0: cxi0[] init_hw failed: -12",
        "mlx5_core 0000:c1:00.0: Firmware over 120000 MS in pre-initializing state, aborting",
    ),
    ("network", 0, "0000:31:00.0"): (
        "bnxt_en 0000:31:00.0 ens1: Chip temperature has gone above the critical thermal threshold!",
    ),
    ("network", 0, "0000:e1:00.0"): (
        "ice 0000:e1:00.0: The DDP package file was not found or could not be read. Entering Safe Mode",
        "i40e 0000:e1:00.0: Firmware recovery mode detected. Limiting functionality.",
        "ixgbe 0000:e1:00.0 eno1: Network adapter has been stopped because it has over heated.",
    ),
    ("machine", 0, ""): (
        "x86/amd: Previous system reset reason [0x08000800]: an uncorrected error caused a data fabric sync flood",
        "x86/amd: Previous system reset reason [0x00000001]: thermal pin BP_THERMTRIP_L was tripped",
        "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0",
        "Memory failure: 0x1a2b3c: Sending SIGBUS to python:4711 due to hardware memory corruption",
        "clocksource: timekeeping watchdog on CPU3: Marking clocksource 'tsc' as unstable",
    ),
    ("hang", 0, ""): (
        "INFO: task python3:48213 blocked for more than 122 seconds.",
        "BUG: soft lockup - CPU#3 stuck for 67s! [python3:48213]",
        "NMI watchdog: Watchdog detected hard LOCKUP on cpu 17",
        "rcu: INFO: rcu_preempt detected expedited stalls on CPUs/tasks: { 12-...D } 6 jiffies s: 33 root: 0x1/.",
        "watchdog: CPU 12 self-detected hard LOCKUP @ arch_spin_lock+0x20/0x60",
        "NVRM: krcWatchdog_IMPL: RC watchdog: GPU is probably locked!  Notify Timeout Seconds: 7",
    ),
    ("storage", 0, ""): (
        "nfs: server 10.77.0.200 not responding, still trying",
        "nvme nvme0: Device not ready; aborting reset, CSTS=0x1",
        "nvme nvme2: Disabling device after reset failure: -19",
        "mpt3sas_cm0: SAS host is non-operational !!!!",
        "XFS (dm-0): Corruption of in-memory data (0x8) detected at x. Shutting down filesystem.",
        "EXT4-fs error (device sda2): ext4_find_entry:1455: inode #2: reading directory lblock 0",
        "LustreError: 167-0: a-MDT0000: This client was evicted by a-MDT0000; it will fail.",
        "nvme nvme0: controller is down; will reset: CSTS=0xffffffff",
        "critical medium error, dev sda, sector 1 op 0x0:(READ)",
        "Buffer I/O error on dev dm-3, logical block 12, async page read",
        "blk_update_request: I/O error, dev nvme0n1, sector 4096 op 0x1:(WRITE) flags 0x0 phys_seg 1 prio class 0",
        "md/raid1:md0: Disk failure on nvme1n1p1, disabling device.",
        "nvme nvme2: Removing after probe failure status: -19",
        "beegfs: kworker(812): NodeConn: Connect failed. Node: beegfs-storage storage1 [ID: 2]",
        "XFS (nvme1n1): log I/O error -5",
        "XFS (nvme1n1): Filesystem has been shut down due to log error (0x2).",
    ),
    ("network", 0, ""): (
        "nf_conntrack: nf_conntrack: table full, dropping packet",
        "neighbour: arp_cache: neighbor table overflow!",
        "TCP: request_sock_TCP: Possible SYN flooding on port 0.0.0.0:29500. Dropping request.",
        "TCP: out of memory -- consider tuning tcp_mem",
        "IPv6: eno1: IPv6 duplicate address fd00::1 used by 94:6d:ae:00:00:01 detected!",
    ),
    ("denied", 0, ""): (
        (
            'audit: type=1400 audit(1.2:3): avc:  denied  { open } for  comm="py" path="/dev/nvidia0" dev="x"'
            " scontext=system_u:system_r:container_t:s0:c1 tcontext=x:x:xserver_misc_device_t:s0 permissive=0"
        ),
        (
            'audit: type=1400 audit(1.2:3): apparmor="DENIED" operation="open" profile="docker-default"'
            ' name="/dev/infiniband/uverbs0" pid=7 comm="python" requested_mask="wr" denied_mask="wr"'
        ),
    ),
    ("network", 0, "0000:00:1f.6"): ("e1000e 0000:00:1f.6 eno1: Detected Hardware Unit Hang:",),
    ("network", 0, "0000:3b:00.0"): (
        "ixgbe 0000:3b:00.0 eno1: Detected Tx Unit Hang",
        "i40e 0000:3b:00.0: TX driver issue detected on PF 0",
    ),
    ("network", 0, "0000:03:00.0"): ("tg3 0000:03:00.0 eno1: transmit timed out, resetting",),
    ("driver", 0, ""): (
        "nvidia-uvm: uvm_global.c:412 Encountered a global fatal error: ROBUST_CHANNEL_FAULT",
        "NVRM: nvGpuOpsReportFatalError: uvm encountered global fatal error 0x60, requiring os reboot to recover.",
        "NVRM: _kgspRpcRecvPoll: GSP RM heartbeat timed out for fn 78!",
        "NVRM: nvAssertOkFailedNoLog: Assertion failed: Reset required [NV_ERR_RESET_REQUIRED] (0x62) returned from x",
        "[drm:amdgpu_device_ip_init [amdgpu]] *ERROR* hw_init of IP block <psp> failed -62",
        "amdgpu: qcm fence wait loop timeout expired",
        "kfd kfd: amdgpu: skipped device 1002:74a1, PCI rejects atomics 730<0",
    ),
    ("network", 0, "0000:00:0b.0"): (
        "gve 0000:00:0b.0: Device requested reset.",
        "gve 0000:00:0b.0: AQ commands timed out, need to reset AQ",
    ),
    ("virtual", 0, "eth0"): (
        "hv_netvsc 000d3a6e-1a2b-000d-3a6e-1a2b000d3a6e eth0: Data path switched from VF: enP1s1",
    ),
    ("crash", 0, ""): (
        "BUG: unable to handle page fault for address: ffffb2d4c0a3f000",
        "general protection fault, probably for non-canonical address 0xdead: 0000 [#1] SMP",
        "python3: page allocation failure: order:5, mode:0x40dc0",
        "swapper/3: page allocation failure: order:0, mode:0x20(GFP_ATOMIC|GFP_DMA32), nodemask=(null)",
    ),
    ("pcie", 0, ""): ("DMAR: [DMA Read NO_PASID] Request device [13:00.0] fault addr 0x7f2b0000",),
    ("pcie", 0, "0000:10:01.0"): (
        "pcieport 0000:10:01.0: DPC: containment event, status:0x1f01",
        "pcieport 0000:10:01.0: DPC: unmasked uncorrectable error detected",
        "pcieport 0000:10:01.0: EDR: EDR event received",
        "pcieport 0000:10:01.0: pciehp: Slot(3): Card not present",
    ),
    ("wear", 0, "0000:13:00.0"): (
        "amdgpu 0000:13:00.0: amdgpu: {3} RAS poison consumption, kick off gpu reset flow",
        "amdgpu 0000:13:00.0: amdgpu: Saved bad pages 32 reaches threshold value 32",
        "amdgpu 0000:13:00.0: amdgpu: SMU: I'm not done with your previous command!",
        "amdgpu 0000:13:00.0: amdgpu: SMU: No response msg_reg: 1f resp_reg: 0",
        "amdgpu 0000:13:00.0: amdgpu: {5} socket: 0, die: 0, 3 new deferred hardware errors detected in umc block",
        "amdgpu 0000:13:00.0: amdgpu: WARN: GPU is throttled, expect performance decrease. HBM",
    ),
    ("accelerator", 0, "0000:1a:00.0"): ("habanalabs 0000:1a:00.0: Failed to initialize hl2. Device is NOT usable !",),
    ("rdma", 0, "0000:4c:00.0"): ("ice 0000:4c:00.0 rocep76s0: Requesting a reset",),
    ("rdma", 0, "0000:12:00.0"): (
        "bnxt_en 0000:12:00.0: QPLIB: bnxt_re_is_fw_stalled: FW STALL Detected. cmdq[0xe]=0x3",
    ),
    ("rdma", 0, "0000:31:00.0"): (
        "bnxt_en 0000:31:00.0 ens1: Firmware reset aborted, rc = -19",
        "bnxt_en 0000:31:00.0 ens1: TX timeout detected, starting reset task!",
        "bnxt_en 0000:31:00.0: Error (timeout: 500015) msg {0x41 0x1f} len:0",
        "bnxt_en 0000:31:00.0: probe with driver bnxt_en failed with error -5",
    ),
    ("rdma", 0, "0000:4f:00.0"): ("efa 0000:4f:00.0: Admin queue is closed",),
    ("rdma", 0, "0000:24:00.0"): (
        "ionic 0000:24:00.0: FW heartbeat stalled at 1342169688",
        "hfi1 0000:24:00.0: hfi1_0: Critical temperature reached! Forcing device into freeze mode!",
    ),
    ("network", 0, "0000:00:05.0"): ("ena 0000:00:05.0 ens5: Keep alive watchdog timeout.",),
    ("network", 0, "39d4:00:02.0"): ("mana 39d4:00:02.0: HWC: Request timed out!",),
    ("pcie", 0, "0000:13:00.0"): (
        "nvidia 0000:13:00.0: Unable to change power state from D3cold to D0, device inaccessible",
        "pci 0000:13:00.0: not ready 65535ms after bus reset; giving up",
    ),
    ("module", 0, "nvidia_peermem"): (
        "nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client",
        "nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -22)",
    ),
    ("module", 0, "nvidia"): (
        "nvidia: version magic '6.8.0-45-generic SMP mod_unload ' should be '6.8.0-47-generic SMP mod_unload '",
        "module nvidia: .gnu.linkonce.this_module section size must match the kernel's built struct module size",
    ),
    ("module", 0, ""): (
        "Loading of unsigned module is rejected",
        "Loading of module with unavailable key is rejected",
        "Lockdown: modprobe: unsigned module loading is restricted; see man kernel_lockdown.7",
    ),
    ("power", 0, "0000:e1:00.0"): (
        "mlx5_core 0000:e1:00.0: mlx5_pcie_event:299:(pid 1): Detected insufficient power on the PCIe slot (27W).",
    ),
}


@pytest.mark.parametrize(("line", "event"), [(line, event) for event, lines in LINES.items() for line in lines])
def test_a_telling_line_gives_its_kind_and_device(line, event):
    """The Xid's number, the PCI address where the line has one, and the line itself."""
    (found,) = reported([f"3,1,5000000,-;{line}\n SUBSYSTEM=pci\n"], now_s=65.0)
    assert (found["kind"], found["code"], found["device"]) == event
    assert found["age_seconds"] == 60.0
    assert found["text"] == line


@pytest.mark.parametrize(
    "record",
    [
        "6,1,2,-;mlx5_core 0000:41:00.0 ens1f0np0: Link up",
        "6,1,2,-;pcieport 0000:80:01.0: AER: Correctable error message received",
        "6,1,2,-;traps: python3[4711] general protection fault ip:7f error:0 in libc.so.6[7f+195000]",
        "6,1,2,-;TCP: request_sock_TCP: Possible SYN flooding on port 80. Sending cookies.",
        '6,1,2,-;audit: avc:  denied  { read } for comm="gdm" name="nvidiactl" scontext=u:r:xdm_t:s0 permissive=0',
        '6,1,2,-;audit: avc:  denied  { read } for name="nvidia0" dev="x" scontext=u:r:container_t:s0 permissive=1',
        '6,1,2,-;audit: avc:  denied  { read } for comm="py" name="shadow" scontext=u:r:container_t:s0 permissive=0',
        '6,1,2,-;audit: apparmor="DENIED" operation="open" profile="snap.firefox" name="/dev/nvidiactl" pid=7',
        "6,1,2,-;thermal thermal_zone0: temperature reads 61 C",
        "6,1,2,-;XFS (dm-0): Mounting V5 Filesystem",
        "6,1,2,-;mce: [Hardware Error]: Machine check events logged",
        "6,1,2,-;amdgpu 0000:13:00.0: amdgpu: no uncorrectable hardware errors detected in umc block",
        "6,1,2,-;amdgpu 0000:13:00.0: amdgpu: 2 correctable hardware errors detected in umc block",
        "6,1,2,-;infiniband rdmap16s27: Failed to process command MODIFY_QP (opcode 2) comp_status 7 err -22",
        "6,1,2,-;mlx5_core 0000:41:00.0: port_module:238:(pid 0): Port module event: module 0, Cable unplugged",
        "6,1,2,-;ionic 0000:24:00.0: FW heartbeat restored at 1342169690",
        "6,1,2,-;snd_soc: probe of sof failed with error -2",
        "6,1,2,-;nvidia: module verification failed: signature and/or required key missing - tainting kernel",
        "6,1,2,-;PKCS#7 signature not signed with a trusted key",
        "6,1,2,-;amdgpu 0000:13:00.0: amdgpu: ring comp_1.0.1 timeout, but soft recovered",
        "6,1,2,-;[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx timeout, but soft recovered",
        "6,1,2,-;amdgpu 0000:13:00.0: amdgpu: WARN: GPU is throttled, expect performance decrease. PPT",
        "6,1,2,-;cxi_core 0000:41:00.0: cxi0[hsn0]: C_EC_CRIT: C_PI_IPD_EXT error: pri_rbyp_abort (44)",
        "6,1,2,-;cxi_core 0000:41:00.0: cxi0[hsn0]: C_EC_BADCON_S: C_RMU error: ptl_invld_vni (49)",
        "6,1,2,-;cxi_core 0000:c3:00.0: cxi3[hsn3]: C_EC_UNCOR_NS: C_PCT_ERR_INFO_MEM 3f1d900400000000",
        "6,1,2,-;pcieport 0000:00:01.0: DPC: error containment capabilities: Int Msg #0, RPExt+ PoisonedTLP+",
        "6,1,2,-;mlx5_core 0000:d2:00.0: mlx5_cmd_out_err:838:(pid 7): ACCESS_REG(0x805) op_mod(0x1) failed",
        "6,1,2,-;blk_update_request: I/O error, dev fd0, sector 0 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 0",
        "6,1,2,-;Buffer I/O error on dev fd0, logical block 0, async page read",
        "6,1,2,-;Buffer I/O error on device sr0, logical block 508965",
        "6,1,2,-;critical medium error, dev sr0, sector 0 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2",
        "6,1,2,-;ata1: SATA link down (SStatus 0 SControl 300)",
        "6,1,2,-;DMAR: [Firmware Bug]: No firmware reserved region can cover this RMRR, contact BIOS vendor for fixes",
        "6,1,2,-;{1}[Hardware Error]: event severity: corrected",
        "6,1,2,-;pcieport 0000:64:00.0: pciehp: Slot(4-1): Cannot train link: status 0x0001",
        "6,1,2,-;INFO: NMI handler (perf_event_nmi_handler) took too long to run: 1.2 msecs",
        "6,1,2,-;nvidia-gpu 0000:17:00.3: i2c timeout error e0000000",
        "6,1,2,-;acpi device:00: probe of PNP0C14 failed",
        "6,1,2,-;mlx5_core 0000:e1:00.0: mlx5_pcie_event:301:(pid 1): PCIe slot advertised sufficient power (75W).",
        f"6,1,{int(3600e6)},-;pcieport 0000:a9:10.0: pciehp: Slot(272): Link Down/Up ignored (recovered by DPC)",
        "6,1,2,-;x86/amd: Previous system reset reason [0x00080800]: software wrote 0x6 to register 0xCF9",
        "6,1,2,-;NMI watchdog: Shutting down hard lockup detector on all cpus",
        "6,1,2,-;swapper/0: page allocation failure: order:10, mode:0xcc1(GFP_KERNEL|GFP_DMA), nodemask=(null)",
        "6,1,2,-;I/O error, dev loop25, sector 0 op 0x0:(READ) flags 0x80700 phys_seg 1 prio class 0",
        "6,1,2,-;Buffer I/O error on dev loop2, logical block 896, lost async page write",
        "6,1,2,-;blk_update_request: I/O error, dev nvme0n1, sector 16902 op 0x3:(DISCARD) flags 0x800 phys_seg 1",
        "6,1,2,-;I/O error, dev sda, sector 596 op 0x9:(WRITE_ZEROES) flags 0x800 phys_seg 0 prio class 2",
        "no record at all",
        "6,1,x,-;NVRM: Xid (PCI:0000:c1:00): 79",
        "6,1,2,-;",
    ],
)
def test_other_lines_are_of_no_concern(record):
    """What mends itself, and what is no record, is passed over."""
    assert reported([record], now_s=65.0) == []


def test_a_text_of_several_lines_is_read_as_one():
    r"""The kernel writes the ends of its lines as \x0a."""
    text = r"NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:\x0aNVRM: BAR1 is 0M (PCI:0000:13:00)"
    (event,) = reported([f"3,1,2,-;{text}"], now_s=65.0)
    assert event["text"].endswith("device is invalid: BAR1 is 0M (PCI:0000:13:00)")
    assert event["device"] == "0000:13:00"
