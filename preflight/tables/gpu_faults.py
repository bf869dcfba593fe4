"""What can be wrong with a GPU, and which of its facts should be the same on all nodes?

A row in BROKEN stops a job or makes it wrong, one in SLOWED costs speed or is fragile. The sources: NVIDIA's "GPU
Memory Error Management" (rows, pages, RMA), "Xid Errors" (what to do after each), "Fabric Manager User Guide" and the
NVML API reference (states, slowdown reasons); field cases by their issue.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from preflight.errors import Blame, FactMissing, NotApplicable
from preflight.facts.cluster import Cluster, Row
from preflight.facts.node import NodeFacts
from preflight.facts.subjects.gpu import Gpu, LinkErrors, without_domain_zeros
from preflight.facts.subjects.kernel import LogEvent
from preflight.facts.value import Missing, present
from preflight.tables import xids
from preflight.tables.faults import Fault, values_by_node

MEMORY = "NVIDIA GPU Memory Error Management"
MOST_ROWS_REMAPPED = 512  # as many as there are to remap to
MOST_PAGES_RETIRED = 60  # from here on NVIDIA takes the board back
MANY_PAGES_RETIRED = 10
MOST_CORRECTED = 10_000_000
NEAR_ITS_LIMIT_CELSIUS = 3.0
RESET = "end all programs on the GPU and `nvidia-smi --gpu-reset -i <index>`, or reboot the nodes named"
REPLACE = "take the nodes named out and have the GPU replaced (`nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT`)"
WATCH = "watch the GPUs named (`nvidia-smi -q -d ECC,ROW_REMAPPER`), and have them looked at if it comes back"
GRAVE_FABRIC_FAULTS = ("route unhealthy", "incorrect configuration")
MANY_UNANSWERED = 3  # healthy GPUs of some drivers have one
LOOK_AT_AMD = (
    "`amd-smi metric --ecc` and `amd-smi bad-pages` on the nodes named; reboot, and replace the GPU if it comes back"
)
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


def _uncorrected(gpu: Gpu) -> str:
    count = present(gpu.status.uncorrected_errors, "uncorrected errors")
    return f"{count} memory errors that could not be corrected since the driver was loaded" if count else ""


def _pages(gpu: Gpu) -> str:
    count = present(gpu.status.pages_retired, "retired pages")
    return f"{count} pages retired for errors; {MOST_PAGES_RETIRED} mean a worn board" * (count >= MOST_PAGES_RETIRED)


def _rows(gpu: Gpu) -> str:
    count = present(gpu.status.rows_remapped, "remapped rows")
    return f"{count} rows remapped, of {MOST_ROWS_REMAPPED} at most" * (count >= MOST_ROWS_REMAPPED)


def _flag(field: str, name: str, words: str) -> Fault[Gpu]:
    """A row for a flag of the status that should not be set."""

    def message(gpu: Gpu) -> str:
        return words if present(getattr(gpu.status, field), name) else ""

    return Fault(name, message, RESET if "pending" in words or "reset" in words else REPLACE, MEMORY)


def _recovery(gpu: Gpu) -> str:
    action = present(gpu.status.recovery, "recovery action")
    return f"the driver asks for: {action}" if action != "None" else ""


def _fabric(gpu: Gpu) -> str:
    state = present(gpu.status.fabric_state, "fabric state")
    status = gpu.status.fabric_status
    if state != "Completed":
        return f"it has not joined the NVLink fabric: {state}; wanted Completed"
    if isinstance(status, Missing):
        status = "Success" if status.kind == "absent" else status.missing  # "Unknown Error" is a status too
    return f"it joined the NVLink fabric with an error: {status}" if status != "Success" else ""


def _unhealthy(gpu: Gpu) -> str:
    """By its summary; drivers before 570 or so have none, and an unhealthy route or a wrong cable says enough."""
    health, found = gpu.status.fabric_health, gpu.status.fabric_faults
    if isinstance(health, Missing) and isinstance(found, Missing):
        raise FactMissing("health of the NVLink fabric", health.missing, health.kind)
    grave = () if isinstance(found, Missing) else [one for one in found if one.startswith(GRAVE_FABRIC_FAULTS)]
    is_unhealthy = health == "Unhealthy" or (isinstance(health, Missing) and grave)
    return f"its NVLink fabric is unhealthy{_reasons(gpu)}" if is_unhealthy else ""


def _reasons(gpu: Gpu) -> str:
    found = gpu.status.fabric_faults
    return f" ({', '.join(found)})" if not isinstance(found, Missing) and found else ""


def _unanswered(gpu: Gpu) -> str:
    found = gpu.status.unanswered
    if not found:  # a GPU without any report has none either
        raise NotApplicable("the driver reports no error")
    is_lost = any("lost" in one.lower() or "requires reset" in one.lower() for one in found)
    return f"its driver gets no answer: {_some(found)}" if is_lost or len(found) >= MANY_UNANSWERED else ""


def _some(words: tuple[str, ...]) -> str:
    more = len(words) - MANY_UNANSWERED
    return ", ".join(words[:MANY_UNANSWERED]) + (f" and {more} more" if more > 0 else "")


def _prohibited(gpu: Gpu) -> str:
    mode = present(gpu.compute_mode, "compute mode")
    return "compute mode Prohibited: no program may use it" if mode == "Prohibited" else ""


BROKEN: tuple[Fault[Gpu], ...] = (
    Fault("uncorrected memory errors", _uncorrected, RESET, MEMORY),
    _flag("has_remapping_failed", "remapping of memory rows", "a broken row of memory could not be remapped"),
    _flag(
        "is_remapping_pending",
        "pending remapping of memory rows",
        "the remapping of a broken row of memory is pending until the GPU is reset",
    ),
    _flag(
        "is_retirement_pending",
        "pending retirement of memory pages",
        "the retirement of a broken page is pending until the GPU is reset",
    ),
    _flag("is_memory_beyond_repair", "unrepairable memory", "its memory cannot be repaired"),
    _flag("is_sram_worn", "SRAM error threshold", "more SRAM errors than its vendor allows"),
    _flag("needs_reset", "request for a reset", "the driver asks for a reset"),
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
    Fault(
        "health of the NVLink fabric",
        _unhealthy,
        "`nvidia-smi -q | grep -A12 Fabric` on the nodes named; read /var/log/fabricmanager.log, reset the GPUs",
        "NVML nvmlGpuFabricInfoV",
    ),
    Fault("answers of the driver", _unanswered, RESET, "nvidia-smi: Unknown Error, GPU is lost"),
    Fault("compute mode", _prohibited, "`nvidia-smi -c 0` on the nodes named", "NVML nvmlComputeMode"),
)


def _slowdown(gpu: Gpu) -> str:
    reasons = present(gpu.status.slowdowns, "slowdown reasons")
    return ", ".join(dict.fromkeys(SLOW_REASONS[reason] for reason in reasons if reason in SLOW_REASONS))


def _capped(gpu: Gpu) -> str:
    limit, default = gpu.status.power_limit_watts, present(gpu.status.power_default_watts, "default power limit")
    held = present(limit, "power limit")
    return f"a power limit of {held:g} W, where {default:g} W is its default" if held < 0.99 * default else ""


def _corrected(gpu: Gpu) -> str:
    count = present(gpu.status.corrected_errors, "corrected memory errors")
    return f"{count} corrected memory errors in its life" if count >= MOST_CORRECTED else ""


def _wearing_pages(gpu: Gpu) -> str:
    count = present(gpu.status.pages_retired, "retired pages")
    is_many = MANY_PAGES_RETIRED < count < MOST_PAGES_RETIRED
    return f"{count} pages retired for errors; {MOST_PAGES_RETIRED} mean a worn board" * is_many


def _deferred(gpu: Gpu) -> str:
    count = present(gpu.status.deferred_errors, "deferred memory errors")
    return f"{count} memory errors that are reported only when a program reads there (deferred)" if count else ""


def _hot(gpu: Gpu) -> str:
    at = present(gpu.status.temperature_celsius, "temperature")
    limit = present(gpu.status.temperature_limit_celsius, "slowdown temperature")
    return f"{at:g} °C before the job, and it slows down at {limit:g}" if at >= limit - NEAR_ITS_LIMIT_CELSIUS else ""


def _hot_memory(gpu: Gpu) -> str:
    at = present(gpu.status.memory_celsius, "temperature of its memory")
    limit = present(gpu.status.memory_limit_celsius, "slowdown temperature of its memory")
    is_hot = at >= limit - NEAR_ITS_LIMIT_CELSIUS
    return f"its memory is at {at:g} °C before the job, and slows down at {limit:g}" if is_hot else ""


def _clock(gpu: Gpu) -> str:
    held = present(gpu.status.clock_mhz, "clock for applications")
    usual = present(gpu.status.clock_default_mhz, "default clock for applications")
    return f"clocks for applications are set to {held:g} MHz, where {usual:g} is the default" if held < usual else ""


def _level(gpu: Gpu) -> str:
    level = present(gpu.status.performance_level, "performance level")
    return "performance level LOW: its clocks are held down" if level == "LOW" else ""


def _xgmi(gpu: Gpu) -> str:
    fault = present(gpu.status.link_fault, "errors of xGMI")
    return f"its xGMI links report {fault}" if fault != "NO_ERRORS" else ""


def _used_up(gpu: Gpu) -> str:
    banks = present(gpu.status.banks_without_spare_rows, "banks without spare rows")
    return f"{banks} banks of its memory have no spare row left: the next broken row cannot be remapped" * bool(banks)


def _nearly_used_up(gpu: Gpu) -> str:
    banks = present(gpu.status.banks_with_one_spare_row, "banks with one spare row")
    return f"{banks} banks of its memory have one spare row left" * bool(banks)


def _limited_fabric(gpu: Gpu) -> str:
    health, found = gpu.status.fabric_health, gpu.status.fabric_faults
    if isinstance(health, Missing):  # then it is in the reasons alone
        reasons = present(found, "health of the NVLink fabric")
        return "" if _unhealthy(gpu) or not reasons else f"its NVLink fabric says: {', '.join(reasons)}"
    return f"its NVLink fabric says: {health}{_reasons(gpu)}" if health not in ("Healthy", "Unhealthy") else ""


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
    if isinstance(gpu.pci, Missing):  # a virtual machine may not show the slot: then what the driver says
        now, most = gpu.status.pcie_width, gpu.status.pcie_width_max
    else:
        now, most = gpu.pci.width, gpu.pci.width_max
    now, most = present(now, "link width"), present(most, "link width of the slot")
    return f"PCIe x{now} in a slot for x{most}" if now < most else ""


def _generation(gpu: Gpu) -> str:
    """Only for a GPU at work: an idle one lowers its link."""
    if present(gpu.status.performance_state, "performance state") != "P0":
        raise NotApplicable("the GPU idles")
    now = present(gpu.status.pcie_generation, "PCIe generation")
    most = present(gpu.status.pcie_generation_max, "largest PCIe generation")
    return f"PCIe generation {now} at work, where {most} is possible" if now < most else ""


def _unlicensed(gpu: Gpu) -> str:
    held = present(gpu.status.licence, "licence")
    return f"its vGPU licence says: {held}: it is slowed down after minutes" if held.startswith("Unlicensed") else ""


SLOWED: tuple[Fault[Gpu], ...] = (
    Fault(
        "drain",
        lambda gpu: "the driver recommends to drain and reset it" * present(gpu.status.is_drain_recommended, "drain"),
        RESET,
        "NVML nvmlDeviceGetGpuRecoveryAction",
    ),
    Fault(
        "licence of a virtual GPU",
        _unlicensed,
        "point /etc/nvidia/gridd.conf at the licence server and restart nvidia-gridd on the nodes named",
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
    Fault("deferred errors", _deferred, "`amd-smi metric --ecc` and a reset of the GPUs named", "AMD SMI: ECC counts"),
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


def driver_runs(*, cuda_of_driver: str, cuda_of_torch: str) -> bool:
    """Whether a driver runs programs of a CUDA version: since CUDA 11 any of the same major version, or older."""
    driver, torch = (tuple(int(part) for part in text.split(".")[:2]) for text in (cuda_of_driver, cuda_of_torch))
    return torch[0] <= driver[0] if driver[0] >= 11 else torch <= driver


def of_all(node: NodeFacts, field: str, fact: str, *, unit: str = "") -> str:
    """The values that the GPUs of a node have in a field of their status."""
    found, lacking = [], {}
    for gpu in node.gpu.readable():
        value = getattr(gpu.status, field)
        if isinstance(value, Missing) and value.kind == "absent":
            lacking[gpu.name] = f"GPU {gpu.index} does not report it, as others of its model do"
        else:
            found.append(present(value, f"{fact} of GPU {gpu.index}"))
    reported = {gpu.name for gpu in node.gpu.readable() if not isinstance(getattr(gpu.status, field), Missing)}
    for name, reason in lacking.items():
        if name in reported:
            raise FactMissing(fact, reason)
    if not found:
        raise FactMissing(fact, "no GPU reports it", "absent")
    if isinstance(found[0], bool):
        return ", ".join(sorted({"on" if value else "off" for value in found}))
    return ", ".join(value if isinstance(value, str) else f"{value:g}{unit}" for value in sorted(set(found)))


def _numa_nodes(node: NodeFacts) -> str:
    functions = [gpu.pci for gpu in node.gpu.countable() if not isinstance(gpu.pci, Missing)]
    known = [str(one.numa_node) for one in functions if not isinstance(one.numa_node, Missing)]
    if not known:
        raise FactMissing("NUMA nodes of the GPUs", "the firmware reports none", "absent")
    if len(known) < len(functions):
        raise FactMissing("NUMA nodes of the GPUs", f"{len(known)} of {len(functions)} GPUs report theirs")
    return ", ".join(known)


def _iommus(node: NodeFacts) -> str:
    functions = [gpu.pci for gpu in node.gpu.readable() if not isinstance(gpu.pci, Missing)]
    if not functions:
        raise FactMissing("IOMMU of the GPUs", "no GPU reports its PCI path", "absent")
    kinds = {"none" if isinstance(one.iommu, Missing) and one.iommu.kind == "absent" else present(one.iommu, "IOMMU")
             for one in functions}  # fmt: skip
    return ", ".join(sorted(kinds))


def _ways(node: NodeFacts) -> str:
    if node.is_confined():
        raise NotApplicable("a session may be given GPUs that are joined in other ways")
    if len(node.gpu.readable()) < 2:
        raise FactMissing("NVLinks between the GPUs", "there are no two GPUs", "absent")
    return present(node.gpu.topology, "topology").between_gpus()


def _nvlink_speeds(node: NodeFacts) -> str:
    """Of GPUs that have any: links that are down are another check's matter."""
    reported = [gpu.status.nvlink_gbytes_per_s for gpu in node.gpu.readable()]
    speeds = sorted({speed for speed in reported if not isinstance(speed, Missing)})
    if not speeds:
        raise FactMissing("speed of the NVLinks", "no GPU reports it", "absent")
    return ", ".join(f"{speed:g} GB/s" for speed in speeds)


