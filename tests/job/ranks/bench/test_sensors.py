"""Is a GPU that is slowed down under load told with the reason?"""

from __future__ import annotations

import ctypes
import types

import pytest
import torch

from preflight.job.ranks.bench.sensors import Sensors
from tests.job.ranks.bench.tables import metrics, older


class Nvml:
    """libnvidia-ml.so.1 as ctypes gives it: some functions, and a GPU that is told by none."""

    def __init__(self, **more):
        self.__dict__.update(more)


def sensors(**more):
    found = Sensors(torch.device("cpu"))
    found.library = Nvml(**more)
    return found


def test_the_temperature_of_the_memory_is_a_field_of_nvml():
    """82 of nvml.h, whose own code says whether this GPU has it; older libraries have no such function."""

    def told(code, celsius):
        def ask(_handle, count, field):
            assert (count, field._obj.field, ctypes.sizeof(field._obj)) == (1, 82, 40)
            field._obj.code, field._obj.value = code, celsius
            return 0

        return ask

    assert sensors(nvmlDeviceGetFieldValues=told(0, 91))._memory_celsius() == 91
    assert sensors(nvmlDeviceGetFieldValues=told(3, 0))._memory_celsius() == -1
    assert sensors()._memory_celsius() == -1
    assert sensors()._ask("nvmlDeviceGetCurrPcieLinkGeneration") == -1


@pytest.mark.parametrize("revision", [6, 7, 8])
@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("prochot", "hardware slow-down"),
        ("ppt", "software power cap"),
        ("socket", "hardware thermal slow-down"),
        ("memory", "hardware thermal slow-down"),
    ],
)
def test_the_kernel_tells_why_amds_gpu_is_slowed_down_under_load(revision, state, reason, tmp_path):
    """Its counters of residency since boot: what grows from one sample to the next holds the clocks down now."""
    sensors = Sensors(types.SimpleNamespace(type="cpu"))
    sensors.folder = str(tmp_path)
    for counted in (700, 700, 750, 790):
        (tmp_path / "gpu_metrics").write_bytes(metrics(revision, **{state: counted}))
        sensors.samples.append(sensors._of_amdgpu())
    assert sensors.reasons == {reason: 2}
    assert sensors.reported()["slowed_by"] == [reason]


@pytest.mark.parametrize(
    ("bits", "reasons"),
    [
        (0, []),
        (1 << 0, ["software power cap"]),
        (1 << 17, ["software power cap"]),  # the current of the SoC
        (1 << 34, ["hardware thermal slow-down"]),  # the memory
        (1 << 47, ["hardware slow-down"]),  # PROCHOT
        ((1 << 64) - 1, []),  # a driver that does not fill it in
    ],
)
def test_mi200_tells_by_bits_what_slows_it_down(bits, reasons, tmp_path):
    """Revision 1.3 counts nothing: what holds in every fourth sample is a reason."""
    sensors = Sensors(types.SimpleNamespace(type="cpu"))
    sensors.folder = str(tmp_path)
    (tmp_path / "gpu_metrics").write_bytes(older(bits))
    sensors.samples += [sensors._of_amdgpu() for _ in range(4)]
    assert sensors.reported()["slowed_by"] == reasons
