"""What do amd-smi and rocm-smi print in JSON? The form is that of the AMD SMI CLI documentation (static --json)."""

from __future__ import annotations

import json

from .platform import Gpus


def static(gpus: Gpus, node: int) -> str:
    """`amd-smi static --json`; since ROCm 7 the list stands under "gpu_data"."""
    found = [
        {
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
            "vram": {"type": "HBM3", "size": {"value": gpus.memory_mib, "unit": "MB"}},
            "driver": {"name": "amdgpu", "version": gpus.driver},
            "numa": {"node": index // 4, "affinity": index // 4},
        }
        for index in range(gpus.count)
    ]
    return json.dumps({"gpu_data": found} if gpus.tool == "rocm7" else found, indent=4)
