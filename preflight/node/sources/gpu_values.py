"""What does nvidia-smi say of one GPU, in its XML (`-q -x`) and in its text (`-q`), value by value?

Both are flattened to the same kind of list: a path of lower-case words, and the text there. The table FIELDS names
for each fact the paths it may stand at, for drivers and the two forms call one thing differently.
"""

from __future__ import annotations

from preflight.node.agent.missing import missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any, Callable, Union
    from xml.etree.ElementTree import Element

    from preflight.node.agent.missing import Missing, TextOrMissing

    Pairs = list[tuple[str, str]]
    CountOrMissing = Union[int, Missing]
    Reader = Callable[[dict[str, str], tuple[str, ...]], Any]

PROGRAM = "nvidia-smi"
MPS_SERVER = "nvidia-cuda-mps-server"
NOT_REPORTED = (
    "N/A",
    "[N/A]",
    "Not Found",
    "Not Supported",
    "[Not Supported]",
    "Requested functionality has been deprecated",
)
ERRORS = ("ERR!", "[UNKNOWN", "UNKNOWN ERROR", "[GPU", "GPU IS LOST", "GPU REQUIRES RESET")
UNANSWERED = ("UNKNOWN ERROR", "GPU IS LOST", "GPU REQUIRES RESET", "ERR!")
YES, NO = ("Enabled", "Yes", "Active"), ("Disabled", "No", "Not Active")
LONG = ("supported_clocks", "accounted_processes")  # sections of thousands of lines that no fact needs


def flatten(element: Element, *, prefix: str = "") -> Pairs:
    """Every leaf of the XML of one GPU."""
    pairs: Pairs = []
    for child in element:
        path = f"{prefix}{child.tag.lower()}"
        if len(child):
            pairs += flatten(child, prefix=f"{path}/") if child.tag not in LONG else []
        else:
            pairs.append((path, (child.text or "").strip()))
    return pairs


def blocks(text: str) -> tuple[dict[str, str], list[tuple[str, Pairs]]]:
    """`nvidia-smi -q`: what stands before the GPUs, and each GPU's bus id with its values.

    A title without a value opens a section, as deep as it is indented; one with a value may have values below it too.
    """
    head: dict[str, str] = {}
    gpus: list[tuple[str, Pairs]] = []
    open_sections: list[tuple[int, str]] = []
    for line in text.splitlines():
        title, colon, value = line.partition(" : ")
        word = title.strip()
        indent = len(title) - len(title.lstrip())
        if not word:
            continue
        if indent == 0 and word.startswith("GPU ") and not colon:
            gpus.append((word[len("GPU ") :], []))
            open_sections = []
            continue
        while open_sections and open_sections[-1][0] >= indent:
            open_sections.pop()
        path = "/".join([*(name for _, name in open_sections), word.lower().replace(" ", "_")])
        open_sections.append((indent, path.rpartition("/")[2]))
        if colon and gpus:
            gpus[-1][1].append((path, value.strip()))
        elif colon:
            head[path] = value.strip()
        elif gpus:
            gpus[-1][1].append((path, ""))
    return head, gpus


def text_at(values: dict[str, str], *paths: str) -> TextOrMissing:
    """The text at the first path that there is, where nvidia-smi reports one."""
    for path in paths:
        if path in values:
            return reported_text(values[path])
    return missing(f"this {PROGRAM} does not report {paths[0]}", "absent")


def version_at(values: dict[str, str], *paths: str) -> TextOrMissing:
    """The version at the first path that has one: newer drivers write a sentence behind what they will remove."""
    text = text_at(values, *paths)
    return text.split()[0] if isinstance(text, str) else text


def corrupted_inforoms(text: str) -> set[str]:
    """The bus ids of the GPUs whose infoROM nvidia-smi warns of, beside its document."""
    import re

    return {found.lower() for found in re.findall(r"infoROM is corrupted at gpu ([0-9a-fA-F:.]+)", text)}


def reported_text(text: str) -> TextOrMissing:
    """A text of nvidia-smi, or the missing value for "N/A" and the like."""
    if not text or text in NOT_REPORTED:
        return missing(f"{PROGRAM} says {text or 'nothing'}", "absent")
    if text.upper().startswith(ERRORS):
        return missing(f"{PROGRAM} says {text}")
    return text


def _word(values: dict[str, str], paths: tuple[str, ...]) -> TextOrMissing:
    return text_at(values, *paths)


def _flag(values: dict[str, str], paths: tuple[str, ...]) -> bool | Missing:
    text = text_at(values, *paths)
    if not isinstance(text, str):
        return text
    return text in YES if text in YES or text in NO else missing(f"{PROGRAM} says {text}")


