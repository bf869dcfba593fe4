"""Which words do accelerators of other makers use?"""

from __future__ import annotations

from preflight.diagnose.cause import Cause, Kind

CAUSES = (
    Cause(
        "neuron-cores-busy",
        "the Neuron cores of the node are held by another process",
        (r"nrt_allocate_neuron_cores",),
        "`neuron-ls` names the process; end what an earlier job left; set NEURON_RT_VISIBLE_CORES where two jobs"
        " share a node",
        "aws-neuron/aws-neuron-sdk, troubleshooting",
        weight=6,
    ),
    Cause(
        "kfd-not-opened",
        "the process may not open an AMD GPU: /dev/kfd or /dev/dri is missing, or the user is not in their group",
        (
            r"unable to open /dev/kfd",
            r"/dev/kfd\b.*(?:no such file|permission denied)",
            r"is not (?:a )?member of \"render\" group",
            r"failed to open /dev/dri/renderd\d+: permission denied",
        ),
        "start the container with `docker run --device=/dev/kfd --device=/dev/dri --group-add render --group-add"
        " video`; on a host run `usermod -aG render,video USER` and log in again; on Kubernetes ask for the"
        " resource amd.com/gpu",
        "ROCm/rocminfo#38; ROCm/rccl-tests#16",
        check="gpu.devices_are_readable",
        weight=6,
    ),
    Cause(
        "rocm-resources",
        "the ROCm runtime did not get what it needs for a queue of an AMD GPU: GPU memory for scratch, threads, open files, or the GPU"
        " itself does not answer",
        (r"hsa_status_error_out_of_resources",),
        "run `rocm-smi --showpids --showmeminfo vram` to see what else holds the GPU, `dmesg -T | grep amdgpu` to see whether it still"
        " answers, and `ulimit -n -u` in the job",
        "StanfordLegion/legion#1339; ROCm/legacy-rocm-build#4226",
        Kind.SUSPICION,
        check="gpu.no_other_program_uses_them",
        weight=5,
    ),
    Cause(
        "xpu-lost",
        "an Intel GPU was reset or lost: its work did not end in time, or its driver failed",
        (
            r"result_error_device_lost",
            r"\bxe \S+: \[drm\] .*(?:engine reset|timedout job|wedged)",
            r"\bi915 \S+: \[drm\] .*(?:gpu hang|resetting)",
        ),
        "`dmesg -T | grep -E 'xe |i915'` and `xpu-smi health -l` on the node; use the same versions of driver, Level Zero and oneCCL on all nodes;"
        " drain the node where it is always the same GPU",
        "intel/torch-xpu-ops#5164; kernel, drivers/gpu/drm/xe",
        Kind.SUSPICION,
        check="gpu.kernel_log_tells_of_no_broken_gpu",
        weight=6,
    ),
    Cause(
        "gaudi-reset",
        "the driver reset a Gaudi device that did not answer any more",
        (r"habanalabs.*going to hard-reset", r"habanalabs.*heartbeat fail\w*"),
        "`dmesg -T | grep habanalabs` and `hl-smi` on the node; drain it where it repeats, update firmware and driver",
        "kernel, drivers/accel/habanalabs",
        weight=8,
    ),
    Cause(
        "gaudi-device",
        "a Gaudi device cannot be acquired: another process holds it, or there are more ranks than devices",
        (r"device acquire failed",),
        "run `hl-smi` on the node named and end what holds the device; set HABANA_VISIBLE_DEVICES and start one"
        " rank a device",
        "HabanaAI/Model-References, troubleshooting",
        weight=6,
    ),
    Cause(
        "npu-task-failed",
        "an Ascend NPU did not finish its work: a task or stream timed out, or a kernel failed; a rank that it waited for may be the one",
        (
            r"\beh9999\b",
            r"\bez9999\b",
            r"\bee9999\b",
            r"runtime result = (?:107\d\d\d|507\d\d\d)",
            r"npu warning, error code is \d+",
            r"\brt\w*synchronize\w* execute failed, reason=",
        ),
        "read the earliest error in the plog of every rank (~/ascend/log); `npu-smi info` shows the device's health; a rank that prints"
        " no such line is the one that did not come",
        "Ascend/pytorch#43, #48; hiascend.com, EE1002",
        Kind.SUSPICION,
        weight=4,
    ),
)
