"""What can be wrong with a GPU, and which of its facts should be the same on all nodes?

A row in BROKEN stops a job or makes it wrong, one in SLOWED costs speed or is fragile. The sources: NVIDIA's "GPU
Memory Error Management" (rows, pages, RMA), "Xid Errors" (what to do after each), "Fabric Manager User Guide" and the
NVML API reference (states, slowdown reasons); field cases by their issue.
"""

from __future__ import annotations

from preflight.errors import FactMissing
from preflight.facts.cluster import Row
from preflight.facts.node import NodeFacts
from preflight.facts.subjects.gpu import Gpu
from preflight.facts.value import Missing, present
from preflight.tables.faults import Fault

MEMORY = "NVIDIA GPU Memory Error Management"
MOST_ROWS_REMAPPED = 512  # as many as there are to remap to
MOST_PAGES_RETIRED = 60  # from here on NVIDIA takes the board back
RESET = "end all programs on the GPU and `nvidia-smi --gpu-reset -i <index>`, or reboot the nodes named"
REPLACE = "take the nodes named out and have the GPU replaced (`nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT`)"
SLOW_REASONS = {
    "hw_slowdown": "hardware slowdown: its clock is reduced",
    "hw_thermal_slowdown": "thermal slowdown: its clock is reduced",
    "hw_power_brake_slowdown": "power brake: its clock is reduced",
    "sw_thermal_slowdown": "thermal slowdown: its clock is reduced",
}


def _uncorrected(gpu: Gpu) -> str:
    count = present(gpu.status.uncorrected_errors, "uncorrected errors")
    return f"{count} memory errors that could not be corrected since the driver was loaded" if count else ""


def _pages(gpu: Gpu) -> str:
    count = present(gpu.status.pages_retired, "retired pages")
    return f"{count} pages retired for errors; {MOST_PAGES_RETIRED} mean a worn board" * (count >= MOST_PAGES_RETIRED)


def _rows(gpu: Gpu) -> str:
    count = present(gpu.status.rows_remapped, "remapped rows")
    return f"{count} rows remapped, of {MOST_ROWS_REMAPPED} at most" * (count >= MOST_ROWS_REMAPPED)


def _flag(field: str, words: str) -> Fault[Gpu]:
    """A row for a flag of the status that should not be set."""

    def message(gpu: Gpu) -> str:
        return words if present(getattr(gpu.status, field), words) else ""

    return Fault(words, message, RESET if "pending" in words or "reset" in words else REPLACE, MEMORY)


def _recovery(gpu: Gpu) -> str:
    action = present(gpu.status.recovery, "recovery action")
    return f"the driver asks for: {action}" if action != "None" else ""


def _fabric(gpu: Gpu) -> str:
    state = present(gpu.status.fabric_state, "fabric state")
    status = gpu.status.fabric_status
    if state != "Completed":
        return f"it has not joined the NVLink fabric: {state}; wanted Completed"
    failed = not isinstance(status, Missing) and status != "Success"
    return f"it joined the NVLink fabric with an error: {status}" if failed else ""


def _prohibited(gpu: Gpu) -> str:
    mode = present(gpu.compute_mode, "compute mode")
    return "compute mode Prohibited: no program may use it" if mode == "Prohibited" else ""


BROKEN = (
    Fault("uncorrected memory errors", _uncorrected, RESET, MEMORY),
    _flag("has_remapping_failed", "a broken row of memory could not be remapped"),
    _flag("is_remapping_pending", "the remapping of a broken row of memory is pending until the GPU is reset"),
    _flag("is_retirement_pending", "the retirement of a broken page is pending until the GPU is reset"),
    _flag("is_memory_beyond_repair", "its memory cannot be repaired"),
    _flag("is_sram_worn", "more SRAM errors than its vendor allows"),
    _flag("needs_reset", "the driver asks for a reset"),
    Fault("retired pages", _pages, REPLACE, MEMORY),
    Fault("remapped rows", _rows, REPLACE, MEMORY),
    Fault("recovery action", _recovery, RESET, "NVML nvmlDeviceGetGpuRecoveryAction"),
    Fault(
        "NVLink fabric",
        _fabric,
        "`systemctl enable --now nvidia-fabricmanager` in the driver's own version on the nodes named; read "
        "/var/log/fabricmanager.log",
        "NVIDIA/nccl-tests#264, aws-deep-learning-ami-ubuntu-dcv-desktop#33",
    ),
    Fault("compute mode", _prohibited, "`nvidia-smi -c 0` on the nodes named", "NVML nvmlComputeMode"),
)