def _any(values: dict[str, str], paths: tuple[str, ...]) -> bool | Missing:
    """Whether one of several flags is set."""
    flags = [_flag(values, (path,)) for path in paths if path in values]
    known = [flag for flag in flags if isinstance(flag, bool)]
    return any(known) if known else _flag(values, paths)


def count(text: TextOrMissing) -> CountOrMissing:
    """The figure in "16x", "81920 MiB" or "3"."""
    if not isinstance(text, str):
        return text
    figure = text.partition(" ")[0].rstrip("x")
    return int(figure) if figure.isdecimal() else missing(f"{PROGRAM} says {text}")


def _count(values: dict[str, str], paths: tuple[str, ...]) -> CountOrMissing:
    return count(text_at(values, *paths))


def _total(values: dict[str, str], paths: tuple[str, ...]) -> CountOrMissing:
    """The sum of the counts at several paths."""
    counts = [_count(values, (path,)) for path in paths if path in values]
    failed = [each for each in counts if not isinstance(each, int) and each["kind"] == "failed"]
    known = [each for each in counts if isinstance(each, int)]
    if failed:
        return failed[0]
    return sum(known) if known else missing(f"this {PROGRAM} does not report {paths[0]}", "absent")


def _named(values: dict[str, str], paths: tuple[str, ...]) -> TextOrMissing:
    """The text at the first path that begins and ends so: what lies between differs from driver to driver."""
    start, end = paths
    found = [path for path in values if path.startswith(start) and path.endswith(end)]
    return text_at(values, *found) if found else missing(f"this {PROGRAM} does not report {end}", "absent")


def _watts(values: dict[str, str], paths: tuple[str, ...]) -> float | Missing:
    text = text_at(values, *paths)
    if not isinstance(text, str):
        return text
    figure = text.partition(" ")[0]
    return float(figure) if figure.replace(".", "", 1).isdecimal() else missing(f"{PROGRAM} says {text}")


def _limit(values: dict[str, str], paths: tuple[str, ...]) -> float | Missing:
    """Where the GPU slows down: told as it is, or as how far away that is from its temperature now (T.Limit)."""
    *reported, now, now_in_text, margin, margin_in_text = paths
    limit = _watts(values, tuple(reported))
    if isinstance(limit, float):
        return limit
    at, left = _watts(values, (now, now_in_text)), _watts(values, (margin, margin_in_text))
    return at + left if isinstance(at, float) and isinstance(left, float) else limit


def _gsp(values: dict[str, str], paths: tuple[str, ...]) -> list[list[str]] | Missing:
    """The firmware of the GPU's own processor, where the driver runs one: "none" where it does not."""
    text = text_at(values, *paths)
    if isinstance(text, str):
        return [["GSP", text]]
    return [["GSP", "none"]] if values.get(paths[0]) == "N/A" else text


def _slowdowns(values: dict[str, str], paths: tuple[str, ...]) -> list[str] | Missing:
    """The reasons that are active, with the same names in both forms: hw_slowdown, sw_power_cap."""
    found = {path: text for path, text in values.items() if path.startswith(paths)}
    if not found:
        return missing(f"this {PROGRAM} does not report {paths[0]}", "absent")
    names = [path.rpartition("/")[2] for path, text in found.items() if text == "Active"]
    for prefix in ("clocks_event_reason_", "clocks_throttle_reason_"):
        names = [name.removeprefix(prefix) for name in names]
    return names


def _fabric_faults(values: dict[str, str], paths: tuple[str, ...]) -> list[str] | Missing:
    """What the driver reports as wrong with the NVLink fabric of the GPU, in its own words."""
    texts = {path.rpartition("/")[2]: text for path, text in values.items() if path.startswith(paths)}
    reported = {
        name: text for name, text in texts.items() if name != "summary" and isinstance(reported_text(text), str)
    }
    if not reported:
        return missing(f"this {PROGRAM} does not report {paths[0]}", "absent")
    return [
        f"{name.replace('_', ' ')}: {text}"
        for name, text in reported.items()
        if text not in ("Full", "False", "None", "No")
    ]


def _licence(values: dict[str, str], paths: tuple[str, ...]) -> TextOrMissing:
    """Whether a virtual GPU has its licence; a whole one passed through needs none."""
    mode, *places = paths
    if "vgpu" not in values.get(mode, "").lower():
        return missing("the GPU is not a virtual one", "absent")
    return text_at(values, *places)


