"""What do tests/data/said/measured.txt list: what links should give, what is slow, and what a benchmark becomes?"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Generator, Iterator
from typing import Any
from zlib import crc32

import msgspec

from preflight.facts.results import RING, Stream
from preflight.facts.value import Missing
from preflight.job.measure import devices, links, mesh, rails, rendezvous, scope, slow, streams
from preflight.job.measure.expected import Use, expected, within
from preflight.job.measure.nccl_log import NcclUse, algorithm_of, parse_nccl_log
from preflight.job.measure.rehearsal import whole as rehearsed
from preflight.launch.job import Placement
from preflight.said.errors import NotMeasured
from preflight.testing import healthy, roce
from preflight.testing.measured import transport
from tests import found
from tests.bench.simulate import Network, names
from tests.diagnose import test_logs
from tests.job.figures import figures
from tests.job.measure import runs, streamed, test_bench, test_expected, test_links, test_nccl_log, test_rails
from tests.job.measure.played import job_of

# What NCCL writes in one line, in the forms of several versions.
LINES = (
    *("2 coll channels, 2 p2p channels", "2 coll channels, 0 collnet channels, 16 nvls channels, 2 p2p channels"),
    *("comm 0x1 rank 0 MNNVL 1 cliqueId 7 cliqueSize 8", "MNNVL 0 cliqueId 7 cliqueSize 8", "MNNVL 1"),
    *(
        "Assigned NET plugin IB to comm",
        "Using network AWS Libfabric",
        "NET/IB : Using [0]mlx5_0_dma:1/IB [RO]; OOB eth0",
    ),
    *("NET/IB : Using [0]mlx5_0:1:2:3/IB [1]mlx5_1:1/RoCE ; OOB eth0", "NET/Socket : Using [0]eth0:10.0.0.1<0>"),
    *("NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'", "NET/IB : GPU Direct RDMA Disabled for HCA 1 'mlx5_1'"),
    *("Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM", "Channel 00 : 0[0] -> 1[1] via direct shared memory"),
    *("Ring 01 : 0[0] -> 1[1] [send] via NET/IB/3/GDRDMA/Shared comm 0x1 nRanks 02", "use ring PXN 1 GDR 1"),
    *("CollNet 00/0 : 0[0] [send] via COLLNET/SHARP/0/GDRDMA", "NVLS multicast support is available on dev 0"),
    *("NVLS multicast support is not available on dev 0", "Bind failed. Proceeding without NVLS support."),
    *("NET/Plugin: Could not find: libnccl-net.so.", "NET/Plugin : Failed to find ncclNetPlugin_v9 symbol."),
    *(
        "External network plugin x is old",
        "AllReduce: 8 Bytes -> Algo 1 proto 2",
        "9 Bytes -> Algo RING proto LL",
    ),
    *("Broadcast: 8 Bytes -> Algo 6 proto 9", "Odd: 8 Bytes -> Algo NVLS proto SIMPLE"),
)
ALGORITHMS = ("", "RING SIMPLE", "TREE LL", "NVLS SIMPLE", "NVLS_TREE SIMPLE", "COLLNET_DIRECT SIMPLE", "PAT LL")
OPERATIONS = ("all_reduce", "broadcast", "sendrecv", "all_to_all", "gather")


def of_expected() -> Iterator[str]:
    """Each platform with so many nodes and ranks, each collective by each algorithm, and what is expected of it."""
    for name, node in test_expected.PLATFORMS.items():
        for count, ranks, op in itertools.product((1, 2, 5), (1, node.gpus), OPERATIONS):
            place = crc32(f"{name} {count} {ranks} {op}".encode())
            algorithm = ALGORITHMS[place % len(ALGORITHMS)] if op == "all_reduce" else ""
            use = Use(
                world_size=count * ranks,
                ranks_per_node=ranks,
                op=op,
                algorithm=algorithm,
                has_log=place % 3 > 0,
                is_nccl=place % 5 > 0,
                rack_ranks=count * ranks if place % 4 == 1 else 0,
                size_bytes=(0, 1 << 30, 8 << 30)[place % 3],
            )
            every = {f"n{number:03d}": node for number in range(count)}
            rate = test_expected.pairwise(*[3.0] * count) if place % 2 and count > 1 else ()
            told = expected(every, use, rate)
            yield f"{name} {count}x{ranks} {op} {algorithm} {use.rack_ranks}: {of_figure(told)}"
            if count == 1:
                yield f"  within: {of_figure(within(every, use))}"


def of_figure(told: Any) -> str:
    """An expectation, and the values of its derivation."""
    if told is None:
        return "none"
    lines = " / ".join(" ".join(found.values(line)) for line in told.derivation)
    traits = [name for name in ("is_floor", "is_by_streams") if getattr(told, name)]
    return f"{told.busbw_gbytes_per_s:.4g} of {told.bound_gbytes_per_s} {' '.join(traits)} | {lines}"


def of_links() -> Iterator[str]:
    """The ports of a node, as facts and NCCL's log have them, and what joins its GPUs."""
    kinds = {
        "none": (),
        "IB": test_links.IB,
        "RoCE": test_links.ROCE,
        "both": (*test_links.IB, ("mlx5_2", "ACTIVE", "Ethernet", 100.0)),
        "bond": (("mlx5_bond_0", "ACTIVE", "Ethernet", 200.0),),
        "EFA": (("rdmap0s6", "ACTIVE", "Unspecified", 100.0), ("rdmap1s6", "ACTIVE", "Unspecified", 100.0)),
        "unknown": (("mlx5_0", "ACTIVE", "InfiniBand", Missing("none", "absent")),),
    }
    uses = (
        None,
        *(("IB", "mlx5_0:1"), ("Socket", "eth0:10.0.0.1"), ("AWS Libfabric", "rdmap0s6"), ("FasTrak",), ("",)),
    )
    settings: tuple[dict[str, str], ...] = (
        *({}, {"NCCL_IB_DISABLE": "1"}, {"NCCL_IB_HCA": "^mlx5_0"}, {"NCCL_SOCKET_IFNAME": "=lo"}),
        {"NCCL_SOCKET_IFNAME": "^eth0", "NCCL_IB_DISABLE": "1"},
    )
    for (name, ports), variables, backend, used in itertools.product(kinds.items(), settings, ("gloo", "nccl"), uses):
        facts = test_links.node(ports=ports, **variables)
        log = transport(0, "n1", *used) if used is not None else None
        uplink = links.uplink_of(facts, backend=backend, used=log)  # type: ignore[arg-type]
        nics = "; ".join(" ".join(found.values(str(nic))) for nic in uplink.nics)
        told = f"{uplink.gbytes_per_s:.4g} least {uplink.least} bounded {uplink.is_bounded} tcp {uplink.is_tcp}"
        yield f"{name} {variables} {backend} {used}: {told} | {nics} | {' '.join(found.values(uplink.reason))}"
    for mtu in (*(bound + change for bound in (58, *links.ROCE_MTUS) for change in (57, 58)), 1500, 9000):
        (nic,) = links.uplink_of(test_links.node(ports=test_links.ROCE, mtu=mtu), backend="nccl").nics[:1]
        yield f"MTU {mtu}: {nic.mtu_bytes}"
    given = roce(2)
    models = {row.pattern.split("|")[0] for row in links.NVLINKS} | {
        "MI300X",
        "MI355X",
        "A100-PCIE",
        "L40S",
        "H100 NVL",
        "AMD MI100",
    }
    for model, ranks, switches in itertools.product(sorted(models), (1, 2, 4, 8), (0, 4)):
        gpus = tuple(msgspec.structs.replace(gpu, name=f"GPU {model}") for gpu in given.cluster.first.gpu.readable())
        node = given.broken("node1", "gpu", devices=gpus, switches=switches).cluster.first
        yield f"{model} {ranks} ranks {switches} switches: {figures(links.inside_of(node, ranks=ranks))}"


