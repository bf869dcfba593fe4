"""Does a device measure itself, and does a product that differs count? On the processor: the code is the GPU's."""

from __future__ import annotations

import ctypes
import struct
import sys
import types

import pytest
import torch

from preflight.workloads import devices

QUICK = {"seconds": 0.05}
# Acts on the last product of that rank: the timed ones are written into a given matrix.
SPOIL = """
import torch
whole = torch.mm
def mm(left, right, *, out):
    whole(left, right, out=out)
    out[3, 5] += 1
torch.mm = mm
"""
# One product in the middle, and not the last.
SPOIL_ONE = SPOIL.replace("out[3, 5] += 1", "count.append(1)\n    if len(count) == 3: out[3, 5] += 1").replace(
    "whole = torch.mm", "whole, count = torch.mm, []"
)
LEAVE = "import os, torch; torch.zeros = lambda *words, **named: os._exit(7)"


@pytest.fixture(scope="module")
def played(forked_scenarios):
    """Every scenario of this file, played once."""
    return forked_scenarios(
        "devices.py",
        {
            "whole": {"ranks": 2, "settings": QUICK},
            "short": {"ranks": 1, "settings": {**QUICK, "figures": ["matmul"]}},
            "spoilt": {"ranks": 1, "settings": QUICK, "plants": {"0": SPOIL}},
            "now and then": {"ranks": 1, "settings": QUICK, "plants": {"0": SPOIL_ONE}},
            "leaves": {"ranks": 1, "settings": QUICK, "plants": {"0": LEAVE}},
            "no gpu": {"ranks": 1, "settings": {"device": "cuda"}},
        },
    )


def told(scenario, kind="device"):
    return [record for record in scenario["records"] if record["record"] == kind]


def test_a_processor_tells_its_matrices_and_its_memory(played):
    """Labelled as a processor, with the type of its numbers; there is no way to a device."""
    records = told(played["whole"])
    assert len(records) == 2
    for record in records:
        assert (record["device"], record["model"], record["matmul_dtype"]) == ("cpu", "cpu", "float32")
        assert record["matmul_tflops_per_s"] > 0
        assert record["memory_gbytes_per_s"] > 0
        assert record["wrong"] == 0
        assert "to_device_gbytes_per_s" not in record
    assert played["whole"]["codes"] == [0, 0]


def test_only_what_was_asked_for_is_measured(played):
    """Beside a slow result the matrices are enough."""
    (record,) = told(played["short"])
    assert "memory_gbytes_per_s" not in record


def test_an_element_that_differs_is_counted(played):
    """The same matrices give the same product: each is verified, not only the last."""
    (record,) = told(played["spoilt"])
    assert record["wrong"] == 1
    assert record["wrong_products"] == record["products"] > 3
    assert told(played["now and then"])[0]["wrong_products"] == 1
    assert told(played["now and then"])[0]["wrong"] == 0


def test_a_device_that_ends_or_is_not_there_gives_no_figure(played):
    """One dies without a word, the other says why."""
    assert played["leaves"]["codes"] == [7]
    assert told(played["leaves"]) == []
    assert played["no gpu"]["codes"] == [1]
    (failed,) = told(played["no gpu"], "failed")
    assert failed["error"]


@pytest.mark.parametrize(("text", "cores"), [("0-3,8\n", {0, 1, 2, 3, 8}), ("5", {5}), ("0-1,4-5", {0, 1, 4, 5})])
def test_the_cores_near_a_gpu_are_read(text, cores):
    """As the kernel lists them."""
    assert devices.cores_of(text) == cores


class Nvml:
    """libnvidia-ml.so.1 as ctypes gives it: some functions, and a GPU that is told by none."""

    def __init__(self, **more):
        self.__dict__.update(more)


def sensors(**more):
    found = devices.Sensors(torch.device("cpu"))
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