SAME = (
    Row(
        "speed of the slowest NVLinks",
        _nvlink_speeds,
        "`nvidia-smi nvlink -s` on a node named and on one that is not; reset the GPUs, have the baseboard looked at",
    ),
    Row(
        "NVLinks between the GPUs",
        _ways,
        "`nvidia-smi topo -m` on a node named and on one that is not; reset the GPUs, look at their bridges",
    ),
    Row(
        "IOMMU of the GPUs",
        _iommus,
        "start the kernel of the nodes named with the others' options (`iommu=pt`), or set the BIOS as on the others",
    ),
    Row(
        "memory behind BAR1",
        lambda node: of_all(node, "bar1_mib", "memory behind BAR1", unit=" MiB"),
        "switch Above 4G Decoding and Resizable BAR on in the BIOS: adapters reach that much of a GPU",
    ),
    Row(
        "NUMA nodes of the GPUs",
        _numa_nodes,
        "set the same NUMA nodes per socket (NPS, SNC) in the BIOS of the nodes named; compare `nvidia-smi topo -m`",
    ),
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
        "VBIOS",
        lambda node: of_all(node, "vbios", "VBIOS"),
        "bring the GPUs of the nodes named to the others' VBIOS by the vendor's firmware package",
    ),
    Row(
        "partition",
        lambda node: of_all(node, "partition", "partition"),
        "`amd-smi set --compute-partition SPX --memory-partition NPS1` on the nodes named, or as the others have it",
    ),
    Row(
        "performance level",
        lambda node: of_all(node, "performance_level", "performance level"),
        "`amd-smi set --perf-level AUTO` on the nodes named",
    ),
    Row(
        "PCIe width",
        lambda node: of_all(node, "pcie_width", "PCIe width", unit=" lanes"),
        "reseat the GPUs or their risers on the nodes named",
    ),
)