def ended(plan: Generator[Any, Any, Any], answer: Callable[[Any], Any]) -> tuple[list[Any], Any]:
    """What a search asked for, and what it gave."""
    asked = []
    try:
        one = next(plan)
        while True:
            asked.append(one)
            one = plan.send(answer(one))
    except StopIteration as end:
        return asked, end.value


def of_searches() -> Iterator[str]:
    """Networks with a slow node, direction or path: the rounds that find it, and what is named."""
    for count in (2, 3, 4, 5, 8, 9, 12):
        nodes = names(count)
        first, second = nodes[0], nodes[-1]
        slow_ones: dict[str, dict[str, Any]] = {
            "healthy": {},
            "sends": {"egress": {first: 0.3}},
            "receives": {"ingress": {second: 0.5}},
            "both ways": {"egress": {second: 0.4}, "ingress": {second: 0.2}},
            "a path": {"path": {(first, second): 0.1}},
            "two": {"egress": {first: 0.7}, "ingress": {second: 0.79}},
        }
        for (kind, planted), is_full, search in itertools.product(
            slow_ones.items(), (False, True), (slow.search, slow.two_looks)
        ):
            network = Network(**planted)

            def answer(asked: Any, network: Network = network, search: Any = search) -> list[Stream]:
                rounds = [asked] if search is slow.search else asked
                return [stream for pairs in rounds for stream in network.measure(pairs)]

            asked, (told, places) = ended(search(nodes, is_full=is_full), answer)
            digest = crc32(repr(asked).encode())
            where = "; ".join(f"{figures(place)}" for place in places)
            how = f"{search.__name__} {'full' if is_full else ''}"
            yield f"{count} {kind} {how}: {len(asked)} {digest:08x} {len(told)} {where}"


