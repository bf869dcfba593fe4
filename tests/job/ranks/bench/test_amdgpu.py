"""What does the kernel tell of AMD's GPUs, and what is a table of another driver?"""

from __future__ import annotations

import pytest

from preflight.job.ranks.bench.amdgpu import gpu_metrics, of_amdgpu, residencies, throttled
from tests.job.ranks.bench.tables import metrics, older


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
    assert of_amdgpu(str(tmp_path)) == {
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
    assert of_amdgpu(str(tmp_path / "gone")) == {}


@pytest.mark.parametrize("table", [b"", metrics(6)[:40], older(0)[:110], older(1 << 34, 4), older(1 << 34, 5), None])
def test_a_table_of_another_driver_gives_no_reason(table, tmp_path):
    """Cut short, of a revision that does not report it (1.4, 1.5), or not there."""
    if table is not None:
        (tmp_path / "gpu_metrics").write_bytes(table)
    told = gpu_metrics(str(tmp_path))
    assert (residencies(told), throttled(told)) == ((), set())
