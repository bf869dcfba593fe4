"""Is every GPU's name the model it is, and is a figure judged by its equals and by its data sheet?"""

from __future__ import annotations

import pytest

from preflight.judge.settings import Settings
from preflight.judge.tables import devices
from preflight.knowledge import data_sheets
from preflight.said.errors import NotApplicable, NotMeasured
from preflight.testing.measured import h200

SHARES = {"matmul_tflops_per_s": 0.5, "memory_gbytes_per_s": 0.7, "host_gbytes_per_s": 0.6}


@pytest.mark.parametrize(
    "name",
    ["cpu", "NVIDIA A16", "NVIDIA RTX A4000", "NVIDIA GH200", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "A40-8Q"],
)
def test_a_name_that_is_not_listed_is_no_model(name):
    """A slice of a GPU, or another one whose name begins alike, is not held against its data sheet."""
    assert data_sheets.model_of(name) is None
    with pytest.raises(NotApplicable, match="no data sheet"):
        devices.below_model([h200(0, "a", model=name)], shares=SHARES)


def test_devices_are_compared_with_their_equals_only():
    """Another model, or another type of numbers, is no outlier; of two equals the slower one is."""
    mixed = [h200(0, "a"), h200(0, "b"), h200(0, "c", model="Tesla T4", matmul_dtype="float16", matmul_tflops_per_s=40)]
    assert devices.outliers(mixed, share=0.9) == []
    (blame,) = devices.outliers([h200(0, "a"), h200(0, "b", memory_gbytes_per_s=3000)], share=0.9)
    assert (blame.nodes, "the median of 2 is 3650" in blame.message) == (("b",), True)


def test_what_was_not_measured_is_not_judged():
    """Beside a slow result only the matrices are multiplied."""
    short = dict.fromkeys(("memory_gbytes_per_s", "to_device_gbytes_per_s", "from_device_gbytes_per_s"))
    assert devices.below_model([h200(0, "a", **short)], shares=SHARES) == []
    assert devices.outliers([h200(0, "a", **short), h200(0, "b")], share=0.9) == []


def test_far_more_than_the_data_sheet_is_never_a_pass():
    """The figure, or the model, is wrong."""
    with pytest.raises(NotMeasured, match=r"more than it can \(989\)"):
        devices.below_model([h200(0, "a", matmul_tflops_per_s=1400)], shares=SHARES)


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"model": "NVIDIA L4", "matmul_tflops_per_s": 45.0}, ""),  # 37 %: hot at 72 W
        ({"model": "NVIDIA L4", "matmul_tflops_per_s": 30.0}, "wanted 30%"),
        ({"model": "AMD Instinct MI300X", "matmul_tflops_per_s": 600.0}, ""),
        ({"model": "AMD Instinct MI300X", "matmul_tflops_per_s": 400.0}, "wanted 35%"),
        ({"model": "NVIDIA B300 SXM6 AC", "to_device_gbytes_per_s": 55.0}, ""),  # in a host of PCIe Gen5
        ({"model": "NVIDIA B300 SXM6 AC", "to_device_gbytes_per_s": 27.0}, "wanted 30%"),
        ({"model": "NVIDIA GB200", "to_device_gbytes_per_s": 198.0}, ""),  # over NVLink-C2C
        ({"model": "NVIDIA GH200 480GB", "to_device_gbytes_per_s": 370.0}, ""),
    ],
)
def test_what_healthy_ones_of_a_model_keep_up_is_wanted(fields, wanted):
    """A card of 70 W, a library that is not done, a host of an older PCIe: no warning, and less is one."""
    quiet = dict.fromkeys(
        ("matmul_tflops_per_s", "memory_gbytes_per_s", "to_device_gbytes_per_s", "from_device_gbytes_per_s")
    )
    blames = devices.below_model([h200(0, "a", **{**quiet, **fields})], shares=SHARES)
    assert [wanted in blame.message for blame in blames] == [True] * bool(wanted)


def test_the_gates_are_the_users():
    """Each figure has its own in preflight.toml."""
    bench = Settings().bench
    assert dict(zip(SHARES, (bench.matmul_below, bench.memory_below, bench.host_below), strict=True)) == SHARES
    (blame,) = devices.below_model([h200(0, "a")], shares={**SHARES, "host_gbytes_per_s": 0.85})
    assert "sends 53 GB/s to the host: 84% of the 63 of its data sheet, wanted 85%" in blame.message


def test_a_gpu_of_which_nothing_tells_its_sensors_is_not_judged_by_them():
    """Never a pass: nothing was measured."""
    silent = dict.fromkeys(("sm_mhz", "memory_celsius", "pcie_generation"))
    with pytest.raises(NotApplicable, match="under load"):
        devices.needs_sensors([h200(0, "a", **silent)])
    devices.needs_sensors([h200(0, "a")])


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"memory_celsius": 94.0}, ""),
        ({"memory_celsius": 85.0, "memory_limit_celsius": None}, ""),  # the last in the stream of air
        ({"memory_celsius": 88.0, "memory_limit_celsius": None}, "its memory is at 88 °C, the median of 3 is 62"),
        ({"pcie_generation": 4.0, "pcie_generation_max": None}, "generation 4, that of most generation 5"),
        ({"model": "NVIDIA GH200 480GB", "pcie_generation": 1.0}, ""),  # its host is at the other end of NVLink-C2C
    ],
)
def test_memory_and_link_are_held_against_their_limit_or_their_equals(fields, wanted):
    """Under load; of three and more equals."""
    blames = devices.strained([h200(0, "a"), h200(1, "b"), h200(2, "c", **fields)])
    assert [blame.nodes for blame in blames] == [("c",)] * bool(wanted)
    assert all(wanted in blame.message for blame in blames)


def test_a_product_that_differs_by_another_way_is_the_gpus_fault_where_an_equal_agrees():
    """Else the library may add inexactly, and nothing is known; what differs from itself is named whatever it is."""
    whole, crooked = h200(0, "a"), h200(0, "b", paths_differ=3)
    assert [blame.nodes for blame in devices.wrong([whole, crooked])] == [("b",)]
    with pytest.raises(NotMeasured, match="differ on every NVIDIA H200: its library adds inexactly"):
        devices.wrong([crooked, h200(0, "c", paths_differ=1), h200(0, "d", model="Tesla T4")])
    both = h200(0, "c", paths_differ=1, wrong_products=1)
    assert [blame.nodes for blame in devices.wrong([crooked, both])] == [("c",)]
    assert devices.wrong([whole]) == []