def firmware(node: NodeFacts) -> dict[str, str | Missing]:
    """Block of a GPU -> the versions that the GPUs of the node have there; FactMissing where none is reported."""
    found: dict[str, set[str]] = {}
    for gpu in node.gpu.readable():
        for name, version in present(gpu.status.firmware, "firmware of the GPUs"):
            found.setdefault(name, set()).add(version)
    if not found:
        raise FactMissing("firmware of the GPUs", "no GPU", "absent")
    return {name: ", ".join(sorted(versions)) for name, versions in sorted(found.items())}


LOG_SECONDS = 24 * 3600.0
# A GPU that the driver could not take; where it lists that GPU now, it has taken it since.
TAKING = re.compile(r"RmInitAdapter failed|PCI I/O region|probe (?:of|with)")
LOST = re.compile(TAKING.pattern + r"|fallen off the bus|lost from bus|will not be initialized")


def _driver(node: NodeFacts) -> str:
    if not node.gpu.readable():
        raise NotApplicable("no GPU")
    wanted, most = node.software.library_of_torch("torch_cuda"), present(node.gpu.cuda_driver, "CUDA of the driver")
    if wanted == "none" or driver_runs(cuda_of_driver=most, cuda_of_torch=wanted):
        return ""
    driver = present(node.gpu.driver, "driver")
    return f"torch is built for CUDA {wanted}; driver {driver} runs CUDA {most} at most"


