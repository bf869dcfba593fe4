"""Do lines of the kernel lead to the cause that they speak of?"""

from __future__ import annotations

import pytest

from tests.diagnose.causes.lines import found

LINES = (
    ("[  7.0] mlx5_core 0000:3b:00.0 eth0: Link down", "link-down"),
    ("systemd-networkd[812]: eth0: Lost carrier", "link-down"),
    ("nfs: server filer not responding, timed out", "nfs-not-responding"),
    ("OSError: [Errno 107] Transport endpoint is not connected: '/mnt/data'", "nfs-not-responding"),
    ("OSError: [Errno 108] Cannot send after transport endpoint shutdown: '/scratch/x'", "nfs-not-responding"),
    ("cp: cannot stat '/data/x': Input/output error", "io-error"),
    ("The system is going down for reboot NOW!", "node-rebooted"),
    ("kernel.hung_task_all_cpu_backtrace = 0", ""),
    ("<6>[    2.875476] ata3: SATA link down (SStatus 0 SControl 300)", ""),
    ("May  7 10:11:12 n3 kernel: mlx5_core 0000:17:00.0 ib0: NIC Link is Down", "link-down"),
    ("May  7 10:11:12 n3 kernel: mlx5_core 0000:17:00.0: health compromised - reached miss count", "nic-driver-error"),
    ("kernel: mce: [Hardware Error]: Machine check events logged", "machine-check"),
    ("kernel: pcieport 0000:16:02.0: AER: Uncorrected (Fatal) error received", "pcie-error"),
    ("kernel: INFO: task python:4242 blocked for more than 120 seconds.", "task-blocked"),
    ("kernel: nfs: server store1 not responding, still trying", "nfs-not-responding"),
    ("OSError: [Errno 116] Stale file handle: '/home/u/run'", "stale-file"),
    ("kernel: blk_update_request: I/O error, dev sdb, sector 2048", "disk-error"),
    ("kernel: nf_conntrack: table full, dropping packet", "conntrack-full"),
    ("systemd[1]: Reached target Shutdown.", "node-rebooted"),
    ("[ERROR] [tid 9] detected NVSwitch fatal error 20034 on fid 0", "fabricmanager-fatal"),
    ("[ERROR] [tid 9] detected NVSwitch non-fatal error 12028 on fid 0", "nvswitch-nonfatal"),
    ("infiniband efa_0: Failed to process command ALLOC_PD (opcode 14) comp_status 1 err -12", "efa-device-full"),
    ("amdgpu 0000:68:00.0: {1}uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!", "gpu-hardware-error"),
    ("amdgpu 0000:68:00.0: amdgpu: 0 uncorrectable hardware errors detected in total in umc block", ""),
    (
        "[n7:3549:0:3549] cma_ep.c:84 process_vm_readv(pid=3550 {0x24,124}-->{0x1b,124}) returned -1: Operation not permitted",
        "process-memory-refused",
    ),
    (
        "n7:rank1: Assertion failure at psm3/ptl_am/ptl.c:196: nbytes == req->req_data.recv_msglen",
        "process-memory-refused",
    ),
    ("nvidia-nvswitch1: SXid (PCI:0000:84:00.0): 12028, Data {0x000001c0, 0x00bd5c8a}", "nvswitch-error"),
    ("nvidia-nvswitch1: SXid (PCI:0000:84:00.0): 12028, Non-fatal, Link 46 egress PRIV error", "nvswitch-nonfatal"),
    (
        "mlx5_core 0000:17:00.0: mlx5_cmd_out_err:803:(pid 2231): ACCESS_REG(0x805) op_mod(0x0) failed, status bad parameter(0x3), syndrome (0x154d1c), err(-22)",
        "",
    ),
    ("mlx5_core 0000:17:00.0: mlx5_health_try_recover:330:(pid 11): handling bad device here", "nic-driver-error"),
    (
        "pcieport 0000:00:03.0: AER: Multiple Uncorrectable (Non-Fatal) error message received from 0000:17:00.0",
        "pcie-error",
    ),
    ("NMI watchdog: Watchdog detected hard LOCKUP on cpu 3", "task-blocked"),
    ("OSError: [Errno 5] Input/output error: '/data/part-7'", "io-error"),
    (
        "safetensors_rust.SafetensorError: Error while serializing: I/O error: Input/output error (os error 5)",
        "io-error",
    ),
)


@pytest.mark.parametrize(("line", "cause"), LINES)
def test_a_line_leads_to_its_cause(line, cause):
    """Alone, as it stands in the log of one rank."""
    assert found(line) == cause
