"""Do such lines lead to the cause that they speak of?"""

from __future__ import annotations

import pytest

from tests.diagnose.causes.lines import found

LINES = (
    ("CUDA initialization fails with 802 system error", "fabric-manager"),
    ("RuntimeError: CUDA error: out of memory", "gpu-out-of-memory"),
    (
        "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 191.98 GiB",
        "gpu-out-of-memory",
    ),
    ("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", "gpu-out-of-memory"),
    ("RuntimeError: HIP error: no ROCm-capable device is detected", "no-gpu-visible"),
    ("RuntimeError: No HIP GPUs are available", "no-gpu-visible"),
    ("AssertionError: Torch not compiled with CUDA enabled", "no-gpu-visible"),
    ("AttributeError: module 'torch._C' has no attribute '_cuda_setDevice'", "no-gpu-visible"),
    ("RuntimeError: Distributed package doesn't have NCCL built in", "no-gpu-visible"),
    ("RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU", "no-gpu-visible"),
    (
        "RuntimeError: Failed to infer device type, please set the environment variable `VLLM_LOGGING_LEVEL=DEBUG`",
        "no-gpu-visible",
    ),
    ("RuntimeError: The NVIDIA driver on your system is too old (found version 11040).", "driver-too-old"),
    ("RuntimeError: CUDA error: the provided PTX was compiled with an unsupported toolchain.", "driver-too-old"),
    (
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 804: forward compatibility was attempted on non supported HW",
        "driver-too-old",
    ),
    ("RuntimeError: CUDA error: device kernel image is invalid", "no-kernel-image"),
    (
        "NVIDIA H100 PCIe with CUDA capability sm_90 is not compatible with the current PyTorch installation.",
        "no-kernel-image",
    ),
    ("RuntimeError: CUDA error: the launch timed out and was terminated", "cuda-launch-failure"),
    (
        "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx(handle, opa, opb, m, n, k)`",
        "cuda-launch-failure",
    ),
    (
        "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
        "cuda-launch-failure",
    ),
    ("RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED", "cuda-launch-failure"),
    ("RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED", "cuda-launch-failure"),
    ("RuntimeError: CUDA error: unknown error", "cuda-launch-failure"),
    ("RuntimeError: CUDA error: initialization error", "cuda-init-failed"),
    (
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.",
        "cuda-init-failed",
    ),
    ("pynvml.NVMLError_DriverNotLoaded: Driver Not Loaded", "cuda-init-failed"),
    ("RuntimeError: CUDA error: peer mapping resources exhausted", "gpu-peer-access"),
    ("RuntimeError: CUDA error: misaligned address", "gpu-kernel-fault"),
    ("RuntimeError: CUDA error: an illegal instruction was encountered", "gpu-kernel-fault"),
    (
        "OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root.",
        "cuda-version-mismatch",
    ),
    ("RuntimeError: CUDA error: MPS client failed to connect to the MPS control daemon or the MPS server", "cuda-mps"),
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
    ("NVRM: GPU 0000:b3:00.0: RmInitAdapter failed! (0x62:0x40:1931)", "gpu-not-started"),
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
