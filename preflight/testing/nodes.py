"""What are all facts of a healthy node, in a cluster of so many?"""

from __future__ import annotations

from typing import Any

from preflight.facts.subjects.clock import Clock
from preflight.facts.subjects.ending import Ending, LinksEnd, PortEnd
from preflight.facts.subjects.environment import Environment, Variable
from preflight.facts.subjects.files import Cache, Files, Mount, Place, Same, Shared
from preflight.facts.subjects.gpu import Counted, Gpus, LinkErrors
from preflight.facts.subjects.gpus.engine import Engine
from preflight.facts.subjects.gpus.vendor import Copies, Copy, Finding, Vendor
from preflight.facts.subjects.identity import Identity
from preflight.facts.subjects.kernel import Kernel
from preflight.facts.subjects.limits import Limits
from preflight.facts.subjects.machine import Machine
from preflight.facts.subjects.network import Network
from preflight.facts.subjects.peers import Peers, Route
from preflight.facts.subjects.ports import Ports
from preflight.facts.subjects.rdma import Rdma
from preflight.facts.subjects.software import Software
from preflight.facts.subjects.trust import Login, Trust
from preflight.facts.value import Missing, Value
from preflight.testing.hardware import ABSENT, eth0, gpus, hca, loopback, made, node_address, topology

FINDINGS = tuple(Finding("Memory", str(gpu), "pass", "") for gpu in range(8))


def copies(gpu_count: int) -> Copies:
    """Every GPU as fast as the others, from the host and from each other."""
    from_host = [Copy("host_to_device_memcpy_ce", 0, index, 55.0) for index in range(gpu_count)]
    between = [
        Copy("device_to_device_memcpy_read_ce", one, other, 390.0)
        for one in range(gpu_count)
        for other in range(gpu_count)
        if one != other
    ]
    return Copies((*from_host, *between), "")


def counted_by(gpu_count: int) -> tuple[Counted, ...]:
    """No error of PCIe on any GPU."""
    errors = tuple((f"PCIe errors, {kind}", 0) for kind in ("fatal", "uncorrected", "corrected"))
    return tuple(Counted(f"0000:{index:02x}:00.0", errors) for index in range(gpu_count))


def node_facts(name: str, names: list[str], *, gpu_count: int, variables: dict[str, str]) -> dict[str, Value]:
    """Subject -> facts of a node; with GPUs it has as many RoCE adapters."""
    number = names.index(name) + 1
    return {
        "identity": _identity(name, number),
        "network": _network(number, nodes=len(names)),
        "ports": made(Ports, listeners=(), ephemeral_in_use=12),
        "software": _software(gpu_count),
        "gpu": _gpus(gpu_count),
        "rdma": made(Rdma, devices=tuple(hca(index, number) for index in range(gpu_count)), without_driver=()),
        "environment": made(
            Environment,
            variables={key: Variable(text, "--env") for key, text in variables.items()},
            shells={"a login over ssh": {}, "a new window": {}},
            unread_files=(),
        ),
        "limits": _limits(),
        "kernel": _kernel(gpu_count),
        "ending": _ending(number, gpu_count),
        "peers": _peers(name, names, has_master="MASTER_ADDR" in variables),
        "vendor": Vendor(dcgmi=FINDINGS, rvs=FINDINGS, agfhc=FINDINGS, nvbandwidth=copies(gpu_count))
        if gpu_count
        else Vendor(),
        "engine": made(Engine, name="Ray", gpus=float(gpu_count), groups=(), taken=0.0),
        "clock": made(Clock, offset_seconds=0.01 * (number % 50), uncertainty_seconds=0.005),
        "machine": _machine(),
        "files": _files(names[0], asked=gpu_count > 0),
        "trust": made(Trust, logins=tuple(Login(peer, "", 0.2, "/usr/bin/python3") for peer in names if peer != name)),
    }


def _identity(name: str, number: int) -> Identity:
    address = node_address(number)
    return made(
        Identity,
        hostname=name,
        fqdn=name,
        boot_id=f"boot-{number}:1",
        kernel="6.1.0",
        machine="x86_64",
        cpu_count=64,
        memory_bytes=1 << 38,
        user_id=1000,
        hostname_address=address,
        hostname_addresses=(address,),
        localhost_addresses=("127.0.0.1", "::1"),
        context="ssh",
    )


def _network(number: int, *, nodes: int) -> Network:
    return made(
        Network,
        interfaces=(loopback(), eth0(node_address(number), 16 if nodes > 255 else 24)),
        gateways=(),
        ephemeral_ports=(32768, 60999),
    )


def _software(gpu_count: int) -> Software:
    cuda: Any = "13.0" if gpu_count else Missing("this torch is a CPU build", "absent")
    nccl: Any = "2.28.9" if gpu_count else ABSENT
    packages = {"torch": "2.13.0", "accelerate": "1.12.0", **({"deepspeed": "0.18.2"} if gpu_count else {})}
    return made(
        Software,
        python="3.11.2",
        implementation="cpython",
        executable="/usr/bin/python3",
        libc="glibc 2.36",
        packages=packages,
        torch="2.13.0",
        torch_cuda=cuda,
        torch_hip=ABSENT,
        nccl_plugins=(),
        cudnn=nccl,
        nccl=nccl,
    )


