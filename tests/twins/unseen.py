"""What are the nodes of clusters that no check was written for: supercomputers, clouds' racks, rented containers?"""

from __future__ import annotations

from dataclasses import replace

from .clouds import aws
from .hardware import GPU_PLACES, LAB, MLX, NVIDIA, RAILS, SERVICES, nic_place
from .platform import Gpus, Hca, Nic, Platform

CXI = {
    "FI_CXI_DEFAULT_CQ_SIZE": "131072",
    "FI_CXI_DISABLE_HOST_REGISTER": "1",
    "FI_MR_CACHE_MONITOR": "userfaultfd",
    "NCCL_CROSS_NIC": "1",
    "NCCL_NET_GDR_LEVEL": "PHB",
}
HSN = tuple(f"hsn{port}" for port in range(4))


def slingshot(*places: str) -> tuple[Nic, ...]:
    """The management network and four ports of the fabric, all of them in one subnet."""
    return (
        Nic("nmn0", ("10.252.1.{n}/17",), 1000, 1500, "0000:21:00.0", driver="igb"),
        *(Nic(name, (f"10.253.{10 + port}.{{n}}/16",), 200000, 9000, place, driver="cxi_ss1")
          for port, (name, place) in enumerate(zip(HSN, places, strict=True))),
    )  # fmt: skip


