# ruff: noqa: N802 - the names are NVML's
"""What does NVML say of these GPUs? Stands in for libnvidia-ml.so.1 as ctypes opens it."""

import ctypes
import time

LIBRARY = "libnvidia-ml.so.1"
NOT_FOUND = 6
LIMIT_MHZ, LIMIT_WATTS = 1980, 700


class Library:
    """The functions that are asked for; each gives 0, or the number of an error, and writes where a pointer shows."""

    def __init__(self, description):
        self.description = description

    def nvmlInit_v2(self):
        return 0

    def nvmlShutdown(self):
        return 0

    def nvmlDeviceGetHandleByPciBusId_v2(self, bus_id, handle):
        number = int(bus_id.decode().split(":")[1], 16) - 16
        if not 0 <= number < self.description.gpus:
            return NOT_FOUND
        handle._obj.value = number + 1
        return 0

    def _share(self, handle):
        return float(self.description.slow.get(str(handle.value - 1), 1.0))

    def nvmlDeviceGetClockInfo(self, handle, kind, value):
        value._obj.value = int((LIMIT_MHZ if kind == 1 else 2619) * (self._share(handle) if kind == 1 else 1))
        return 0

    def nvmlDeviceGetMaxClockInfo(self, _handle, kind, value):
        value._obj.value = LIMIT_MHZ if kind == 1 else 2619
        return 0

    def nvmlDeviceGetPowerUsage(self, handle, value):
        value._obj.value = int(1000 * LIMIT_WATTS * 0.95 * self._share(handle))
        return 0

    def nvmlDeviceGetEnforcedPowerLimit(self, _handle, value):
        value._obj.value = 1000 * LIMIT_WATTS
        return 0

    def nvmlDeviceGetTemperature(self, handle, _sensor, value):
        value._obj.value = 61 + int(time.monotonic()) % 3
        return 0

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle, value):
        value._obj.value = int(self.description.reasons.get(str(handle.value - 1), 0))
        return 0

    def nvmlDeviceGetFieldValues(self, _handle, _count, field):
        field._obj.code, field._obj.value = 0, 64
        return 0

    def nvmlDeviceGetTemperatureThreshold(self, _handle, _kind, value):
        value._obj.value = 95
        return 0

    def nvmlDeviceGetMaxPcieLinkGeneration(self, _handle, value):
        value._obj.value = 5
        return 0

    def nvmlDeviceGetCurrPcieLinkGeneration(self, handle, value):
        value._obj.value = int(self.description.pcie.get(str(handle.value - 1), 5))
        return 0

    def nvmlDeviceGetCurrPcieLinkWidth(self, _handle, value):
        value._obj.value = 16
        return 0


def put_under(description):
    """`ctypes.CDLL` finds the library."""
    load = ctypes.CDLL

    def found(name, *words, **named):
        return Library(description) if name == LIBRARY else load(name, *words, **named)

    ctypes.CDLL = found
