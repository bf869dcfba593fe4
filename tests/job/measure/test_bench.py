"""What does the benchmark measure, in which order, and what does it look at when a figure disappoints?"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from preflight.facts.results import RING, Bench, Result
from preflight.job.measure import bench
from preflight.job.measure.bench import Plan
from preflight.job.options.sweep import Sweep
from preflight.judge.settings import Settings
from preflight.judge.views.bench import BenchView
from preflight.said.errors import HostError, NotApplicable, NotMeasured
from preflight.testing import healthy, roce
from tests.checks.samples import with_netdevs
from tests.job.measure.played import PlayedNode, job_of
from tests.job.measure.test_devices import figure

LINE_RATE = 3.1  # GB/s: what the 25 Gbit/s ports of a healthy cluster carry


def result(busbw: float, **fields: Any) -> dict[str, Any]:
    """What rank 0 records of one collective at one size."""
    figures = dict.fromkeys(
        ("seconds_first", "seconds_median", "seconds_p5", "seconds_p95", "seconds_low", "seconds_high", "cv"),
        (1 << 28) / busbw / 1e9,
    )
    rates = {"algbw_gbytes_per_s": busbw, "busbw_low_gbytes_per_s": busbw, "busbw_high_gbytes_per_s": busbw}
    counts = {"bytes": 1 << 28, "iterations": 20, "wrong": 0}
    return {"record": "result", "op": "all_reduce", "busbw_gbytes_per_s": busbw, **figures, **rates, **counts, **fields}


def joined(rank: int) -> dict[str, Any]:
    """What a rank records when it has met the others."""
    return {"record": "joined", "device": f"cuda:{rank}", "import_seconds": 2.0, "init_seconds": 1.0, "nccl": "2.27.3"}


def said(busbw: float, *more: dict[str, Any]) -> Callable[[int], list[dict[str, Any]]]:
    """Every rank joins; rank 0 tells the figures."""
    return lambda rank: [joined(rank), *([result(busbw), *more] if rank == 0 else [])]


def run(
    collectives,
    *,
    given=None,
    backend: str = "gloo",
    rate=lambda _source: LINE_RATE,
    pair=lambda _source, _target: 48.0,
    pairs=(),
    ranks_per_node=1,
    operations=("all_reduce",),
    **plan: Any,
):
    """The benchmark over nodes that are played; the section, the ends of its jobs, and the nodes."""
    cluster = (given or healthy(3)).cluster
    nodes = {
        node.name: PlayedNode(
            {"collectives": collectives, "devices": lambda rank: [figure(rank)], "pairs": lambda _rank: list(pairs)},
            rate=rate,
            pair=pair,
        )
        for node in cluster
    }
    flags = {"is_localizing": False, "is_full_mesh": False, "is_burning_in": False}
    asked = Plan(thresholds=Settings(), **{**flags, **plan})
    job = job_of(*(name for name in nodes for _ in range(ranks_per_node)), backend=backend)
    of_nccl = {"holds_to_ring": True, "device_seconds": 0.5} if backend == "nccl" else {}
    job = replace(job, settings={**job.settings, "operations": list(operations), **of_nccl})
    found, outcomes = asyncio.run(bench.run(nodes, cluster, job, asked))
    return found, outcomes, nodes["node1"].started


def bench_of(operations: list[str]) -> Bench:
    """A run of several collectives, each as fast as the links, over 3 nodes with Gloo."""
    cluster = healthy(3).cluster
    records = [result(LINE_RATE, op=name) for name in operations]
    nodes = {
        node.name: PlayedNode({"collectives": lambda rank: [joined(rank), *(records if rank == 0 else [])]})
        for node in cluster
    }
    job = job_of(*nodes)
    job = replace(job, settings={**job.settings, "operations": operations})
    plan = Plan(thresholds=Settings(), is_localizing=False, is_full_mesh=False, is_burning_in=False)
    return asyncio.run(bench.run(nodes, cluster, job, plan))[0]


def test_a_figure_as_fast_as_the_links_ends_the_benchmark():
    """No stream and no device is measured: there is nothing to look for."""
    found, outcomes, started = run(said(LINE_RATE))
    assert isinstance(found, Bench)
    assert [(held.op, held.busbw_gbytes_per_s) for held in found.results] == [("all_reduce", LINE_RATE)]
    assert (found.world_size, found.nodes, found.not_measured) == (3, 3, "")
    assert found.expected is not None
    assert found.expected.busbw_gbytes_per_s == pytest.approx(LINE_RATE, rel=0.05)
    assert (found.streams, found.slow, found.devices) == ((), (), ())
    assert list(outcomes) == ["bench"]
    assert [workload for workload, _ in started] == ["collectives"]


def test_a_good_figure_leaves_no_slow_node_to_search_for():
    """Links that report their rate and an all-reduce as fast as they are: skipped with the reason, not unmeasured."""
    given = healthy(3)
    found, _, _ = run(said(LINE_RATE), given=given)
    with pytest.raises(NotApplicable, match="no slow node was searched for"):
        BenchView(found, given.cluster).slow_blames()


def test_a_rank_that_does_not_say_with_what_it_ran_leaves_nothing_measured():
    """What its import took and which NCCL it loaded was judged as if there were no such rank."""
    found, _, _ = run(lambda rank: said(LINE_RATE)(rank) if rank != 1 else [])
    assert found.results == ()
    assert found.not_measured.startswith("rank 1 on node2 finished, but never said that it had joined")
    assert found.not_measured_nodes == ("node2",)


def test_a_figure_below_fast_ethernet_is_held_against_what_a_processor_drives():
    """On 25 Gbit/s TCP the streams measured for the search also tell what one stream reaches here."""
    found, _, _ = run(said(1.8), rate=lambda _source: 2.0)
    assert found.expected is not None
    assert found.expected.busbw_gbytes_per_s == pytest.approx(2.0, rel=0.01)


def test_a_figure_that_disappoints_is_looked_into_by_streams():
    """They single out the node that receives slowly from everybody, or sends so."""
    found, _, _ = run(said(0.5), given=healthy(5), rate=lambda source: 0.4 if source == "node3" else LINE_RATE)
    assert found.streams
    assert [(slow.nodes, slow.direction) for slow in found.slow] == [(("node3",), "egress")]


def test_pairs_of_ranks_that_disappoint_are_looked_into_too():
    """Beside an all-reduce that is as fast as the links; an operation that is not held against them is not."""
    for operation, is_searched in (("sendrecv", True), ("broadcast", False)):
        found, _, _ = run(said(LINE_RATE, result(0.5, op=operation)), operations=("all_reduce", operation))
        assert bool(found.streams) == is_searched, operation


def test_where_the_rate_of_the_links_is_unknown_streams_tell_it_first():
    """A virtual interface says nothing of its speed; what is expected comes from what was measured."""
    unknown = healthy(3)
    for name in unknown.names:
        unknown = unknown.broken_interface(name, is_physical=False)
    found, _, _ = run(said(LINE_RATE), given=unknown)
    assert found.streams
    assert found.expected is not None


def test_streams_that_give_no_figure_leave_the_collectives_theirs():
    """As on nodes that are too busy: what the ranks told is judged, and only who is slow is not known."""

    def ends(_source):
        raise HostError("node2", "the raw stream from node1 gave no figure")

    unknown = healthy(3)
    for name in unknown.names:
        unknown = unknown.broken_interface(name, is_physical=False)
    found, _, _ = run(said(LINE_RATE), given=unknown, rate=ends)
    assert (found.streams, found.not_measured, len(found.results)) == ((), "", 1)
    with pytest.raises(NotMeasured, match="the raw stream from node1 gave no figure"):
        BenchView(found, unknown.cluster).slow_blames()


def test_gpus_are_measured_in_the_ranks_of_the_benchmark():
    """By default, and without another job; a rank that has no figure keeps none of the others from being judged."""

    def with_devices(rank: int) -> list[dict[str, Any]]:
        return [figure(rank, slowed_by=["hardware power brake"], products=900), *said(370.0)(rank)]

    found, outcomes, started = run(with_devices, given=roce(2), backend="nccl")
    assert [device.node for device in found.devices] == ["node1", "node2"]
    assert found.devices[1].slowed_by == ("hardware power brake",)
    assert bench.settings("nccl", 2, Sweep(), groups=(), seconds=600.0)["device_seconds"] == 0.5
    assert bench.settings("gloo", 2, Sweep(), groups=(), seconds=600.0)["device_seconds"] == 0.0
    assert "devices" not in [workload for workload, _ in started]
    assert "devices" not in outcomes
    few, _, _ = run(lambda rank: with_devices(rank) if rank else said(370.0)(rank), given=roce(2), backend="nccl")
    assert ([device.node for device in few.devices], [one.node for one in few.no_devices]) == (["node2"], ["node1"])
    view = BenchView(few, roce(2).cluster)
    assert [device.node for device in view.gpus()] == ["node2"]
    assert "rank 0 said nothing of its GPU by itself" in str(view.cluster.unmeasured["node1"])


def test_ranks_that_stopped_before_they_measured_their_gpus_leave_them_not_measured():
    """Not skipped: they were asked to, and the reason is the job's."""
    found, _, _ = run(lambda _rank: [{"record": "failed", "error": "no NCCL"}], given=roce(2), backend="nccl")
    with pytest.raises(NotMeasured, match="no NCCL"):
        BenchView(found, roce(2).cluster).gpus()