VOLATILE = "ecc_errors/volatile/"
PCIE = "pci/pci_gpu_link_info/"
PCIE_TEXT = "pci/gpu_link_info/"
TEMPERATURE = ("temperature/gpu_temp", "temperature/gpu_current_temp")
BANKS = "remapped_rows/row_remapper_histogram/"
BANKS_TEXT = "remapped_rows/bank_remap_availability_histogram/"
# Fact of GpuStatus, how it is read, and where it may stand: the XML's paths first, then the text's.
FIELDS: tuple[tuple[str, Reader, tuple[str, ...]], ...] = (
    ("is_persistent", _flag, ("persistence_mode",)),
    ("bar1_mib", _count, ("bar1_memory_usage/total",)),
    ("has_ecc", _flag, ("ecc_mode/current_ecc", "ecc_mode/current")),
    ("has_ecc_pending", _flag, ("ecc_mode/pending_ecc", "ecc_mode/pending")),
    ("mig_pending", _word, ("mig_mode/pending_mig", "mig_mode/pending")),
    (
        "uncorrected_errors",
        _total,
        (
            *(f"{VOLATILE}{name}" for name in ("sram_uncorrectable", "dram_uncorrectable")),
            *(f"{VOLATILE}sram_uncorrectable_{name}" for name in ("parity", "secded", "sec-ded")),
            f"{VOLATILE}double_bit/total",
        ),
    ),
    (
        "pages_retired",
        _count,
        ("retired_pages/double_bit_retirement/retired_count", "retired_pages/double_bit_ecc"),
    ),
    (
        "is_retirement_pending",
        _any,
        (
            *("retired_pages/pending_retirement", "retired_pages/pending_blacklist"),
            *("retired_pages/pending_page_blacklist", "retired_pages/pending"),
        ),
    ),
    ("rows_remapped", _count, ("remapped_rows/remapped_row_unc", "remapped_rows/uncorrectable_error")),
    ("is_remapping_pending", _flag, ("remapped_rows/remapped_row_pending", "remapped_rows/pending")),
    (
        "has_remapping_failed",
        _flag,
        ("remapped_rows/remapped_row_failure", "remapped_rows/remapping_failure_occurred"),
    ),
    ("is_memory_beyond_repair", _any, ("ecc_errors/unrepairable_memory", "unrepairable_memory")),
    (
        "is_repair_pending",
        _any,
        (
            *("ecc_errors/channel_repair_pending", "ecc_errors/tpc_repair_pending"),
            *("channel_repair_pending", "tpc_repair_pending"),
        ),
    ),
    (
        "is_sram_worn",
        _flag,
        ("ecc_errors/aggregate/sram_threshold_exceeded",),
    ),
    ("recovery", _word, ("gpu_recovery_action",)),
    ("needs_reset", _flag, ("gpu_reset_status/reset_required",)),
    ("is_drain_recommended", _flag, ("gpu_reset_status/drain_and_reset_recommended",)),
    (
        "licence",
        _licence,
        ("gpu_virtualization_mode/virtualization_mode", "vgpu_software_licensed_product/license_status"),
    ),
    ("slowdowns", _slowdowns, ("clocks_event_reasons/", "clocks_throttle_reasons/")),
    ("performance_state", _word, ("performance_state",)),
    ("pcie_generation", _count, (f"{PCIE}pcie_gen/current_link_gen", f"{PCIE_TEXT}pcie_generation/current")),
    ("pcie_generation_max", _count, (f"{PCIE}pcie_gen/max_link_gen", f"{PCIE_TEXT}pcie_generation/max")),
    ("pcie_width", _count, (f"{PCIE}link_widths/current_link_width", f"{PCIE_TEXT}link_width/current")),
    ("pcie_width_max", _count, (f"{PCIE}link_widths/max_link_width", f"{PCIE_TEXT}link_width/max")),
    (
        "power_limit_watts",
        _watts,
        (
            *("gpu_power_readings/current_power_limit", "power_readings/enforced_power_limit"),
            *("power_readings/power_limit", "gpu_power_readings/power_limit"),
            *("gpu_power_readings/gpu_ceiling_power_limit/current_power_limit",),
            *("gpu_power_readings/ceiling_power_limit/current_power_limit",),
        ),
    ),
    (
        "power_default_watts",
        _watts,
        (
            *("gpu_power_readings/default_power_limit", "power_readings/default_power_limit"),
            *("gpu_power_readings/gpu_ceiling_power_limit/default_power_limit",),
            *("gpu_power_readings/ceiling_power_limit/default_power_limit",),
        ),
    ),
    (
        "corrected_errors",
        _total,
        (
            *("ecc_errors/aggregate/sram_correctable", "ecc_errors/aggregate/dram_correctable"),
            *("ecc_errors/aggregate/single_bit/total",),
        ),
    ),
    ("banks_without_spare_rows", _count, (f"{BANKS}row_remapper_histogram_none", f"{BANKS_TEXT}none")),
    ("banks_with_one_spare_row", _count, (f"{BANKS}row_remapper_histogram_low", f"{BANKS_TEXT}low")),
    ("memory_used_mib", _count, ("fb_memory_usage/used",)),
    ("vbios", _word, ("vbios_version",)),
    ("firmware", _gsp, ("gsp_firmware_version",)),
    ("temperature_celsius", _watts, TEMPERATURE),
    (
        "temperature_limit_celsius",
        _limit,
        (
            *("temperature/gpu_temp_slow_threshold", "temperature/gpu_slowdown_temp"),
            *TEMPERATURE,
            *("temperature/gpu_temp_tlimit", "temperature/gpu_t.limit_temp"),
        ),
    ),
    ("memory_celsius", _watts, ("temperature/memory_temp", "temperature/memory_current_temp")),
    (
        "memory_limit_celsius",
        _watts,
        ("temperature/gpu_temp_max_mem_threshold", "temperature/memory_max_operating_temp"),
    ),
    ("clock_mhz", _watts, ("applications_clocks/graphics_clock", "applications_clocks/graphics")),
    (
        "clock_default_mhz",
        _watts,
        ("default_applications_clocks/graphics_clock", "default_applications_clocks/graphics"),
    ),
    ("fabric_health", _named, ("fabric/", "summary")),
    ("fabric_faults", _fabric_faults, ("fabric/health/",)),
    ("fabric_cluster", _named, ("fabric/", "clusteruuid")),
    ("fabric_clique", _named, ("fabric/", "cliqueid")),
    ("fabric_state", _word, ("fabric/state",)),
    ("fabric_status", _word, ("fabric/status",)),
)


