"""What do a healthy cluster and its measurements look like, and how is one thing of it broken?"""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from preflight.facts import selection
from preflight.facts.cluster import Cluster
from preflight.facts.node import NodeFacts
from preflight.facts.subjects.clock import Clock
from preflight.facts.subjects.ending import Ending, PortEnd
from preflight.facts.subjects.environment import Environment, Variable
from preflight.facts.subjects.files import Files, Mount, Place, Same, Shared
from preflight.facts.subjects.gpu import Gpu, Gpus, GpuStatus, Links, PciFunction, Topology, TopologyRow
from preflight.facts.subjects.identity import Identity
from preflight.facts.subjects.kernel import Kernel
from preflight.facts.subjects.limits import Limits
from preflight.facts.subjects.machine import Machine
from preflight.facts.subjects.network import Address, Gateway, Interface, Network
from preflight.facts.subjects.peers import Peers, Route
from preflight.facts.subjects.ports import Ports
from preflight.facts.subjects.rdma import Gid, Rdma, RdmaDevice, RdmaPort
from preflight.facts.subjects.software import Software
from preflight.facts.subjects.trust import Login, Trust
from preflight.facts.value import Missing, Value
from preflight.judge.judge import KINDS, Check, Judge
from preflight.ledger.findings import Finding, Verdict
from preflight.ledger.ledger import Ledger
from preflight.results import (
    Bench,
    Device,
    Drill,
    Edge,
    Expected,
    Mesh,
    RankReport,
    Result,
    Stream,
    TrainedRank,
    Training,
    Transport,
)
from preflight.settings import Settings

FOLDER = Path(__file__).parents[2] / "checks"
ABSENT = Missing("not there", "absent")