def _gpus(gpu_count: int) -> Gpus:
    driver: Any = "580.95" if gpu_count else ABSENT
    return made(
        Gpus,
        devices=gpus(gpu_count),
        driver=driver,
        cuda_driver="13.0" if gpu_count else ABSENT,
        topology=topology(gpu_count) if gpu_count else ABSENT,
        switches=4 if gpu_count else 0,
        fabric_manager=True if gpu_count else ABSENT,
        on_bus=tuple(f"0000:{index:02x}:00.0" for index in range(gpu_count)),
        counted=counted_by(gpu_count),
    )


def _limits() -> Limits:
    return made(
        Limits,
        memlock_soft_bytes="unlimited",
        memlock_hard_bytes="unlimited",
        nofile_soft=1 << 20,
        nofile_hard=1 << 20,
        nproc_soft="unlimited",
        shm_total_bytes=64 << 30,
        shm_free_bytes=63 << 30,
        leftovers=(),
        shm_is_writable=True,
        device_faults=(),
        address_space_soft_bytes="unlimited",
        file_size_soft_bytes="unlimited",
        cpu_time_soft_seconds="unlimited",
        stack_soft_bytes=8 << 20,
    )


def _ending(number: int, gpu_count: int) -> Ending:
    return made(
        Ending,
        ports={f"mlx5_{i}:1": _port_end() for i in range(gpu_count)},
        oom_kills=0,
        link_errors={"eth0": 7},
        nvlink_errors=tuple(LinksEnd(f"GPU-{i}", LinkErrors(18, 54, {})) for i in range(gpu_count)),
        gpus_counted=counted_by(gpu_count),
        log=(),
        offset_seconds=0.01 * (number % 50),
        uncertainty_seconds=0.005,
    )


def _peers(name: str, names: list[str], *, has_master: bool) -> Peers:
    source = node_address(names.index(name) + 1)
    routes = [
        Route(
            name=peer,
            address=node_address(other),
            resolved=(node_address(other),),
            resolved_fqdn=(node_address(other),),
            interface="eth0",
            source=source,
            reverse=peer,
            reverse_addresses=(node_address(other),),
            reverse_seconds=0.001,
        )
        for other, peer in enumerate(names, 1)
        if peer != name
    ]
    master = ("10.0.0.1",) if has_master else Missing("MASTER_ADDR is not set", "absent")
    return made(Peers, routes=tuple(routes), master_addresses=master, master_port_error="", master_port_holder="")


def _machine() -> Machine:
    return made(
        Machine,
        cpu_model="Xeon",
        time_services=("chronyd",),
        clock_is_synchronised=True,
        rdma_core="1.14.48.0",
        rdma_driver=ABSENT,
        compilers={"c++": "/usr/bin/c++"},
    )


def _files(writer: str, *, asked: bool) -> Files:
    places = tuple(
        Place(path, what, "", is_writable=True, free_bytes=1 << 40, free_inodes=1 << 20)
        for path, what in (("/root", "home"), ("/tmp", "tmp"))
    )
    caches = tuple(
        Cache(what=what, path=path, variable=variable, exists=True, below=path, kind="ext4", free_bytes=1 << 40)
        for what, path, variable in (
            ("Triton", "/root/.triton/cache", "TRITON_CACHE_DIR"),
            ("torch extensions", "/root/.cache/torch_extensions", "TORCH_EXTENSIONS_DIR"),
        )
    )
    mounts = (Mount("/data", "nfs4", "filer:/data", ""), Mount("/shared", "nfs4", "filer:/shared", ""))
    if not asked:
        return made(Files, places=places, mounts=mounts, shared=(), same=(), caches=caches)
    shared = tuple(Shared(path, writer, "", 0.02, 900.0, ()) for path in ("/data", "/shared"))
    checkpoints = Place("/shared", "--checkpoint-dir", "", is_writable=True, free_bytes=1 << 40, free_inodes=1 << 20)
    return made(
        Files,
        places=(*places, checkpoints),
        mounts=mounts,
        caches=caches,
        shared=shared,
        same=(Same("/code", "ab" * 32, 7, 4096, is_whole=True, pointers=()),),
    )


def _port_end(state: str = "ACTIVE", **counters: int) -> PortEnd:
    return PortEnd(state, {"link_downed": 0, "symbol_error": 0, "port_rcv_errors": 0, **counters})


def _kernel(gpu_count: int) -> Kernel:
    return made(
        Kernel,
        modules=("nvidia", "nvidia_peermem", "ib_uverbs", "mlx5_ib") if gpu_count else (),
        is_driver_open=True if gpu_count else ABSENT,
        boot_options=("iommu=pt",),
        has_iommu=True,
        governors=("performance",),
        scaling_driver="acpi-cpufreq",
        memory_available_bytes=1 << 37,
        swap_total_bytes=0,
        swap_used_bytes=0,
        hugepages_bytes=0,
        transparent_hugepages="madvise",
        oom_kills=0,
        cpus_allowed=64,
        cgroup_cpus=ABSENT,
        cgroup_memory_bytes=ABSENT,
        cgroup_oom_kills=0,
        log=(),
        cgroup_processes=1 << 20,
        link_errors={"eth0": 7},
        memory_overcommit=0,
        files_held=0.0,
        connections_held=0.0,
        enforces_selinux=False,
        users_make_namespaces=True,
        numa_balancing=0,
        most_processes=4194304,
        has_smt=True,
        has_boost=True,
        clock_source="tsc",
        clock_share=1.0,
    )