def unanswered(values: dict[str, str]) -> list[str]:
    """The values in place of which the driver reported an error: "power_draw: Unknown Error"."""
    found = {path: text for path, text in values.items() if text.strip("[]").upper().startswith(UNANSWERED)}
    return [f"{path.rpartition('/')[2]}: {text}" for path, text in found.items()]


def status(values: dict[str, str], *, is_worn: bool = False) -> dict[str, Any]:
    """Facts of GpuStatus; what this nvidia-smi does not report is left out."""
    found: dict[str, Any] = {"is_inforom_corrupted": True} if is_worn else {}
    found |= {"unanswered": errors} if (errors := unanswered(values)) else {}
    for name, read, paths in FIELDS:
        value = read(values, paths)
        if not (isinstance(value, dict) and value["kind"] == "absent"):
            found[name] = value
    return found


def processes(pairs: Pairs) -> CountOrMissing:
    """How many processes compute on the GPU; a screen that is drawn on it does not count."""
    found = [(path, text) for path, text in pairs if path.split("/")[0] == "processes"]
    if not found:
        return missing(f"this {PROGRAM} does not report processes", "absent")
    alone = [text for path, text in found if path == "processes" and text not in ("", "None")]
    if alone:
        answer = reported_text(alone[0])
        return missing(f"{PROGRAM} says {answer}") if isinstance(answer, str) else answer
    kinds = [text for path, text in found if path.endswith("/type")]
    ids = [text for path, text in found if path.endswith(("/pid", "/process_id"))]
    names = [text for path, text in found if path.endswith(("/process_name", "/name"))]
    if not len(kinds) == len(ids) == len(names):
        return len(ids)
    # "G" is a screen, "C+G" a program with a window, as every one on Windows is, and "M+C" one that shares the GPU by
    # MPS, whose server computes nothing.
    computing = [name for kind, name in zip(kinds, names) if kind in ("C", "M+C")]
    return sum(MPS_SERVER not in name for name in computing)


def gpu(pairs: Pairs, *, index: int, bus_id: str, is_part: bool = False, worn: Collection[str] = ()) -> dict[str, Any]:
    """One GPU; `is_part` for a text that was asked for single sections and so has no names.

    Its index is its place in the list, which is NVML's order: minor numbers follow another one.
    """
    values: dict[str, str] = {}
    for path, text in pairs:
        values.setdefault(path, text)
    return {
        "index": index,
        "name": "GPU" if is_part else _required(values, bus_id, "product_name"),
        "uuid": bus_id if is_part else _required(values, bus_id, "uuid", "gpu_uuid"),
        "memory_mib": count(text_at(values, "fb_memory_usage/total")),
        "bus_id": bus_id,
        "compute_mode": text_at(values, "compute_mode"),
        "mig_mode": text_at(values, "mig_mode/current_mig", "mig_mode/current"),
        "processes": processes(pairs),
        # The warning writes the PCI domain with four digits, the list with eight.
        "status": status(values, is_worn=any(bus_id.lower().endswith(place) for place in worn)),
    }


def _required(values: dict[str, str], bus_id: str, *paths: str) -> str:
    """The text at a path without which a GPU cannot be named."""
    text = text_at(values, *paths)
    if isinstance(text, str):
        return text
    raise ValueError(f"{paths[0]} of GPU {bus_id}: {text['missing']}")