def of_rails() -> Iterator[str]:
    """Fabrics with a slow rank, and what is named of rails and GPUs."""
    for nodes, gpus, (sends, receives) in itertools.product(
        (1, 2, 3, 5),
        (1, 2, 3),
        (({}, {}), ({1: 0.3}, {}), ({}, {0: 0.3}), ({2: 0.5}, {2: 0.5}), ({0: 0.2, 1: 0.2}, {})),
    ):
        job = test_rails.cluster(nodes, gpus)
        fabric = test_rails.Fabric(job)
        fabric.sends, fabric.receives = sends, receives
        told = test_rails.searched(job, fabric)
        parts = "; ".join(figures(part) for part in told.parts[:4])
        yield f"{nodes}x{gpus} {sends} {receives}: {figures(told.slow)} {figures(told.disputed)} {parts}"
        if not sends:
            times = [rails.longest_seconds(nodes, gpus, is_full=is_full) for is_full in (False, True)]
            yield f"  {figures(times)}"


def of_logs() -> Iterator[str]:
    """NCCL's logs of the tests, and what they say that it used."""
    usual = NcclUse()
    lines_of = [f"n1:1:2 [0] NCCL INFO {line}" for line in LINES]
    every = {line: [one] for line, one in zip(LINES, lines_of, strict=True)} | {"all": lines_of}
    every |= {"warned": ["n1:1:2 [0] x:1 NCCL WARN NET/OFI no provider", *lines_of]}
    every |= {name: log for name, (_, log) in test_logs.logs().items()}
    every |= {"new": test_nccl_log.NEW.splitlines(), "sockets": test_nccl_log.SOCKETS.splitlines()}
    for name, log in every.items():
        use = parse_nccl_log(log)
        told = [f"{one}={held!r}" for one, held in dataclasses.asdict(use).items() if held != getattr(usual, one)]
        if told:
            yield f"{name}: {' '.join(told)}"
    for algorithm, (number, protocol) in itertools.product(range(9), enumerate(("0", "1", "2", "3", "LL", "SIMPLE"))):
        said = f"n1:1:2 [0] NCCL INFO AllReduce: {number + 8} Bytes -> Algo {algorithm} proto {protocol} time 1.0"
        yield f"{algorithm} {protocol}: {parse_nccl_log([said]).algorithms}"
    for rack in (
        "MNNVL 0",
        "comm 0x1 MNNVL 1 cliqueId x cliqueSize 8",
        "MNNVL 1",
        "MNNVL 1 cliqueId x cliqueSize 16 y",
    ):
        use = parse_nccl_log([f"n1:1:2 [0] NCCL INFO {rack}", f"n1:1:2 [0] NCCL INFO use ring PXN {len(rack) % 2}"])
        yield f"{rack}: {use.is_rack} {use.rack_ranks} {use.is_proxied}"
    used = [transport(rank, "n1", algorithms=held) for rank, held in enumerate(({"all_reduce": "a"}, {"": "b"}, {}))]
    for op, operations in (
        ("all_reduce", ["all_reduce"]),
        ("reduce", ["reduce"]),
        ("reduce", ["reduce", "all_reduce"]),
    ):
        yield f"{op} of {operations}: {algorithm_of(used, op, operations)}"


def of_scopes() -> Iterator[str]:
    """The groups of each scope over nodes of one rank and of several, and which racks hold them."""
    for kind, ranks in itertools.product(("all", "intra", "inter", "rails", "racks"), (1, 2)):
        for nodes in (1, 3):
            places = [Placement(rank, f"n{rank // ranks}", rank % ranks, ranks) for rank in range(nodes * ranks)]
            try:
                told = figures(scope.as_settings(scope.rounds(kind, places, {"n0": "a", "n1": "a", "n2": "b"})))
            except NotMeasured as error:
                told = f"not: {' '.join(found.values(error.args[0]))}"
            yield f"{kind} {nodes}x{ranks}: {told}"
    few = healthy(1).broken("node1", "limits", nofile_soft=7, memlock_soft_bytes=9, nproc_soft=11)
    for run in (healthy(1), few):
        yield f"limits {rehearsed.limits_of(run.cluster.first)}"


