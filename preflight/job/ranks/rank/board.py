"""Which board is a CUDA device, and how much of its memory can a rank have?

Sources: CUDA's cuDeviceGetPCIBusId, HIP's hipDeviceGetPCIBusId, cudaDeviceProp::integrated; the kernel's
Documentation/admin-guide/mm/numaperf.rst for memory that is a NUMA node of its own, as the HBM of a GH200.
"""

from __future__ import annotations

import ctypes
import glob
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from preflight.job.ranks.rank.device import name_of

if TYPE_CHECKING:
    import torch

NODES = "/sys/devices/system/node"
MEMORY = "/proc/meminfo"
BUS_ID = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\.0", re.IGNORECASE)
KIB = re.compile(r"(\w+(?:\(\w+\))?): +(\d+) kB")
ALIKE = 0.8  # of a GPU's memory is what its NUMA node has at least: the driver keeps some


def bus_id_of(device: torch.device) -> tuple[int, int, int]:
    """The PCI domain, bus and slot of a GPU. Raises OSError or AttributeError where nothing tells them.

    Older torch has no such property: the driver is asked then, which counts GPUs as torch does.
    """
    import torch

    found: Any = torch.cuda.get_device_properties(device)
    if hasattr(found, "pci_bus_id"):
        return found.pci_domain_id, found.pci_bus_id, found.pci_device_id
    text = ctypes.create_string_buffer(32)
    number = torch.cuda.current_device() if device.index is None else device.index
    if getattr(torch.version, "hip", None):
        code = ctypes.CDLL("libamdhip64.so").hipDeviceGetPCIBusId(text, len(text), number)
    else:
        driver, handle = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
        code = driver.cuDeviceGet(ctypes.byref(handle), number)
        code = code or driver.cuDeviceGetPCIBusId(text, len(text), handle)
    place = BUS_ID.fullmatch(text.value.decode("ascii", "replace"))
    if code or place is None:
        raise OSError(f"the driver does not tell which board cuda:{number} is: error {code}")
    domain, bus, slot = (int(part, 16) for part in place.groups())
    return domain, bus, slot


def identity_of(device: torch.device) -> dict[str, str]:
    """What a rank says of its device: CUDA's number, and of a GPU its PCI address and UUID where they are known."""
    import torch

    found = {"device": name_of(device)}
    if device.type != "cuda":
        return found
    with suppress(OSError, AttributeError):
        domain, bus, slot = bus_id_of(device)
        found["board"] = f"{domain:04x}:{bus:02x}:{slot:02x}.0"
    properties: Any = torch.cuda.get_device_properties(device)
    if uuid := str(getattr(properties, "uuid", "")):
        found["uuid"] = f"{'MIG' if ' MIG ' in properties.name else 'GPU'}-{uuid}"
    return found


def memory_of(device: torch.device) -> tuple[int, int]:
    """Bytes of a GPU's memory that can be had, and all of them.

    Where the kernel keeps its page cache in the same memory, CUDA calls what files fill used, though it is given back:
    on an integrated GPU (GB10) that is the host's memory, on a GH200 a NUMA node without processors.
    """
    import torch

    free, whole = torch.cuda.mem_get_info(device)
    if getattr(torch.cuda.get_device_properties(device), "is_integrated", False):
        return min(max(free, kib_of(MEMORY).get("MemAvailable", 0) << 10), whole), whole
    return min(free + cached_bytes(whole), whole), whole


def cached_bytes(whole: int) -> int:
    """What files fill at least of a NUMA node that is a GPU's memory, of so many bytes; 0 where none is."""
    caches = []
    for folder in glob.glob(f"{NODES}/node*"):
        with suppress(OSError):
            with open(f"{folder}/cpulist", encoding="ascii") as file:
                has_cores = bool(file.read().strip())
            node = kib_of(f"{folder}/meminfo")
            if not has_cores and ALIKE * whole <= node.get("MemTotal", 0) << 10 <= whole / ALIKE:
                caches.append(node.get("Inactive(file)", 0) + node.get("Active(file)", 0))
    return min(caches, default=0) << 10


def kib_of(path: str) -> dict[str, int]:
    """The values of a file as /proc/meminfo is one, in KiB; nothing of one that cannot be read."""
    with suppress(OSError), open(path, encoding="ascii") as file:
        return {name: int(value) for name, value in KIB.findall(file.read())}
    return {}