def test_burning_in_measures_the_devices_first_and_whole():
    """Once, whatever the collectives give."""
    _, _, started = run(said(0.5), given=roce(2), backend="nccl", is_burning_in=True)
    assert [workload for workload, _ in started] == ["devices", "collectives", "pairs"]
    assert started[0][1]["figures"] == ["matmul", "memory", "host"]


def test_within_the_nodes_nothing_is_measured_between_them():
    """--scope intra: no stream, whatever the figure."""
    found, _, _ = run(said(0.5), scope="intra")
    assert (found.streams, found.scope) == ((), "intra")


def test_a_job_that_failed_gives_no_figure():
    """What came before the failure is no result, and tells how far the ranks came; the nodes that failed are named."""

    def failing(rank: int) -> list[dict[str, Any]]:
        return (
            [*said(LINE_RATE)(rank), {"record": "failed", "error": "NCCL error"}]
            if rank == 1
            else said(LINE_RATE)(rank)
        )

    found, _, _ = run(failing)
    assert found.results == ()
    assert found.not_measured_nodes == ("node2",)
    assert found.not_measured.startswith("rank 1 on node2 stopped at stage ")
    assert "NCCL error" in found.not_measured
    assert found.not_measured.endswith(
        f"; measured before it failed, at last: all_reduce of {result(1.0)['bytes']} bytes"
    )