def _fabric_manager(node: NodeFacts) -> str:
    if not node.gpu.switches:
        raise NotApplicable("no NVSwitch")
    if node.gpu.is_joined() or present(node.gpu.fabric_manager, "Fabric Manager"):
        return ""
    return f"{node.gpu.switches} NVSwitches, and nvidia-fabricmanager does not run"


def _logged(node: NodeFacts) -> str:
    listed = {without_domain_zeros(gpu.bus_id) for gpu in node.gpu.readable()}
    others = [event for event in _own(node, node.kernel.events("driver", within_seconds=LOG_SECONDS))
              if without_domain_zeros(event.device) not in listed or not TAKING.search(event.text)]  # fmt: skip
    said = [*_still_lost(node, listed), *map(xids.text, filter(xids.is_fatal, _reported(node)))]
    return "; ".join(dict.fromkeys([*said, *(event.text for event in others)]))


def _own(node: NodeFacts, events: Iterable[LogEvent]) -> list[LogEvent]:
    """Those about the GPUs of jobs: beside NVIDIA's, amdgpu drives what draws the screen."""
    is_amd = any(gpu.is_amd for gpu in node.gpu.readable())
    return [event for event in events if is_amd or "amdgpu" not in event.text]


def _still_lost(node: NodeFacts, listed: set[str]) -> Iterable[str]:
    """What was logged longer ago, of GPUs that the driver does not list since: nobody has brought them back."""
    if node.is_confined():  # others may have been given them
        return
    for event in _own(node, present(node.kernel.log, "kernel log")):
        place = without_domain_zeros(event.device)
        if event.age_seconds > LOG_SECONDS and place and not {place, f"{place}.0"} & listed:
            if event.kind == "xid" and event.code == xids.FALLEN_OFF:
                yield xids.text(event)
            elif event.kind == "driver" and LOST.search(event.text):
                yield event.text


