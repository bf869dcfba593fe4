"""Which GPUs, modules and services do several platforms share, and where does each device sit on PCIe?"""

from __future__ import annotations

from .platform import Gpus

LAB = "10.77.0.{n}/24"  # as in the lab, so that a twin can be put under its hosts
SERVICES = ("systemd", "chronyd")
NVIDIA = ("nvidia_uvm", "nvidia")
MLX = ("mlx5_ib", "mlx5_core", "ib_uverbs", "ib_core", "ib_umad", "rdma_ucm")
RAILS = range(8)


def gpu_place(rail: int) -> str:
    """Where the GPU of a rail sits: below the same switch as its adapter."""
    return f"0000:{0x10 * (rail + 1) + 3:02x}:00.0"


def nic_place(rail: int, number: int = 0) -> str:
    """Where an adapter of a rail sits."""
    return f"0000:{0x10 * (rail + 1) + 4 + number:02x}:00.0"


GPU_PLACES = tuple(gpu_place(rail) for rail in RAILS)
H100 = Gpus("NVIDIA H100 80GB HBM3", pci=GPU_PLACES)
H200 = Gpus("NVIDIA H200", memory_mib=143771, device_id="233510DE", pci=GPU_PLACES)
B200 = Gpus(
    "NVIDIA B200",
    architecture="Blackwell",
    memory_mib=183359,
    watts=1000.0,
    device_id="290110DE",
    link_gbytes="50",
    switches=2,
    driver="580.65.06",
    cuda="13.0",
    pci=GPU_PLACES,
)
A100 = Gpus(
    "NVIDIA A100-SXM4-80GB",
    architecture="Ampere",
    memory_mib=81920,
    watts=400.0,
    device_id="20B210DE",
    generation=4,
    nvlinks=12,
    link_gbytes="25",
    has_fabric=False,
    switches=6,
    driver="550.144.03",
    cuda="12.4",
    is_open=False,
    pci=GPU_PLACES,
)
A100_40 = Gpus(
    "NVIDIA A100-SXM4-40GB", architecture="Ampere", memory_mib=40960, watts=400.0, device_id="20B010DE", generation=4,
    nvlinks=12, link_gbytes="25", has_fabric=False, switches=6, driver="550.163.01", cuda="12.4", pci=GPU_PLACES,
)  # fmt: skip
FM = (*SERVICES, "nv-fabricmanager", "nvidia-persistenced")
