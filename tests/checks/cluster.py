"""What do a healthy cluster and its measurements look like, and how is one thing of it broken?"""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from preflight.facts import selection, values
from preflight.facts.cluster import Cluster
from preflight.facts.measured import (
    Bench,
    Edge,
    Expected,
    Mesh,
    RankReport,
    Result,
    Stream,
    TrainedRank,
    Training,
)
from preflight.facts.node import NodeFacts
from preflight.facts.values import Missing
from preflight.findings import Finding, Ledger, Verdict
from preflight.judge import KINDS, Check, Judge
from preflight.settings import Settings

FOLDER = Path(__file__).parents[2] / "checks"
ABSENT = Missing("not there", "absent")


@dataclass
class FakeRun:
    """A run whose facts and measurements are given; `change` and its like break one thing and return it."""

    subjects: dict[str, dict[str, values.Value]]
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
        assert isinstance(network, values.Network)
        changed = [msgspec.structs.replace(i, **fields) if i.name == "eth0" else i for i in network.interfaces]
        return self.change(node, "network", interfaces=tuple(changed))

    def rdma_port(self, node: str, device: int = 0, **fields: Any) -> FakeRun:
        """Other values for the port of one RDMA device of one node."""
        rdma = self.subjects[node]["rdma"]
        assert isinstance(rdma, values.Rdma)
        devices = list(rdma.devices)
        port = msgspec.structs.replace(devices[device].ports[0], **fields)
        devices[device] = msgspec.structs.replace(devices[device], ports=(port,))
        return self.change(node, "rdma", devices=tuple(devices))

    def environment(self, *nodes: str, **variables: str) -> FakeRun:
        """More variables on some nodes, on all where none is named."""
        for name in nodes or self.names:
            before = self.subjects[name]["environment"]
            assert isinstance(before, values.Environment)
            more = {key: values.Variable(text, "--env") for key, text in variables.items()}
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
        failed = tuple(Edge(source, target, 40001, "filtered") for source, target in edges)
        total = self.measured_mesh.edges
        self.measured_mesh = Mesh(total, total - len(failed), failed, blamed)
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
        assert isinstance(network, values.Network)
        assert isinstance(identity, values.Identity)
        assert isinstance(variables, values.Environment)
        index = self.names.index(name)
        address = f"10.0.0.{index + 1}"
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
    }
    return _run(count, gpus=8, variables=variables)