def _worn(node: NodeFacts) -> str:
    return "; ".join(dict.fromkeys(map(xids.text, filter(xids.is_wear, _reported(node)))))


def _wearing(node: NodeFacts) -> str:
    return "; ".join(
        dict.fromkeys(event.text for event in _own(node, node.kernel.events("wear", within_seconds=LOG_SECONDS)))
    )


def _reported(node: NodeFacts) -> list[LogEvent]:
    """The Xids and SXids of the last day, since the driver was loaded."""
    if not node.gpu.readable():
        raise NotApplicable("no GPU")
    return [event for kind in ("xid", "sxid") for event in node.kernel.events(kind, within_seconds=LOG_SECONDS)]


def _busy(node: NodeFacts) -> str:
    if not node.gpu.readable():
        raise NotApplicable("no GPU")
    busy = [str(gpu.index) for gpu in node.gpu.readable() if gpu.is_busy()]
    held = [str(gpu.index) for gpu in node.gpu.readable() if not gpu.is_busy() and gpu.is_filled()]
    words = [f"other programs use GPU {', '.join(busy)}"] if busy else []
    words += [f"memory of GPU {', '.join(held)} is held by programs that cannot be seen from here"] if held else []
    return "; ".join(words)


REFUSED = {
    "CNS": "the chipset refuses",
    "GNS": "the GPU refuses",
    "TNS": "the topology refuses",
    "NS": "not supported",
    "DR": "switched off in the driver",
    "U": "unknown",
}
MOST_PAIRS = 4
Pair = tuple[int, int, str]  # two GPUs and what the driver says of them


