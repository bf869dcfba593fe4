"""What does amd-smi print in JSON? The form is that of the AMD SMI CLI (static, metric, xgmi, firmware, process)."""

from __future__ import annotations

import json
from typing import Any

from .platform import Gpus

BLOCKS = ("UMC", "SDMA", "GFX", "MMHUB", "PCIE_BIF", "XGMI_WAFL")
VIOLATIONS = ("prochot", "ppt", "socket_thermal", "vr_thermal", "hbm_thermal")


def outputs(gpus: Gpus, node: int) -> dict[str, str]:
    """The output of each command; since ROCm 7 a list of GPUs stands under "gpu_data"."""
    made = {
        "static": [static(gpus, node, index) for index in range(gpus.count)],
        "metric": [metric(gpus, index) for index in range(gpus.count)],
        "firmware": [firmware(index) for index in range(gpus.count)],
        "process": [
            {"gpu": index, "process_list": [{"process_info": "No running processes detected"}]}
            for index in range(gpus.count)
        ],
    }
    found = {
        f"amd-smi {name} --json": json.dumps({"gpu_data": told} if gpus.tool == "rocm7" else told, indent=4)
        for name, told in made.items()
    }
    # Two documents, one after the other: the links with what they carried, and their states.
    states = [
        {"gpu": index, "bdf": gpus.pci[index], "link_status": ["X" if index == peer else "U" for peer in range(8)]}
        for index in range(gpus.count)
    ]
    links = [
        {"gpu": index, "bdf": gpus.pci[index], "link_metrics": {"link_type": "XGMI", "links": []}}
        for index in range(gpus.count)
    ]
    return {
        **found,
        "amd-smi xgmi --link-status --json": f"{json.dumps(links, indent=4)}\n{json.dumps(states, indent=4)}\n",
    }


def unit(value: float, name: str) -> dict[str, Any]:
    """A figure with its unit."""
    return {"value": value, "unit": name}


def of_module(gpus: Gpus, index: int, figure: dict[str, Any]) -> dict[str, Any] | str:
    """What only the first die of a module tells."""
    return figure if index % gpus.dies == 0 else "N/A"


def static(gpus: Gpus, node: int, index: int) -> dict[str, Any]:
    """`amd-smi static` of one GPU."""
    if gpus.dies > 1:
        return of_two_dies(gpus, node, index)
    limits = {"slowdown_hotspot_temperature": unit(100, "C"), "slowdown_vram_temperature": unit(105, "C")}
    watts = unit(gpus.watts, "W")
    return {
        "gpu": index,
        "asic": {
            "market_name": gpus.name,
            "vendor_id": "0x1002",
            "device_id": "0x74a1",
            "asic_serial": f"0x{node:04X}{index:012X}",
            "num_compute_units": 304,
            "target_graphics_version": "gfx942",
        },
        "bus": {"bdf": gpus.pci[index], "max_pcie_width": 16, "pcie_interface_version": "Gen 5"},
        "vbios": {"name": "AMD MI300X_HW_SRIOV", "part_number": "113-M3000100-102", "version": "022.040.003.042"},
        "limit": {"ppt0": {"socket_power_limit": watts}, **limits} if gpus.tool == "rocm7" else {
            "max_power": watts, "socket_power": watts, **limits,
        },
        "driver": {"name": "amdgpu", "version": gpus.driver},
        "vram": {"type": "HBM3", "size": unit(gpus.memory_mib, "MB")},
        "ras": {"eeprom_version": "0x30000", "ecc_block_state": dict.fromkeys(BLOCKS, "ENABLED")},
        "partition": {"compute_partition": "SPX", "memory_partition": "NPS1", "partition_id": 0},
        "numa": {"node": index // 4, "affinity": index // 4},
    }  # fmt: skip


def of_two_dies(gpus: Gpus, node: int, index: int) -> dict[str, Any]:
    """The same of an MI250X, by the tool of ROCm 6.0: each die a GPU, no partitions, the power with the first die."""
    watts = of_module(gpus, index, unit(gpus.watts, "W"))
    return {
        "gpu": index,
        "asic": {
            "market_name": "MI250X",
            "vendor_id": "0x1002",
            "device_id": "0x7408",
            "rev_id": "0x01",
            "asic_serial": f"0x{node:04X}{index // 2:012X}",
            "num_compute_units": 110,
            "target_graphics_version": "gfx90a",
            "oam_id": index // 2,
        },
        "bus": {"bdf": gpus.pci[index], "max_pcie_width": 16, "max_pcie_speed": unit(16, "GT/s"),
                "pcie_interface_version": "Gen 4", "slot_type": "OAM"},
        "vbios": {"name": "AMD Aldebaran", "part_number": "113-D65201-045", "version": "022.001.002.000"},
        "limit": {"max_power": watts, "current_power": watts, "slowdown_hotspot_temperature": unit(100, "C"),
                  "slowdown_vram_temperature": unit(95, "C")},
        "driver": {"name": "amdgpu", "version": gpus.driver},
        "vram": {"type": "HBM2E", "vendor": "HYNIX", "size": unit(gpus.memory_mib, "MB")},
        "ras": {"eeprom_version": "0x10000", "ecc_block_state": dict.fromkeys(BLOCKS, "ENABLED")},
        "partition": {"compute_partition": "N/A", "memory_partition": "N/A", "partition_id": 0},
        "numa": {"node": (3, 3, 1, 1, 0, 0, 2, 2)[index], "affinity": (3, 3, 1, 1, 0, 0, 2, 2)[index]},
    }  # fmt: skip


def metric(gpus: Gpus, index: int) -> dict[str, Any]:
    """`amd-smi metric` of one GPU."""
    errors = ("correctable", "uncorrectable", "deferred")
    throttle: dict[str, Any] = {f"{name}_violation_status": "NOT ACTIVE" for name in VIOLATIONS}
    throttle |= {f"{name}_violation_activity": unit(0, "%") for name in VIOLATIONS}
    return {
        "gpu": index,
        "usage": {"gfx_activity": unit(0, "%"), "umc_activity": unit(0, "%")},
        "power": {"socket_power": of_module(gpus, index, unit(138 + index, "W")), "throttle_status": "N/A"},
        "temperature": {"edge": "N/A", "hotspot": unit(40 + index, "C"), "mem": unit(34 + index, "C")},
        "pcie": {"width": 16, "speed": unit(32, "GT/s"), "replay_count": 0, "nak_sent_count": 0},
        "ecc": {f"total_{name}_count": 0 for name in errors} | {"cache_correctable_count": 0},
        "ecc_blocks": {block: {f"{name}_count": 0 for name in errors} for block in BLOCKS},
        "perf_level": "AMDSMI_DEV_PERF_LEVEL_AUTO",
        "xgmi_err": "AMDSMI_XGMI_STATUS_NO_ERRORS",
        "mem_usage": {"total_vram": unit(gpus.memory_mib, "MB"), "used_vram": unit(284, "MB")},
        "throttle": throttle,
    }


def firmware(index: int) -> dict[str, Any]:
    """`amd-smi firmware` of one GPU."""
    versions = {"CP_MEC1": "166", "RLC": "78", "SDMA0": "19", "PSP_SOSDRV": "00.36.02.59", "PM": "00.85.112.00"}
    return {"gpu": index, "fw_list": [{"fw_id": name, "fw_version": text} for name, text in versions.items()]}