def test_the_kernel_tells_of_amds_gpus(tmp_path):
    """Its hwmon folder and its PCI device; what is not there, or is no figure, is left out."""
    files = {
        "freq1_input": "1420000000\n",
        "freq1_label": "sclk",
        "freq2_input": "1300000000",
        "freq2_label": "mclk",
        "power1_average": "612000000",
        "power1_cap": "750000000",
        "temp2_input": "71000",
        "temp2_label": "junction",
        "temp3_input": "66000",
        "temp3_label": "mem",
        "temp3_crit": "105000",
        "temp1_input": "n/a",
    }
    (tmp_path / "hwmon/hwmon4").mkdir(parents=True)
    for name, text in files.items():
        (tmp_path / "hwmon/hwmon4" / name).write_text(text)
    (tmp_path / "current_link_width").write_text("16\n")
    (tmp_path / "current_link_speed").write_text("32.0 GT/s PCIe\n")
    assert devices.of_amdgpu(str(tmp_path)) == {
        "sm_mhz": 1420.0,
        "memory_mhz": 1300.0,
        "power_watts": 612.0,
        "power_limit_watts": 750.0,
        "temperature_celsius": 71.0,
        "memory_celsius": 66.0,
        "memory_limit_celsius": 105.0,
        "pcie_width": 16.0,
        "pcie_generation": 5,
    }
    assert devices.of_amdgpu(str(tmp_path / "gone")) == {}


def metrics(revision, **counted):
    """gpu_metrics of MI300X: the kernel's table, with so long in each of the states that hold the clocks down."""
    start = {6: 36, 7: 44, 8: 44}[revision]
    table = bytearray(start + 64)
    table[:4] = struct.pack("<HBB", len(table), 1, revision)
    names = ("prochot", "ppt", "socket", "regulators", "memory")
    struct.pack_into("<5I", table, start, *(counted.get(name, 0) for name in names))
    return bytes(table)


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
    sensors = devices.Sensors(types.SimpleNamespace(type="cpu"))
    sensors.folder = str(tmp_path)
    for counted in (700, 700, 750, 790):
        (tmp_path / "gpu_metrics").write_bytes(metrics(revision, **{state: counted}))
        sensors.samples.append(sensors._of_amdgpu())
    assert sensors.reasons == {reason: 2}
    assert sensors.told()["slowed_by"] == [reason]


def older(bits, revision=3):
    """gpu_metrics of MI200, with bits of what holds the clocks down at this moment."""
    table = bytearray(120)
    table[:4] = struct.pack("<HBB", len(table), 1, revision)
    struct.pack_into("<Q", table, 112, bits)
    return bytes(table)


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
    sensors = devices.Sensors(types.SimpleNamespace(type="cpu"))
    sensors.folder = str(tmp_path)
    (tmp_path / "gpu_metrics").write_bytes(older(bits))
    sensors.samples += [sensors._of_amdgpu() for _ in range(4)]
    assert sensors.told()["slowed_by"] == reasons


@pytest.mark.parametrize(
    ("free", "whole", "is_short"),
    [(80 << 30, 80 << 30, False), (8 << 30, 80 << 30, False), ((8 << 30) - 1, 8 << 30, True)],
)
def test_a_gpu_with_too_little_free_memory_says_how_much_it_has(monkeypatch, free, whole, is_short):
    """Instead of figures that would make it, and what uses it, run out of memory; a processor has none of its own."""
    cuda = types.SimpleNamespace(mem_get_info=lambda _device: (free, whole), get_device_name=lambda _device: "NVIDIA X")
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(cuda=cuda))
    told = devices.without_room(types.SimpleNamespace(type="cuda"))
    wanted = {"free_bytes": free, "memory_bytes": whole, "wanted_bytes": 8 << 30}
    assert told == (wanted if is_short else {})
    assert devices.without_room(types.SimpleNamespace(type="cpu")) == {}
    if is_short:
        record = devices.measured(types.SimpleNamespace(type="cuda"), ("matmul",), seconds=0.1)
        assert record == {"record": "no_device", "device": record["device"], "model": "NVIDIA X", **wanted}


@pytest.mark.parametrize("table", [b"", metrics(6)[:40], older(0)[:110], older(1 << 34, 4), older(1 << 34, 5), None])
def test_a_table_of_another_driver_gives_no_reason(table, tmp_path):
    """Cut short, of a revision that does not report it (1.4, 1.5), or not there."""
    if table is not None:
        (tmp_path / "gpu_metrics").write_bytes(table)
    told = devices.gpu_metrics(str(tmp_path))
    assert (devices.residencies(told), devices.throttled(told)) == ((), set())