def of_meshes() -> Iterator[str]:
    """What two ends say of their connections, put together; the port of rank 0; and impossible streams."""
    outcomes = ("ok", "refused", "filtered", "looped")
    nodes = ("a", "b", "c")
    tried = tuple(itertools.permutations(nodes, 2))
    for place, (one, other) in enumerate(itertools.product(outcomes, outcomes)):
        results: dict[str, dict[str, Any]] = {}
        for name in nodes:
            said = {"a": one, "b": other, "c": "ok"}[name]
            edges = [{"to": to, "port": 5, "outcome": said, "detail": "d"} for to in nodes if to != name]
            results[name] = {"edges": edges, "heard": [to for to in nodes if to != name][place % 3 :]}
        if place % 5 == 4:
            del results["c"]
        told = mesh.combine(tried, results, seconds=1.0)
        yield f"{one} {other}: {figures(told)}"
        if place == 5:
            again = msgspec.structs.replace(told, node_names=("c", "b", "a", "d"), unmeasured={"f": "g"})
            yield f"  joined {figures(mesh.joined([told, again]))}"
    run = healthy(2)
    held = run.cluster.first.network.interface("eth0").addresses
    run = run.broken_interface("node1", addresses=(*held, msgspec.structs.replace(held[0], address="10.7.0.5")))
    own = run.cluster.first.address_for_peers()
    for given in (
        (own,),
        ("10.7.0.5",),
        ("10.7.0.5", own),
        ("10.9.9.9",),
        ("127.0.0.1",),
        ("127.0.0.1", "10.7.0.5"),
        (),
    ):
        first = run.broken("node1", "peers", master_addresses=given).cluster.first
        yield f"rank 0 at {given}: {rendezvous.address_of(first)} of {own}"
    yield f"seconds {[figures(mesh.full_seconds(count)) for count in (1, 2, 128, 1024)]}"
    for text in ("29500", "0", "65535", "65536", "x", "", "7٣"):
        runs = [healthy(count).with_variables(MASTER_PORT=text) for count in (1, 2)]
        yield f"port {text!a}: {[rendezvous.port_of(run.cluster) for run in runs]}"
    for seconds, sent, rate in itertools.product((0.5, 3.0), (None, 1 << 29, 1 << 60), (1.0737, 1.09)):
        reply = streams.RoundReply(1, "a", 1 << 29, 0.5, rate, sent, seconds)
        wrong = [reply.wrong(source, target, longest_seconds=2.0) for source in (None, "a") for target in (None, "b")]
        yield f"{seconds} {sent} {rate}: {[' '.join(found.values(why)) for why in wrong]}"
    yield f"rounds {[figures(streams.round_seconds(count)) for count in (0, 1, 3, 5, 7, 100)]}"
    yield f"full {[figures(streams.full_mesh_seconds(count)) for count in (2, 8, 64)]}"


def of_devices() -> Iterator[str]:
    """The ranks whose GPUs gave no figure, and why; and the job that measures them."""
    for free, whole, wanted in (
        (1 << 30, 80 << 30, 8 << 30),
        (7 << 30, 8 << 30, 8 << 30),
        (7 << 30, 10 << 30, 8 << 30),
    ):
        memory = {"free_bytes": free, "memory_bytes": whole, "wanted_bytes": wanted}
        record = {"record": "no_device", "device": "cuda:0", "model": "H100", "rank": 0, **memory}
        told, _, _ = test_bench.run(
            lambda rank, record=record: [record] * (rank == 0) + test_bench.said(370.0)(rank),
            given=roce(2),
            backend="nccl",
        )
        yield f"{free} {whole}: {figures(told.no_devices)} {told.devices_not_measured}"
    for backend in ("gloo", "nccl"):
        yield f"{backend}: {figures(devices.job_of(job_of('a', 'b', backend=backend)))}"
    yield RING


def sections() -> found.Sections:
    """Everything."""
    return {
        "expected": of_expected,
        "links": of_links,
        "searches": of_searches,
        "streams": streamed.of_streams,
        "replies": streamed.of_replies,
        "rails": of_rails,
        "logs": of_logs,
        "benches": runs.of_benches,
        "scopes": of_scopes,
        "trainings": runs.of_trainings,
        "meshes": of_meshes,
        "devices": of_devices,
    }
