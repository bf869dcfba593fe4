"""What do NVML or the kernel report of a GPU under load?"""

from __future__ import annotations

import ctypes
import statistics
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from preflight.job.ranks.bench.amdgpu import RESIDENCY_REASONS, gpu_metrics, of_amdgpu, residencies, throttled
from preflight.job.ranks.bench.cores import PCI_DEVICES
from preflight.job.ranks.rank.board import bus_id_of

if TYPE_CHECKING:
    import torch

SAMPLE_SECONDS = 0.05
# Bits of NVML's reasons for a slower clock (nvml.h). Idle and the clocks that somebody has set are none under load.
REASONS = {
    0x04: "software power cap",
    0x08: "hardware slow-down",
    0x20: "software thermal slow-down",
    0x40: "hardware thermal slow-down",
    0x80: "hardware power brake",
}
MEMORY_TEMPERATURE = 82  # NVML_FI_DEV_MEMORY_TEMP
MEMORY_LIMIT = 2  # NVML_TEMPERATURE_THRESHOLD_MEM_MAX


class FieldValue(ctypes.Structure):
    """nvmlFieldValue_t, of which the value is a whole number here."""

    _fields_ = (
        ("field", ctypes.c_uint),
        ("scope", ctypes.c_uint),
        ("timestamp", ctypes.c_longlong),
        ("latency", ctypes.c_longlong),
        ("kind", ctypes.c_uint),
        ("code", ctypes.c_uint),
        ("value", ctypes.c_ulonglong),
    )


class Sensors:
    """What is reported of a GPU under load: clocks, power, temperatures, its PCIe link, and why it is slowed down.

    By NVML, and for AMD by the kernel. Nothing where neither knows the GPU: a processor, a slice of a GPU.
    """

    def __init__(self, device: torch.device) -> None:
        self.samples: list[dict[str, float]] = []
        self.reasons: dict[str, int] = {}
        self.limits: dict[str, float] = {}
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._sample, daemon=True)
        self.library: Any = None
        self.folder = ""  # of AMD's GPU in sysfs
        self.held: tuple[int, ...] = ()  # how long each of the residency reasons has held
        self.handle = ctypes.c_void_p()
        if device.type == "cuda":
            with suppress(OSError, AttributeError, RuntimeError):
                self._open(device)

    def _open(self, device: torch.device) -> None:
        import torch

        domain, bus, slot = bus_id_of(device)
        place = f"{bus:02x}:{slot:02x}.0"
        if getattr(torch.version, "hip", None):
            self.folder = f"{PCI_DEVICES}/{domain:04x}:{place}"
            return
        library: Any = ctypes.CDLL("libnvidia-ml.so.1")
        find = library.nvmlDeviceGetHandleByPciBusId_v2
        bus_id = f"{domain:08x}:{place}"
        if library.nvmlInit_v2() == 0 and find(bus_id.encode(), ctypes.byref(self.handle)) == 0:
            self.library = library
            self.limits = {
                "sm_mhz_max": self._ask("nvmlDeviceGetMaxClockInfo", 1),
                "power_limit_watts": self._ask("nvmlDeviceGetEnforcedPowerLimit") / 1e3,
                "memory_limit_celsius": self._ask("nvmlDeviceGetTemperatureThreshold", MEMORY_LIMIT),
                "pcie_generation_max": self._ask("nvmlDeviceGetMaxPcieLinkGeneration"),
            }

    def __enter__(self) -> None:
        if self.library is not None or self.folder:
            self.thread.start()

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        if self.thread.is_alive():
            self.thread.join(timeout=10 * SAMPLE_SECONDS + 2.0)
        if self.library is not None:
            self.library.nvmlShutdown()

    def _ask(self, name: str, *words: int, wide: bool = False) -> float:
        """One value; -1 where this GPU, or this NVML, has none."""
        value: Any = ctypes.c_ulonglong() if wide else ctypes.c_uint()
        ask = getattr(self.library, name, None)
        return int(value.value) if ask is not None and ask(self.handle, *words, ctypes.byref(value)) == 0 else -1

    def _memory_celsius(self) -> float:
        """The temperature of the memory: NVML has it as a field, of GPUs with HBM."""
        field = FieldValue(field=MEMORY_TEMPERATURE)
        ask = getattr(self.library, "nvmlDeviceGetFieldValues", None)
        is_known = ask is not None and ask(self.handle, 1, ctypes.byref(field)) == 0 and field.code == 0
        return int(field.value & 0xFFFFFFFF) if is_known and field.value else -1

    def _sample(self) -> None:
        while not self.ended.wait(SAMPLE_SECONDS):
            self.samples.append(self._of_amdgpu() if self.folder else self._of_nvml())

    def _of_amdgpu(self) -> dict[str, float]:
        table = gpu_metrics(self.folder)
        before, self.held = self.held, residencies(table)
        grown = zip(RESIDENCY_REASONS, before, self.held)
        for reason in {reason for reason, once, now in grown if now > once} | throttled(table):
            self.reasons[reason] = self.reasons.get(reason, 0) + 1
        return of_amdgpu(self.folder)

    def _of_nvml(self) -> dict[str, float]:
        bits = max(0, int(self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", wide=True)))
        for bit, reason in REASONS.items():
            if bits & bit:
                self.reasons[reason] = self.reasons.get(reason, 0) + 1
        return {
            "sm_mhz": self._ask("nvmlDeviceGetClockInfo", 1),
            "memory_mhz": self._ask("nvmlDeviceGetClockInfo", 2),
            "power_watts": self._ask("nvmlDeviceGetPowerUsage") / 1e3,
            "temperature_celsius": self._ask("nvmlDeviceGetTemperature", 0),
            "memory_celsius": self._memory_celsius(),
            "pcie_generation": self._ask("nvmlDeviceGetCurrPcieLinkGeneration"),
            "pcie_width": self._ask("nvmlDeviceGetCurrPcieLinkWidth"),
        }

    def reported(self) -> dict[str, Any]:
        """The median of each value, and the reasons that held in every fourth sample or more."""
        if not self.samples:
            return {}
        values = {name: statistics.median(one[name] for one in self.samples if name in one) for name in self.samples[0]}
        slowed = [reason for reason, count in self.reasons.items() if count * 4 >= len(self.samples)]
        return {**{name: value for name, value in (values | self.limits).items() if value >= 0}, "slowed_by": slowed}