def _slowdown(gpu: Gpu) -> str:
    reasons = present(gpu.status.slowdowns, "slowdown reasons")
    return ", ".join(dict.fromkeys(SLOW_REASONS[reason] for reason in reasons if reason in SLOW_REASONS))


def _exclusive(gpu: Gpu) -> str:
    mode = present(gpu.compute_mode, "compute mode")
    words = "only one process may use it; a rank that opens a second one's GPU ends with 'device is busy'"
    return f"compute mode {mode}: {words}" if mode.startswith("Exclusive") else ""


def _ecc_pending(gpu: Gpu) -> str:
    now, then = present(gpu.status.has_ecc, "ECC"), present(gpu.status.has_ecc_pending, "ECC after a reboot")
    return f"ECC will be {'on' if then else 'off'} after a reboot, and is {'on' if now else 'off'}" * (now != then)


def _mig_pending(gpu: Gpu) -> str:
    now, then = present(gpu.mig_mode, "MIG mode"), present(gpu.status.mig_pending, "MIG mode after a reset")
    return f"MIG will be {then} after a reset, and is {now}" if now != then else ""


def _width(gpu: Gpu) -> str:
    function = present(gpu.pci, "PCI function")
    now, most = present(function.width, "link width"), present(function.width_max, "link width of the slot")
    return f"PCIe x{now} in a slot for x{most}" if now < most else ""


def _generation(gpu: Gpu) -> str:
    """Only for a GPU at work: an idle one lowers its link."""
    if present(gpu.status.performance_state, "performance state") != "P0":
        raise FactMissing("PCIe generation", "the GPU idles", "absent")
    now = present(gpu.status.pcie_generation, "PCIe generation")
    most = present(gpu.status.pcie_generation_max, "largest PCIe generation")
    return f"PCIe generation {now} at work, where {most} is possible" if now < most else ""


SLOWED: tuple[Fault[Gpu], ...] = (
    Fault(
        "slowdown",
        _slowdown,
        "look at fans, air flow and power supply of the nodes named (`nvidia-smi -q -d PERFORMANCE,TEMPERATURE`)",
        "NVML nvmlClocksEventReasons",
    ),
    Fault(
        "exclusive compute mode",
        _exclusive,
        "`nvidia-smi -c 0` on the nodes named, or torch.cuda.set_device(local_rank) before anything else of CUDA",
        "karpathy/nanoGPT#116",
    ),
    Fault("ECC", _ecc_pending, "reboot the nodes named", MEMORY),
    Fault("MIG", _mig_pending, "`nvidia-smi --gpu-reset` or reboot the nodes named", "NVIDIA MIG User Guide"),
    Fault(
        "repair of memory",
        lambda gpu: "a repair of its memory is pending" if present(gpu.status.is_repair_pending, "repair") else "",
        RESET,
        MEMORY,
    ),
    Fault(
        "PCIe width",
        _width,
        "reseat the GPU or its riser on the nodes named; set the slot's bifurcation in the BIOS",
        "sysfs current_link_width, max_link_width of device and slot",
    ),
    Fault(
        "PCIe generation",
        _generation,
        "reseat the GPU or its riser on the nodes named; set the slot's speed to Auto in the BIOS",
        "NVML nvmlDeviceGetCurrPcieLinkGeneration",
    ),
)


def driver_runs(*, cuda_of_driver: str, cuda_of_torch: str) -> bool:
    """Whether a driver runs programs of a CUDA version: since CUDA 11 any of the same major version, or older."""
    driver, torch = (tuple(int(part) for part in text.split(".")[:2]) for text in (cuda_of_driver, cuda_of_torch))
    return torch[0] <= driver[0] if driver[0] >= 11 else torch <= driver


def of_all(node: NodeFacts, field: str, fact: str, *, unit: str = "") -> str:
    """The values that the GPUs of a node have in a field of their status."""
    found = []
    for gpu in node.gpu.readable():
        value = getattr(gpu.status, field)
        if isinstance(value, Missing) and value.kind == "absent":
            continue
        found.append(present(value, fact))
    if not found:
        raise FactMissing(fact, "no GPU reports it", "absent")
    if isinstance(found[0], bool):
        return ", ".join(sorted({"on" if value else "off" for value in found}))
    return ", ".join(f"{value:g}{unit}" for value in sorted(set(found)))


