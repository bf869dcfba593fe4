"""What are the nodes without a fabric of their own, and those inside pods, containers and batch jobs?"""

from __future__ import annotations

from .hardware import A100, FM, GPU_PLACES, H100, LAB, MLX, NVIDIA, RAILS, SERVICES, nic_place
from .platform import Gpus, Hca, Nic, Platform


def gbe(name: str, mbps: int) -> Platform:
    """A CPU server with one Ethernet port."""
    return Platform(
        name=name,
        source="kernel: Documentation/ABI/testing/sysfs-class-net, ethtool(8); no GPU, no RDMA",
        nics=(Nic("eno1", (LAB,), mbps, 1500 if mbps < 25000 else 9000, "0000:e1:00.0", driver="ixgbe"),),
        cpus=64,
        memory_gib=256,
        nofile=65536,
    )


UBUNTU = Platform(
    name="ubuntu",
    source="Ubuntu installer's /etc/hosts; default bridges of Docker, libvirt, Tailscale and the CNI bridge plugin",
    nics=(
        Nic("enp3s0", (LAB,), 10000, pci="0000:e1:00.0", driver="ixgbe"),
        Nic("docker0", ("172.17.0.1/16",)),
        Nic("virbr0", ("192.168.122.1/24",)),
        Nic("tailscale0", ("100.101.10.{n}/32",), mtu=1280),
        Nic("cni0", ("10.244.{n}.1/24",), mtu=1450),
    ),
    gpus=Gpus(
        "NVIDIA GeForce RTX 4090",
        count=2,
        architecture="Ada",
        memory_mib=24564,
        watts=450.0,
        device_id="268410DE",
        generation=4,
        nvlinks=0,
        has_fabric=False,
        switches=0,
        pci=GPU_PLACES[:2],
    ),
    own_name="127.0.1.1",
    environment={"NCCL_SOCKET_IFNAME": "enp3s0", "GLOO_SOCKET_IFNAME": "enp3s0"},
    modules=NVIDIA,
    processes=("systemd", "systemd-timesyncd", "dockerd", "tailscaled"),
    cpu="AMD Ryzen Threadripper PRO 7965WX 24-Cores",
    cpus=48,
    memory_gib=256,
    nofile=65536,
    memlock=8 << 20,
    topology="shared",
    shared_memory_gib=128,
)
L40S = Platform(
    name="l40s",
    source="nvidia-smi -q of L40S (PCIe, no NVLink: nvlink -s says so); one 25 Gbit/s Ethernet port, no RDMA",
    nics=(Nic("ens1f0np0", (LAB,), 25000, 9000, "0000:e1:00.0", driver="ice"),),
    gpus=Gpus(
        "NVIDIA L40S", count=4, architecture="Ada", memory_mib=46068, watts=350.0, device_id="26B910DE", generation=4,
        nvlinks=0, has_fabric=False, switches=0, driver="535.230.02", cuda="12.2", pci=GPU_PLACES[:4],
    ),
    modules=NVIDIA,
    processes=(*SERVICES, "nvidia-persistenced"),
    cpus=64,
    memory_gib=512,
    nofile=65536,
    memlock=8 << 20,
)  # fmt: skip
IPV6 = Platform(
    name="ipv6-only",
    source="RFC 4193 addresses, no IPv4 at all; /etc/hosts with AAAA only",
    nics=(Nic("eno1", ("fd00:77::{n}/64",), 25000, 9000, "0000:e1:00.0"),),
    gateway="",
    cpus=64,
    memory_gib=512,
    nofile=65536,
    over_ssh=False,
)
POD = Platform(
    name="kubernetes-pod",
    source="Kubernetes networking (a /32 and a link-local gateway, as Calico gives), the names that a headless service"
    " gives to the pods of an Indexed Job, NVIDIA's device plugin, no root",
    nics=(Nic("eth0", ("10.77.0.{n}/32",), 0, 8981),),
    hcas=tuple(Hca(f"mlx5_{rail}", pci=nic_place(rail)) for rail in RAILS),
    gpus=H100,
    hostname="trainer-{n}",
    domain="trainer.ml.svc.cluster.local",
    user_id=1000,
    has_log=False,
    container=True,
    group="0::/",
    environment={"KUBERNETES_SERVICE_HOST": "10.96.0.1", "NCCL_IB_HCA": "mlx5"},
    cgroup={"memory.max": "1717986918400", "cpu.max": "max 100000", "pids.max": "max"},
    modules=(*NVIDIA, "nvidia_peermem", *MLX),
    processes=("python3",),
    gateway="169.254.1.1",
    over_ssh=False,
)
SLURM = Platform(
    name="slurm",
    source="Slurm: srun(1), slurm.conf PropagateResourceLimits, cgroup.conf; DGX A100 behind it",
    nics=(Nic("eno1", (LAB,), 25000, 1500, "0000:e1:00.0"),),
    hcas=tuple(
        Hca(f"mlx5_{rail}", rate="200 Gb/sec (4X HDR)", hca_type="MT4123", firmware="20.39.3004", pci=nic_place(rail))
        for rail in RAILS
    ),
    gpus=A100,
    environment={
        "SLURM_JOB_ID": "4711",
        "SLURM_NODEID": "{n}",
        "SLURM_NNODES": "3",
        "SLURM_NTASKS": "24",
        "SLURM_JOB_NODELIST": "node[1-3]",
        "CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7",
    },
    cgroup={"memory.max": "1030792151040"},
    group="0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0",
    modules=(*NVIDIA, "nvidia_peermem", *MLX),
    processes=(*FM, "slurmd", "slurmstepd"),
    cpus=128,
    memory_gib=1024,
    nofile=131072,
)
CONTAINER = Platform(
    name="container",
    source="NGC: docker run --gpus all --network=host --ipc=host --ulimit memlock=-1 --device=/dev/infiniband",
    nics=(
        Nic("eno1", (LAB,), 100000, 9000, "0000:e1:00.0"),
        Nic("docker0", ("172.17.0.1/16",)),
        *(Nic(f"ens{rail}np0", (f"10.{100 + rail}.0.{{n}}/24",), 200000, 9000, nic_place(rail)) for rail in range(4)),
    ),
    hcas=tuple(
        Hca(f"mlx5_{rail}", "Ethernet", "200 Gb/sec (4X HDR)", netdev=f"ens{rail}np0", pci=nic_place(rail))
        for rail in range(4)
    ),
    gpus=A100,
    container=True,
    group="0::/",
    environment={"NCCL_IB_HCA": "mlx5", "NVIDIA_VISIBLE_DEVICES": "all", "NCCL_SOCKET_IFNAME": "eno1"},
    modules=(*NVIDIA, "nvidia_peermem", *MLX),
    processes=("python3",),
    topology="shared",
)
MIXED = Platform(
    name="mixed-names",
    source="systemd.net-naming-scheme(7): the same port is named by its slot, which differs between boards",
    nics=(Nic("enp{n}s0", (LAB,), 10000, 1500, "0000:e1:00.0", driver="ixgbe"),),
    environment={"GLOO_SOCKET_IFNAME": "enp{n}s0", "NCCL_SOCKET_IFNAME": "enp"},
    cpus=64,
    memory_gib=256,
    nofile=65536,
)
