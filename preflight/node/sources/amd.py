"""Which AMD GPUs does this node have, as amd-smi or rocm-smi report them?"""

from __future__ import annotations

import os

from preflight.node.agent import programs, roots
from preflight.node.agent.missing import missing, missing_because, read_text_or_missing
from preflight.node.sources import pci
from preflight.node.sources.gpus import printed_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LIMIT_S = 10.0
TOOLS = ("amd-smi", "rocm-smi")
MODELS = ("Card Series", "Card series", "Device Name", "Card Model", "Card model", "GFX Version")  # by version
ROCM_SMI = ("--showproductname", "--showuniqueid", "--showbus", "--showmeminfo", "vram", "--showdriverversion")


def is_present(arguments: dict[str, Any], path: str) -> bool:
    """Whether AMD's compute driver is loaded, and not only for a GPU built into the processor."""
    sysfs = arguments.get("sysfs", "/sys")
    if not os.path.exists(f"{sysfs}/class/kfd"):
        return False
    root = roots.root_of(arguments)
    tools = (programs.find(name, path, root) for name in TOOLS)
    return any(tools) or bool(pci.gpus(pci.functions(sysfs), pci.AMD))


def ras(folder: str) -> dict[str, Any]:
    """Facts of GpuStatus from what the driver counts of one GPU (amdgpu RAS): nothing where it counts nothing."""
    try:
        names = [name for name in os.listdir(folder) if name.endswith("_err_count")]
    except FileNotFoundError:
        return {}
    except OSError as error:
        return {"uncorrected_errors": missing_because(error)}
    texts: list[str] = []
    for name in sorted(names):
        text = read_text_or_missing(f"{folder}/{name}")
        if not isinstance(text, str):
            return {"uncorrected_errors": text}
        texts.append(text)
    found: dict[str, Any] = {}
    for key, fact in (("ue", "uncorrected_errors"), ("ce", "corrected_errors")):
        counts = [
            line.partition(":")[2].strip() for text in texts for line in text.splitlines() if line.startswith(key)
        ]
        if counts:
            whole = all(count.isdecimal() for count in counts)
            found[fact] = sum(map(int, counts)) if whole else missing(f"not a figure among {', '.join(counts)}")
    pages = read_text_or_missing(f"{folder}/gpu_vram_bad_pages")
    if isinstance(pages, str):
        flags = [line.rpartition(":")[2].strip() for line in pages.splitlines() if line.startswith("0x")]
        found.update(
            pages_retired=flags.count("R"), is_retirement_pending="P" in flags, has_remapping_failed="F" in flags
        )
    return found


def collect(path: str, root: str = "") -> dict[str, Any]:
    """Facts of the subject gpu."""
    amd_smi, rocm_smi = (programs.find(name, path, root) for name in TOOLS)
    try:
        if amd_smi:
            text = programs.run([amd_smi, "static", "--json"], limit_s=LIMIT_S)
            return with_health(parse_amd_smi(text), amd_smi, text)
        if rocm_smi:
            return parse_rocm_smi(programs.run([rocm_smi, *ROCM_SMI, "--json"], limit_s=LIMIT_S))
        reason = missing("AMD's driver is loaded, but neither amd-smi nor rocm-smi was found")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = missing(f"{type(error).__name__}: {error}")
    return {"devices": reason, "driver": reason, "cuda_driver": reason}


def document(text: str) -> Any:
    """The JSON in what a program printed: warnings may stand before it. ValueError where it is cut short."""
    starts = [place for place in (text.find("{"), text.find("[")) if place >= 0]
    if not starts:
        raise ValueError(f"no JSON: {' '.join(text[-300:].split())}")
    try:
        return printed_json.value_at(text, min(starts))[0]
    except ValueError as error:
        raise ValueError(f"broken JSON ({error}): {' '.join(text[-200:].split())}") from None


def with_health(found: dict[str, Any], program: str, text: str) -> dict[str, Any]:
    """The same with how each GPU is; `text` is what `amd-smi static` printed."""
    from preflight.node.sources.gpus import amd_health

    records = amd_health.records_in(text)
    if isinstance(records, list) and found["devices"]:
        amd_health.add(found["devices"], program, records)
    return found


def parse_amd_smi(text: str) -> dict[str, Any]:
    """Facts from `amd-smi static --json`: a list of GPUs, in newer versions under "gpu_data"."""
    reported = document(text)
    gpus = reported["gpu_data"] if isinstance(reported, dict) else reported
    versions = [_first(gpu.get("driver"), "version", "driver_version") for gpu in gpus]
    return facts([_amd_smi_gpu(gpu) for gpu in gpus], {str(version) for version in versions} - {"N/A"})


def _amd_smi_gpu(gpu: dict[str, Any]) -> dict[str, Any]:
    return device(
        int(gpu["gpu"]),
        str(gpu["asic"]["market_name"]),
        str(gpu["asic"]["asic_serial"]),
        gpu["bus"]["bdf"],
        _mebibytes(_first(gpu.get("vram"), "size", "size_mb", "vram_size_mb", "vram_size")),
    )


def _first(record: Any, *names: str) -> Any:
    """The value under the first of these names that a record has (names change with versions), else "N/A"."""
    return next((record[name] for name in names if name in record), "N/A") if isinstance(record, dict) else "N/A"


def _mebibytes(size: Any) -> int | None:
    """The MiB in 65520, "65520 MB" or {"value": 192, "unit": "GB"}; None where there is no figure."""
    words = [str(size.get("value")), str(size.get("unit"))] if isinstance(size, dict) else str(size).split()
    if not words or not words[0].isdecimal():
        return None
    return int(words[0]) * (1024 if words[1:] in (["GB"], ["GiB"]) else 1)


def parse_rocm_smi(text: str) -> dict[str, Any]:
    """Facts from `rocm-smi ... --json`: "card0" and so on, and "system"."""
    reported = document(text)
    cards = sorted((name for name in reported if name.startswith("card")), key=lambda name: int(name[len("card") :]))
    if not cards:
        raise ValueError("rocm-smi lists no card")
    devices = []
    for index, name in enumerate(cards):
        card = reported[name]
        model = next((card[key] for key in MODELS if card.get(key) not in (None, "", "N/A")), None)
        if model is None:
            raise KeyError(MODELS[0])
        memory = int(card["VRAM Total Memory (B)"]) >> 20 if "VRAM Total Memory (B)" in card else None
        devices.append(device(index, str(model), str(card.get("Unique ID", "N/A")), card["PCI Bus"], memory))
    version = reported.get("system", {}).get("Driver version")
    return facts(devices, {str(version)} if version else set())


def device(index: int, name: str, serial: str, bus_id: str, memory_mib: int | None) -> dict[str, Any]:
    """One GPU as facts."""
    absent = missing("not reported by AMD's tools", "absent")
    return {
        "index": index,
        "name": name,
        "uuid": serial,
        "memory_mib": absent if memory_mib is None else memory_mib,
        "bus_id": str(bus_id).lower(),
        "compute_mode": absent,
        "mig_mode": absent,
        "processes": absent,
    }


def facts(devices: list[dict[str, Any]], versions: set[str]) -> dict[str, Any]:
    """Facts of the subject gpu."""
    absent = missing("not listed by AMD's tools", "absent")
    return {
        "devices": devices,
        "driver": ", ".join(sorted(versions)) or absent,
        "cuda_driver": missing("the GPUs are AMD's", "absent"),
    }
