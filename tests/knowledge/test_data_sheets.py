"""Is a GPU held to the data sheet of its own model?"""

from __future__ import annotations

import pytest

from preflight.knowledge import data_sheets


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
    model = data_sheets.model_of(name)
    assert (model.matmul_tflops_per_s, model.memory_gbytes_per_s) == (matmul, memory)