SAME = (
    Row(
        "power limit",
        lambda node: of_all(node, "power_limit_watts", "power limit", unit=" W"),
        "`nvidia-smi -pl <the others' limit>` on the nodes named: the slowest GPU sets the pace of all",
    ),
    Row(
        "persistence mode",
        lambda node: of_all(node, "is_persistent", "persistence mode"),
        "`systemctl enable --now nvidia-persistenced` on the nodes named: without it every start waits for the driver",
    ),
    Row(
        "ECC",
        lambda node: of_all(node, "has_ecc", "ECC"),
        "`nvidia-smi -e 1` on all nodes, and reboot: ECC takes memory and bandwidth, so all should have it on, or none",
    ),
    Row(
        "largest PCIe generation",
        lambda node: of_all(node, "pcie_generation_max", "largest PCIe generation"),
        "set the slots' speed to Auto in the BIOS of the nodes named",
    ),
    Row(
        "PCIe width",
        lambda node: of_all(node, "pcie_width", "PCIe width", unit=" lanes"),
        "reseat the GPUs or their risers on the nodes named",
    ),
)
# Xids after which NVIDIA's "Xid Errors" asks for a reset, a reboot or another board; the rest are the program's own.
XIDS = {
    46: "GPU stopped processing",
    48: "double-bit ECC error",
    62: "internal micro-controller halt",
    63: "row remapping recorded",
    64: "row remapping failed",
    74: "NVLink error",
    79: "GPU has fallen off the bus",
    92: "high single-bit ECC error rate",
    94: "contained memory error",
    95: "uncontained memory error",
    109: "context switch time-out",
    119: "GSP did not answer",
    120: "GSP error",
    136: "ALI training failed",
    140: "unrecovered ECC error",
    143: "GPU initialisation failed",
    144: "NVLink SAW error",
    145: "NVLink RLW error",
    146: "NVLink TLW error",
    147: "NVLink TREX error",
    148: "NVLink NVLPW error",
    149: "NVLink NETIR error",
    150: "NVLink MSE error",
    154: "recovery action changed",
}
LOG_SECONDS = 24 * 3600.0


def _driver(node: NodeFacts) -> str:
    if not node.gpu.readable():
        raise FactMissing("driver", "no GPU", "absent")
    wanted, most = node.software.library_of_torch("torch_cuda"), present(node.gpu.cuda_driver, "CUDA of the driver")
    if wanted == "none" or driver_runs(cuda_of_driver=most, cuda_of_torch=wanted):
        return ""
    driver = present(node.gpu.driver, "driver")
    return f"torch is built for CUDA {wanted}; driver {driver} runs CUDA {most} at most"


def _fabric_manager(node: NodeFacts) -> str:
    if not node.gpu.switches:
        raise FactMissing("NVSwitch", "none", "absent")
    if node.gpu.is_joined() or present(node.gpu.fabric_manager, "Fabric Manager"):
        return ""
    return f"{node.gpu.switches} NVSwitches, and nvidia-fabricmanager does not run"


def _logged(node: NodeFacts) -> str:
    if not node.gpu.readable():
        raise FactMissing("kernel log", "no GPU", "absent")
    events = node.kernel.events("xid", within_seconds=LOG_SECONDS)
    xids = [f"Xid {event.code} ({XIDS[event.code]}) of {event.device}" for event in events if event.code in XIDS]
    others = [event.text for event in node.kernel.events("driver", within_seconds=LOG_SECONDS)]
    return "; ".join(dict.fromkeys([*xids, *others]))


def _busy(node: NodeFacts) -> str:
    busy = [str(gpu.index) for gpu in node.gpu.readable() if gpu.is_busy()]
    return f"other programs use GPU {', '.join(busy)}" if busy else ""


# Rows about a node as a whole; an empty fix is the check's own.
DRIVER = (Fault("driver", _driver, "", "CUDA Compatibility: minor version compatibility; NVIDIA/nccl-tests#98"),)
FABRIC = (Fault("Fabric Manager", _fabric_manager, "", "NVIDIA/nccl-tests#264"),)
LOG = (Fault("kernel log", _logged, "", "NVIDIA Xid Errors"),)
BUSY = (Fault("other programs", _busy, "", "nvidia-smi --query-compute-apps"),)
