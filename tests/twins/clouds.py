"""What are the nodes that clouds rent out, by their own documentation?"""

from __future__ import annotations

from .hardware import A100_40, FM, GPU_PLACES, H100, H200, LAB, MLX, NVIDIA, RAILS, nic_place
from .platform import Gpus, Hca, Nic, Platform

AZURE = Platform(
    name="azure-nd-h100-v5",
    source="Azure HPC images: mlx5_ib0-7 and mlx5_an0 (accelerated networking), /opt/microsoft/ndv5-topo.xml, eth0",
    nics=(
        Nic("eth0", (LAB,), 80000, 1500, driver="hv_netvsc"),
        Nic("enP30832s1", (), 80000, 1500, "0000:e4:00.0"),
        *(Nic(f"ib{rail}", mtu=4092) for rail in RAILS),
    ),
    hcas=(
        *(Hca(f"mlx5_ib{rail}", pci=nic_place(rail), pkeys=("0x802a", "0x7fff")) for rail in RAILS),
        Hca("mlx5_an0", "Ethernet", "80 Gb/sec (4X EDR)", netdev="enP30832s1", board_id="MSF0000000012",
            hca_type="MT4120", pci="0000:e4:00.0", active_mtu=1024),
    ),
    gpus=H100,
    environment={
        "NCCL_SOCKET_IFNAME": "eth0",
        "NCCL_TOPO_FILE": "/opt/microsoft/ndv5-topo.xml",
        "NCCL_IB_PCI_RELAXED_ORDERING": "1",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "UCX_NET_DEVICES": "mlx5_ib0:1",
    },
    files={"opt/microsoft/ndv5-topo.xml": '<system version="1">\n</system>\n'},
    kernel="5.15.0-1075-azure",
    cpus=96,
    memory_gib=1900,
    modules=(*NVIDIA, "nvidia_peermem", *MLX),
    processes=FM,
    iommu="",
)  # fmt: skip