def _run(count: int, *, gpus: int, variables: dict[str, str]) -> FakeRun:
    names = [f"node{number}" for number in range(1, count + 1)]
    subjects = {name: _subjects(name, names, gpus=gpus, variables=variables) for name in names}
    ranks = [(rank, names[rank // max(gpus, 1)]) for rank in range(count * max(gpus, 1))]
    return FakeRun(
        subjects,
        Mesh(edges=count * (count - 1), ok=count * (count - 1), failed=()),
        _bench(names, ranks),
        _training(ranks),
        "nccl" if gpus else "gloo",
    )


def _subjects(name: str, names: list[str], *, gpus: int, variables: dict[str, str]) -> dict[str, values.Value]:
    number = names.index(name) + 1
    address = f"10.0.0.{number}"
    routes = [
        values.Route(peer, f"10.0.0.{other}", (f"10.0.0.{other}",), (f"10.0.0.{other}",), "eth0", address)
        for other, peer in enumerate(names, 1)
        if peer != name
    ]
    master = ("10.0.0.1",) if "MASTER_ADDR" in variables else Missing("MASTER_ADDR is not set", "absent")
    cuda: Any = "13.0" if gpus else Missing("this torch is a CPU build", "absent")
    nccl: Any = "2.28.9" if gpus else ABSENT
    packages = {"torch": "2.13.0", "accelerate": "1.12.0"}
    lock = values.Limits("unlimited", "unlimited", 1 << 20, 1 << 20, "unlimited", 64 << 30, 63 << 30, ())
    driver: Any = "580.95" if gpus else ABSENT
    return {
        "identity": values.Identity(
            name, name, f"boot-{number}:1", "6.1.0", "x86_64", 64, 1 << 38, 1000, address, (address,), (address,), "ssh"
        ),
        "network": values.Network((_loopback(), _eth0(address)), (), (32768, 60999)),
        "ports": values.Ports(()),
        "software": values.Software(
            "3.11.2", "cpython", "/usr/bin/python3", "glibc 2.36", packages, "2.13.0", cuda, ABSENT, nccl, nccl, "/x"
        ),
        "gpu": values.Gpus(tuple(_gpu(index) for index in range(gpus)), driver, driver),
        "rdma": values.Rdma(tuple(_hca(index, number) for index in range(gpus))),
        "environment": values.Environment({key: values.Variable(text, "--env") for key, text in variables.items()}),
        "limits": lock,
        "peers": values.Peers(tuple(routes), master, "", ""),
        "clock": values.Clock(0.01 * number, 0.005),
    }


def _loopback() -> values.Interface:
    held = (values.Address("127.0.0.1", 8, "inet"), values.Address("::1", 128, "inet6"))
    return values.Interface("lo", 1, held, 65536, 0, is_up=True, is_loopback=True, is_physical=False)


def _eth0(address: str) -> values.Interface:
    held = (values.Address(address, 24, "inet"), values.Address("fe80::1%eth0", 64, "inet6"))
    return values.Interface("eth0", 2, held, 9000, 25000, is_up=True, is_loopback=False, is_physical=True)


def _gpu(index: int) -> values.Gpu:
    return values.Gpu(index, "NVIDIA H200", f"GPU-{index}", 143771, f"{index:02x}:00.0", "Default", "Disabled", 0)


def _hca(index: int, number: int) -> values.RdmaDevice:
    mapped = f"0000:0000:0000:0000:0000:ffff:0a01:{index:02x}{number:02x}"
    gids = (
        values.Gid(0, "fe80:0000:0000:0000:0000:0000:0000:0001", "IB/RoCE v1", f"rdma{index}"),
        values.Gid(1, "fe80:0000:0000:0000:0000:0000:0000:0001", "RoCE v2", f"rdma{index}"),
        values.Gid(2, mapped, "IB/RoCE v1", f"rdma{index}"),
        values.Gid(3, mapped, "RoCE v2", f"rdma{index}"),
    )
    port = values.RdmaPort(1, "ACTIVE", "LinkUp", 400.0, "Ethernet", gids, ABSENT, ABSENT, {})
    return values.RdmaDevice(f"mlx5_{index}", "28.39", "MT_0838", "CA", (port,))


def _bench(names: list[str], ranks: list[tuple[int, str]]) -> Bench:
    rates = (0.11, 0.108, 0.112, 0.109, 0.111)
    result = Result("all_reduce", 1 << 28, 20, 3.0, 2.5, 2.4, 2.6, 2.49, 2.51, 0.01, 1.5, 3.0, 2.98, 3.02, wrong=0)
    streams = [Stream(name, names[(i + 1) % len(names)], 1, 2.9 + rates[i % 5]) for i, name in enumerate(names)]
    return Bench(
        backend="gloo",
        world_size=len(ranks),
        nodes=len(names),
        results=(result,),
        expected=Expected(3.05, 3.09, ("25 Gbit/s x 0.990 = 3.09 GB/s",)) if len(names) > 1 else None,
        slow=(),
        streams=tuple(streams) if len(names) > 1 else (),
        ranks=tuple(RankReport(rank, node, "cpu", 1.0, 0.1, "2.28.9") for rank, node in ranks),
    )


def _training(ranks: list[tuple[int, str]]) -> Training:
    trained = [TrainedRank(rank, node, "cpu", 0.1, 0.12, "d0", 1e-7, 1e-6, 1.0, finite=True) for rank, node in ranks]
    return Training("direct", len(ranks), (5.5, 5.0, 4.6, 4.2), tuple(trained))


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
    return Check(name, function, arguments, kind, is_advisory="advisory" in marks)


def judge(name: str, run: FakeRun, settings: Settings | None = None) -> list[Finding]:
    """The findings of one check alone."""
    return Judge(run, Ledger(), settings or Settings()).judge(check(name))


def judge_all(run: FakeRun) -> list[Finding]:
    """The findings of all checks in the order of a run, gates closed by what failed before."""
    ledger = Ledger()
    for name in checks():
        ledger.expect(name, run.names)
    jobs = ("mesh", "bench", "training")
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
    assert isinstance(network, values.Network)
    second = msgspec.structs.replace(
        network.interfaces[1], name="mgmt0", index=3, addresses=(values.Address(address, 24, "inet"),)
    )
    return run.change(node, "network", interfaces=(*network.interfaces, second))


def gpus(count: int, **fields: Any) -> tuple[values.Gpu, ...]:
    """GPUs of one node."""
    return tuple(msgspec.structs.replace(_gpu(index), **fields) for index in range(count))


def renamed(run: FakeRun, node: str, device: int, name: str) -> FakeRun:
    """Another name for one RDMA device of a node."""
    rdma = run.subjects[node]["rdma"]
    assert isinstance(rdma, values.Rdma)
    devices = list(rdma.devices)
    devices[device] = msgspec.structs.replace(devices[device], name=name)
    return run.change(node, "rdma", devices=tuple(devices))


def without_gid(run: FakeRun, node: str, index: int) -> FakeRun:
    """One row less in the GID table of the first RDMA device of a node."""
    rdma = run.subjects[node]["rdma"]
    assert isinstance(rdma, values.Rdma)
    rows = rdma.devices[0].ports[0].gids
    return run.rdma_port(node, gids=tuple(gid for gid in rows if gid.index != index))


def ranks_with_nccl(*versions: str) -> tuple[RankReport, ...]:
    """One rank a node, each with the NCCL it loaded."""
    return tuple(RankReport(rank, f"node{rank + 1}", "cuda:0", 1.0, 0.1, text) for rank, text in enumerate(versions))


def busbw(gbytes_per_s: float, *, spread: float = 0.01) -> FakeRun:
    """Three nodes whose all-reduce reaches this bandwidth."""
    low, high = gbytes_per_s - spread, gbytes_per_s + spread
    return ethernet().all_reduce_has(
        busbw_gbytes_per_s=gbytes_per_s, busbw_low_gbytes_per_s=low, busbw_high_gbytes_per_s=high
    )


def rate_unknown(run: FakeRun) -> FakeRun:
    """No link tells its rate: the raw streams of the run are what is expected."""
    return run.bench_has(expected=Expected(3.0, None, ("median of the raw TCP streams",)))


def _route(run: FakeRun, node: str, peer: str, **fields: Any) -> FakeRun:
    peers = run.subjects[node]["peers"]
    assert isinstance(peers, values.Peers)
    routes = [msgspec.structs.replace(r, **fields) if r.name == peer else r for r in peers.routes]
    return run.change(node, "peers", routes=tuple(routes))
