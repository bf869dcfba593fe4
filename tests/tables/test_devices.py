"""Is every GPU's name the model it is, and is a figure judged by its equals and by its data sheet?"""

from __future__ import annotations

import pytest

from preflight.errors import NotApplicable, NotMeasured
from preflight.options.settings import Settings
from preflight.tables import devices
from preflight.testing.measured import h200

SHARES = {"matmul_tflops_per_s": 0.5, "memory_gbytes_per_s": 0.7, "host_gbytes_per_s": 0.6}


@pytest.mark.parametrize(
    ("name", "matmul", "memory"),
    [
        ("NVIDIA A100-SXM4-40GB", 312, 1555),
        ("NVIDIA A100-SXM4-80GB", 312, 2039),
        ("NVIDIA A100 80GB PCIe", 312, 1935),
        ("NVIDIA H100 80GB HBM3", 989, 3350),
        ("NVIDIA H100 PCIe", 756, 2000),
        ("NVIDIA H100 NVL", 836, 3900),
        ("NVIDIA H200", 989, 4800),
        ("NVIDIA H200 NVL", 836, 4800),
        ("NVIDIA H20", 148, 4000),
        ("NVIDIA H20-3e", 148, 4800),
        ("NVIDIA H800", 989, 3350),
        ("NVIDIA H800 PCIe", 756, 2000),
        ("NVIDIA A800-SXM4-80GB", 312, 2039),
        ("NVIDIA A800 80GB PCIe", 312, 1935),
        ("NVIDIA B200", 2250, 7672),
        ("NVIDIA GB200", 2500, 8000),
        ("NVIDIA B300 SXM6 AC", 2250, 8000),
        ("NVIDIA GB300", 2500, 8000),
        ("NVIDIA GH200 480GB", 989, 4000),
        ("NVIDIA GH200 144G HBM3e", 989, 4900),
        ("NVIDIA A10G", 70, 600),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 484, 1597),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 503.8, 1792),
        ("AMD Instinct MI300X", 1307, 5300),
        ("AMD Instinct MI325X", 1307, 6000),
        ("AMD Instinct MI355X", 2516, 8000),
        ("AMD Instinct MI250X", 191.5, 1638),
        ("NVIDIA L40S", 362, 864),
        ("NVIDIA L40", 181, 864),
        ("NVIDIA L4", 121, 300),
        ("NVIDIA A10", 125, 600),
        ("NVIDIA A40", 149.7, 696),
        ("Tesla V100-SXM2-32GB", 125, 900),
        ("Tesla V100-PCIE-16GB", 112, 900),
        ("Tesla T4", 65, 300),
        ("NVIDIA GeForce RTX 4090", 165.2, 1008),
        ("NVIDIA RTX A6000", 154.8, 768),
        ("NVIDIA RTX 6000 Ada Generation", 364, 960),
    ],
)
def test_a_drivers_name_is_one_model(name, matmul, memory):
    """The figures are those of the data sheet."""
    model = devices.model_of(name)
    assert (model.matmul_tflops_per_s, model.memory_gbytes_per_s) == (matmul, memory)


NVIDIA, AMD = "https://www.nvidia.com/en-us", "https://www.amd.com/en/products/accelerators/instinct"
PAPERS = "https://images.nvidia.com/aem-dam/Solutions"
# Rows by the beginning of their patterns, and where their maker says so.
SOURCES = {
    "GB300": f"{NVIDIA}/data-center/gb300-nvl72/",
    "B300": f"{NVIDIA}/data-center/hgx/",
    "GB200": f"{NVIDIA}/data-center/gb200-nvl72/",
    "B200": "https://github.com/pytorch/ao/issues/4002",
    "GH200": f"{NVIDIA}/data-center/grace-hopper-superchip/",
    "H200": f"{NVIDIA}/data-center/h200/",
    "H100": f"{NVIDIA}/data-center/h100/",
    "(H100|H800)": f"{NVIDIA}/data-center/h100/",  # H800 and A800: the same with fewer NVLinks
    "H20": "https://willitrunai.com/es/gpus/h20-96gb",  # NVIDIA has no page of it; H20-3e: the memory of H200
    "(A100|A800)": f"{NVIDIA}/data-center/a100/",
    "A30": f"{NVIDIA}/data-center/products/a30-gpu/",
    "A40": f"{NVIDIA}/data-center/a40/",
    "A10": f"{NVIDIA}/data-center/products/a10-gpu/",
    "A10G": "https://d1.awsstatic.com/product-marketing/ec2/NVIDIA_AWS_A10G_DataSheet_FINAL_02_17_2022.pdf",
    "L40": f"{NVIDIA}/data-center/l40/",
    "L40S": f"{NVIDIA}/data-center/l40s/",
    "L20": f"{NVIDIA}/data-center/l40/",  # the same chip: 92 of 142 multiprocessors
    "L4": f"{NVIDIA}/data-center/l4/",
    "V100": f"{NVIDIA}/data-center/v100/",
    "T4": f"{NVIDIA}/data-center/tesla-t4/",
    "RTX PRO 6000": f"{NVIDIA}/data-center/rtx-pro-6000-blackwell-server-edition/",
    "RTX 6000 Ada": f"{NVIDIA}/products/workstations/rtx-6000/",
    "RTX A6000": f"{NVIDIA}/products/workstations/rtx-a6000/",
    # The white papers of GB202, AD102 and GA102 tell the rate with float32 accumulation, which the pages do not.
    "RTX 5090": f"{PAPERS}/geforce/blackwell/nvidia-rtx-blackwell-gpu-architecture.pdf",
    "RTX 4090": f"{PAPERS}/geforce/ada/nvidia-ada-gpu-architecture.pdf",
    "RTX 3090": "https://www.nvidia.com/content/PDF/nvidia-ampere-ga-102-gpu-architecture-whitepaper-v2.pdf",
    "MI355X": f"{AMD}/mi350/mi355x.html",
    "MI350X": f"{AMD}/mi350/mi350x.html",
    "MI325X": f"{AMD}/mi300/mi325x.html",
    "MI300X": f"{AMD}/mi300/mi300x.html",
    "MI300A": f"{AMD}/mi300/mi300a.html",
    "MI250X": f"{AMD}/mi200/mi250x.html",
    "MI250": f"{AMD}/mi200/mi250.html",
    "MI210": f"{AMD}/mi200/mi210.html",
}


def test_every_row_has_its_source():
    """A model that is added needs one."""
    assert [row.pattern for row in devices.MODELS if not any(row.pattern.startswith(name) for name in SOURCES)] == []


@pytest.mark.parametrize(
    "name",
    ["cpu", "NVIDIA A16", "NVIDIA RTX A4000", "NVIDIA GH200", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "A40-8Q"],
)
def test_a_name_that_is_not_listed_is_no_model(name):
    """A slice of a GPU, or another one whose name begins alike, is not held against its data sheet."""
    assert devices.model_of(name) is None
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