def refused_pairs(node: NodeFacts) -> tuple[Pair, ...]:
    """The GPUs of a node that cannot reach each other's memory; FactMissing ("absent") where no job asks for it."""
    gpus = node.gpu.readable()
    if len(gpus) < 2 or any(gpu.is_partitioned for gpu in gpus):
        raise FactMissing("peer access", "no two whole GPUs", "absent")
    if node.value("NCCL_P2P_DISABLE").startswith("1") or node.value("NCCL_P2P_LEVEL").upper() in ("LOC", "0"):
        raise FactMissing("peer access", "a variable of NCCL switches it off", "absent")
    access = {gpu.index: present(gpu.peer_access, "peer access of the GPUs") for gpu in gpus}
    pairs = [(one, other) for one in access for other in access if one != other and other < len(access[one])]
    refused = {(min(pair), max(pair)): access[pair[0]][pair[1]] for pair in pairs if access[pair[0]][pair[1]] != "OK"}
    return tuple((one, other, status) for (one, other), status in sorted(refused.items()))


def closed_peers(cluster: Cluster) -> list[Blame]:
    """A Blame for GPUs that NVLink joins and that cannot reach each other, a mild one for a node unlike its equals."""
    found = values_by_node(cluster, refused_pairs)
    reported: dict[str, list[str]] = {}
    for name, pairs in found.items():
        joined = _joined_pairs(cluster[name], pairs)
        if joined and not cluster[name].value("NCCL_IGNORE_DISABLED_P2P"):
            reported.setdefault(f"no peer access between GPUs that NVLink joins: {_pairs(joined)}", []).append(name)
    blames = [Blame(words, nodes=names) for words, names in reported.items()]
    blamed = {name for names in reported.values() for name in names}
    equals: dict[str, dict[str, list[str]]] = {}
    for name in [name for name in found if name not in blamed]:
        node = cluster[name]
        words = "between all" if not found[name] else f"not between {_pairs(found[name])}"
        equals.setdefault(f"{len(node.gpu.readable())} x {node.gpu.models()}", {}).setdefault(words, []).append(name)
    for groups in equals.values():
        ordered = {words: [name for name in found if name in names] for words, names in groups.items()}
        unlike = cluster.differing(ordered, "peer access of the GPUs")
        blames += [Blame(blame.message, nodes=blame.nodes, is_advisory=True) for blame in unlike]
    return blames


