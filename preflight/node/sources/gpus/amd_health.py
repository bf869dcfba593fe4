"""How is each of AMD's GPUs: errors of its memory, throttling, temperatures, xGMI links, firmware, who uses it?

From `amd-smi static`, `metric`, `xgmi`, `firmware` and `process` with --json, as ROCm 6 (a list of GPUs) and ROCm 7
(the list under "gpu_data") write them. A figure is a number, or {"value": 750, "unit": "W"}; what a GPU does not tell
is "N/A".
"""

from __future__ import annotations

from preflight.node.agent import programs
from preflight.node.agent.missing import in_order, missing
from preflight.node.sources.gpus import printed_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from preflight.node.agent.missing import Missing, TextOrMissing

LIMIT_S = 10.0
COMMANDS = {
    "metric": ("metric", "--json"),
    "xgmi": ("xgmi", "--link-status", "--json"),
    "firmware": ("firmware", "--json"),
    "process": ("process", "--json"),
}
NO_VALUE = ("N/A", "", "unknown")
UNKNOWN_COMMAND = ("invalid choice", "unrecognized arguments", "is invalid", "AMDSMI_STATUS_NOT_SUPPORTED", "usage:")
# What slows a GPU down, as "throttle" calls it with "_violation_status" behind; what its power cap does is no fault.
VIOLATIONS = ("prochot", "socket_thermal", "vr_thermal", "hbm_thermal", "ppt")
ACTIVE = ("ACTIVE", "TRUE")


def add(devices: list[dict[str, Any]], program: str, static: list[dict[str, Any]]) -> None:
    """Fill in the facts of each device, whose record of `amd-smi static` stands at the same place of `static`."""
    reported = {
        name: records_in(text)
        for name, text in programs.run_all(
            {name: [program, *words] for name, words in COMMANDS.items()}, limit_s=LIMIT_S
        ).items()
    }
    for device, own in zip(devices, static):
        found = {name: of_gpu(records, device["index"]) for name, records in reported.items()}
        device["status"] = {
            **device.get("status", {}),
            **of_static(own),
            **without_absent(of_metric(found["metric"])),
            **without_absent({"firmware": firmware(found["firmware"])}),
        }
        links, users = xgmi_links(found["xgmi"]), processes(found["process"])
        device["links"], device["processes"] = in_order(links), users


def records_in(text: TextOrMissing) -> list[dict[str, Any]] | Missing:
    """The records of GPUs in what amd-smi printed, which may be several documents; why there are none."""
    if not isinstance(text, str):
        return text
    import re

    found: list[dict[str, Any]] = []
    start = re.compile(r"^\s*[\[{]", re.MULTILINE)  # a usage has brackets too, but no line that begins with one
    place = 0
    while next_one := start.search(text, place):
        try:
            document, place = printed_json.value_at(text, next_one.end() - 1)
        except ValueError as error:
            return missing(f"amd-smi printed broken JSON ({error}): {' '.join(text[-200:].split())}")
        lists = document.values() if isinstance(document, dict) else [document]
        for each in lists:
            found += [one for one in each if isinstance(one, dict) and "gpu" in one] if isinstance(each, list) else []
    if not found:
        printed = " ".join(text[-300:].split())
        is_unknown = any(words in text for words in UNKNOWN_COMMAND)
        return missing(f"amd-smi says {printed or 'nothing'}", "absent" if is_unknown else "failed")
    return found


def of_gpu(records: list[dict[str, Any]] | Missing, index: int) -> dict[str, Any]:
    """The facts in all records of one GPU, or why there are none."""
    if isinstance(records, dict):
        return records
    own = [one for one in records if str(one["gpu"]) == str(index)]
    merged: dict[str, Any] = {}
    for one in own:
        merged.update(one)
    return merged or missing(f"amd-smi does not list GPU {index}")


