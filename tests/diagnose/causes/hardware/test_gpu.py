"""Do lines of GPUs and CUDA lead to the cause that they speak of?"""

from __future__ import annotations

import pytest

from preflight.diagnose import diagnose
from preflight.knowledge import xids
from tests.diagnose.causes.lines import found

LINES = (
    (
        "NVRM: Xid (PCI:0000:3b:00): 64, pid='<unknown>', name=<unknown>, Row Remapper Error: (0x00000001) - Failed to remap row",
        "gpu-memory-error",
    ),
    ("[  100.0] amdgpu 0000:03:00.0: amdgpu: GPU hang detected", "gpu-reset"),
    (
        "NVRM: nvAssertOkFailedNoLog: Assertion failed: Reset required [NV_ERR_RESET_REQUIRED] (0x00000062) returned from status @ kernel_channel.c:2874",
        "gpu-waits-for-reset",
    ),
    ("nvmlDeviceGetMemoryInfo failed: GPU requires reset", "gpu-waits-for-reset"),
    (
        "|CCL_ERROR| worker.cpp:338 oneCCL: ze_call.cpp:28 do_call: EXCEPTION: ze error at zeCommandQueueExecuteCommandLists, code: ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY",
        "gpu-out-of-memory",
    ),
    ("amdgpu 0000:83:00.0: amdgpu: ASIC reset failed with error, -121 for drm dev, 0000:83:00.0", "gpu-reset"),
    ("amdgpu 0000:03:00.0: amdgpu: SMU: response:0xFFFFFFFF for index:47 param:0x0 message:Mode1Reset?", "gpu-reset"),
    ("amdgpu 0000:65:00.0: amdgpu: MES failed to respond to msg=REMOVE_QUEUE", "gpu-reset"),
    (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.15 GiB",
        "gpu-out-of-memory",
    ),
    ("kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=812, GPU has fallen off the bus.", "gpu-fell-off-the-bus"),
    ("NVRM: Xid (PCI:0000:9b:00): 48, pid='<unknown>', name=<unknown>, DBE (double bit error)", "gpu-memory-error"),
    ("NVRM: Xid (PCI:0000:9b:00): 94, pid=99, Contained: SM", "gpu-memory-error"),
    ("NVRM: Xid (PCI:0000:18:00): 74, NVLink: fatal error detected on link 4", "nvlink-error"),
    (
        "NVRM: Xid (PCI:0000:18:00): 119, pid=2310, Timeout after 6s of waiting for RPC response from GPU0 GSP!",
        "gpu-firmware-error",
    ),
    ("RuntimeError: CUDA error: an illegal memory access was encountered", "gpu-kernel-fault"),
    ("RuntimeError: CUDA error: device-side assert triggered", "device-side-assert"),
    (
        "NVRM: Xid (PCI:0000:cb:00): 109, pid=17, name=pt_main_thread, Ch 00000008, errorString CTX SWITCH TIMEOUT",
        "gpu-kernel-fault",
    ),
    ("NVRM: Xid (PCI:0019:01:00): 149, NETIR Fatal XC0 i0 Link -1", "nvlink-error"),
    ("NVRM: Xid (PCI:0019:01:00): 62, pid=3", "gpu-xid"),
    ("NVRM: Xid (PCI:0019:01:00): 45, pid=3, Ch 00000001", ""),
    ("               NVRM: fallen off the bus and is not responding to commands.", "gpu-fell-off-the-bus"),
    (
        "kernel: NVRM: Xid (PCI:0000:dc:00): 45, pid=9, name=python3, Ch 00000001 caused by previous Xid 149",
        "nvlink-error",
    ),
    ("kernel: NVRM: Xid (PCI:0000:dc:00): 45, pid=9, name=python3, Ch 00000001 caused by previous Xid 45", ""),
    (
        "[rank5]: RuntimeError: CUDA error: Invalid access of peer GPU memory over nvlink or a hardware error",
        "gpu-contained-error",
    ),
    ("[rank5]: torch.AcceleratorError: CUDA error: too many resources requested for launch", "program-error"),
    (
        "n1:1:2 [0] NCCL WARN Cuda failure 717 'operation not supported on global/shared address space'",
        "gpu-kernel-fault",
    ),
    ("n1: Test CUDA failure common.cu:891 'out of memory'", "gpu-out-of-memory"),
    ("NVRM: Xid (PCI:0000:17:00): 171, Uncorrectable DRAM error", "gpu-memory-error"),
    ("NVRM: Xid (PCI:0000:17:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)", ""),
    (
        "amdgpu 0000:05:00.0: amdgpu: [gfxhub0] retry page fault (src_id:0 ring:0 vmid:8 pasid:32770)",
        "gpu-kernel-fault",
    ),
    ("HW Exception by GPU node-5 (Agent handle: 0x5581f4a0e270) reason :GPU Hang", "gpu-reset"),
)


@pytest.mark.parametrize(("line", "cause"), LINES)
def test_a_line_leads_to_its_cause(line, cause):
    """Alone, as it stands in the log of one rank."""
    assert found(line) == cause


@pytest.mark.parametrize("code", sorted(set(xids.WEARING) - {94}))
def test_wear_of_a_gpu_is_no_cause(code):
    """As the checks warn of it and no more; after Xid 94 the program that met it is ended."""
    assert not diagnose([f"NVRM: Xid (PCI:0000:8f:00): {code}, pid=7, name=python"]).causes


@pytest.mark.parametrize("code", sorted(set(xids.BROKEN) - set(xids.NVLINK5)))
def test_a_broken_gpu_is_a_cause(code):
    """Whatever Xid the checks fail on."""
    assert diagnose([f"NVRM: Xid (PCI:0000:8f:00): {code}, pid=7, name=python"]).causes


def test_wrong_results_are_a_cause():
    """As nccl-tests counts them; none is what a healthy run prints."""
    assert found("# Out of bounds values : 248 FAILED") == "wrong-results"
    assert not found("# Out of bounds values : 0 OK")