def test_sizes_without_room_are_told_beside_the_results_that_there_are():
    """A sweep up to 8 GiB on a small GPU keeps what it measured before."""
    found, _, _ = run(
        said(LINE_RATE, {"record": "left_out", "op": "all_reduce", "bytes": 8 << 30, "room_bytes": 4 << 30})
    )
    assert found.left_out == ("all_reduce of up to 8589934592 bytes: the ranks have room for 4294967296",)
    assert found.results


def test_ranks_and_what_nccl_used_are_told_with_their_nodes():
    """From the records of each rank; results keep only what is known of them."""
    log = {"record": "nccl_log", "lines": ["node1:1:1 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>"]}
    log |= {"topo": ["cpu 0", "gpu 4"], "graph": ["ring 0 4"]}
    found, _, _ = run(said(LINE_RATE, {**result(9.0), "wrong_ranks": [1], "unheard": 1}, log))
    assert [(rank.rank, rank.node, rank.nccl) for rank in found.ranks] == [
        (0, "node1", "2.27.3"),
        (1, "node2", "2.27.3"),
        (2, "node3", "2.27.3"),
    ]
    assert found.results[1].wrong_ranks == (1,)
    (use,) = found.transports
    assert (use.rank, use.node, use.topology, use.graphs) == (0, "node1", ("cpu 0", "gpu 4"), ("ring 0 4",))


