"""What about a GPU costs speed, or is fragile?

The sources: NVIDIA's "GPU Memory Error Management" (rows, pages), the NVML API reference (slowdown reasons, limits) and
AMD SMI; field cases by their issue.
"""

from __future__ import annotations

from preflight.facts.subjects.gpu import Gpu
from preflight.facts.value import Missing, present
from preflight.judge.tables.faults import Fault
from preflight.judge.tables.gpus.broken import MEMORY, MOST_PAGES_RETIRED, REPLACE, RESET, fabric_reasons, unhealthy
from preflight.said import said
from preflight.said.errors import NotApplicable

MANY_PAGES_RETIRED = 10
MOST_CORRECTED = 10_000_000
NEAR_ITS_LIMIT_CELSIUS = 3.0
WATCH = "watch the GPUs named (`nvidia-smi -q -d ECC,ROW_REMAPPER`), and have them looked at if it comes back"
SLOW_REASONS = {
    "hw_slowdown": "hardware slowdown: its clock is reduced",
    "hw_thermal_slowdown": "thermal slowdown: its clock is reduced",
    "hw_power_brake_slowdown": "power brake: its clock is reduced",
    "sw_thermal_slowdown": "thermal slowdown: its clock is reduced",
    "socket_thermal": "thermal slowdown: its clock is reduced",  # this and what follows: AMD's violations
    "prochot": "the board's hot signal: its clock is reduced",
    "vr_thermal": "its voltage regulators are too hot: its clock is reduced",
    "hbm_thermal": "its memory is too hot: its clock is reduced",
}


def _slowdown(gpu: Gpu) -> str:
    reasons = present(gpu.status.slowdowns, "slowdown reasons")
    return ", ".join(dict.fromkeys(SLOW_REASONS[reason] for reason in reasons if reason in SLOW_REASONS))


def _capped(gpu: Gpu) -> str:
    limit, default = gpu.status.power_limit_watts, present(gpu.status.power_default_watts, "default power limit")
    held = present(limit, "power limit")
    return (
        said("a power limit of {held:g} W, where {default:g} W is its default", held, default)
        if held < 0.99 * default
        else ""
    )


def _corrected(gpu: Gpu) -> str:
    count = present(gpu.status.corrected_errors, "corrected memory errors")
    return said("{count} corrected memory errors in its life", count) if count >= MOST_CORRECTED else ""


def _wearing_pages(gpu: Gpu) -> str:
    count = present(gpu.status.pages_retired, "retired pages")
    is_many = MANY_PAGES_RETIRED < count < MOST_PAGES_RETIRED
    return (
        said("{count} pages retired for errors; {MOST_PAGES_RETIRED} mean a worn board", count, MOST_PAGES_RETIRED)
        * is_many
    )


def _deferred(gpu: Gpu) -> str:
    count = present(gpu.status.deferred_errors, "deferred memory errors")
    return (
        said("{count} memory errors that are reported only when a program reads there (deferred)", count)
        if count
        else ""
    )


def _hot(gpu: Gpu) -> str:
    at = present(gpu.status.temperature_celsius, "temperature")
    limit = present(gpu.status.temperature_limit_celsius, "slowdown temperature")
    return (
        said("{at:g} °C before the job, and it slows down at {limit:g}", at, limit)
        if at >= limit - NEAR_ITS_LIMIT_CELSIUS
        else ""
    )


def _hot_memory(gpu: Gpu) -> str:
    at = present(gpu.status.memory_celsius, "temperature of its memory")
    limit = present(gpu.status.memory_limit_celsius, "slowdown temperature of its memory")
    is_hot = at >= limit - NEAR_ITS_LIMIT_CELSIUS
    return said("its memory is at {at:g} °C before the job, and slows down at {limit:g}", at, limit) if is_hot else ""


def _clock(gpu: Gpu) -> str:
    held = present(gpu.status.clock_mhz, "clock for applications")
    usual = present(gpu.status.clock_default_mhz, "default clock for applications")
    return (
        said("clocks for applications are set to {held:g} MHz, where {usual:g} is the default", held, usual)
        if held < usual
        else ""
    )


def _level(gpu: Gpu) -> str:
    level = present(gpu.status.performance_level, "performance level")
    return "performance level LOW: its clocks are held down" if level == "LOW" else ""


def _xgmi(gpu: Gpu) -> str:
    fault = present(gpu.status.link_fault, "errors of xGMI")
    return said("its xGMI links report {fault}", fault) if fault != "NO_ERRORS" else ""


def _used_up(gpu: Gpu) -> str:
    banks = present(gpu.status.banks_without_spare_rows, "banks without spare rows")
    return said(
        "{banks} banks of its memory have no spare row left: the next broken row cannot be remapped", banks
    ) * bool(banks)


def _nearly_used_up(gpu: Gpu) -> str:
    banks = present(gpu.status.banks_with_one_spare_row, "banks with one spare row")
    return said("{banks} banks of its memory have one spare row left", banks) * bool(banks)


