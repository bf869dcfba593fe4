"""Which clusters do our own tests break, and what do our own checks say of them?"""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from preflight.facts.results import Expected, RankReport
from preflight.facts.subjects.network import Address, Gateway, Interface, Network
from preflight.facts.subjects.peers import Peers
from preflight.facts.subjects.rdma import Rdma
from preflight.facts.subjects.trust import Trust
from preflight.facts.value import Missing
from preflight.judge.check import Check
from preflight.judge.ledger.findings import Finding, Verdict
from preflight.judge.ledger.ledger import Ledger
from preflight.judge.settings import Settings
from preflight.run.suite.judge import Judge
from preflight.testing import FakeRun, healthy, judged, roce
from preflight.testing.judged import check_of
from preflight.testing.measured import transport

FOLDER = Path(__file__).parents[2] / "checks"


def with_gpu(**fields: Any) -> FakeRun:
    """RoCE nodes of which one GPU of node2 has other figures."""
    run = roce()
    found = [
        msgspec.structs.replace(device, **fields) if (device.node, device.device) == ("node2", "cuda:3") else device
        for device in run.measured_bench.devices
    ]
    return run.bench_has(devices=tuple(found))


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


def with_netdevs(run: FakeRun) -> FakeRun:
    """The interfaces of the RoCE ports, each in the subnet of its rail."""
    for number, name in enumerate(run.names, 1):
        network = run.subjects[name]["network"]
        assert isinstance(network, Network)
        more = [
            Interface(
                name=f"rdma{index}",
                index=10 + index,
                addresses=(Address(f"10.1.{index}.{number}", 24, "inet"),),
                mtu=4200,
                speed_mbps=400000,
                is_up=True,
                is_loopback=False,
                is_physical=True,
            )
            for index in range(8)
        ]
        run = run.broken(name, "network", interfaces=(*network.interfaces, *more))
    return run


@cache
def checks() -> dict[str, Callable[..., None]]:
    """Check id -> function, of every file in checks/."""
    found: dict[str, Callable[..., None]] = {}
    for path in sorted(FOLDER.glob("test_*.py")):
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if name.startswith("test_"):
                found[f"{path.stem.removeprefix('test_')}.{name.removeprefix('test_')}"] = function
    return found


def check(name: str) -> Check:
    """A check as a run hands it to the judge."""
    return check_of(checks()[name])


def judge(name: str, run: FakeRun, settings: Settings | None = None) -> list[Finding]:
    """The findings of one check alone."""
    return list(judged(checks()[name], run, settings=settings).findings)


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
    return run.broken(node, "identity", hostname_address="127.0.1.1", hostname_addresses=("127.0.1.1",))


def resolves(run: FakeRun, node: str, peer: str, *addresses: str) -> FakeRun:
    """What one node takes the hostname of a peer for."""
    return _route(run, node, peer, resolved=addresses)


def leaves_by(run: FakeRun, node: str, peer: str, interface: str | Missing) -> FakeRun:
    """The interface that packets from a node to a peer take."""
    return _route(run, node, peer, interface=interface)


def with_route(run: FakeRun, node: str, peer: str, **values: Any) -> FakeRun:
    """Another way from a node to a peer, to every peer where none is named."""
    for name in [peer] if peer else [other for other in run.names if other != node]:
        run = _route(run, node, name, **values)
    return run


def comes_back(run: FakeRun, node: str, peer: str, interface: str) -> FakeRun:
    """An interface of a node has the address of a peer."""
    own = run.cluster[peer].network.training_interface.address()
    return _route(run, node, peer, interface=interface, source=own)


def leads_to(run: FakeRun, address: str, *nodes: str) -> FakeRun:
    """What MASTER_ADDR resolves to on some nodes, on all where none is named; "" for nothing."""
    for name in nodes or run.names:
        run = run.broken(name, "peers", master_addresses=(address,) if address else ())
    return run


def with_second_address(run: FakeRun, node: str, address: str) -> FakeRun:
    """A second interface, with this address."""
    network = run.subjects[node]["network"]
    assert isinstance(network, Network)
    second = msgspec.structs.replace(
        network.interfaces[1], name="mgmt0", index=3, addresses=(Address(address, 24, "inet"),)
    )
    return run.broken(node, "network", interfaces=(*network.interfaces, second))


def with_interface(
    run: FakeRun, node: str, name: str, address: str, *, prefix: int = 24, first: bool = False
) -> FakeRun:
    """One interface more on a node, before all others where `first`."""
    network = run.subjects[node]["network"]
    assert isinstance(network, Network)
    taken = [interface.index for interface in network.interfaces]
    held = (Address(address, prefix, "inet"),)
    more = Interface(
        name=name,
        index=0 if first else max(taken) + 1,
        addresses=held,
        mtu=1500,
        speed_mbps=0,
        is_up=True,
        is_loopback=False,
        is_physical=False,
    )
    found = sorted((*network.interfaces, more), key=lambda interface: interface.index)
    return run.broken(node, "network", interfaces=tuple(found))