NVLS_TREE = "node1:1:1 [0] NCCL INFO AllReduce: 268435456 Bytes -> Algo NVLS_TREE proto SIMPLE channel{Lo..Hi}={0..15}"
USING = "node1:1:1 [0] NCCL INFO Using network IB"


def test_what_is_expected_follows_the_algorithm_of_nccl():
    """A tree over two nodes sends less over the links than a ring; the ring is held against the links themselves."""
    log = {"record": "nccl_log", "lines": [USING, NVLS_TREE]}
    ring = result(180.0, group=RING)
    held = {"record": "ring_log", "lines": [NVLS_TREE.replace("NVLS_TREE", "RING")]}
    found, _, started = run(said(470.0, log, ring, held), given=with_netdevs(roce(2)), backend="nccl", ranks_per_node=8)
    assert found.expected_of["all_reduce"].busbw_gbytes_per_s == pytest.approx(475.2)
    assert found.expected_of[RING].busbw_gbytes_per_s == pytest.approx(370.8)
    assert [workload for workload, _ in started] == ["collectives", "pairs"]
    view = BenchView(found, roce(2).cluster)
    assert view.by_ring().busbw_gbytes_per_s == 180.0
    assert view.all_reduce().busbw_gbytes_per_s == 470.0


@pytest.mark.parametrize(
    ("lines", "why"),
    [([], "does not say that it read NCCL_ALGO again"), ([NVLS_TREE], "says that it took NVLS_TREE SIMPLE")],
)
def test_a_ring_that_nccls_log_does_not_show_is_left_out(lines, why):
    """It may have been the same tree once more: it is held against no link, and nobody is searched for."""
    log, held = {"record": "nccl_log", "lines": [USING, NVLS_TREE]}, {"record": "ring_log", "lines": lines}
    words = said(470.0, log, result(180.0, group=RING), held)
    found, _, started = run(words, given=with_netdevs(roce(2)), backend="nccl", ranks_per_node=8)
    assert [one.group for one in found.results] == [""]
    assert found.left_out == (f"all_reduce with NCCL_ALGO=Ring: NCCL's log {why}",)
    assert [workload for workload, _ in started] == ["collectives"]
    assert BenchView(found, roce(2).cluster).all_reduce().busbw_gbytes_per_s == 470.0


@pytest.mark.parametrize(("backend", "nodes", "scope", "holds"), [("nccl", 2, "all", True), ("gloo", 2, "all", False)])
def test_only_nccl_over_several_nodes_is_held_to_a_ring(backend, nodes, scope, holds):
    """Gloo's own is one, and within a node or a rail nothing hides."""
    assert bench.settings(backend, nodes, Sweep(scope=scope), groups=(), seconds=600.0)["holds_to_ring"] is holds


def test_a_slow_management_network_is_not_searched_for_a_slow_infiniband_ring():
    """No TCP stream is measured beside RDMA ports, whatever the figure and whatever is slow there."""
    log = {"record": "nccl_log", "lines": [USING]}
    found, _, started = run(
        said(100.0, log),
        given=with_netdevs(roce(5)),
        backend="nccl",
        ranks_per_node=8,
        rate=lambda source: 0.1 if source == "node3" else 3.0,
    )
    assert (found.streams, found.slow) == ((), ())
    assert [workload for workload, _ in started] == ["collectives", "pairs"]
    assert ("node5", "rail 7", 48.0) in {(part.node, part.part, part.sends_gbytes_per_s) for part in found.parts}