def _limited_fabric(gpu: Gpu) -> str:
    health, found = gpu.status.fabric_health, gpu.status.fabric_faults
    if isinstance(health, Missing):  # then it is in the reasons alone
        reasons = present(found, "health of the NVLink fabric")
        return "" if unhealthy(gpu) or not reasons else said("its NVLink fabric says: {reasons}", ", ".join(reasons))
    return (
        said("its NVLink fabric says: {health}{fabric_reasons}", health, fabric_reasons(gpu))
        if health not in ("Healthy", "Unhealthy")
        else ""
    )


def _exclusive(gpu: Gpu) -> str:
    mode = present(gpu.compute_mode, "compute mode")
    words = "only one process may use it; a rank that opens a second one's GPU ends with 'device is busy'"
    return said("compute mode {mode}: {words}", mode, words) if mode.startswith("Exclusive") else ""


def _ecc_pending(gpu: Gpu) -> str:
    now, then = present(gpu.status.has_ecc, "ECC"), present(gpu.status.has_ecc_pending, "ECC after a reboot")
    return said("ECC will be {then} after a reboot, and is {now}", "on" if then else "off", "on" if now else "off") * (
        now != then
    )


def _mig_pending(gpu: Gpu) -> str:
    now, then = present(gpu.mig_mode, "MIG mode"), present(gpu.status.mig_pending, "MIG mode after a reset")
    return said("MIG will be {then} after a reset, and is {now}", then, now) if now != then else ""


def _width(gpu: Gpu) -> str:
    if isinstance(gpu.pci, Missing):  # a virtual machine may not show the slot: then what the driver says
        now, most = gpu.status.pcie_width, gpu.status.pcie_width_max
    else:
        now, most = gpu.pci.width, gpu.pci.width_max
    now, most = present(now, "link width"), present(most, "link width of the slot")
    return said("PCIe x{now} in a slot for x{most}", now, most) if now < most else ""


def _generation(gpu: Gpu) -> str:
    """Only for a GPU at work: an idle one lowers its link."""
    if present(gpu.status.performance_state, "performance state") != "P0":
        raise NotApplicable("the GPU idles")
    now = present(gpu.status.pcie_generation, "PCIe generation")
    most = present(gpu.status.pcie_generation_max, "largest PCIe generation")
    return said("PCIe generation {now} at work, where {most} is possible", now, most) if now < most else ""


def _unlicensed(gpu: Gpu) -> str:
    held = present(gpu.status.licence, "license")
    return (
        said("its vGPU license says: {held}: it is slowed down after minutes", held)
        if held.startswith("Unlicensed")
        else ""
    )


SLOWED: tuple[Fault[Gpu], ...] = (
    Fault(
        "drain",
        lambda gpu: "the driver recommends to drain and reset it" * present(gpu.status.is_drain_recommended, "drain"),
        RESET,
        "NVML nvmlDeviceGetGpuRecoveryAction",
    ),
    Fault(
        "license of a virtual GPU",
        _unlicensed,
        "point /etc/nvidia/gridd.conf at the license server and restart nvidia-gridd on the nodes named",
        "NVIDIA vGPU Client Licensing User Guide",
    ),
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
    Fault("power limit", _capped, "`nvidia-smi -pl <default>` on the nodes named, unless it is meant", "nvidia-smi -q"),
    Fault("corrected errors", _corrected, WATCH, "Azure NHC 1e7, Meta gcm 5e7"),
    Fault("retired pages", _wearing_pages, WATCH, "Meta gcm: more than 10"),
    Fault("deferred errors", _deferred, "run `amd-smi metric --ecc`, and reset the GPUs named", "AMD SMI: ECC counts"),
    Fault(
        "temperature",
        _hot,
        "look at fans and air flow of the nodes named (`nvidia-smi -q -d TEMPERATURE`, `amd-smi metric -t`)",
        "NVML nvmlDeviceGetTemperatureThreshold; AMD SMI slowdown_hotspot_temperature",
    ),
    Fault(
        "temperature of the memory",
        _hot_memory,
        "look at fans and air flow of the nodes named (`nvidia-smi -q -d TEMPERATURE`, `amd-smi metric -t`)",
        "NVML NVML_FI_DEV_MEMORY_TEMP; AMD SMI slowdown_vram_temperature",
    ),
    Fault(
        "clocks for applications", _clock, "`nvidia-smi -rac` on the nodes named, unless it is meant", "nvidia-smi -q"
    ),
    Fault("performance level", _level, "`amd-smi set --perf-level AUTO` on the nodes named", "AMD SMI: perf_level"),
    Fault(
        "errors of xGMI", _xgmi, "`amd-smi reset --xgmierr`, and replace the board if it comes back", "AMD SMI xgmi_err"
    ),
    Fault("spare rows", _used_up, REPLACE, MEMORY),
    Fault("last spare rows", _nearly_used_up, WATCH, MEMORY),
    Fault("NVLink fabric", _limited_fabric, WATCH, "NVML nvmlGpuFabricInfoV"),
    Fault(
        "InfoROM",
        lambda gpu: "its InfoROM is corrupted: what it remembers of errors is lost" * gpu.status.is_inforom_corrupted,
        REPLACE,
        "nvidia-smi: WARNING: infoROM is corrupted",
    ),
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
