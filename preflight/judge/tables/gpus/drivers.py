"""Why does a node have no driver of its GPUs or adapters, as its kernel's log tells it?

Of the modules that a kernel refuses only those matter that a job needs and that were not loaded since: an adapter that
nobody trains over has a driver too, and MLNX_OFED's modules refuse those that came with the kernel.
"""

from __future__ import annotations

from preflight.facts.node import NodeFacts
from preflight.facts.subjects.kernel import LogEvent
from preflight.facts.value import Missing, present
from preflight.knowledge import xids
from preflight.said import joined, said

FIX = (
    "`dkms status` and `modinfo -F vermagic <module>` on the nodes named; build the module for the kernel that runs "
    "(`dkms autoinstall`) and against the OFED that is loaded; where Secure Boot is on, sign it and enroll its key "
    "(`mokutil --import`), or take the distribution's signed package"
)
SOURCE = "kernel/module: check_version, check_modinfo, module_sig_check; NVIDIA/gpu-operator#2868, ROCm/amdgpu#155"
UVM = "nvidia_uvm"  # without which nvidia-smi lists the GPUs, and no program can use them
OF_GPUS = ("nvidia", "amdgpu")
OF_AMDGPU = ("amdkcl", "amdttm", "amd_sched", "amddrm_ttm_helper", "amddrm_buddy", "amdxcp")
TO_GPU_MEMORY = ("nvidia_peermem", "nv_peer_mem", "efa_nv_peermem")
OF_ADAPTERS = (
    "ib_core",
    "ib_uverbs",
    "mlx5_core",
    "mlx5_ib",
    "mlx4_ib",
    "bnxt_re",
    "irdma",
    "efa",
    "hfi1",
    "ionic_rdma",
)
MOST_MODULES = 3


def refused(node: NodeFacts) -> str:
    """The modules that the kernel has refused, where the job needs them and they were not loaded since."""
    events = [event for event in _refused(node) if event.device != UVM and _is_needed(node, event.device)]
    lines = joined(event.text for event in events[:MOST_MODULES])
    return said("the kernel has refused a driver: {lines}", lines) if lines else ""


def without_uvm(node: NodeFacts) -> str:
    """The module that CUDA needs, where the kernel has refused it."""
    line = next((event.text for event in _refused(node) if event.device == UVM and UVM not in _loaded(node)), "")
    return said("CUDA cannot start, for the kernel has refused its module: {line}", line) if line else ""


def unlisted(node: NodeFacts) -> str:
    """What the log says of GPUs that cannot be read, or that no driver lists."""
    devices = node.gpu.devices
    if not isinstance(devices, Missing) and (devices or not node.gpu.has_any()):
        return ""
    is_nvidia = isinstance(devices, Missing) and "nvidia" in devices.missing.lower()
    log = present(node.kernel.log, "kernel log")
    texts = [event.text for event in log if event.kind == "driver" and not (is_nvidia and "amdgpu" in event.text)]
    texts += [xids.text(event) for event in log if event.kind in ("xid", "sxid") and xids.is_fatal(event)]
    causes = [text for text in texts if "probe" not in text] or texts
    return joined(list(dict.fromkeys(causes))[:MOST_MODULES])


def _refused(node: NodeFacts) -> list[LogEvent]:
    return [event for event in present(node.kernel.log, "kernel log") if event.kind == "module"]


def _loaded(node: NodeFacts) -> tuple[str, ...]:
    return present(node.kernel.modules, "kernel modules")


def _is_needed(node: NodeFacts, module: str) -> bool:
    """Whether a job lacks this module; "" is one that the kernel does not name, as it does of keys and signatures."""
    loaded = _loaded(node)
    if module in loaded or not node.gpu.has_any():
        return False
    if module in OF_GPUS or module in OF_AMDGPU or not module:
        return not any(name in loaded for name in OF_GPUS)
    if module in OF_ADAPTERS:
        return node.rdma.devices == ()
    return module in TO_GPU_MEMORY and bool(node.rdma.devices) and node.kernel.gpudirect(node.identity.kernel) == "none"