def _joined_pairs(node: NodeFacts, pairs: Iterable[Pair]) -> list[Pair]:
    """Those of the pairs that have NVLink between them."""
    if not pairs:
        return []
    rows = {row.device: row.relations for row in present(node.gpu.topology, "topology").rows}
    relations = {pair: rows.get(f"GPU{pair[0]}", ())[pair[1] : pair[1] + 1] for pair in pairs}
    return [pair for pair, relation in relations.items() if relation and relation[0].startswith("NV")]


def _pairs(pairs: Iterable[Pair]) -> str:
    """The pairs as a message says them: "GPU 0 and 1, 2 and 3 (CNS: the chipset refuses)"; of many only the first."""
    reported = []
    for status in dict.fromkeys(pair[2] for pair in pairs):
        alike = [f"{one} and {other}" for one, other, answer in pairs if answer == status]
        left = len(alike) - MOST_PAIRS
        more = f" and {left} more pair{'s' * (left != 1)}" if left > 0 else ""
        reported.append(f"GPU {', '.join(alike[:MOST_PAIRS])}{more} ({status}: {REFUSED.get(status, status)})")
    return "; ".join(reported)


# What NVLink corrects by sending again matters where there is much of it; NVIDIA's DCGM speaks of 100 a second.
CORRECTED = ("CRC Errors", "Effective Errors", "Symbol Errors")
FEW_CORRECTED = 100


@dataclass(frozen=True)
class WatchedLinks:
    """What the NVLinks of a GPU had counted at the start of the run, and at its end."""

    gpu: Gpu
    before: LinkErrors
    after: LinkErrors | Missing

    def grown(self) -> dict[str, int]:
        """Counter -> by how much it grew; FactMissing where the second look did not show all of the first."""
        after = present(self.after, "NVLink errors at the end")
        if (after.links, after.counters) != (self.before.links, self.before.counters):
            words = f"nvidia-smi nvlink -e lists {after.counters} counters, and {self.before.counters} at the start"
            raise FactMissing("NVLink errors at the end", words)
        grown = {name: count - self.before.counted.get(name, 0) for name, count in after.counted.items()}
        return {name: more for name, more in grown.items() if more > 0}


def watched_links(node: NodeFacts) -> Iterable[tuple[str, WatchedLinks]]:
    """The GPUs of a node whose NVLinks count errors."""
    found = []
    for gpu in node.gpu.readable():
        before = gpu.link_errors
        if isinstance(before, Missing) and before.kind == "absent":
            continue
        start = present(before, "NVLink errors")
        if not isinstance(gpu.links, Missing) and start.links < gpu.links.active:
            words = f"nvidia-smi nvlink -e lists {start.links} links of GPU {gpu.index}, {gpu.links.active} are active"
            raise FactMissing("NVLink errors", words)
        now = node.ending.nvlink_errors
        after: LinkErrors | Missing = Missing(f"nvidia-smi nvlink -e does not list GPU {gpu.index} any more")
        if isinstance(now, Missing):
            after = now
        else:
            after = next((end.errors for end in now if end.gpu in (gpu.uuid, str(gpu.index))), after)
        if isinstance(after, Missing):
            after = Missing(after.missing)  # failed, whatever the reason: it could be read at the start
        found.append((str(gpu.index), WatchedLinks(gpu, start, after)))
    return found


def _of_links(links: WatchedLinks) -> str:
    reported = {
        name: more for name, more in links.grown().items() if more >= FEW_CORRECTED or not name.endswith(CORRECTED)
    }
    return "; ".join(f"{name} grew by {more}" for name, more in reported.items())


@dataclass(frozen=True)
class WatchedErrors:
    """What a GPU on the bus had counted at the start of the run, and at its end."""

    before: tuple[tuple[str, int], ...] | Missing
    after: tuple[tuple[str, int], ...] | Missing

    def grown(self) -> dict[str, int]:
        """Counter -> by how much it grew; FactMissing where one of the two looks failed."""
        before = dict(present(self.before, "errors of PCIe"))
        if isinstance(self.after, Missing):  # whatever the reason: it could be read at the start
            raise FactMissing("errors of PCIe at the end", self.after.missing)
        after = dict(self.after)
        if before.keys() - after.keys():
            raise FactMissing("errors of PCIe at the end", f"it no longer reports {', '.join(sorted(before))}")
        return {name: after[name] - count for name, count in before.items() if after[name] > count}