LUMI = Platform(
    name="lumi-g-mi250x",
    source="LUMI documentation, LUMI-G: EPYC 7A53, four MI250X (eight dies, c1, c6, c9, ce, d1, d6, d9, de), hsn0-3 of"
    " Slingshot 11, RCCL with aws-ofi-rccl in a container of Singularity; Cray OS, a user's session of Slurm",
    nics=slingshot("0000:c5:00.0", "0000:cd:00.0", "0000:d5:00.0", "0000:dd:00.0"),
    gpus=Gpus(
        "AMD Instinct MI250X", memory_mib=65520, watts=560.0, device_id="74081002", generation=4, nvlinks=0,
        has_fabric=False, switches=0, driver="6.7.0", vendor="amd", pci_class="0x038000", dies=2,
        pci=tuple(f"0000:{bus}:00.0" for bus in ("c1", "c6", "c9", "ce", "d1", "d6", "d9", "de")),
    ),
    hostname="nid00500{n}",
    environment={
        **CXI,
        "NCCL_SOCKET_IFNAME": ",".join(HSN),
        "GLOO_SOCKET_IFNAME": "hsn0",
        "FI_CXI_DEFAULT_TX_SIZE": "16384",
        "LD_LIBRARY_PATH": "/opt/aws-ofi-rccl:/opt/cray/libfabric/1.15.2.0/lib64:/opt/rocm/lib",
        "SLURM_JOB_ID": "7713021",
        "SLURM_NODEID": "{n}",
        "SLURM_NNODES": "3",
        "ROCR_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7",
        "SINGULARITY_CONTAINER": "/appl/local/containers/sif-images/lumi-pytorch-rocm-6.0.3.sif",
    },
    files={"opt/aws-ofi-rccl/librccl-net.so": "", "opt/cray/libfabric/1.15.2.0/lib64/libfabric.so.1": ""},
    kernel="5.14.21-150500.55.49_13.0.57-cray_shasta_c",
    cpu="AMD EPYC 7A53 64-Core Processor",
    cpus=128,
    memory_gib=503,
    shared_memory_gib=251,
    modules=("amdgpu", "cxi_ss1", "cxi_user", "cxi_eth", "xpmem", "lustre"),
    processes=("systemd", "chronyd", "slurmd", "slurmstepd", "lnetd"),
    group="0::/system.slice/slurmstepd.scope/job_7713021/step_0/user/task_0",
    gateway="",
    user_id=3270,
    nofile=131072,
    has_log=False,
    governor="performance",
    scaling_driver="acpi-cpufreq",
    iommu="DMA-FQ",
    boot="ro console=ttyS0,115200 amd_iommu=on",
    over_ssh=False,
)  # fmt: skip
ALPS_TOPOLOGY = (
    "\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tNV6\tNV6\tNV6\t0-71\t0\t4\nGPU1\tNV6\t X \tNV6\tNV6\t72-143\t1\t12\n"
    "GPU2\tNV6\tNV6\t X \tNV6\t144-215\t2\t20\nGPU3\tNV6\tNV6\tNV6\t X \t216-287\t3\t28\n"
    "\nLegend:\n\n  X    = Self\n  NV#  = Connection traversing a bonded set of # NVLinks\n"
)
ALPS = Platform(
    name="alps-gh200",
    source="CSCS documentation, Alps (Clariden, Daint): four GH200 120GB a node, NV6 between each two, hsn0-3 of"
    " Slingshot 11, NCCL over aws-ofi-nccl and cxi in containers; 64 KiB pages, SLES of Cray",
    nics=slingshot("0000:01:00.0", "0010:01:00.0", "0020:01:00.0", "0030:01:00.0"),
    gpus=Gpus(
        "NVIDIA GH200 120GB", count=4, memory_mib=97871, watts=900.0, device_id="234210DE", driver="550.54.15",
        cuda="12.4", nvlinks=18, link_gbytes="25", has_fabric=False, switches=0, has_module_power=True,
        pci=("0009:01:00.0", "0019:01:00.0", "0029:01:00.0", "0039:01:00.0"),
    ),
    outputs={"nvidia-smi topo -m": ALPS_TOPOLOGY},
    hostname="nid00641{n}",
    environment={
        **CXI,
        "NCCL_NET": "AWS Libfabric",
        "NCCL_SOCKET_IFNAME": "hsn",
        "GLOO_SOCKET_IFNAME": "hsn0",
        "NCCL_PROTO": "^LL128",
        "FI_CXI_RX_MATCH_MODE": "software",
        "MPICH_GPU_SUPPORT_ENABLED": "0",
        "LD_LIBRARY_PATH": "/opt/aws-ofi-nccl/lib:/opt/cscs/libfabric/lib",
        "SLURM_JOB_ID": "402217",
        "SLURM_NODEID": "{n}",
        "SLURM_NNODES": "3",
    },
    files={"opt/aws-ofi-nccl/lib/libnccl-net.so": "", "opt/cscs/libfabric/lib/libfabric.so.1": ""},
    kernel="5.14.21-150500.55.65_13.1.61-cray_shasta_c_64k",
    machine="aarch64",
    cpu="",
    cpu_line="CPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd4f",
    cpus=288,
    memory_gib=857,
    shared_memory_gib=428,
    modules=(*NVIDIA, "nvidia_peermem", "gdrdrv", "cxi_ss1", "cxi_user", "cxi_eth", "xpmem"),
    processes=("systemd", "chronyd", "nvidia-persistenced", "slurmd", "slurmstepd"),
    group="0::/system.slice/slurmstepd.scope/job_402217/step_0/user/task_0",
    gateway="10.252.0.1",
    user_id=22033,
    has_log=False,
    scaling_driver="cppc_cpufreq",
    boot="ro iommu.passthrough=1 numa_balancing=disable init_on_alloc=0",
    torch="2.6.0",
    nccl="2.25.1",
    cuda_of_torch="12.4",
    over_ssh=False,
)  # fmt: skip
OF_GPUS = ("enp6s0", "enp7s0", "enp13s0", "enp14s0", "enp134s0", "enp135s0", "enp141s0", "enp142s0")
A3_MEGA_SLURM = Platform(
    name="gcp-a3-mega-slurm",
    source="Google Cloud Cluster Toolkit, a3-megagpu-8g: Debian 12, enp0s12 and eight gVNIC with a /32 each, TCPXO by"
    " NCCL_FASTRAK_*, LLCM devices, a tuner plugin; virtual machines without an IOMMU",
    nics=(
        Nic("enp0s12", ("10.77.0.{n}/32",), 0, 8244, "0000:00:0c.0", driver="gve"),
        *(Nic(name, (f"10.{1 + rail}.0.{{n}}/32",), 0, 8244, f"0000:{int(name[3:-2]):02x}:00.0", driver="gve")
          for rail, name in enumerate(OF_GPUS)),
        Nic("docker0", ("172.17.0.1/16",)),
    ),
    gpus=Gpus("NVIDIA H100 80GB HBM3", driver="550.90.12", cuda="12.4",
              pci=tuple(f"0000:{bus}:00.0" for bus in ("04", "05", "0a", "0b", "84", "85", "8a", "8b"))),
    hostname="a3mega-a3meganodeset-{n}",
    domain="us-east4-b.c.example.internal",
    hosts="169.254.169.254 metadata.google.internal  # Added by Google\n",
    environment={
        "NCCL_SOCKET_IFNAME": "enp0s12",
        "NCCL_FASTRAK_CTRL_DEV": "enp0s12",
        "NCCL_FASTRAK_IFNAME": ",".join(OF_GPUS),
        "NCCL_FASTRAK_NUM_FLOWS": "2",
        "NCCL_FASTRAK_USE_LLCM": "1",
        "NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY": "/dev/aperture_devices",
        "NCCL_FASTRAK_ENABLE_CONTROL_CHANNEL": "0",
        "NCCL_CROSS_NIC": "0",
        "NCCL_ALGO": "Ring,Tree",
        "NCCL_PROTO": "Simple,LL128",
        "NCCL_MIN_NCHANNELS": "4",
        "NCCL_DYNAMIC_CHUNK_SIZE": "524288",
        "NCCL_P2P_NET_CHUNKSIZE": "524288",
        "NCCL_P2P_PCI_CHUNKSIZE": "524288",
        "NCCL_P2P_NVL_CHUNKSIZE": "1048576",
        "NCCL_BUFFSIZE": "8388608",
        "NCCL_NET_GDR_LEVEL": "PIX",
        "NCCL_TUNER_PLUGIN": "libnccl-tuner.so",
        "NCCL_TUNER_CONFIG_PATH": "/var/lib/tcpxo/lib64/a3plus_tuner_config.textproto",
        "NCCL_SHIMNET_GUEST_CONFIG_CHECKER_CONFIG_FILE": "/var/lib/tcpxo/lib64/a3plus_guest_config.textproto",
        "CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7",
        "LD_LIBRARY_PATH": "/var/lib/tcpxo/lib64",
        "SLURM_JOB_ID": "118",
        "SLURM_NODEID": "{n}",
        "SLURM_NNODES": "3",
    },
    files={
        f"var/lib/tcpxo/lib64/{name}": "" for name in
        ("libnccl-net.so", "libnccl-tuner.so", "a3plus_tuner_config.textproto", "a3plus_guest_config.textproto")
    },
    kernel="6.1.0-31-cloud-amd64",
    cpus=208,
    memory_gib=1872,
    modules=(*NVIDIA, "import_helper", "gve"),
    processes=("systemd", "chronyd", "nv-fabricmanager", "nvidia-persistenced", "slurmd", "slurmstepd"),
    group="0::/system.slice/slurmstepd.scope/job_118/step_0/user/task_0",
    gateway="10.77.0.254",
    iommu="",
    governor="",
    is_guest=True,
    boot="ro console=ttyS0,38400n8",
    over_ssh=False,
)  # fmt: skip
P6E = aws(
    "aws-p6e-gb200",
    Gpus(
        "NVIDIA GB200", count=4, architecture="Blackwell", memory_mib=189471, watts=1200.0, device_id="294110DE",
        link_gbytes="50", switches=0, driver="580.82.07", cuda="13.0", clique="32766", has_module_power=True,
        cluster="5f4a1e0c-9d6d-4a57-9a46-0d6f3f2a4b11",
        pci=("0008:01:00.0", "0009:01:00.0", "0018:01:00.0", "0019:01:00.0"),
    ),
    16,
    "AWS: p6e-gb200.36xlarge of an UltraServer, four GB200, sixteen EFA of 100 Gbit/s, nvidia-imex by ParallelCluster",
    "100 Gb/sec (4X EDR)",
)  # fmt: skip
P6E = replace(
    P6E,
    kernel="6.8.0-1031-aws-64k",
    machine="aarch64",
    cpu="",
    cpu_line="CPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd4f",
    cpus=144,
    memory_gib=960,
    governor="",
    hostname="ip-10-77-0-{n}",
    domain="us-east-1.ec2.internal",
    processes=(*SERVICES, "nvidia-imex", "nvidia-persistenced", "slurmd"),
    etc={"nvidia-imex/nodes_config.cfg": "10.77.0.1\n10.77.0.2\n10.77.0.3\n"},
    files={**P6E.files, "dev/nvidia-caps-imex-channels/channel0": ""},
    topology="shared",
    over_ssh=False,
)
RTX_PRO = Platform(
    name="rtx-pro-6000-roce",
    source="NVIDIA RTX PRO Server reference (8 RTX PRO 6000 Blackwell Server Edition, no NVLink, PCIe 5, four"
    " BlueField-3 or ConnectX-7 of 400 Gbit/s with RoCE); nvidia-smi -q of driver 580; Ubuntu 24.04",
    nics=(
        Nic("eno1np0", (LAB,), 25000, 1500, "0000:e1:00.0", driver="bnxt_en"),
        *(Nic(f"ens{21 + rail}f0np0", (f"10.{120 + rail}.0.{{n}}/24",), 400000, 9000, nic_place(2 * rail))
          for rail in range(4)),
    ),
    hcas=tuple(
        Hca(f"mlx5_{rail}", "Ethernet", netdev=f"ens{21 + rail}f0np0", pci=nic_place(2 * rail), hca_type="MT41692",
            board_id="MT_0000000884", firmware="32.43.2026")
        for rail in range(4)
    ),
    gpus=Gpus(
        "NVIDIA RTX PRO 6000 Blackwell Server Edition", architecture="Blackwell", memory_mib=97887, watts=600.0,
        device_id="2BB510DE", nvlinks=0, has_fabric=False, switches=0, driver="580.95.05", cuda="13.0",
        pci=GPU_PLACES,
    ),
    environment={"NCCL_IB_HCA": "mlx5", "NCCL_SOCKET_IFNAME": "eno1np0", "GLOO_SOCKET_IFNAME": "eno1np0"},
    kernel="6.8.0-85-generic",
    cpu="AMD EPYC 9575F 64-Core Processor",
    cpus=256,
    memory_gib=1536,
    modules=(*NVIDIA, "nvidia_peermem", *MLX),
    processes=(*SERVICES, "nvidia-persistenced"),
    scaling_driver="amd-pstate-epp",
    topology="shared",
    torch="2.9.1",
    nccl="2.27.5",
    cuda_of_torch="12.8",
    over_ssh=False,
)  # fmt: skip
RENTED = Platform(
    name="rented-container",
    source="RunPod documentation, Instant Clusters: containers with eth0 of Docker's bridge, alike on each machine, and"
    " ens1 between the machines; the variables of the cluster; root without capabilities, no kernel log, no RDMA",
    nics=(
        Nic("ens1", ("10.65.0.{n}/24",), 50000, 1500),
        Nic("eth0", ("172.18.0.2/16",), 10000, 1500),
    ),
    gpus=Gpus("NVIDIA H100 80GB HBM3", driver="565.57.01", cuda="12.7", pci=GPU_PLACES, switches=4),
    hostname="7b1d2c9e4a0{n}",
    environment={
        "NCCL_SOCKET_IFNAME": "ens1",
        "GLOO_SOCKET_IFNAME": "ens1",
        "RUNPOD_POD_ID": "k2x8v9w1q{n}",
        "RUNPOD_DC_ID": "US-KS-2",
        "NUM_NODES": "3",
        "NUM_TRAINERS": "8",
        "NODE_ADDR": "10.65.0.{n}",
        "PRIMARY_ADDR": "10.65.0.1",
        "NVIDIA_VISIBLE_DEVICES": "all",
        "CUDA_VERSION": "12.8.1",
        "SHELL": "/bin/bash",
    },
    kernel="6.8.0-49-generic",
    cpu="INTEL(R) XEON(R) PLATINUM 8470",
    cpus=208,
    memory_gib=2015,
    shared_memory_gib=58,
    cgroup={"memory.max": "1717986918400", "cpu.max": "16000000 100000", "pids.max": "max"},
    modules=(*NVIDIA, "overlay", "br_netfilter"),
    processes=("tini", "start.sh", "sshd", "jupyter-lab", "bash"),
    gateway="172.18.0.1",
    has_log=False,
    container=True,
    group="0::/",
    iommu="",
    memlock=8 << 20,
    topology="none",
    over_ssh=False,
)
DGX1_LINKS = (
    ("X", "NV1", "NV1", "NV2", "NV2", "SYS", "SYS", "SYS"),
    ("NV1", "X", "NV2", "NV1", "SYS", "NV2", "SYS", "SYS"),
    ("NV1", "NV2", "X", "NV2", "SYS", "SYS", "NV1", "SYS"),
    ("NV2", "NV1", "NV2", "X", "SYS", "SYS", "SYS", "NV1"),
    ("NV2", "SYS", "SYS", "SYS", "X", "NV1", "NV1", "NV2"),
    ("SYS", "NV2", "SYS", "SYS", "NV1", "X", "NV2", "NV1"),
    ("SYS", "SYS", "NV1", "SYS", "NV1", "NV2", "X", "NV2"),
    ("SYS", "SYS", "SYS", "NV1", "NV2", "NV1", "NV2", "X"),
)


