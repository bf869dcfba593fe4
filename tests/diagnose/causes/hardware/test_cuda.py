"""Do such lines lead to the cause that they speak of?"""

from __future__ import annotations

import pytest

from tests.diagnose.causes.lines import found

LINES = (
    ("CUDA initialization fails with 802 system error", "fabric-manager"),
    ("/x/torch/cuda/__init__.py:611: UserWarning: Can't initialize NVML", "cuda-init-failed"),
    (
        "/x/torch/cuda/__init__.py:129: UserWarning: CUDA initialization: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized",
        "fabric-manager",
    ),
    (
        "/x/torch/cuda/__init__.py:129: UserWarning: CUDA initialization: The NVIDIA driver on your system is too old (found version 11040).",
        "driver-too-old",
    ),
    ("[FATAL ERROR]: HIP failure: 'invalid device pointer'", "gpu-peer-access"),
    ("RuntimeError: CUDA error: invalid device ordinal", "invalid-device-ordinal"),
    ("RuntimeError: No CUDA GPUs are available", "no-gpu-visible"),
    ("ValueError: ProcessGroupNCCL is only supported with GPUs, no GPUs found!", "no-gpu-visible"),
    ("CUDA error: CUDA driver version is insufficient for CUDA runtime version", "driver-too-old"),
    ("Failed to initialize NVML: Driver/library version mismatch", "driver-library-mismatch"),
    (
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized",
        "fabric-manager",
    ),
    ("RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable", "gpu-busy"),
    ("RuntimeError: CUDA error: no kernel image is available for execution on the device", "no-kernel-image"),
    ("nvrtc: error: invalid value for --gpu-architecture (-arch)", "no-kernel-image"),
    ("RuntimeError: CUDA error: unspecified launch failure", "cuda-launch-failure"),
    (
        "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method",
        "cuda-fork",
    ),
    (
        "RuntimeError: The detected CUDA version (12.4) mismatches the version that was used to compile PyTorch (11.8).",
        "cuda-version-mismatch",
    ),
    ("NVRM: GPU 0000:b3:00.0: RmInitAdapter failed! (0x62:0x40:1931)", "cuda-init-failed"),
    (
        "[rank5]: torch.AcceleratorError: CUDA error: MPS server is not ready to accept new MPS client requests",
        "cuda-mps",
    ),
    ("Test HIP failure common.cu:1129 'hipErrorInvalidDevice'", "invalid-device-ordinal"),
    ("failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected", "no-gpu-visible"),
)


@pytest.mark.parametrize(("line", "cause"), LINES)
def test_a_line_leads_to_its_cause(line, cause):
    """Alone, as it stands in the log of one rank."""
    assert found(line) == cause
