"""What are further nodes that clouds rent out, each like one that is described elsewhere but for what it names?"""

from __future__ import annotations

from dataclasses import replace

from .boards import MI300X
from .clouds import A3_ULTRA, AZURE, aws
from .hardware import A100, A100_40, B200, LAB, RAILS, nic_place
from .platform import Hca, Nic, Platform
from .servers import gbe

A4 = replace(
    A3_ULTRA,
    name="gcp-a4",
    source="Google Cloud: a4-highgpu-8g, eight B200, RDMA over gIB on gpu0rdma0-gpu7rdma0; driver 580, Rocky Linux 9",
    gpus=B200,
    kernel="5.14.0-570.17.1.el9_6.x86_64",
    cpu="INTEL(R) XEON(R) PLATINUM 8581C",
    memory_gib=3968,
)
A2 = Platform(
    name="gcp-a2",
    source="Google Cloud: a2-highgpu-8g, eight A100 of 40 GB, one gVNIC with a /32 and MTU 8896, no RDMA",
    nics=(Nic("ens12", ("10.77.0.{n}/32",), 0, 8896, "0000:00:0c.0", driver="gve"),),
    gpus=A100_40,
    hostname="a2-{n}",
    domain="us-central1-a.c.example.internal",
    hosts="169.254.169.254 metadata.google.internal  # Added by Google\n",
    environment={"NCCL_SOCKET_IFNAME": "ens12"},
    kernel="6.1.0-28-cloud-amd64",
    cpu="Intel(R) Xeon(R) CPU @ 2.20GHz",
    cpus=96,
    memory_gib=680,
    modules=("nvidia_uvm", "nvidia"),
    processes=("systemd", "chronyd", "nv-fabricmanager", "nvidia-persistenced"),
    iommu="",
    governor="",
    boot="ro console=ttyS0,38400n8",
    nofile=65536,
    memlock=8 << 20,
    over_ssh=False,
)
P6 = replace(
    aws("aws-p6-b200", B200, 8, "AWS EFA documentation: p6-b200.48xlarge, eight EFA of 400 Gbit/s; Ubuntu 24.04",
        "400 Gb/sec (4X NDR)"),
    kernel="6.14.0-1011-aws",
    cpu="INTEL(R) XEON(R) PLATINUM 8570",
    governor="",
    hostname="ip-10-77-0-{n}",
    domain="ec2.internal",
)  # fmt: skip
AZURE_A100 = replace(
    AZURE,
    name="azure-nd-a100-v4",
    source="Azure HPC images: ND A100 v4, mlx5_ib0-7 of HDR (SR-IOV, MT4124), mlx5_an0, ndv4-topo.xml",
    hcas=(
        *(
            Hca(f"mlx5_ib{rail}", rate="200 Gb/sec (4X HDR)", pci=nic_place(rail), pkeys=("0x802a", "0x7fff"),
                hca_type="MT4124", board_id="MT_0000000223", firmware="20.38.1900")
            for rail in RAILS
        ),
        AZURE.hcas[-1],
    ),
    gpus=A100,
    environment={**AZURE.environment, "NCCL_TOPO_FILE": "/opt/microsoft/ndv4-topo.xml"},
    files={"opt/microsoft/ndv4-topo.xml": '<system version="1">\n</system>\n'},
    cpu="AMD EPYC 7V12 64-Core Processor",
)  # fmt: skip
AZURE_MI300X = replace(
    AZURE,
    name="azure-nd-mi300x-v5",
    source="Azure HPC images: ND MI300X v5, mlx5_ib0-7 of NDR, mlx5_an0; amd-smi of ROCm 6, RCCL without a plugin",
    gpus=MI300X.gpus,
    environment={"NCCL_SOCKET_IFNAME": "eth0", "NCCL_IB_HCA": "mlx5_ib", "UCX_NET_DEVICES": "mlx5_ib0:1"},
    files={},
    modules=("amdgpu", "mlx5_ib", "mlx5_core", "ib_uverbs", "ib_core", "ib_umad", "rdma_ucm"),
    processes=("systemd", "chronyd"),
)
SOFT_ROCE = replace(
    gbe("soft-roce", 25000),
    source="kernel: drivers/infiniband/sw/rxe, `rdma link add rxe0 type rxe netdev eno1`: no PCI device, no board",
    nics=(Nic("eno1", (LAB,), 25000, 1500, "0000:e1:00.0", driver="ice"),),
    hcas=(
        Hca("rxe0", "Ethernet", "25 Gb/sec (1X EDR)", netdev="eno1", hca_type="", board_id="", firmware="",
            active_mtu=1024, has_counters=False, vendor="0xffffff", rows=16),
    ),
    modules=("ib_uverbs", "ib_core"),
    memlock=8 << 20,
)  # fmt: skip
FURTHER = (A4, A2, P6, AZURE_A100, AZURE_MI300X, SOFT_ROCE)