def test_a_slow_rail_is_named_with_its_node_and_direction():
    """Among eight rails of five nodes, over NCCL; the ring is then its consequence."""
    log = {"record": "nccl_log", "lines": [USING]}
    given = with_netdevs(roce(5))
    bad = 8 * 2 + 5  # rank 5 of node3
    found, _, _ = run(
        said(100.0, log),
        given=given,
        backend="nccl",
        ranks_per_node=8,
        pair=lambda source, _target: 11.0 if source == bad else 48.0,
    )
    assert [(one.nodes, one.part, one.direction) for one in found.slow if one.part.startswith("rail")] == [
        (("node3",), "rail 5", "egress")
    ]
    (blame, *_) = BenchView(found, given.cluster).slow_blames()
    assert str(blame).startswith("rail 5 (mlx5_5) of node3 sends 11 GB/s where its peers reach 48 GB/s")
    assert blame.nodes == ("node3",)


def test_pairs_that_gave_no_figure_leave_the_search_unmeasured():
    """Whatever the all-reduce gave: what is slow is not known."""
    log = {"record": "nccl_log", "lines": [USING]}
    given = with_netdevs(roce(2))
    broken = [{"record": "failed", "error": "out"}]
    found, ends, _ = run(said(10.0, log), given=given, backend="nccl", pairs=broken)
    assert ends["rails"].failure
    with pytest.raises(NotMeasured, match="the search for what is slow gave no figure"):
        BenchView(found, given.cluster).slow_blames()


def test_whoever_waits_is_told_what_is_measured():
    """With the seconds that are left at most."""
    heard: list[str] = []
    progress = {"record": "progress", "op": "all_reduce", "bytes": 1024, "iterations": 20, "seconds_left": 4.4}
    run(said(LINE_RATE, progress), say=heard.append)
    assert heard[0] == "starting the ranks of the benchmark"
    assert "all_reduce of 1024 bytes, 20 iterations, at most 4 s left" in heard


@pytest.mark.parametrize(
    ("nodes", "scope", "cap"), [(1, "all", 1.0), (2, "intra", 1.0), (2, "all", 6.0), (2, "rails", 6.0)]
)
def test_a_figure_within_one_node_takes_a_second_at_most(nodes, scope, cap):
    """Nothing is gated on it, and memory traffic never settles."""
    told = bench.settings("gloo", nodes, Sweep(scope=scope), groups=(), seconds=600.0)
    assert told["cap_seconds"] == cap


def test_what_is_measured_fits_into_the_time_that_is_left():
    """Divided among the cells, but never so short that a figure means nothing."""
    sweep = Sweep(operations=("all_reduce", "broadcast"), sizes=(1, 2, 4))
    caps = [bench.settings("nccl", 2, sweep, groups=(), seconds=given)["cap_seconds"] for given in (600, 57, 10)]
    assert caps == [6.0, pytest.approx(27 / 9 / 1.5), 0.2]  # with the three sizes of a ring
    assert bench.seconds_of(sweep, 2) - bench.seconds_of(sweep) == pytest.approx(6 * bench.SECONDS_A_CELL)


def test_a_number_of_iterations_is_taken_at_its_word():
    """No more and no fewer, however the figures scatter."""
    told = bench.settings("nccl", 2, Sweep(iterations=7), groups=(), seconds=60.0)
    assert (told["min_iterations"], told["max_iterations"], told["ci"]) == (7, 7, 0.0)
    assert "min_iterations" not in bench.settings("nccl", 2, Sweep(), groups=(), seconds=60.0)