@dataclass
class FakeRun:
    """A run whose facts and measurements are given; `change` and its like break one thing and return it."""

    subjects: dict[str, dict[str, Value]]
    measured_mesh: Mesh
    measured_bench: Bench
    measured_training: Training
    backend: selection.Backend
    missing: dict[str, dict[str, Missing]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    stage_seconds: dict[str, float] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Every host asked, answered or not."""
        return tuple(self.subjects)

    @property
    def cluster(self) -> Cluster:
        """The nodes that answered, each with its training interface chosen from its variables."""
        return Cluster(tuple(self._node(name) for name in self.names if name not in self.failures))

    def mesh(self) -> Mesh:
        """The mesh."""
        return self.measured_mesh

    def bench(self) -> Bench:
        """The benchmark."""
        return self.measured_bench

    def training(self) -> Training:
        """The reference training."""
        return self.measured_training

    def end(self) -> None:
        """The second look is among the facts."""

    def leave_out(self, names: Collection[str]) -> None:
        """What was measured is given."""

    def planned(self) -> tuple[str, ...]:
        """Rank -> the node that should run it."""
        ranks_per_node = self.measured_training.world_size // len(self.names)
        return tuple(name for name in self.names for _ in range(ranks_per_node))

    def change(self, node: str, subject: str, **fields: Any) -> FakeRun:
        """Other values in one subject of one node."""
        self.subjects[node][subject] = msgspec.structs.replace(self.subjects[node][subject], **fields)
        return self

    def interface(self, node: str, **fields: Any) -> FakeRun:
        """Other values for eth0 of one node."""
        network = self.subjects[node]["network"]
        assert isinstance(network, Network)
        changed = [msgspec.structs.replace(i, **fields) if i.name == "eth0" else i for i in network.interfaces]
        return self.change(node, "network", interfaces=tuple(changed))

    def rdma_port(self, node: str, device: int = 0, **fields: Any) -> FakeRun:
        """Other values for the port of one RDMA device of one node."""
        rdma = self.subjects[node]["rdma"]
        assert isinstance(rdma, Rdma)
        devices = list(rdma.devices)
        port = msgspec.structs.replace(devices[device].ports[0], **fields)
        devices[device] = msgspec.structs.replace(devices[device], ports=(port,))
        return self.change(node, "rdma", devices=tuple(devices))

    def environment(self, *nodes: str, **variables: str) -> FakeRun:
        """More variables on some nodes, on all where none is named."""
        for name in nodes or self.names:
            before = self.subjects[name]["environment"]
            assert isinstance(before, Environment)
            more = {key: Variable(text, "--env") for key, text in variables.items()}
            self.change(name, "environment", variables={**before.variables, **more})
        return self

    def bench_has(self, **fields: Any) -> FakeRun:
        """Other values in the benchmark's section."""
        self.measured_bench = msgspec.structs.replace(self.measured_bench, **fields)
        return self

    def all_reduce_has(self, **fields: Any) -> FakeRun:
        """Other values in the all-reduce's result."""
        return self.bench_has(results=(msgspec.structs.replace(self.measured_bench.results[0], **fields),))

    def mesh_fails(self, *edges: tuple[str, str], blamed: tuple[tuple[str, ...], ...]) -> FakeRun:
        """Failed edges, and whom the mesh blames for them."""
        failed = tuple(Edge(source=source, target=target, port=40001, reason="filtered") for source, target in edges)
        total = self.measured_mesh.edges
        self.measured_mesh = Mesh(edges=total, ok=total - len(failed), failed=failed, blamed=blamed)
        return self

    def rank(self, number: int, **fields: Any) -> FakeRun:
        """Other values for one rank of the training."""
        ranks = list(self.measured_training.ranks)
        ranks[number] = msgspec.structs.replace(ranks[number], **fields)
        return self.training_has(ranks=tuple(ranks))

    def training_has(self, **fields: Any) -> FakeRun:
        """Other values in the training's section."""
        self.measured_training = msgspec.structs.replace(self.measured_training, **fields)
        return self

    def _node(self, name: str) -> NodeFacts:
        subjects = dict(self.subjects[name])
        missing = self.missing.get(name, {})
        network, identity, variables = subjects["network"], subjects["identity"], subjects["environment"]
        assert isinstance(network, Network)
        assert isinstance(identity, Identity)
        assert isinstance(variables, Environment)
        index = self.names.index(name)
        address = _address(index + 1)
        subjects["network"] = selection.with_training_interface(
            network, identity, variables, backend=self.backend, reached_address=address
        )
        present = {subject: value for subject, value in subjects.items() if subject not in missing}
        return NodeFacts(name, index, address, present, missing)


def ethernet(count: int = 3) -> FakeRun:
    """Healthy nodes with one 25 Gbit/s interface each, no GPU, no RDMA, no variable set."""
    return _run(count, gpus=0, variables={})


def roce(count: int = 4) -> FakeRun:
    """Healthy nodes with 8 GPUs and 8 RoCE ports each, and all that a job's environment usually sets."""
    variables = {
        "MASTER_ADDR": "node1",
        "MASTER_PORT": "29500",
        "NCCL_SOCKET_IFNAME": "eth",
        "NCCL_IB_HCA": "mlx5",
        "NCCL_IB_GID_INDEX": "3",
        "CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7",
    }
    run = _run(count, gpus=8, variables=variables)
    (first,) = run.measured_bench.results
    return run.bench_has(
        backend="nccl",
        results=(first, msgspec.structs.replace(first, op="broadcast")),
        operations=("all_reduce", "broadcast"),
        transports=tuple(transport(rank, name) for rank, name in enumerate(run.names)),
        baseline=(first,),
        devices=tuple(h200(place, name) for name in run.names for place in range(8)),
    )


def h200(place: int, node: str, **fields: Any) -> Device:
    """A healthy GPU that measured itself."""
    device = Device(
        rank=place,
        node=node,
        device=f"cuda:{place}",
        model="NVIDIA H200",
        matmul_tflops_per_s=700.0 + place,
        matmul_dtype="bfloat16",
        wrong=0,
        memory_gbytes_per_s=4300.0,
        to_device_gbytes_per_s=54.0,
        from_device_gbytes_per_s=53.0,
    )
    return msgspec.structs.replace(device, **fields)


def with_gpu(**fields: Any) -> FakeRun:
    """RoCE nodes of which one GPU of node2 has other figures."""
    run = roce()
    found = [
        msgspec.structs.replace(device, **fields) if (device.node, device.device) == ("node2", "cuda:3") else device
        for device in run.measured_bench.devices
    ]
    return run.bench_has(devices=tuple(found))


def rail_by_rail(run: FakeRun, *, slowest: float = 3.0) -> FakeRun:
    """The same all-reduce over each of three rails, of which rail 1 may be slow."""
    first = run.measured_bench.results[0]
    rates = {f"rail {number}": slowest if number == 1 else 3.0 for number in range(3)}
    results = [
        msgspec.structs.replace(
            first, group=name, busbw_gbytes_per_s=rate, busbw_low_gbytes_per_s=rate, busbw_high_gbytes_per_s=rate
        )
        for name, rate in rates.items()
    ]
    return run.bench_has(scope="rails", results=tuple(results), operations=("all_reduce",), baseline=tuple(results[:1]))


def within_nodes(run: FakeRun, **rates: float) -> FakeRun:
    """The same all-reduce within each of some nodes, at these rates."""
    first = run.measured_bench.results[0]
    results = [
        msgspec.structs.replace(
            first, group=name, busbw_gbytes_per_s=rate, busbw_low_gbytes_per_s=rate, busbw_high_gbytes_per_s=rate
        )
        for name, rate in rates.items()
    ]
    return run.bench_has(scope="intra", results=tuple(results), operations=("all_reduce",), streams=())


def transport(rank: int, node: str, network: str = "IB", *ports: str) -> Transport:
    """What NCCL told of one rank."""
    return Transport(
        rank=rank,
        node=node,
        network=network,
        ports=ports or ("mlx5_0:1/RoCE",),
        between_nodes=(f"NET/{network}",),
        within_node=(),
        channels=16,
        algorithm="RING SIMPLE",
    )


def with_netdevs(run: FakeRun) -> FakeRun:
    """The interfaces of the RoCE ports, each in the subnet of its rail."""
    for number, name in enumerate(run.names, 1):
        network = run.subjects[name]["network"]
        assert isinstance(network, Network)
        more = [
            Interface(
                *(f"rdma{index}", 10 + index, (Address(f"10.1.{index}.{number}", 24, "inet"),), 4200, 400000),
                is_up=True,
                is_loopback=False,
                is_physical=True,
            )
            for index in range(8)
        ]
        run.change(name, "network", interfaces=(*network.interfaces, *more))
    return run


def infiniband(count: int = 4) -> FakeRun:
    """The same on InfiniBand, with a job that lets GPUs start transfers themselves."""
    run = rail_by_rail(roce(count).environment(NVSHMEM_IB_ENABLE_IBGDA="1"))
    for name in run.names:
        for device in range(8):
            gid = Gid(0, f"fe80:0000:0000:0000:a088:c203:00ad:{device:04x}", "IB/RoCE v1", ABSENT)
            fields = {"gids": (gid,), "lid": f"0x{device + 1:x}", "sm_lid": "0x1"}
            run.rdma_port(name, device, link_layer="InfiniBand", **fields)
    return run


def _run(count: int, *, gpus: int, variables: dict[str, str]) -> FakeRun:
    names = [f"node{number}" for number in range(1, count + 1)]
    subjects = {name: _subjects(name, names, gpus=gpus, variables=variables) for name in names}
    ranks = [(rank, names[rank // max(gpus, 1)]) for rank in range(count * max(gpus, 1))]
    return FakeRun(
        subjects,
        Mesh(edges=count * (count - 1), ok=count * (count - 1), failed=()),
        _bench(names, ranks),
        _training(ranks, "nccl" if gpus else "gloo"),
        "nccl" if gpus else "gloo",
        missing={} if gpus else {name: {"trust": Missing("not asked for", "absent")} for name in names},
    )


def _subjects(name: str, names: list[str], *, gpus: int, variables: dict[str, str]) -> dict[str, Value]:
    number = names.index(name) + 1
    address = _address(number)
    routes = [
        Route(
            peer,
            *(_address(other), (_address(other),), (_address(other),)),
            "eth0",
            address,
            peer,
            (_address(other),),
            0.001,
        )
        for other, peer in enumerate(names, 1)
        if peer != name
    ]
    master = ("10.0.0.1",) if "MASTER_ADDR" in variables else Missing("MASTER_ADDR is not set", "absent")
    cuda: Any = "13.0" if gpus else Missing("this torch is a CPU build", "absent")
    nccl: Any = "2.28.9" if gpus else ABSENT
    packages = {"torch": "2.13.0", "accelerate": "1.12.0", **({"deepspeed": "0.18.2"} if gpus else {})}
    lock = Limits("unlimited", "unlimited", 1 << 20, 1 << 20, "unlimited", 64 << 30, 63 << 30, ())
    driver: Any = "580.95" if gpus else ABSENT
    return {
        "identity": Identity(
            name, name, f"boot-{number}:1", "6.1.0", "x86_64", 64, 1 << 38, 1000, address, (address,), (address,), "ssh"
        ),
        "network": Network((_loopback(), _eth0(address, 16 if len(names) > 255 else 24)), (), (32768, 60999)),
        "ports": Ports((), 12),
        "software": Software(
            "3.11.2", "cpython", "/usr/bin/python3", "glibc 2.36", packages, "2.13.0", cuda, ABSENT, nccl, nccl, "/x"
        ),
        "gpu": Gpus(
            tuple(_gpu(index) for index in range(gpus)),
            driver,
            "13.0" if gpus else ABSENT,
            topology(gpus) if gpus else ABSENT,
            switches=4 if gpus else 0,
            fabric_manager=True if gpus else ABSENT,
        ),
        "rdma": Rdma(tuple(_hca(index, number) for index in range(gpus))),
        "environment": Environment({key: Variable(text, "--env") for key, text in variables.items()}),
        "limits": lock,
        "kernel": _kernel(gpus),
        "ending": Ending(
            {f"mlx5_{i}:1": _port_end() for i in range(gpus)}, 0, {"eth0": 7}, 0.01 * (number % 50), 0.005
        ),
        "peers": Peers(tuple(routes), master, "", ""),
        "clock": Clock(0.01 * (number % 50), 0.005),
        "machine": Machine("Xeon", ("chronyd",), True, "1.14.48.0", ABSENT, {"c++": "/usr/bin/c++"}),
        "files": _files(names[0], asked=gpus > 0),
        "trust": Trust(tuple(Login(peer, "", 0.2, "/usr/bin/python3") for peer in names if peer != name)),
    }


def _files(writer: str, *, asked: bool) -> Files:
    places = tuple(Place(path, what, "", True, 1 << 40, 1 << 20) for path, what in (("/root", "home"), ("/tmp", "tmp")))
    mounts = (Mount("/data", "nfs4", "filer:/data", ""),)
    if not asked:
        return Files(places, mounts, (), ())
    shared = (Shared("/data", writer, "", 0.02, 900.0, ()),)
    return Files(places, mounts, shared, (Same("/code", "ab" * 32, 7, 4096, True, ()),))


def _address(number: int) -> str:
    return f"10.0.{number >> 8}.{number & 255}"


def _loopback() -> Interface:
    held = (Address("127.0.0.1", 8, "inet"), Address("::1", 128, "inet6"))
    return Interface("lo", 1, held, 65536, 0, is_up=True, is_loopback=True, is_physical=False)


def _eth0(address: str, prefix: int) -> Interface:
    held = (Address(address, prefix, "inet"), Address("fe80::1%eth0", 64, "inet6"))
    return Interface("eth0", 2, held, 9000, 25000, is_up=True, is_loopback=False, is_physical=True)


def _gpu(index: int) -> Gpu:
    bus = f"00000000:{index:02x}:00.0"
    status = GpuStatus(
        is_persistent=True,
        has_ecc=True,
        has_ecc_pending=True,
        mig_pending="Disabled",
        uncorrected_errors=0,
        pages_retired=0,
        is_retirement_pending=False,
        rows_remapped=0,
        is_remapping_pending=False,
        has_remapping_failed=False,
        is_memory_beyond_repair=False,
        is_repair_pending=False,
        is_sram_worn=False,
        recovery="None",
        needs_reset=False,
        slowdowns=("gpu_idle",),
        performance_state="P0",
        pcie_generation=5,
        pcie_generation_max=5,
        pcie_width=16,
        pcie_width_max=16,
        power_limit_watts=700.0,
        fabric_state="Completed",
        fabric_status="Success",
    )
    place = f"pci0000:{index:02x}/0000:{index:02x}:00.0"
    function = PciFunction(place, index // 4, 16, 16, 32.0, 32.0, "identity", ())
    links = Links(18, 0)
    return Gpu(index, "NVIDIA H200", f"GPU-{index}", 143771, bus, "Default", "Disabled", 0, status, links, function)


def topology(gpus: int, *, nearest: tuple[int, ...] = ()) -> Topology:
    """All GPUs joined by NVLink; each near an adapter, its own where `nearest` says nothing else."""
    near = nearest or tuple(range(gpus))
    columns = [f"{kind}{i}" for kind in ("GPU", "NIC") for i in range(gpus)]

    def relation(one: str, other: str) -> str:
        if one == other:
            return "X"
        if one[:3] == other[:3]:
            return "NV18" if one.startswith("GPU") else "SYS"
        gpu, adapter = sorted((one, other))
        return "PIX" if near[int(gpu[3:])] == int(adapter[3:]) else "SYS"

    rows = [TopologyRow(a, tuple(relation(a, b) for b in columns), ABSENT) for a in columns]
    return Topology(tuple(rows), {f"NIC{i}": f"mlx5_{i}" for i in range(gpus)})


def _port_end(state: str = "ACTIVE", **counters: int) -> PortEnd:
    return PortEnd(state, {"link_downed": 0, "symbol_error": 0, "port_rcv_errors": 0, **counters})


def _kernel(gpus: int) -> Kernel:
    return Kernel(
        modules=("nvidia", "nvidia_peermem", "ib_uverbs", "mlx5_ib") if gpus else (),
        is_driver_open=True if gpus else ABSENT,
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
    )


def _hca(index: int, number: int) -> RdmaDevice:
    mapped = f"0000:0000:0000:0000:0000:ffff:0a01:{index:02x}{number & 255:02x}"
    gids = (
        Gid(0, "fe80:0000:0000:0000:0000:0000:0000:0001", "IB/RoCE v1", f"rdma{index}"),
        Gid(1, "fe80:0000:0000:0000:0000:0000:0000:0001", "RoCE v2", f"rdma{index}"),
        Gid(2, mapped, "IB/RoCE v1", f"rdma{index}"),
        Gid(3, mapped, "RoCE v2", f"rdma{index}"),
    )
    counters = dict.fromkeys(("link_downed", "symbol_error", "port_rcv_errors"), 0)
    port = RdmaPort(1, "ACTIVE", "LinkUp", 400.0, "Ethernet", gids, ABSENT, ABSENT, counters, 4, 4096, ("0xffff",))
    return RdmaDevice(f"mlx5_{index}", "28.39", "MT_0838", "CA", (port,), "MT4129", "")


def _bench(names: list[str], ranks: list[tuple[int, str]]) -> Bench:
    rates = (0.11, 0.108, 0.112, 0.109, 0.111)
    result = Result(
        op="all_reduce",
        bytes=1 << 28,
        iterations=20,
        seconds_first=3.0,
        seconds_median=2.5,
        seconds_p5=2.4,
        seconds_p95=2.6,
        seconds_low=2.49,
        seconds_high=2.51,
        cv=0.01,
        algbw_gbytes_per_s=1.5,
        busbw_gbytes_per_s=3.0,
        busbw_low_gbytes_per_s=2.98,
        busbw_high_gbytes_per_s=3.02,
        wrong=0,
    )
    streams = [
        Stream(source=name, target=names[(i + 1) % len(names)], shift=1, gbytes_per_s=2.9 + rates[i % 5])
        for i, name in enumerate(names)
    ]
    return Bench(
        backend="gloo",
        world_size=len(ranks),
        nodes=len(names),
        results=(result,),
        expected=Expected(
            busbw_gbytes_per_s=3.05, bound_gbytes_per_s=3.09, derivation=("25 Gbit/s x 0.990 = 3.09 GB/s",)
        )
        if len(names) > 1
        else None,
        slow=(),
        streams=tuple(streams) if len(names) > 1 else (),
        ranks=tuple(
            RankReport(rank=rank, node=node, device="cpu", import_seconds=1.0, init_seconds=0.1, nccl="2.28.9")
            for rank, node in ranks
        ),
    )


def _training(ranks: list[tuple[int, str]], backend: str) -> Training:
    trained = []
    for rank, node in ranks:
        local_rank = sum(other == node for number, other in ranks if number < rank)
        device = f"cuda:{local_rank}" if backend == "nccl" else "cpu"
        trained.append(
            TrainedRank(
                rank=rank,
                node=node,
                device=device,
                step_seconds_median=0.1,
                step_seconds_p95=0.12,
                parameters_digest="d0",
                gradient_error=1e-7,
                parameters_error=1e-6,
                import_seconds=1.0,
                finite=True,
                compute_seconds_mean=0.1,
                optimizer_digest="o0",
                replay_error=0.0,
                accumulation_error=1e-6,
                resume_error=0.0,
            )
        )
    losses = (5.5, 5.0, 4.6, 4.2)
    drill = Drill(
        rank=ranks[-1][0],
        node=ranks[-1][1],
        named=(ranks[-1][1],),
        seconds_to_end=5.0,
        limit_seconds=44.0,
        restarted_losses=losses[2:],
        wanted_losses=losses[2:],
    )
    return Training(
        launcher="direct",
        world_size=len(ranks),
        losses=losses,
        ranks=tuple(trained),
        backend=backend,
        checkpoint_dir="/shared",
        drill=drill,
    )


@cache
def checks() -> dict[str, Callable[..., None]]:
    """Check id -> function, of every file in checks/."""
    found: dict[str, Callable[..., None]] = {}
    for path in sorted(FOLDER.glob("test_*.py")):
        spec = importlib.util.spec_from_file_location(f"checks_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if name.startswith("test_"):
                found[f"{path.stem.removeprefix('test_')}.{name.removeprefix('test_')}"] = function
    return found


def check(name: str) -> Check:
    """A check as the plugin hands it to the judge."""
    function = checks()[name]
    arguments = tuple(inspect.signature(function).parameters)
    kind = next(kind for kind in reversed(KINDS) if kind in arguments)
    marks = {mark.name for mark in getattr(function, "pytestmark", ())}
    needs = {word for mark in getattr(function, "pytestmark", ()) if mark.name == "needs" for word in mark.args}
    return Check(name, function, arguments, kind, is_advisory="advisory" in marks, needs=frozenset(needs))


def judge(name: str, run: FakeRun, settings: Settings | None = None) -> list[Finding]:
    """The findings of one check alone."""
    return Judge(run, Ledger(), settings or Settings()).judge(check(name))


def judge_all(run: FakeRun) -> list[Finding]:
    """The findings of all checks in the order of a run, gates closed by what failed before."""
    ledger = Ledger()
    for name in checks():
        ledger.expect(name, run.names)
    jobs = ("mesh", "bench", "training", "ending")
    for name in sorted(checks(), key=lambda name: jobs.index(check(name).kind) if check(name).kind in jobs else -1):
        for finding in Judge(run, ledger, Settings()).judge(check(name)):
            ledger.record(finding)
    assert not ledger.missing()
    return ledger.findings


@dataclass(frozen=True)
class Broken:
    """A check, a broken cluster, the nodes it must name and words of its message."""

    name: str
    run: FakeRun
    nodes: tuple[str, ...]
    words: str

    def __str__(self) -> str:
        return f"{self.name}-{'-'.join(self.nodes)}"

    def assert_named(self) -> None:
        """The check breaks for exactly these nodes, in these words, with a fix; all others are well."""
        findings = judge(self.name, self.run)
        verdict = Verdict.WARN if check(self.name).is_advisory else Verdict.FAIL
        broken = [finding for finding in findings if finding.verdict is verdict]
        assert {node for finding in broken for node in finding.nodes} == set(self.nodes), findings
        assert self.words in "; ".join(finding.message for finding in broken)
        assert all(finding.fix for finding in broken)


def debian_name(run: FakeRun, node: str) -> FakeRun:
    """The node's own hostname is 127.0.1.1 there, as Debian's installer writes it."""
    return run.change(node, "identity", hostname_address="127.0.1.1", hostname_addresses=("127.0.1.1",))


def resolves(run: FakeRun, node: str, peer: str, *addresses: str) -> FakeRun:
    """What one node takes the hostname of a peer for."""
    return _route(run, node, peer, resolved=addresses)


def leaves_by(run: FakeRun, node: str, peer: str, interface: str) -> FakeRun:
    """The interface that packets from a node to a peer take."""
    return _route(run, node, peer, interface=interface)


def leads_to(run: FakeRun, address: str, *nodes: str) -> FakeRun:
    """What MASTER_ADDR resolves to on some nodes, on all where none is named; "" for nothing."""
    for name in nodes or run.names:
        run.change(name, "peers", master_addresses=(address,) if address else ())
    return run


def with_second_address(run: FakeRun, node: str, address: str) -> FakeRun:
    """A second interface, with this address."""
    network = run.subjects[node]["network"]
    assert isinstance(network, Network)
    second = msgspec.structs.replace(
        network.interfaces[1], name="mgmt0", index=3, addresses=(Address(address, 24, "inet"),)
    )
    return run.change(node, "network", interfaces=(*network.interfaces, second))


def gpus(count: int, **fields: Any) -> tuple[Gpu, ...]:
    """GPUs of one node."""
    return tuple(msgspec.structs.replace(_gpu(index), **fields) for index in range(count))


def with_interface(
    run: FakeRun, node: str, name: str, address: str, *, prefix: int = 24, first: bool = False
) -> FakeRun:
    """One interface more on a node, before all others where `first`."""
    network = run.subjects[node]["network"]
    assert isinstance(network, Network)
    taken = [interface.index for interface in network.interfaces]
    held = (Address(address, prefix, "inet"),)
    more = Interface(
        name, 0 if first else max(taken) + 1, held, 1500, 0, is_up=True, is_loopback=False, is_physical=False
    )
    found = sorted((*network.interfaces, more), key=lambda interface: interface.index)
    return run.change(node, "network", interfaces=tuple(found))


def with_gateways(run: FakeRun, *nodes: str) -> FakeRun:
    """A default route on some nodes."""
    for name in nodes:
        run.change(name, "network", gateways=(Gateway("eth0", "10.0.0.254", "inet"),))
    return run


def files_have(run: FakeRun, node: str, subject: str, **fields: Any) -> FakeRun:
    """Other values in the first place, mount, shared or same path of a node."""
    files = run.subjects[node]["files"]
    first, *rest = getattr(files, subject)
    return run.change(node, "files", **{subject: (msgspec.structs.replace(first, **fields), *rest)})


def logs_in(run: FakeRun, node: str, **fields: Any) -> FakeRun:
    """Another outcome of a node's first login."""
    trust = run.subjects[node]["trust"]
    assert isinstance(trust, Trust)
    first, *rest = trust.logins
    return run.change(node, "trust", logins=(msgspec.structs.replace(first, **fields), *rest))


def looks_up(run: FakeRun, node: str, peer: str, **fields: Any) -> FakeRun:
    """Other values in the route from a node to a peer."""
    return _route(run, node, peer, **fields)


def device(run: FakeRun, node: str, number: int, **fields: Any) -> FakeRun:
    """Other values for one RDMA device."""
    rdma = run.subjects[node]["rdma"]
    assert isinstance(rdma, Rdma)
    devices = list(rdma.devices)
    devices[number] = msgspec.structs.replace(devices[number], **fields)
    return run.change(node, "rdma", devices=tuple(devices))


def renamed(run: FakeRun, node: str, number: int, name: str) -> FakeRun:
    """Another name for one RDMA device of a node."""
    return device(run, node, number, name=name)


def without_gid(run: FakeRun, node: str, index: int) -> FakeRun:
    """One row less in the GID table of the first RDMA device of a node."""
    rdma = run.subjects[node]["rdma"]
    assert isinstance(rdma, Rdma)
    rows = rdma.devices[0].ports[0].gids
    return run.rdma_port(node, gids=tuple(gid for gid in rows if gid.index != index))


def ranks_with_nccl(*versions: str) -> tuple[RankReport, ...]:
    """One rank a node, each with the NCCL it loaded."""
    return tuple(
        RankReport(rank=rank, node=f"node{rank + 1}", device="cuda:0", import_seconds=1.0, init_seconds=0.1, nccl=text)
        for rank, text in enumerate(versions)
    )


def busbw(gbytes_per_s: float, *, spread: float = 0.01) -> FakeRun:
    """Three nodes whose all-reduce reaches this bandwidth."""
    low, high = gbytes_per_s - spread, gbytes_per_s + spread
    return ethernet().all_reduce_has(
        busbw_gbytes_per_s=gbytes_per_s, busbw_low_gbytes_per_s=low, busbw_high_gbytes_per_s=high
    )


def also(operation: str, **fields: Any) -> FakeRun:
    """A healthy run with a second collective, of which some fields are told."""
    run = ethernet()
    (first,) = run.measured_bench.results
    results = (first, msgspec.structs.replace(first, op=operation, **fields))
    return run.bench_has(results=results, operations=("all_reduce", operation))


def against(gbytes_per_s: float) -> FakeRun:
    """A healthy run beside an earlier one that reached so much."""
    run = ethernet()
    fields = dict.fromkeys(("busbw_gbytes_per_s", "busbw_low_gbytes_per_s"), gbytes_per_s)
    return run.bench_has(baseline=(msgspec.structs.replace(run.measured_bench.results[0], **fields),))


def over_sockets(*names: str) -> FakeRun:
    """RoCE nodes over whose active ports NCCL went, but on these over a socket."""
    run = roce()
    used = [
        transport(rank, name, "Socket", "eth0:10.0.0.1<0>") if name in names else transport(rank, name)
        for rank, name in enumerate(run.names)
    ]
    return run.bench_has(transports=tuple(used))


def rate_unknown(run: FakeRun) -> FakeRun:
    """No link tells its rate: the raw streams of the run are what is expected."""
    return run.bench_has(
        expected=Expected(
            busbw_gbytes_per_s=3.0, bound_gbytes_per_s=None, derivation=("median of the raw TCP streams",)
        )
    )


def _route(run: FakeRun, node: str, peer: str, **fields: Any) -> FakeRun:
    peers = run.subjects[node]["peers"]
    assert isinstance(peers, Peers)
    routes = [msgspec.structs.replace(r, **fields) if r.name == peer else r for r in peers.routes]
    return run.change(node, "peers", routes=tuple(routes))
