"""What stops a job on a GPU, or makes it wrong?

The sources: NVIDIA's "GPU Memory Error Management" (rows, pages, RMA), "Fabric Manager User Guide" and the NVML API
reference (states); field cases by their issue.
"""

from __future__ import annotations

from preflight.facts.subjects.gpu import Gpu
from preflight.facts.value import Missing, present
from preflight.judge.tables.faults import Fault
from preflight.said import said
from preflight.said.errors import FactMissing, NotApplicable

MEMORY = "NVIDIA GPU Memory Error Management"
MOST_ROWS_REMAPPED = 512  # as many as there are to remap to
MOST_PAGES_RETIRED = 60  # from here on NVIDIA takes the board back
RESET = "end all programs on the GPU and `nvidia-smi --gpu-reset -i <index>`, or reboot the nodes named"
REPLACE = "take the nodes named out and have the GPU replaced (`nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT`)"
GRAVE_FABRIC_FAULTS = ("route unhealthy", "incorrect configuration")
MANY_UNANSWERED = 3  # healthy GPUs of some drivers have one


def _uncorrected(gpu: Gpu) -> str:
    count = present(gpu.status.uncorrected_errors, "uncorrected errors")
    return said("{count} memory errors that could not be corrected since the driver was loaded", count) if count else ""


def _pages(gpu: Gpu) -> str:
    count = present(gpu.status.pages_retired, "retired pages")
    return said(
        "{count} pages retired for errors; {MOST_PAGES_RETIRED} mean a worn board", count, MOST_PAGES_RETIRED
    ) * (count >= MOST_PAGES_RETIRED)


def _rows(gpu: Gpu) -> str:
    count = present(gpu.status.rows_remapped, "remapped rows")
    return said("{count} rows remapped, of {MOST_ROWS_REMAPPED} at most", count, MOST_ROWS_REMAPPED) * (
        count >= MOST_ROWS_REMAPPED
    )


def _flag(field: str, name: str, words: str, fix: str) -> Fault[Gpu]:
    """A row for a flag of the status that should not be set."""

    def message(gpu: Gpu) -> str:
        return words if present(getattr(gpu.status, field), name) else ""

    return Fault(name, message, fix, MEMORY)


def _recovery(gpu: Gpu) -> str:
    action = present(gpu.status.recovery, "recovery action")
    return said("the driver asks for: {action}", action) if action != "None" else ""


def _fabric(gpu: Gpu) -> str:
    state = present(gpu.status.fabric_state, "fabric state")
    status = gpu.status.fabric_status
    if state != "Completed":
        return said("it has not joined the NVLink fabric: {state}; wanted Completed", state)
    if isinstance(status, Missing):
        status = "Success" if status.kind == "absent" else status.missing  # "Unknown Error" is a status too
    return said("it joined the NVLink fabric with an error: {status}", status) if status != "Success" else ""


def unhealthy(gpu: Gpu) -> str:
    """By its summary; drivers before 570 or so have none, and an unhealthy route or a wrong cable says enough."""
    health, found = gpu.status.fabric_health, gpu.status.fabric_faults
    if isinstance(health, Missing) and isinstance(found, Missing):
        raise FactMissing("health of the NVLink fabric", health.missing, health.kind)
    grave = () if isinstance(found, Missing) else [one for one in found if one.startswith(GRAVE_FABRIC_FAULTS)]
    is_unhealthy = health == "Unhealthy" or (isinstance(health, Missing) and grave)
    return said("its NVLink fabric is unhealthy{fabric_reasons}", fabric_reasons(gpu)) if is_unhealthy else ""


def fabric_reasons(gpu: Gpu) -> str:
    """What the fabric says against the GPU, in brackets; "" where it says nothing."""
    found = gpu.status.fabric_faults
    return f" ({', '.join(found)})" if not isinstance(found, Missing) and found else ""


def _unanswered(gpu: Gpu) -> str:
    found = gpu.status.unanswered
    if not found:  # a GPU without any report has none either
        raise NotApplicable("the driver reports no error")
    is_lost = any("lost" in one.lower() or "requires reset" in one.lower() for one in found)
    return said("its driver gets no answer: {some}", _some(found)) if is_lost or len(found) >= MANY_UNANSWERED else ""


def _some(words: tuple[str, ...]) -> str:
    more = len(words) - MANY_UNANSWERED
    return ", ".join(words[:MANY_UNANSWERED]) + (said(" and {more} more", more) if more > 0 else "")


def _prohibited(gpu: Gpu) -> str:
    mode = present(gpu.compute_mode, "compute mode")
    return "compute mode Prohibited: no program may use it" if mode == "Prohibited" else ""


BROKEN: tuple[Fault[Gpu], ...] = (
    Fault("uncorrected memory errors", _uncorrected, RESET, MEMORY),
    _flag("has_remapping_failed", "remapping of memory rows", "a broken row of memory could not be remapped", REPLACE),
    _flag(
        "is_remapping_pending",
        "pending remapping of memory rows",
        "the remapping of a broken row of memory is pending until the GPU is reset",
        RESET,
    ),
    _flag(
        "is_retirement_pending",
        "pending retirement of memory pages",
        "the retirement of a broken page is pending until the GPU is reset",
        RESET,
    ),
    _flag("is_memory_beyond_repair", "unrepairable memory", "its memory cannot be repaired", REPLACE),
    _flag("is_sram_worn", "SRAM error threshold", "more SRAM errors than its vendor allows", REPLACE),
    _flag("needs_reset", "request for a reset", "the driver asks for a reset", RESET),
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
        unhealthy,
        "`nvidia-smi -q | grep -A12 Fabric` on the nodes named; read /var/log/fabricmanager.log, reset the GPUs",
        "NVML nvmlGpuFabricInfoV",
    ),
    Fault("answers of the driver", _unanswered, RESET, "nvidia-smi: Unknown Error, GPU is lost"),
    Fault("compute mode", _prohibited, "`nvidia-smi -c 0` on the nodes named", "NVML nvmlComputeMode"),
)
