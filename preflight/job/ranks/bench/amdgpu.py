"""What does the kernel's driver report of an AMD GPU while it works?"""

from __future__ import annotations

import glob
import os
import struct
from contextlib import suppress

GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}  # of PCIe, by GT/s
# What amdgpu's hwmon folder tells (Documentation/gpu/amdgpu/thermal): file without its number, label, factor.
AMDGPU = (
    ("freq", "sclk", "input", "sm_mhz", 1e-6),
    ("freq", "mclk", "input", "memory_mhz", 1e-6),
    ("power", "", "average", "power_watts", 1e-6),
    ("power", "", "input", "power_watts", 1e-6),
    ("power", "", "cap", "power_limit_watts", 1e-6),
    ("temp", "junction", "input", "temperature_celsius", 1e-3),
    ("temp", "mem", "input", "memory_celsius", 1e-3),
    ("temp", "mem", "crit", "memory_limit_celsius", 1e-3),
)
# Where amdgpu's gpu_metrics (kgd_pp_interface.h) counts, by its revision, how long each of these held the clocks down.
RESIDENCIES = {(1, 6): 36, (1, 7): 44, (1, 8): 44}
RESIDENCY_REASONS = (
    "hardware slow-down",  # PROCHOT
    "software power cap",  # PPT
    "hardware thermal slow-down",  # the socket, the voltage regulators, the memory
    "hardware thermal slow-down",
    "hardware thermal slow-down",
)
# Where revision 1.3 (MI200, and older) has bits of what holds the clocks down at the moment (amdgpu_smu.h). Revisions
# 1.4 and 1.5 have neither bits nor counters: "throttle status is not reported", says the driver of MI300 up to 6.12.
THROTTLED, ALL_ONES = 112, (1 << 64) - 1  # the latter where the driver fills nothing in
THROTTLERS = (
    (
        range(24),
        "software power cap",
    ),  # PPT of the socket, TDC and EDC of its currents: limits that are the board's own
    (range(32, 46), "hardware thermal slow-down"),
    (range(46, 48), "hardware slow-down"),  # PROCHOT
)


def of_amdgpu(folder: str) -> dict[str, float]:
    """What the kernel's driver reports of an AMD GPU in this folder of sysfs; what it does not report is left out."""
    found: dict[str, float] = {}
    for path in glob.glob(f"{folder}/hwmon/hwmon*/*"):
        name, _, kind = os.path.basename(path).partition("_")
        label = text_of(f"{os.path.dirname(path)}/{name}_label")
        for start, wanted, ending, title, factor in AMDGPU:
            if name.rstrip("0123456789") == start and kind == ending and wanted in ("", label):
                with suppress(ValueError):
                    found[title] = float(text_of(path)) * factor
    with suppress(ValueError):
        found["pcie_width"] = float(text_of(f"{folder}/current_link_width"))
        found["pcie_generation"] = GENERATIONS.get(float(text_of(f"{folder}/current_link_speed").split(" ")[0]), -1)
    return found


def gpu_metrics(folder: str) -> bytes:
    """The table that amdgpu gives of a GPU; nothing where it gives none."""
    with suppress(OSError), open(f"{folder}/gpu_metrics", "rb") as file:
        return file.read()
    return b""


def throttled(table: bytes) -> set[str]:
    """What holds a GPU of AMD's back at this moment, where its table has bits for it."""
    if table[2:4] != b"\x01\x03" or len(table) < THROTTLED + 8:
        return set()
    (bits,) = struct.unpack_from("<Q", table, THROTTLED)
    return {reason for places, reason in THROTTLERS if bits != ALL_ONES and any(bits >> place & 1 for place in places)}


def residencies(table: bytes) -> tuple[int, ...]:
    """How long each of RESIDENCY_REASONS has held a GPU of AMD's back so far; nothing where it is counted otherwise."""
    start = RESIDENCIES.get((table[2], table[3])) if len(table) > 4 else None
    if start is None or len(table) < start + 4 * len(RESIDENCY_REASONS):
        return ()
    return struct.unpack_from(f"<{len(RESIDENCY_REASONS)}I", table, start)


def text_of(path: str) -> str:
    """The text of a small file; "" where it cannot be read."""
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except (OSError, ValueError):
        return ""