def dgx1_topology() -> str:
    """`nvidia-smi topo -m` of driver 450: adapters by their own names, on the side of their GPUs."""
    names = [f"GPU{i}" for i in range(8)]
    lines = ["\t" + "\t".join([*names, *(f"mlx5_{i}" for i in range(4)), "CPU Affinity", "NUMA Affinity"])]
    for one, row in enumerate(DGX1_LINKS):
        near = ["PIX" if one // 2 == port else "PHB" if one // 4 == port // 2 else "SYS" for port in range(4)]
        cells = [" X " if word == "X" else word for word in row]
        lines.append("\t".join([names[one], *cells, *near, "20-39,60-79" if one > 3 else "0-19,40-59", str(one // 4)]))
    for port in range(4):
        gpus = ["PIX" if one // 2 == port else "PHB" if one // 4 == port // 2 else "SYS" for one in range(8)]
        others = [" X " if other == port else "PHB" if other // 2 == port // 2 else "SYS" for other in range(4)]
        lines.append("\t".join([f"mlx5_{port}", *gpus, *others, "", ""]))
    return "\n".join([*lines, "", "Legend:", "", "  X    = Self", ""])


def dgx1_access() -> str:
    """`nvidia-smi topo -p2p r`: only where NVLink joins two GPUs, or one socket."""
    lines = ["\t\x1b[4m" + "\t".join(f"GPU{i}" for i in range(8)) + "\x1b[0m"]
    for one, row in enumerate(DGX1_LINKS):
        cells = ["X" if word == "X" else "OK" if word.startswith("NV") else "NS" for word in row]
        lines.append("\t".join([f" GPU{one}", *cells]))
    return "\n".join([*lines, "", "Legend:", "", "  X    = Self", "  OK   = Status Ok", "  NS   = Not supported", ""])


DGX1 = Platform(
    name="dgx-1-v100",
    source="NVIDIA DGX-1 User Guide: eight V100 in a hybrid cube mesh (NV1, NV2, or no NVLink between two), four EDR"
    " adapters, two Xeon E5-2698 v4; Ubuntu 20.04, driver 450, torch 1.13 built for CUDA 11.7",
    nics=(
        Nic("enp1s0f0", (LAB,), 10000, 1500, "0000:e1:00.0", driver="ixgbe"),
        *(Nic(f"ib{port}", (f"10.148.{port}.{{n}}/24",), 0, 2044) for port in range(4)),
    ),
    hcas=tuple(
        Hca(f"mlx5_{port}", rate="100 Gb/sec (4X EDR)", pci=nic_place(2 * port), hca_type="MT4115",
            board_id="MT_2180110032", firmware="12.28.2006", generation=3)
        for port in range(4)
    ),
    gpus=Gpus(
        "Tesla V100-SXM2-32GB", architecture="Volta", memory_mib=32510, watts=300.0, device_id="1DB510DE",
        generation=3, nvlinks=6, link_gbytes="25.781", has_fabric=False, switches=0, driver="450.248.02", cuda="11.0",
        is_open=False, pci=GPU_PLACES, ecc=True, has_mig=False,
    ),
    outputs={
        "nvidia-smi topo -m": dgx1_topology(),
        "nvidia-smi topo -p2p r": dgx1_access(),
        "nvidia-smi topo -p2p w": dgx1_access(),
    },
    environment={"NCCL_SOCKET_IFNAME": "enp1s0f0", "NCCL_IB_HCA": "mlx5"},
    kernel="5.4.0-150-generic",
    cpu="Intel(R) Xeon(R) CPU E5-2698 v4 @ 2.20GHz",
    cpus=80,
    memory_gib=503,
    shared_memory_gib=251,
    modules=(*NVIDIA, "nvidia_peermem", *MLX),
    processes=("systemd", "systemd-timesyncd", "nvidia-persistenced", "dcgm-exporter"),
    ofed="5.4-3.7.5",
    torch="1.13.1",
    nccl="2.14.3",
    cuda_of_torch="11.7",
    numpy="1.23.5",
    nofile=1048576,
    over_ssh=False,
)  # fmt: skip
PLANES = tuple((rail, plane) for rail in RAILS for plane in range(2))
B300_ROCE = Platform(
    name="b300-roce-planes",
    source="NVIDIA HGX B300 and ConnectX-8 documentation: each GPU with an adapter of two planes of 400 Gbit/s (two PCI"
    " functions of one card, RoCE), PCIe 6 switches inside the adapter; RHEL 9, driver 580",
    nics=(
        Nic("eno3", (LAB,), 25000, 9000, "0000:e1:00.0", driver="ice"),
        *(Nic(f"rail{rail}p{plane}", (f"10.{200 + plane}.{16 * rail}.{{n}}/20",), 400000, 9000, nic_place(rail, plane))
          for rail, plane in PLANES),
    ),
    hcas=tuple(
        Hca(f"roce_r{rail}p{plane}", "Ethernet", netdev=f"rail{rail}p{plane}", pci=nic_place(rail, plane),
            hca_type="MT4131", board_id="NVD0000000061", firmware="40.47.1026", card=f"CX8-{rail}", generation=6)
        for rail, plane in PLANES
    ),
    gpus=Gpus(
        "NVIDIA B300 SXM6 AC", architecture="Blackwell", memory_mib=275040, watts=1100.0, device_id="318210DE",
        generation=6, link_gbytes="53.125", switches=2, driver="580.95.05", cuda="13.0", pci=GPU_PLACES,
    ),
    environment={
        "NCCL_IB_HCA": "roce_r",
        "NCCL_IB_GID_INDEX": "3",
        "NCCL_IB_TC": "96",
        "NCCL_SOCKET_IFNAME": "eno3",
        "GLOO_SOCKET_IFNAME": "eno3",
        "NCCL_IB_MERGE_NICS": "1",
    },
    kernel="5.14.0-611.5.1.el9_7.x86_64",
    cpu="INTEL(R) XEON(R) 6776P",
    cpus=256,
    memory_gib=4096,
    modules=(*NVIDIA, *MLX),
    processes=("systemd", "chronyd", "NetworkManager", "nv-fabricmanager", "nvidia-persistenced", "nvlsm"),
    torch="2.9.1",
    nccl="2.28.9",
    cuda_of_torch="13.0",
    over_ssh=False,
)  # fmt: skip
UNSEEN = (LUMI, ALPS, A3_MEGA_SLURM, P6E, RTX_PRO, RENTED, DGX1, B300_ROCE)