def aws(name: str, gpus: Gpus, adapters: int, source: str, rate: str) -> Platform:
    """EFA: its own link layer, no GID that a router passes, NCCL through the OFI plugin."""
    each = adapters // 8 or 1
    places = [nic_place(i // each if adapters >= 8 else i * 2, i % each) for i in range(adapters)]
    return Platform(
        name=name,
        source=source,
        nics=(Nic("ens32", (LAB,), 0, 9001, "0000:e1:00.0", driver="ena"),),
        hcas=tuple(
            Hca(f"rdmap{int(place[5:7], 16)}s0", "Unspecified", rate, hca_type="", board_id="", firmware="0.0.0.0",
                pci=place, node_type="7: unspecified", pkeys=("0xffff",), rows=1)
            for place in places
        ),
        gpus=gpus,
        environment={
            "FI_PROVIDER": "efa",
            "FI_EFA_USE_DEVICE_RDMA": "1",
            "NCCL_SOCKET_IFNAME": "^docker,lo,veth",
            "LD_LIBRARY_PATH": "/opt/amazon/ofi-nccl/lib:/opt/amazon/efa/lib",
        },
        files={
            "opt/amazon/ofi-nccl/lib/libnccl-net.so": "",
            "opt/amazon/efa/lib/libfabric.so.1": "",
        },
        kernel="6.8.0-1031-aws",
        cpu="AMD EPYC 7R13 Processor",
        cpus=192,
        modules=(*NVIDIA, "efa", "ib_uverbs", "ib_core", "efa_nv_peermem"),
        processes=FM,
        iommu="",
    )  # fmt: skip


AWS_P5 = aws(
    "aws-p5", H100, 32, "AWS EFA documentation, awsome-distributed-training: p5.48xlarge", "100 Gb/sec (4X EDR)"
)
AWS_P4D = aws("aws-p4d", A100_40, 4, "AWS EFA documentation: p4d.24xlarge, four adapters", "100 Gb/sec (4X EDR)")
A3_MEGA = Platform(
    name="gcp-a3-mega",
    source="Google Cloud: GPUDirect-TCPXO on a3-megagpu-8g; eth0 and eth1-8 (gVNIC), NCCL_FASTRAK_*",
    nics=(
        Nic("eth0", (LAB,), 0, 1460, "0000:e1:00.0", driver="gve"),
        *(Nic(f"eth{1 + rail}", (f"10.{50 + rail}.0.{{n}}/24",), 0, 8244, nic_place(rail), driver="gve")
          for rail in RAILS),
    ),
    gpus=H100,
    environment={
        "NCCL_SOCKET_IFNAME": "eth0",
        "NCCL_FASTRAK_CTRL_DEV": "eth0",
        "NCCL_FASTRAK_IFNAME": "eth1,eth2,eth3,eth4,eth5,eth6,eth7,eth8",
        "NCCL_FASTRAK_ENABLE_HOTPATH_LOGGING": "0",
        "NCCL_CROSS_NIC": "0",
        "NCCL_ALGO": "Ring,Tree",
        "NCCL_PROTO": "Simple,LL128",
        "NCCL_NET_GDR_LEVEL": "PIX",
        "LD_LIBRARY_PATH": "/var/lib/tcpxo/lib64",
    },
    files={"var/lib/tcpxo/lib64/libnccl-net.so": ""},
    kernel="6.8.0-1030-gcp",
    cpus=208,
    memory_gib=1872,
    modules=NVIDIA,
    processes=FM,
    iommu="",
)  # fmt: skip
A3_ULTRA = Platform(
    name="gcp-a3-ultra",
    source="Google Cloud: a3-ultragpu-8g, RDMA over gIB; gVNIC for the host, gpu0rdma0-gpu7rdma0 for GPUs",
    nics=(
        Nic("enp0s19", (LAB,), 0, 8896, "0000:e1:00.0", driver="gve"),
        *(Nic(f"gpu{rail}rdma0", (f"192.168.{10 + rail}.{{n}}/24",), 400000, 8896, nic_place(rail)) for rail in RAILS),
    ),
    hcas=tuple(Hca(f"mlx5_{rail}", "Ethernet", netdev=f"gpu{rail}rdma0", pci=nic_place(rail)) for rail in RAILS),
    gpus=H200,
    environment={
        "NCCL_SOCKET_IFNAME": "enp0s19",
        "NCCL_NET": "gIB",
        "NCCL_CROSS_NIC": "0",
        "NCCL_NET_GDR_LEVEL": "PIX",
        "NCCL_P2P_NET_CHUNKSIZE": "131072",
        "NCCL_IB_GID_INDEX": "3",
        "NCCL_IB_TC": "52",
        "NCCL_IB_FIFO_TC": "84",
        "LD_LIBRARY_PATH": "/usr/local/gib/lib64",
    },
    files={"usr/local/gib/lib64/libnccl-net.so": ""},
    kernel="6.8.0-1030-gcp",
    cpus=224,
    memory_gib=2952,
    modules=(*NVIDIA, "nvidia_peermem", *MLX),
    processes=FM,
    iommu="",
)
ORACLE = Platform(
    name="oracle-h100",
    source="Oracle oci-hpc-oke and cluster networks: BM.GPU.H100.8, 16 ports of 200 Gbit/s RoCE, NCCL_IB_HCA exact",
    nics=(
        Nic("eth0", (LAB,), 100000, 9000, "0000:e1:00.0"),
        *(Nic(f"rdma{port}", (f"10.224.{port}.{{n}}/24",), 200000, 4220, nic_place(port // 2, port % 2))
          for port in range(16)),
    ),
    hcas=(
        *(Hca(f"mlx5_{port}", "Ethernet", "200 Gb/sec (4X HDR)", netdev=f"rdma{port}",
              pci=nic_place(port // 2, port % 2)) for port in range(16)),
        Hca("mlx5_16", "Ethernet", "100 Gb/sec (4X EDR)", netdev="eth0", board_id="ORC0000000010", pci="0000:e1:00.0"),
    ),
    gpus=H100,
    environment={
        "NCCL_IB_HCA": "=" + ",".join(f"mlx5_{port}" for port in range(16)),
        "NCCL_IB_GID_INDEX": "3",
        "NCCL_IB_TC": "41",
        "NCCL_IB_SL": "0",
        "NCCL_IB_QPS_PER_CONNECTION": "4",
        "NCCL_SOCKET_IFNAME": "eth0",
        "NCCL_CROSS_NIC": "2",
        "UCX_NET_DEVICES": "eth0",
    },
    cpus=224,
    modules=(*NVIDIA, "nvidia_peermem", *MLX),
    processes=FM,
    topology="shared",
)  # fmt: skip
LAMBDA = Platform(
    name="lambda-h100",
    source="Lambda 1-Click Clusters: virtual machines with 8 NDR InfiniBand functions passed through, virtio Ethernet",
    nics=(Nic("eno1", (LAB,), 0, 1500, "0000:e1:00.0", driver="virtio_net"), *(Nic(f"ib{r}", mtu=4092) for r in RAILS)),
    hcas=tuple(Hca(f"mlx5_{rail}", pci=nic_place(rail), board_id="MT_0000000970") for rail in RAILS),
    gpus=Gpus("NVIDIA H100 80GB HBM3", pci=GPU_PLACES, switches=0),
    environment={"NCCL_SOCKET_IFNAME": "eno1", "NCCL_IB_HCA": "^mlx5_bond_0"},
    kernel="6.8.0-60-generic",
    cpus=208,
    memory_gib=1800,
    modules=(*NVIDIA, "nvidia_peermem", *MLX),
    processes=("systemd", "systemd-timesyncd", "nvidia-persistenced"),
    iommu="",
)
COREWEAVE = Platform(
    name="coreweave-h100",
    source="CoreWeave documentation: InfiniBand HCAs ibp0-ibp7, pods with rdma/ib, NCCL_IB_HCA=ibp, SHARP variables",
    nics=(Nic("eth0", (LAB,), 0, 8950),),
    hcas=tuple(Hca(f"ibp{rail}", pci=nic_place(rail)) for rail in RAILS),
    gpus=H100,
    environment={
        "NCCL_IB_HCA": "ibp",
        "NCCL_SOCKET_IFNAME": "eth0",
        "NCCL_COLLNET_ENABLE": "0",
        "UCX_NET_DEVICES": "ibp0:1",
        "KUBERNETES_SERVICE_HOST": "10.96.0.1",
    },
    container=True,
    group="0::/",
    cpus=128,
    modules=(*NVIDIA, "nvidia_peermem", *MLX),
    processes=("python3",),
    cgroup={"memory.max": "1099511627776", "cpu.max": "max 100000"},
)