def test_what_is_compared_with_an_earlier_run_is_measured_at_its_sizes():
    """Each collective at its own; words of the command line about sizes hold, and another type is no comparison."""
    said_then = (result(2.0, bytes=4 << 20), result(2.0, bytes=8 << 20), result(1.0, op="broadcast", bytes=1 << 20))
    earlier = [msgspec.convert({name: held[name] for name in held if name != "record"}, Result) for held in said_then]
    sweep = Sweep(operations=("all_reduce", "reduce"))

    def sizes(asked: Sweep) -> dict:
        return bench.settings("gloo", 2, asked, groups=(), seconds=60.0, earlier=earlier)["sizes_by_operation"]

    assert sizes(sweep) == {"all_reduce": [4 << 20, 8 << 20]}
    assert sizes(dataclasses.replace(sweep, sizes=(8,))) == {}
    assert sizes(dataclasses.replace(sweep, dtype="float16")) == {}
    assert bench.settings("gloo", 2, sweep, groups=(), seconds=60.0)["sizes_by_operation"] == {}


def test_the_workload_is_asked_for_what_the_sweep_says():
    """Every setting, of a run over two nodes with NCCL and of one over one node with Gloo."""
    sweep = Sweep(operations=("all_reduce", "broadcast"), sizes=(4, 8), dtype="bfloat16", iterations=7, warmup=3)
    given = bench.settings("nccl", 2, sweep, groups=(), seconds=600.0)
    assert given == {
        "backend": "nccl",
        "operations": ["all_reduce", "broadcast"],
        "sizes": [4, 8],
        "sizes_by_operation": {},
        "dtype": "bfloat16",
        "mode": sweep.mode,
        "warmup": 3,
        "target_seconds": bench.TARGET_SECONDS,
        "cap_seconds": bench.CAP_SECONDS,
        "join_seconds": bench.JOIN_SECONDS,
        "wait_seconds": bench.WAIT_SECONDS,
        "rounds": [],
        "holds_to_ring": True,
        "device_seconds": bench.devices.SECONDS_IN_BENCH,
        "min_iterations": 7,
        "max_iterations": 7,
        "ci": 0.0,
    }
    alone = bench.settings("gloo", 1, Sweep(operations=("broadcast",)), groups=(), seconds=600.0)
    assert (alone["target_seconds"], alone["cap_seconds"]) == (0.05, bench.ONE_NODE_CAP_SECONDS)
    assert (alone["holds_to_ring"], alone["device_seconds"], "ci" in alone) == (False, 0.0, False)
    hurried = bench.settings("gloo", 2, Sweep(operations=("broadcast",)), groups=(), seconds=bench.START_SECONDS + 1.5)
    assert hurried["cap_seconds"] == pytest.approx(1.0)


def test_the_all_reduce_is_what_a_run_of_several_collectives_is_held_against():
    """Whatever stands first; without one the first collective is."""
    for names, wanted in ((["all_to_all", "all_reduce"], "all_reduce"), (["all_to_all", "all_gather"], "all_to_all")):
        found = bench_of(names)
        assert found.expected == found.expected_of[wanted]
        assert found.expected_of[names[0]] != found.expected_of[names[1]]


@pytest.mark.parametrize(("network", "counts"), [("IB", False), ("Socket", True)])
def test_streams_count_only_where_the_log_says_that_the_job_uses_their_network(network, counts):
    """What NCCL wrote wins over the facts of the nodes, from which RDMA ports may be missing."""
    log = {"record": "nccl_log", "lines": [f"node1:1:1 [0] NCCL INFO Using network {network}"]}
    found, _, _ = run(
        said(LINE_RATE, log),
        given=healthy(5),
        backend="nccl",
        is_localizing=True,
        rate=lambda source: 0.4 if source == "node3" else LINE_RATE,
    )
    assert bool(found.streams) is counts
    assert [one.nodes for one in found.slow if not one.part] == [("node3",)] * counts
