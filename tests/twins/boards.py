"""What are the nodes of NVIDIA's and AMD's own boards: DGX, HGX, NVL72, MI300X?"""

from __future__ import annotations

from .hardware import A100, B200, FM, GPU_PLACES, H100, H200, LAB, MLX, NVIDIA, RAILS, nic_place
from .platform import Gpus, Hca, Nic, Platform

DGX_H100 = Platform(
    name="dgx-h100",
    source="NVIDIA DGX H100/H200 User Guide: network adapters; 8 NDR for compute, 2 for storage",
    nics=(
        Nic("bond0", (LAB,), 100000, 1500),
        *(Nic(f"ibp{rail}s0", mtu=4092, pci=nic_place(rail)) for rail in RAILS),
    ),
    hcas=(
        *(Hca(f"mlx5_{rail}", netdev=f"ibp{rail}s0", pci=nic_place(rail)) for rail in RAILS),
        *(Hca(f"mlx5_{8 + k}", rate="200 Gb/sec (4X HDR)", board_id="MT_0000000891", pci=f"0000:{0x94 + k:02x}:00.0")
          for k in range(2)),
        Hca("mlx5_bond_0", "Ethernet", "100 Gb/sec (4X EDR)", netdev="bond0", board_id="MT_0000000892",
            pci="0000:a4:00.0", active_mtu=1024),
    ),
    gpus=H100,
    environment={
        "NCCL_IB_HCA": "=mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_7",
        "NCCL_SOCKET_IFNAME": "bond0",
        "GLOO_SOCKET_IFNAME": "bond0",
    },
    modules=(*NVIDIA, "nvidia_peermem", *MLX),
    processes=FM,
    ofed="24.10-2.1.8",
)  # fmt: skip
HGX_H200 = Platform(
    name="hgx-h200-roce",
    source="NVIDIA Spectrum-X and RoCE guides: one rail a GPU with a /31 to its leaf, storage in a VLAN over a bond",
    nics=(
        Nic("bond0", (LAB,), 50000, 9000),
        Nic("bond0.200", ("10.20.0.{n}/24",), 50000, 9000),
        *(Nic(f"rdma{rail}", (f"10.{100 + rail}.{{n}}.1/24",), 400000, 9000, nic_place(rail)) for rail in RAILS),
    ),
    hcas=(
        *(Hca(f"mlx5_{rail}", "Ethernet", netdev=f"rdma{rail}", pci=nic_place(rail)) for rail in RAILS),
        Hca("mlx5_bond_0", "Ethernet", "25 Gb/sec (1X EDR)", netdev="bond0", netdev_vlan="bond0.200",
            board_id="MT_0000000547", hca_type="MT4127", pci="0000:a4:00.0"),
    ),
    gpus=H200,
    environment={
        "NCCL_IB_HCA": "mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_7",
        "NCCL_IB_GID_INDEX": "3",
        "NCCL_SOCKET_IFNAME": "=bond0",
        "GLOO_SOCKET_IFNAME": "bond0",
    },
    modules=(*NVIDIA, "nvidia_peermem", *MLX),
    processes=FM,
)  # fmt: skip
B200_IB = Platform(
    name="b200",
    source="NVIDIA DGX B200 User Guide: 8 ConnectX-7 NDR, 2 NVSwitches, driver 580 with open modules and dma-buf",
    nics=(Nic("eno1", (LAB,), 25000, 9000, "0000:e1:00.0"),),
    hcas=tuple(Hca(f"mlx5_{rail}", pci=nic_place(rail)) for rail in RAILS),
    gpus=B200,
    environment={"NCCL_IB_HCA": "mlx5"},
    kernel="6.8.0-79-generic",
    modules=(*NVIDIA, *MLX),
    processes=FM,
)
DGX_A100 = Platform(
    name="dgx-a100",
    source="NVIDIA DGX A100 User Guide: 8 ConnectX-6 HDR for compute, 6 NVSwitches, no NVLink fabric state on Ampere",
    nics=(Nic("enp226s0", (LAB,), 10000, 1500, "0000:e2:00.0"), *(Nic(f"ib{rail}", mtu=4092) for rail in RAILS)),
    hcas=tuple(
        Hca(f"mlx5_{rail}", rate="200 Gb/sec (4X HDR)", hca_type="MT4123", board_id="MT_0000000223",
            firmware="20.39.3004", pci=nic_place(rail))
        for rail in RAILS
    ),
    gpus=A100,
    cpu="AMD EPYC 7742 64-Core Processor",
    cpus=256,
    memory_gib=1024,
    environment={"NCCL_SOCKET_IFNAME": "enp226s0"},
    modules=(*NVIDIA, "nvidia_peermem", *MLX),
    processes=FM,
    ofed="23.10-3.2.2",
)  # fmt: skip
GB200 = Platform(
    name="gb200-nvl72",
    source="NVIDIA GB200 NVL72 and IMEX guides: 4 GPUs and 4 ConnectX-7 a tray, one NVLink domain",
    nics=(Nic("enP22p3s0f0np0", (LAB,), 100000, 9000, "0000:e1:00.0"),),
    hcas=tuple(Hca(f"mlx5_{rail}", pci=nic_place(rail)) for rail in range(4)),
    gpus=Gpus(
        "NVIDIA GB200", count=4, architecture="Blackwell", memory_mib=189471, watts=1200.0, device_id="294110DE",
        link_gbytes="50", switches=0, driver="570.172.08", pci=GPU_PLACES[:4], clique="32766",
        cluster="6bd0b9b3-9c5e-4d33-8ab1-5d3a0b1f7c11",
    ),
    environment={"NCCL_MNNVL_ENABLE": "1", "NCCL_CUMEM_ENABLE": "1", "NCCL_IB_HCA": "mlx5"},
    kernel="6.8.0-1028-nvidia-64k",
    machine="aarch64",
    cpu="Neoverse-V2",
    cpus=144,
    memory_gib=960,
    modules=(*NVIDIA, *MLX),
    processes=("systemd", "chronyd", "nvidia-imex", "nvidia-persistenced"),
    etc={"nvidia-imex/nodes_config.cfg": "10.77.0.1\n10.77.0.2\n10.77.0.3\n"},
    files={"dev/nvidia-caps-imex-channels/channel0": ""},
)  # fmt: skip
MI300X = Platform(
    name="mi300x",
    source="ROCm documentation: AMD SMI CLI (static --json), RoCE on Broadcom Thor2 (bnxt_re0-7), one rail a GPU",
    nics=(
        Nic("eno8303", (LAB,), 25000, 1500, "0000:e1:00.0", driver="bnxt_en"),
        *(Nic(f"enp{rail}s0np0", (f"10.{150 + rail}.0.{{n}}/24",), 400000, 9000, nic_place(rail), driver="bnxt_en")
          for rail in RAILS),
    ),
    hcas=tuple(
        Hca(f"bnxt_re{rail}", "Ethernet", netdev=f"enp{rail}s0np0", pci=nic_place(rail), hca_type="BCM57608",
            board_id="", firmware="231.2.63.0")
        for rail in RAILS
    ),
    gpus=Gpus(
        "AMD Instinct MI300X", memory_mib=196592, watts=750.0, device_id="74A11002", pci=GPU_PLACES, nvlinks=0,
        has_fabric=False, switches=0, driver="6.12.12", vendor="amd",
    ),
    environment={"NCCL_IB_GID_INDEX": "3", "NCCL_SOCKET_IFNAME": "eno8303", "NCCL_IB_HCA": "bnxt_re"},
    cpu="AMD EPYC 9654 96-Core Processor",
    cpus=384,
    kernel="6.8.0-60-generic",
    modules=("amdgpu", "bnxt_re", "ib_uverbs", "ib_core"),
)  # fmt: skip