def with_gateways(run: FakeRun, *nodes: str) -> FakeRun:
    """A default route on some nodes."""
    for name in nodes:
        run = run.broken(name, "network", gateways=(Gateway("eth0", "10.0.0.254", "inet"),))
    return run


def files_have(run: FakeRun, node: str, subject: str, **fields: Any) -> FakeRun:
    """Other values in the first place, mount, shared or same path of a node."""
    files = run.subjects[node]["files"]
    first, *rest = getattr(files, subject)
    return run.broken(node, "files", **{subject: (msgspec.structs.replace(first, **fields), *rest)})


def logs_in(run: FakeRun, node: str, *, launchers: tuple[str, ...] = (), **fields: Any) -> FakeRun:
    """Another outcome of a node's first login, where these start the other nodes from it."""
    trust = run.subjects[node]["trust"]
    assert isinstance(trust, Trust)
    first, *rest = trust.logins
    return run.broken(node, "trust", logins=(msgspec.structs.replace(first, **fields), *rest), launchers=launchers)


def looks_up(run: FakeRun, node: str, peer: str, **fields: Any) -> FakeRun:
    """Other values in the route from a node to a peer."""
    return _route(run, node, peer, **fields)


def device(run: FakeRun, node: str, number: int, **fields: Any) -> FakeRun:
    """Other values for one RDMA device."""
    rdma = run.subjects[node]["rdma"]
    assert isinstance(rdma, Rdma)
    devices = list(rdma.devices)
    devices[number] = msgspec.structs.replace(devices[number], **fields)
    return run.broken(node, "rdma", devices=tuple(devices))


def renamed(run: FakeRun, node: str, number: int, name: str) -> FakeRun:
    """Another name for one RDMA device of a node."""
    return device(run, node, number, name=name)


def without_gid(run: FakeRun, node: str, index: int) -> FakeRun:
    """One row less in the GID table of the first RDMA device of a node."""
    rdma = run.subjects[node]["rdma"]
    assert isinstance(rdma, Rdma)
    rows = rdma.devices[0].ports[0].gids
    return run.broken_rdma_port(node, gids=tuple(gid for gid in rows if gid.index != index))


def ranks_with_nccl(*versions: str) -> tuple[RankReport, ...]:
    """One rank a node, each with the NCCL it loaded."""
    return tuple(
        RankReport(rank=rank, node=f"node{rank + 1}", device="cuda:0", import_seconds=1.0, init_seconds=0.1, nccl=text)
        for rank, text in enumerate(versions)
    )


def busbw(gbytes_per_s: float, *, spread: float = 0.01) -> FakeRun:
    """Three nodes whose all-reduce reaches this bandwidth."""
    low, high = gbytes_per_s - spread, gbytes_per_s + spread
    return healthy().all_reduce_has(
        busbw_gbytes_per_s=gbytes_per_s, busbw_low_gbytes_per_s=low, busbw_high_gbytes_per_s=high
    )


def also(operation: str, **fields: Any) -> FakeRun:
    """A healthy run with a second collective, of which some fields are told."""
    run = healthy()
    (first,) = run.measured_bench.results
    results = (first, msgspec.structs.replace(first, op=operation, **fields))
    return run.bench_has(results=results, operations=("all_reduce", operation))


def against(gbytes_per_s: float) -> FakeRun:
    """A healthy run beside an earlier one that reached so much."""
    run = healthy()
    fields = dict.fromkeys(("busbw_gbytes_per_s", "busbw_low_gbytes_per_s"), gbytes_per_s)
    return run.bench_has(baseline=(msgspec.structs.replace(run.measured_bench.results[0], **fields),))


def over_sockets(*names: str) -> FakeRun:
    """RoCE nodes over whose active ports NCCL went, but on these over a socket."""
    return logged({name: {"network": "Socket", "ports": ("eth0:10.0.0.1<0>",)} for name in names})


def logged(told: Mapping[str, Mapping[str, Any]], run: FakeRun | None = None) -> FakeRun:
    """RoCE nodes, on some of which NCCL's log tells other things."""
    run = run or roce()
    used = []
    for rank, name in enumerate(run.names):
        fields = dict(told.get(name, {}))
        network, ports = fields.pop("network", "IB"), fields.pop("ports", ())
        used.append(transport(rank, name, network, *ports, **fields))
    return run.bench_has(transports=tuple(used))


def rate_unknown(run: FakeRun) -> FakeRun:
    """No link reports its rate: the raw streams of the run are what is expected."""
    return run.bench_has(
        expected=Expected(
            busbw_gbytes_per_s=3.0, bound_gbytes_per_s=None, derivation=("median of the raw TCP streams",)
        )
    )


def _route(run: FakeRun, node: str, peer: str, **fields: Any) -> FakeRun:
    peers = run.subjects[node]["peers"]
    assert isinstance(peers, Peers)
    routes = [msgspec.structs.replace(r, **fields) if r.name == peer else r for r in peers.routes]
    return run.broken(node, "peers", routes=tuple(routes))