def without_absent(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts that are reported, and those that could not be read."""
    return {name: value for name, value in facts.items() if not is_absent(value)}


def is_absent(value: Any) -> bool:
    """Whether a GPU simply does not report this."""
    return isinstance(value, dict) and value.get("kind") == "absent"


def figure(value: Any, name: str) -> float | Missing:
    """The number in 12, "12", "12 W" or {"value": 12, "unit": "W"}."""
    if isinstance(value, dict):
        value = value.get("value", "N/A")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    text = str(value).strip()
    if value is None or text in NO_VALUE:
        return missing(f"amd-smi does not report {name}", "absent")
    try:
        return float(text.split()[0])
    except ValueError:
        return missing(f"amd-smi says {text[:100]} for {name}")


def count(value: Any, name: str) -> int | Missing:
    """The number of `figure`, as an integer."""
    found = figure(value, name)
    return int(found) if isinstance(found, float) else found


def at(record: Any, *path: str) -> Any:
    """The value at a path; "N/A" where a part of the path is absent."""
    for word in path:
        if not isinstance(record, dict) or word not in record:
            return "N/A"
        record = record[word]
    return record


def word(value: Any, name: str) -> TextOrMissing:
    """A text of one record."""
    text = str(value).strip()
    return missing(f"amd-smi does not report {name}", "absent") if text in NO_VALUE else text


def of_static(record: dict[str, Any]) -> dict[str, Any]:
    """Facts of GpuStatus that `amd-smi static` tells."""
    limit = record.get("limit", {})
    # current_power: of ROCm 6.0; ppt0: of ROCm 7.
    told = (at(limit, "socket_power"), at(limit, "current_power"), at(limit, "ppt0", "socket_power_limit"))
    power = next((value for value in told if value != "N/A"), "N/A")
    blocks = at(record, "ras", "ecc_block_state")
    states = {name: str(state) for name, state in blocks.items()} if isinstance(blocks, dict) else {}
    if isinstance(blocks, list):
        states = {str(at(one, "block")): str(at(one, "status")) for one in blocks}
    memory = states.get("UMC", "N/A")
    split = [str(at(record, "partition", name)) for name in ("compute_partition", "memory_partition")]
    reported = {
        "power_limit_watts": figure(power, "its power limit"),
        "temperature_limit_celsius": figure(at(limit, "slowdown_hotspot_temperature"), "its slowdown temperature"),
        "memory_limit_celsius": figure(at(limit, "slowdown_vram_temperature"), "its memory's slowdown temperature"),
        "vbios": word(_version(record.get("vbios")), "its VBIOS"),
        "partition": word("N/A" if set(split) & set(NO_VALUE) else "/".join(split), "its partition"),
        **({"has_ecc": "ENABLED" in memory} if memory not in NO_VALUE else {}),
    }
    return without_absent(reported)


def _version(vbios: Any) -> str:
    part, version = str(at(vbios, "part_number")), str(at(vbios, "version"))
    return " ".join(text for text in (part, version) if text not in NO_VALUE)


def of_metric(record: dict[str, Any]) -> dict[str, Any]:
    """Facts of GpuStatus that `amd-smi metric` tells; each is missing where it reported nothing at all."""
    if "missing" in record:
        names = ("corrected_errors", "deferred_errors", "slowdowns", "temperature_celsius", "memory_used_mib")
        return dict.fromkeys(names, record)
    errors = {
        f"{fact}_errors": count(at(record, "ecc", f"total_{name}_count"), f"{fact} memory errors")
        for fact, name in (("uncorrected", "uncorrectable"), ("corrected", "correctable"), ("deferred", "deferred"))
    }
    return {
        **errors,
        "slowdowns": slowdowns(at(record, "throttle")),
        "temperature_celsius": figure(at(record, "temperature", "hotspot"), "its temperature"),
        "memory_celsius": figure(at(record, "temperature", "mem"), "the temperature of its memory"),
        "memory_used_mib": count(at(record, "mem_usage", "used_vram"), "the memory in use"),
        "performance_level": word(str(at(record, "perf_level")).rpartition("_LEVEL_")[2], "its performance level"),
        "link_fault": link_fault(at(record, "xgmi_err")),
    }


def slowdowns(throttle: Any) -> list[str] | Missing:
    """What slows the GPU down now; "absent" where it reports none of the reasons (before MI300)."""
    reported = {name: str(at(throttle, f"{name}_violation_status")).upper() for name in VIOLATIONS}
    if all(status in ("N/A", "") for status in reported.values()):
        return missing("amd-smi does not report violations", "absent")
    return [name for name, status in reported.items() if status in ACTIVE]


def link_fault(status: Any) -> TextOrMissing:
    """What its xGMI links report: "NO_ERRORS", "ERROR", "MULTIPLE_ERRORS"."""
    text = str(status).strip().upper().replace(" ", "_")
    name = text.rpartition("XGMI_STATUS_")[2]
    return missing("amd-smi does not report errors of xGMI", "absent") if name in ("N/A", "", "NONE") else name


def xgmi_links(record: dict[str, Any]) -> dict[str, Any]:
    """How many of its xGMI links are up and down: U and D of "link_status"; the GPU itself and X are none."""
    if "missing" in record:
        return record
    states = at(record, "link_status")
    states = states.split() if isinstance(states, str) else states
    words = [str(state).upper() for state in states] if isinstance(states, list) else []
    up, down = (sum(state in names for state in words) for names in (("U", "UP"), ("D", "DOWN")))
    if not up and not down:
        return missing("amd-smi reports no xGMI link", "absent")
    return {"active": up, "inactive": down}


def firmware(record: dict[str, Any]) -> list[list[str]] | Missing:
    """The parts of the GPU, each with the version of its firmware."""
    if "missing" in record:
        return record
    listed = at(record, "fw_list")
    entries = listed if isinstance(listed, list) else []
    # In text the entries stand under "FW 0", "FW 1".
    flat = [one if "fw_id" in one else next(iter(one.values()), {}) for one in entries if isinstance(one, dict) and one]
    found = {str(at(one, "fw_id")): str(at(one, "fw_version")) for one in flat}
    held = [[name, version] for name, version in sorted(found.items()) if not {name, version} & set(NO_VALUE)]
    return held or missing("amd-smi reports no firmware", "absent")


def processes(record: dict[str, Any]) -> int | Missing:
    """How many processes use the GPU."""
    if "missing" in record:
        return record
    listed = at(record, "process_list")
    if not isinstance(listed, list):
        return missing("amd-smi does not report processes", "absent")
    infos = [at(one, "process_info") for one in listed]
    return sum(isinstance(info, dict) for info in infos)