def watched_errors(node: NodeFacts) -> Iterable[tuple[str, WatchedErrors]]:
    """The GPUs on the bus of a node, by their addresses."""
    now = node.ending.gpus_counted
    if isinstance(now, Missing) and node.gpu.counted:
        raise FactMissing("errors of PCIe at the end", now.missing)
    after = {} if isinstance(now, Missing) else {one.address: one.errors for one in now}
    gone = Missing("the GPU is not on the bus any more")
    return [(one.address, WatchedErrors(one.errors, after.get(one.address, gone))) for one in node.gpu.counted]


def _broken_pcie(watched: WatchedErrors) -> str:
    reported = {name: more for name, more in watched.grown().items() if not name.endswith("corrected") or "un" in name}
    return "; ".join(f"{name} grew by {more}" for name, more in reported.items())


def _corrected_pcie(watched: WatchedErrors) -> str:
    more = watched.grown().get("PCIe errors, corrected", 0)
    return f"PCIe errors, corrected grew by {more}" if more >= FEW_CORRECTED else ""


def _new(node: NodeFacts, *kinds: str) -> list[LogEvent]:
    """The lines of the kernel's log that were not there when the run began."""
    if not node.gpu.readable():
        raise NotApplicable("no GPU")
    before, after = present(node.kernel.log, "kernel log"), present(node.ending.log, "kernel log at the end")
    known = Counter((event.kind, event.code, event.device, event.text) for event in before)
    found = []
    for event in _own(node, after):
        key = (event.kind, event.code, event.device, event.text)
        if known[key]:
            known[key] -= 1
        elif event.kind in kinds:
            found.append(event)
    return found


def _logged_since(node: NodeFacts) -> str:
    reported = map(xids.text, filter(xids.is_fatal, _new(node, "xid", "sxid")))
    return "; ".join(dict.fromkeys([*reported, *(event.text for event in _new(node, "driver"))]))


def _worn_since(node: NodeFacts) -> str:
    return "; ".join(dict.fromkeys(map(xids.text, filter(xids.is_wear, _new(node, "xid", "sxid")))))


def _wearing_since(node: NodeFacts) -> str:
    return "; ".join(dict.fromkeys(event.text for event in _new(node, "wear")))


# Rows about a node as a whole; an empty fix is the check's own.
DRIVER = (Fault("driver", _driver, "", "CUDA Compatibility: minor version compatibility; NVIDIA/nccl-tests#98"),)
FABRIC = (Fault("Fabric Manager", _fabric_manager, "", "NVIDIA/nccl-tests#264"),)
LOG = (
    Fault("kernel log", _logged, "", xids.SOURCE),
    Fault("wear", _worn, WATCH, xids.SOURCE, is_advisory=True),
    Fault("wear of AMD's", _wearing, LOOK_AT_AMD, "kernel, drivers/gpu/drm/amd", is_advisory=True),
)
LOG_OF_RUN = (
    Fault("kernel log during the run", _logged_since, "", xids.SOURCE),
    Fault("wear during the run", _worn_since, WATCH, xids.SOURCE, is_advisory=True),
    Fault("wear of AMD's", _wearing_since, LOOK_AT_AMD, "kernel, drivers/gpu/drm/amd", is_advisory=True),
)
NVLINK_ERRORS = (
    Fault("NVLink errors during the run", _of_links, "", "NVIDIA DCGM, health watches of NVLink; nvidia-smi nvlink -e"),
)
AER = "Linux: Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats"
PCIE_ERRORS = (
    Fault("PCIe errors during the run", _broken_pcie, "", AER),
    Fault(
        "corrected PCIe errors during the run",
        _corrected_pcie,
        "reseat the GPU or its riser and cables on the nodes named; each error is sent again, and costs bandwidth",
        AER,
        is_advisory=True,
    ),
)
BUSY = (Fault("other programs", _busy, "", "nvidia-smi --query-compute-apps"),)
