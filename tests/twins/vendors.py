"""What are the servers that other vendors build: bonded rails, Thor2 and Pollara, E810, Omni-Path, Grace, POWER?"""

from __future__ import annotations

from . import hardware_log
from .hardware import FM, GPU_PLACES, H200, LAB, MLX, NVIDIA, RAILS, SERVICES, nic_place
from .platform import Gpus, Hca, Nic, Platform

BONDED = Platform(
    name="h20-bonded-roce",
    source="Tencent TCCL and Alibaba HPN guides: two ports of 200 Gbit/s bonded a rail, mlx5_bond_1-8, GID 3",
    nics=(
        Nic("eth0", (LAB,), 100000, 1500, "0000:e1:00.0"),
        *(Nic(f"bond{1 + rail}", (f"10.{60 + rail}.{{n}}.2/24",), 400000, 4200,
              members=(f"eth{1 + 2 * rail}", f"eth{2 + 2 * rail}")) for rail in RAILS),
        *(Nic(f"eth{1 + port}", (), 200000, 4200, nic_place(port // 2, port % 2)) for port in range(16)),
    ),
    hcas=tuple(
        Hca(f"mlx5_bond_{1 + rail}", "Ethernet", "200 Gb/sec (2X NDR)", netdev=f"bond{1 + rail}", pci=nic_place(rail),
            board_id="MT_0000000834", firmware="28.37.1014", rows=32)
        for rail in RAILS
    ),
    gpus=Gpus("NVIDIA H20", memory_mib=97871, watts=500.0, device_id="232910DE", pci=GPU_PLACES,
              driver="535.161.07", cuda="12.2"),
    environment={
        "NCCL_IB_HCA": ",".join(f"mlx5_bond_{1 + rail}" for rail in RAILS),
        "NCCL_IB_GID_INDEX": "3",
        "NCCL_IB_TC": "160",
        "NCCL_IB_SL": "3",
        "NCCL_IB_QPS_PER_CONNECTION": "4",
        "NCCL_IB_TIMEOUT": "22",
        "NCCL_IB_RETRY_CNT": "7",
        "NCCL_SOCKET_IFNAME": "eth0",
        "GLOO_SOCKET_IFNAME": "eth0",
        "NCCL_NET_GDR_LEVEL": "2",
        "NCCL_PXN_DISABLE": "0",
        "NCCL_COLLNET_ENABLE": "0",
        "NCCL_DEBUG": "INFO",
    },
    kernel="5.4.241-1-tlinux4-0017.7",
    cpus=384,
    memory_gib=2265,
    modules=(*NVIDIA, "nvidia_peermem", *MLX),
    processes=(*FM,),
    governor="performance",
    ofed="23.10-0.5.5",
)  # fmt: skip
THOR2 = Platform(
    name="xe9680-thor2",
    source="Dell XE9680 with Broadcom BCM57608: rocep* by rdma-core, no counters/; RHEL 9, NetworkManager",
    nics=(
        Nic("bond0", (LAB,), 50000, 9000, members=("eno8303", "eno8403")),
        Nic("eno8303", (), 25000, 9000, "0000:e1:00.0", driver="bnxt_en"),
        Nic("eno8403", (), 25000, 9000, "0000:e1:00.1", driver="bnxt_en"),
        *(Nic(f"ens{60 + rail}np0", (f"10.{80 + rail}.0.{{n}}/24",), 400000, 9000, nic_place(rail), driver="bnxt_en")
          for rail in RAILS),
    ),
    hcas=tuple(
        Hca(f"rocep{int(nic_place(rail)[5:7], 16)}s0", "Ethernet", netdev=f"ens{60 + rail}np0", pci=nic_place(rail),
            hca_type="BCM57608", board_id="", firmware="232.0.155.5", has_counters=False, vendor="0x14e4", rows=256)
        for rail in RAILS
    ),
    gpus=H200,
    environment={
        "NCCL_IB_HCA": "rocep",
        "NCCL_IB_GID_INDEX": "3",
        "NCCL_SOCKET_IFNAME": "bond0",
        "GLOO_SOCKET_IFNAME": "bond0",
        "NCCL_IB_TC": "104",
    },
    kernel="5.14.0-503.23.1.el9_5.x86_64",
    cpu="INTEL(R) XEON(R) PLATINUM 8592+",
    cpus=256,
    modules=(*NVIDIA, "nvidia_peermem", "bnxt_re", "ib_uverbs", "ib_core", "rdma_ucm"),
    processes=("systemd", "chronyd", "NetworkManager", "nv-fabricmanager", "nvidia-persistenced"),
)  # fmt: skip
IRDMA = Platform(
    name="a100-pcie-irdma",
    source="Intel E810 with irdma (rocep152s0f0, no hca_type, no board_id, no counters/); Rocky Linux 8; two A100 PCIe",
    nics=(Nic("ens3f0", (LAB,), 100000, 9000, "0000:44:00.0", driver="ice"),),
    hcas=(
        Hca("rocep68s0f0", "Ethernet", "100 Gb/sec (4X EDR)", netdev="ens3f0", pci="0000:44:00.0", hca_type="",
            board_id="", firmware="1.62", has_counters=False, vendor="0x8086", rows=32),
    ),
    gpus=Gpus(
        "NVIDIA A100 80GB PCIe", count=2, architecture="Ampere", memory_mib=81920, watts=300.0, device_id="20B510DE",
        generation=4, nvlinks=0, has_fabric=False, switches=0, driver="525.147.05", cuda="12.0", is_open=False,
        pci=GPU_PLACES[2:4], persistence="Disabled",
    ),
    environment={"NCCL_SOCKET_IFNAME": "ens3f0", "NCCL_IB_GID_INDEX": "3"},
    kernel="4.18.0-513.24.1.el8_9.x86_64",
    cpu="AMD EPYC 7543 32-Core Processor",
    cpus=128,
    memory_gib=512,
    modules=(*NVIDIA, "nvidia_peermem", "irdma", "ib_uverbs", "ib_core", "rdma_ucm"),
    processes=("systemd", "chronyd", "NetworkManager"),
    nofile=262144,
    scaling_driver="acpi-cpufreq",
    topology="shared",
)  # fmt: skip
POLLARA = Platform(
    name="mi355x-pollara",
    source="AMD Pollara 400 (ionic_0-7, RoCE v2 rows only, GID 1), RCCL's ANP plugin; amd-smi of ROCm 7 (gpu_data)",
    nics=(
        Nic("eno0", (LAB,), 100000, 9000, "0000:e1:00.0"),
        *(Nic(f"benic{1 + rail}p1", (f"192.168.{1 + rail}.{{n}}/24",), 400000, 9000, nic_place(rail), driver="ionic")
          for rail in RAILS),
    ),
    hcas=tuple(
        Hca(f"ionic_{rail}", "Ethernet", netdev=f"benic{1 + rail}p1", pci=nic_place(rail), hca_type="",
            board_id="", firmware="1.117.1-a-63", has_counters=False, vendor="0x1dd8", gid_kinds=("RoCE v2",), rows=32)
        for rail in RAILS
    ),
    gpus=Gpus(
        "AMD Instinct MI355X", memory_mib=294896, watts=1400.0, device_id="75A31002", pci=GPU_PLACES, nvlinks=0,
        has_fabric=False, switches=0, driver="6.14.14", vendor="amd", tool="rocm7",
    ),
    environment={
        "NCCL_IB_GID_INDEX": "1",
        "NCCL_IB_HCA": ",".join(f"ionic_{rail}" for rail in RAILS),
        "NCCL_SOCKET_IFNAME": "eno0",
        "NCCL_NET_PLUGIN": "librccl-anp.so",
        "NCCL_IB_USE_INLINE": "1",
        "NCCL_IB_TC": "104",
        "NCCL_IB_FIFO_TC": "192",
        "NCCL_GDR_FLUSH_DISABLE": "1",
        "NCCL_DMABUF_ENABLE": "1",
        "NCCL_IGNORE_CPU_AFFINITY": "1",
        "NET_OPTIONAL_RECV_COMPLETION": "1",
        "RCCL_GDR_FLUSH_GPU_MEM_NO_RELAXED_ORDERING": "0",
        "RCCL_LL128_FORCE_ENABLE": "1",
        "IONIC_LOCKFREE": "all",
        "LD_LIBRARY_PATH": "/opt/rocm/lib:/opt/amd-anp/build",
    },
    files={"opt/amd-anp/build/librccl-anp.so": ""},
    cpu="AMD EPYC 9575F 64-Core Processor",
    cpus=256,
    memory_gib=3072,
    kernel="6.8.0-71-generic",
    scaling_driver="amd-pstate-epp",
    governor="performance",
    modules=("amdgpu", "ionic_rdma", "ib_uverbs", "ib_core", "ib_peer_mem"),
)  # fmt: skip
GH200 = Platform(
    name="gh200",
    source="NVIDIA GH200 (one GPU a node, PCI domains, C2C, cppc_cpufreq), Grace tuning guide; two NDR adapters",
    nics=(Nic("enP2p3s0f0np0", (LAB,), 100000, 9000, "0002:03:00.0"),),
    hcas=tuple(
        Hca(f"mlx5_{port}", pci=f"000{port}:04:00.0", firmware="28.41.1000", board_id="MT_0000001093")
        for port in range(2)
    ),
    gpus=Gpus(
        "NVIDIA GH200 480GB", count=1, memory_mib=97871, watts=900.0, device_id="234210DE", driver="560.35.05",
        cuda="12.6", switches=0, pci=("0009:03:00.0",), has_fabric=False, nvlinks=0,
    ),
    environment={"NCCL_IB_HCA": "mlx5", "NCCL_SOCKET_IFNAME": "enP2p3s0f0np0"},
    kernel="6.5.0-1019-nvidia-64k",
    machine="aarch64",
    cpu="Neoverse-V2",
    cpu_line="CPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd4f",
    cpus=72,
    memory_gib=573,
    scaling_driver="cppc_cpufreq",
    modules=(*NVIDIA, *MLX),
    processes=(*SERVICES, "nvidia-persistenced"),
    boot="ro iommu.passthrough=1 numa_balancing=disable init_on_alloc=0 iommu=pt",
)  # fmt: skip
B300 = Platform(
    name="b300-cx8",
    source="NVIDIA DGX B300 User Guide: eight ConnectX-8 of 800 Gbit/s (XDR), PCIe 6; driver 590, nvsmi_device_v13.dtd",
    nics=(
        Nic("enp170s0", (LAB,), 25000, 9000, "0000:e1:00.0"),
        *(Nic(f"ibp{int(nic_place(rail)[5:7], 16)}s0", mtu=4092, pci=nic_place(rail)) for rail in RAILS),
    ),
    hcas=tuple(
        Hca(f"mlx5_{rail}", rate="800 Gb/sec (4X XDR)", pci=nic_place(rail), hca_type="MT4131",
            board_id="NVD0000000075", firmware="40.46.3048", netdev=f"ibp{int(nic_place(rail)[5:7], 16)}s0")
        for rail in RAILS
    ),
    gpus=Gpus(
        "NVIDIA B300 SXM6 AC", architecture="Blackwell", memory_mib=275040, watts=1100.0, device_id="318210DE",
        generation=6, link_gbytes="53.125", switches=2, driver="590.44.01", cuda="13.1", pci=GPU_PLACES,
    ),
    environment={"NCCL_IB_HCA": "=" + ",".join(f"mlx5_{rail}" for rail in RAILS), "NCCL_SOCKET_IFNAME": "enp170s0"},
    kernel="6.14.0-1013-nvidia",
    cpu="INTEL(R) XEON(R) 6776P",
    cpus=256,
    memory_gib=4096,
    modules=(*NVIDIA, *MLX),
    processes=FM,
    nccl="2.28.3",
    torch="2.9.1",
    cuda_of_torch="13.0",
)  # fmt: skip
OMNI_PATH = Platform(
    name="v100-omni-path",
    source="Omni-Path Fabric Host Software: hfi1_0, MTU 10240, pkeys 0x8001, 0x7fff; SLES 15 with wicked; driver 470",
    nics=(Nic("eth0", (LAB,), 10000, 1500, "0000:e1:00.0", driver="ixgbe"), Nic("ib0", ("10.88.0.{n}/24",), 0, 10236)),
    hcas=(
        Hca("hfi1_0", rate="100 Gb/sec (4X EDR)", pci="0000:24:00.0", hca_type="", firmware="1.27.0", vendor="0x8086",
            board_id="Intel Omni-Path HFI Adapter 100 Series, 1 Port, PCIe x16", pkeys=("0x8001", "0x7fff", "0xffff"),
            rows=1, active_mtu=4096),
    ),
    gpus=Gpus(
        "Tesla V100-SXM2-32GB", count=4, architecture="Volta", memory_mib=32510, watts=300.0, device_id="1DB510DE",
        generation=3, nvlinks=6, link_gbytes="25.781", has_fabric=False, switches=0, driver="470.223.02", cuda="11.4",
        is_open=False, pci=GPU_PLACES[:4], ecc=True, has_mig=False,
    ),
    environment={"NCCL_SOCKET_IFNAME": "ib0", "GLOO_SOCKET_IFNAME": "ib0", "NCCL_IB_HCA": "hfi1_0",
                 "SLURM_JOB_ID": "7", "SLURM_NODEID": "{n}", "SLURM_NNODES": "3"},
    kernel="5.14.21-150500.55.65-default",
    cpu="Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz",
    cpus=80,
    memory_gib=384,
    modules=(*NVIDIA, "nvidia_peermem", "hfi1", "ib_uverbs", "ib_core", "ib_umad"),
    processes=("systemd", "chronyd", "wickedd", "nvidia-persistenced"),
    nofile=131072,
    torch="2.1.2",
    nccl="2.18.1",
    cuda_of_torch="11.8",
    numpy="1.26.4",
    group="12:pids:/slurm/uid_0/job_7/step_0/task_0\n11:memory:/slurm/uid_0/job_7/step_0/task_0\n0::/system.slice",
    cgroup={"memory/slurm/uid_0/job_7/step_0/task_0/memory.limit_in_bytes": "9223372036854771712"},
    topology="shared",
    gateway="10.77.0.254",
    over_ssh=False,
)  # fmt: skip
POWER9 = Platform(
    name="power9-v100",
    source="IBM Power System AC922: ppc64le, PCI domains 0004 and 0035, one EDR adapter whose second ports are"
    " unplugged; cpuinfo without a model name",
    nics=(Nic("enP5p1s0f0", (LAB,), 10000, 1500, "0005:24:00.0", driver="bnx2x"), Nic("ib0", mtu=2044)),
    hcas=tuple(
        Hca(f"mlx5_{port}", rate="100 Gb/sec (4X EDR)", pci=f"003{port // 2}:24:00.{port % 2}", hca_type="MT4121",
            board_id="IBM0000000002", firmware="16.35.3006",
            **({"state": "1: DOWN", "physical_state": "2: Polling"} if port % 2 else {}))
        for port in range(4)
    ),
    gpus=Gpus(
        "Tesla V100-SXM2-16GB", count=4, architecture="Volta", memory_mib=16160, watts=300.0, device_id="1DB110DE",
        generation=3, nvlinks=6, link_gbytes="25.781", has_fabric=False, switches=0, driver="535.129.03", cuda="12.2",
        is_open=False, pci=("0004:04:00.0", "0004:05:00.0", "0035:03:00.0", "0035:04:00.0"), ecc=True,
    ),
    environment={"NCCL_SOCKET_IFNAME": "enP5p1s0f0"},
    kernel="4.18.0-477.10.1.el8_8.ppc64le",
    machine="ppc64le",
    cpu="POWER9, altivec supported",
    cpu_line="cpu\t\t: {cpu}\nclock\t\t: 3800.000000MHz\nrevision\t: 2.3 (pvr 004e 1203)",
    cpus=160,
    memory_gib=512,
    governor="performance",
    scaling_driver="powernv-cpufreq",
    modules=(*NVIDIA, "nvidia_peermem", *MLX),
    processes=("systemd", "chronyd", "NetworkManager", "nvidia-persistenced"),
    iommu="",
    topology="shared",
    boot="ro console=hvc0",
    cuda_of_torch="12.2",
)  # fmt: skip
SLINGSHOT = Platform(
    name="slingshot-a100",
    source="HPE Slingshot 11: hsn0-3 of one subnet, no RDMA device, aws-ofi-nccl over cxi; Cray SLES",
    nics=(
        Nic("nmn0", (LAB,), 1000, 1500, "0000:e1:00.0", driver="igb"),
        *(Nic(f"hsn{port}", (f"10.249.{port}.{{n}}/16",), 200000, 9000, nic_place(port), driver="cxi_ss1")
          for port in range(4)),
    ),
    gpus=Gpus(
        "NVIDIA A100-SXM4-40GB", count=4, architecture="Ampere", memory_mib=40960, watts=400.0, device_id="20B010DE",
        generation=4, nvlinks=12, link_gbytes="25", has_fabric=False, switches=0, driver="535.216.01", cuda="12.2",
        is_open=False, pci=GPU_PLACES[:4],
    ),
    hostname="nid00000{n}",
    environment={
        "FI_PROVIDER": "cxi",
        "FI_CXI_DISABLE_HOST_REGISTER": "1",
        "FI_CXI_RDZV_PROTO": "alt_read",
        "FI_MR_CACHE_MONITOR": "userfaultfd",
        "NCCL_NET": "AWS Libfabric",
        "NCCL_SOCKET_IFNAME": "hsn",
        "GLOO_SOCKET_IFNAME": "hsn0",
        "NCCL_CROSS_NIC": "1",
        "NCCL_NET_GDR_LEVEL": "PHB",
        "LD_LIBRARY_PATH": "/opt/aws-ofi-nccl/lib:/opt/cray/libfabric/1.22.0/lib64",
    },
    files={"opt/aws-ofi-nccl/lib/libnccl-net.so": "", "opt/cray/libfabric/1.22.0/lib64/libfabric.so.1": ""},
    kernel="5.14.21-150500.55.65_13.0.74-cray_shasta_c",
    cpu="AMD EPYC 7763 64-Core Processor",
    cpus=128,
    memory_gib=256,
    shared_memory_gib=126,
    modules=NVIDIA,
    processes=("systemd", "chronyd", "nvidia-persistenced", "slurmd"),
    scaling_driver="acpi-cpufreq",
    over_ssh=False,
)  # fmt: skip
SPARK = Platform(
    name="dgx-spark",
    source="NVIDIA DGX Spark (GB10): one GPU, the host's memory (nvidia-smi: N/A), two RoCE functions, each in "
    "four lanes of Gen5, of one cable",
    nics=(
        Nic("enp1s0f1np1", (LAB,), 200000, 9000, "0000:24:00.1"),
        Nic("enP2p1s0f1np1", ("10.78.0.{n}/24",), 200000, 9000, "0002:24:00.1"),
        Nic("enP7s7", ("192.168.1.{n}/24",), 10000, 1500, "0007:24:00.0", driver="r8127"),
        Nic("wlP9s9", ("192.168.2.{n}/24",), 0, 1500, "0009:24:00.0", driver="mt7925e"),
        Nic("docker0", ("172.17.0.1/16",)),
    ),
    hcas=tuple(
        Hca(name, "Ethernet", "200 Gb/sec (4X HDR)", netdev=netdev, pci=pci, firmware="28.45.4028",
            board_id="NVD0000000087", card="ConnectX-7", generation=5, lanes=4)
        for name, netdev, pci in (
            ("rocep1s0f1", "enp1s0f1np1", "0000:24:00.1"), ("roceP2p1s0f1", "enP2p1s0f1np1", "0002:24:00.1"),
        )
    ),
    gpus=Gpus(
        "NVIDIA GB10", count=1, architecture="Blackwell", memory_mib=0, watts=0.0, device_id="2E1210DE", generation=1,
        nvlinks=0, has_fabric=False, switches=0, driver="580.95.05", cuda="13.0", pci=("000f:04:00.0",), ecc=False,
        has_mig=False,
    ),
    environment={"NCCL_SOCKET_IFNAME": "enp1s0f1np1", "GLOO_SOCKET_IFNAME": "enp1s0f1np1",
                 "NCCL_IB_HCA": "rocep1s0f1,roceP2p1s0f1"},
    own_name="127.0.1.1",
    kernel="6.11.0-1016-nvidia",
    machine="aarch64",
    cpu="",
    cpu_line="CPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd85",
    cpus=20,
    memory_gib=119,
    shared_memory_gib=59,
    scaling_driver="cppc_cpufreq",
    modules=(*NVIDIA, *MLX),
    processes=("systemd", "systemd-timesyncd", "NetworkManager", "nvidia-persistenced"),
    topology="shared",
    log=(
        *hardware_log.AT_START,
        "4|mlx5_core 0000:24:00.1: mlx5_pcie_event:326:(pid 165): Detected insufficient power on the PCIe slot (27W).",
    ),
    torch="2.9.1",
    nccl="2.28.3",
    cuda_of_torch="13.0",
)  # fmt: skip
VPI = Platform(
    name="p100-vpi",
    source="ConnectX-3 Pro with two ports of one device: FDR InfiniBand and 40 Gbit/s Ethernet (mlx4_0:1, mlx4_0:2)",
    nics=(
        Nic("ens2d1", (LAB,), 40000, 9000, "0000:24:00.0", driver="mlx4_en"),
        Nic("ib0", ("10.88.0.{n}/24",), 0, 2044),
    ),
    hcas=(
        Hca("mlx4_0", rate="56 Gb/sec (4X FDR)", pci="0000:24:00.0", hca_type="MT4103", board_id="MT_1090111023",
            firmware="2.42.5000"),
        Hca("mlx4_0", "Ethernet", "40 Gb/sec (4X QDR)", netdev="ens2d1", pci="0000:24:00.0", hca_type="MT4103",
            board_id="MT_1090111023", firmware="2.42.5000", port=2),
    ),
    gpus=Gpus(
        "Tesla P100-PCIE-16GB", count=2, architecture="Pascal", memory_mib=16280, watts=250.0, device_id="15F810DE",
        generation=3, nvlinks=0, has_fabric=False, switches=0, driver="470.256.02", cuda="11.4", is_open=False,
        pci=GPU_PLACES[:2], ecc=True, has_mig=False,
    ),
    environment={"NCCL_IB_HCA": "mlx4_0:1", "NCCL_SOCKET_IFNAME": "ib0"},
    kernel="5.4.0-216-generic",
    cpu="Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz",
    cpus=56,
    memory_gib=256,
    modules=(*NVIDIA, "nvidia_peermem", "mlx4_ib", "mlx4_core", "ib_uverbs", "ib_core"),
    processes=("systemd", "ntpd", "nvidia-persistenced"),
    torch="2.1.2",
    nccl="2.18.1",
    cuda_of_torch="11.8",
    numpy="1.26.4",
    topology="shared",
    nofile=65536,
    over_ssh=False,
)  # fmt: skip
VENDORS = (BONDED, THOR2, IRDMA, POLLARA, GH200, B300, OMNI_PATH, POWER9, SLINGSHOT, SPARK, VPI)
