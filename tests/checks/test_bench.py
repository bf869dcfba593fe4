"""Is a wrong sum, a slow node or a slow whole told as what it is?"""

from __future__ import annotations

import msgspec
import pytest

from preflight.facts.results import RING, Disputed, Expected, NoDevice, RankReport, Slow
from preflight.judge.ledger.findings import Verdict
from preflight.testing import healthy, roce
from preflight.testing.healthy import rail_by_rail
from preflight.testing.measured import h200
from tests.checks.samples import (
    Broken,
    against,
    also,
    busbw,
    checks,
    judge,
    logged,
    over_sockets,
    ranks_with_nccl,
    rate_unknown,
    with_gpu,
    within_nodes,
)

BROKEN = (
    Broken(
        "bench.torch_is_imported_in_time",
        healthy().bench_has(
            ranks=tuple(
                RankReport(
                    rank=i,
                    node=f"node{i + 1}",
                    device="cpu",
                    import_seconds=41.0 if i == 2 else 2.0,
                    init_seconds=0.1,
                    nccl="",
                )
                for i in range(3)
            )
        ),
        ("node3",),
        "`import torch` takes 41 s on node3; the median of all ranks is 2 s",
    ),
    Broken(
        "bench.all_reduce_is_correct",
        healthy().all_reduce_has(wrong=5, wrong_ranks=(1,)),
        ("node2",),
        "5 wrong elements; wanted 0 (ranks 1)",
    ),
    Broken(
        "bench.every_rank_maps_the_same_nccl",
        healthy().bench_has(ranks=ranks_with_nccl("2.28.9", "2.28.9", "2.19.3")),
        ("node3",),
        "2.28.9 on node[1-2], 2.19.3 on node3",
    ),
    Broken(
        "bench.both_ends_of_a_stream_agree",
        healthy().bench_has(
            disputed=tuple(
                Disputed(source=source, target="node3", least_gbytes_per_s=0.119, most_gbytes_per_s=1000.0)
                for source in ("node1", "node2")
            )
        ),
        ("node3",),
        "node1 to node3: one end says 1000 GB/s, the other 0.119, and 1 more like it",
    ),
    Broken(
        "bench.both_ends_of_a_stream_agree",
        healthy().bench_has(
            disputed=(Disputed(source="node1", target="node3", least_gbytes_per_s=0.0, most_gbytes_per_s=0.119),)
        ),
        ("node1", "node3"),
        "the other 0: one of node1 and node3 reports a wrong figure",
    ),
    Broken(
        "bench.no_node_is_slower_than_its_peers",
        healthy().bench_has(
            slow=(Slow(nodes=("node3",), direction="egress", gbytes_per_s=0.024, peers_gbytes_per_s=0.119),)
        ),
        ("node3",),
        "node3 sends 0.024 GB/s where its peers reach 0.119 GB/s",
    ),
    Broken(
        "bench.no_node_is_slower_than_its_peers",
        healthy().bench_has(
            slow=(
                Slow(nodes=("node3",), direction="both", gbytes_per_s=0.02, peers_gbytes_per_s=0.1, sent_again=0.034),
            )
        ),
        ("node3",),
        "where its peers reach 0.1 GB/s; 3% of its segments were lost on the way and sent again",
    ),
    Broken(
        "bench.no_node_is_slower_than_its_peers",
        healthy().bench_has(
            slow=(Slow(nodes=("node1", "node3"), direction="path", gbytes_per_s=0.024, peers_gbytes_per_s=0.119),)
        ),
        ("node1", "node3"),
        "the path between node1 and node3",
    ),
    Broken(
        "bench.all_reduce_reaches_the_expected_bandwidth",
        busbw(2.0),
        ("node1", "node2", "node3"),
        "wanted at least 2.745",
    ),
    Broken(
        "bench.other_collectives_are_correct",
        also("all_gather", wrong=2, wrong_ranks=(2,)),
        ("node3",),
        "all_gather of 268435456 bytes: 2 wrong elements; wanted 0 (ranks 2)",
    ),
    Broken(
        "bench.other_collectives_reach_the_expected_bandwidth",
        also("sendrecv", busbw_gbytes_per_s=2.0, busbw_low_gbytes_per_s=1.9, busbw_high_gbytes_per_s=2.1),
        ("node1", "node2", "node3"),
        "sendrecv busbw 2 GB/s",
    ),
    Broken(
        "bench.nccl_uses_the_rdma_ports",
        over_sockets("node2"),
        ("node2",),
        "NCCL went over NET/Socket (eth0:10.0.0.1<0>); active beside it: mlx5_0:1",
    ),
    Broken(
        "bench.nccl_uses_every_port",
        logged({"node3": {"ports": tuple(f"mlx5_{i}:1/RoCE" for i in range(8) if i != 5)}}),
        ("node3",),
        "left out mlx5_5:1, active and chosen",
    ),
    Broken(
        "bench.nccl_does_the_same_on_every_node",
        logged({"node2": {"between_nodes": ("NET/IB",)}}),
        ("node2",),
        "ways that NCCL took between the nodes: NET/IB/GDRDMA on node[1,3-4], NET/IB on node2",
    ),
    Broken(
        "bench.nccl_does_the_same_on_every_node",
        logged({"node4": {"nvls": "not available", "nvls_channels": 0}}),
        ("node4",),
        "addition by NVSwitch (NVLS): available on node[1-3], not available on node4",
    ),
    Broken(
        "bench.nccl_finds_the_same_topology_on_every_node",
        logged({"node2": {"graphs": ("graph 0: 8 channels, 20/20 GB/s, NVL/PIX",)}}),
        ("node2",),
        "what NCCL chose by that: graph 0: 16 channels, 20/20 GB/s, NVL/PIX on node[1,3-4], graph 0: 8 channels",
    ),
    Broken(
        "bench.nccl_loads_the_plugin_that_was_asked_for",
        logged({"node1": {"lost_plugin": "NET/Plugin: Could not find: libnccl-net.so"}}),
        ("node1",),
        "NCCL_NET_PLUGIN=libnccl-net.so, and NCCL took IB: NET/Plugin: Could not find: libnccl-net.so",
    ),
    Broken(
        "bench.nccl_stays_on_nvlink_within_a_node",
        logged({"node3": {"within_node": ("SHM/direct",)}}, roce().with_variables("node3", NCCL_P2P_DISABLE="1")),
        ("node3",),
        "GPUs that NVLink joins talked over SHM/direct (NCCL_P2P_DISABLE=1)",
    ),
    Broken(
        "bench.nccl_takes_the_fast_ways",
        logged({f"node{i}": {"between_nodes": ("NET/IB",)} for i in range(1, 5)}),
        ("node1", "node2", "node3", "node4"),
        "NCCL went over NET/IB through the host's memory, though nvidia_peermem is there",
    ),
    Broken(
        "bench.nccl_takes_the_fast_ways",
        logged({"node2": {"nvls": ""}}, roce().with_variables("node2", NCCL_NVLS_ENABLE="0")),
        ("node2",),
        "NCCL_NVLS_ENABLE=0: the switches do not add up",
    ),
    Broken(
        "bench.collectives_are_as_fast_as_in_the_baseline",
        against(4.0),
        ("node1", "node2", "node3"),
        "busbw 3 GB/s, 75% of the earlier 4",
    ),
    Broken(
        "bench.gpus_multiply_alike_every_time",
        with_gpu(wrong=7),
        ("node2",),
        "cuda:3 of node2 (NVIDIA H200): 7 elements of a product differ",
    ),
    Broken(
        "bench.gpus_multiply_alike_every_time",
        with_gpu(wrong_products=3, products=900),
        ("node2",),
        "cuda:3 of node2 (NVIDIA H200): 3 of 900 products differ",
    ),
    Broken(
        "bench.no_gpu_is_slowed_down_under_load",
        with_gpu(slowed_by=("software power cap", "hardware thermal slow-down"), sm_mhz=1005.0, sm_mhz_max=1980.0),
        ("node2",),
        "slowed down under load: hardware thermal slow-down (1005 of 1980 MHz",
    ),
    Broken(
        "bench.no_gpu_is_slowed_down_under_load",
        with_gpu(memory_celsius=97.0),
        ("node2",),
        "cuda:3 of node2 (NVIDIA H200), under load: its memory is at 97 °C, its limit is 95",
    ),
    Broken(
        "bench.no_gpu_is_slowed_down_under_load",
        with_gpu(memory_celsius=90.0, memory_limit_celsius=None),
        ("node2",),
        "its memory is at 90 °C, the median of 32 is 62",
    ),
    Broken(
        "bench.no_gpu_is_slowed_down_under_load",
        with_gpu(pcie_generation=3.0),
        ("node2",),
        "its PCIe link runs at generation 3, and can at 5 (1755 MHz, memory 62 °C, PCIe Gen3 x16)",
    ),
    Broken(
        "bench.no_gpu_is_slowed_down_under_load",
        with_gpu(pcie_width=8.0),
        ("node2",),
        "its PCIe link has 8 lanes, that of most 16 lanes",
    ),
    Broken(
        "bench.no_gpu_is_slowed_down_under_load",
        with_gpu(has_cores_near=False),
        ("node2",),
        "cuda:3 of node2 (NVIDIA H200), under load: its rank may use none of the cores of its NUMA node",
    ),
    Broken(
        "bench.no_gpu_is_slower_than_its_equals",
        with_gpu(matmul_tflops_per_s=500.0, sm_mhz=1005.0, power_watts=350.0, power_limit_watts=700.0),
        ("node2",),
        "500 TFLOP/s; the median of 32 is 703.5 (1005 MHz, 350 of 700 W, memory 62 °C",
    ),
    Broken(
        "bench.no_gpu_is_slower_than_its_equals",
        with_gpu(matmul_tflops_per_s=600.0),
        ("node2",),
        "cuda:3 of node2 (NVIDIA H200) multiplies matrices at 600 TFLOP/s; the median of 32 is 703",
    ),
    Broken(
        "bench.no_gpu_is_slower_than_its_equals",
        with_gpu(from_device_gbytes_per_s=13.0),
        ("node2",),
        "sends 13 GB/s to the host; the median of 32 is 53",
    ),
    Broken(
        "bench.gpus_are_what_their_data_sheet_says",
        with_gpu(memory_gbytes_per_s=3000.0),
        ("node2",),
        "copies its memory at 3000 GB/s: 62% of the 4800 of its data sheet, wanted 70%",
    ),
    Broken(
        "bench.no_group_is_slower_than_the_others",
        rail_by_rail(healthy(), slowest=1.0),
        ("node1", "node2", "node3"),
        "all_reduce (rail 1) busbw 1 GB/s; the median of 3 is 3",
    ),
    Broken(
        "bench.no_group_is_slower_than_the_others",
        within_nodes(roce(), node1=470.0, node2=466.0, node3=31.0),
        ("node3",),
        "all_reduce (node3) busbw 31 GB/s; the median of 3 is 466",
    ),
    Broken("bench.all_reduce_is_near_the_expected_bandwidth", busbw(2.8), ("node1", "node2", "node3"), "95% of 3.05"),
)


@pytest.mark.parametrize("broken", BROKEN, ids=str)
def test_the_broken_nodes_are_named(broken):
    """Each row: the check names exactly the broken nodes, says what is wrong, and how to fix it."""
    broken.assert_named()


GATE = "bench.all_reduce_reaches_the_expected_bandwidth"
NEAR = "bench.all_reduce_is_near_the_expected_bandwidth"


def test_an_interval_across_the_gate_is_not_measured():
    """Neither pass nor fail: the figure is too uncertain."""
    findings = judge(GATE, busbw(2.74, spread=0.1))
    assert [finding.verdict for finding in findings] == [Verdict.ERROR]
    assert "straddles the gate of 2.745 GB/s" in findings[0].message


def test_more_than_the_links_carry_is_never_a_pass():
    """A figure above the physical bound means that a fact or the figure is wrong."""
    findings = judge(GATE, busbw(9.0))
    assert [finding.verdict for finding in findings] == [Verdict.ERROR]
    assert "more than the links can carry" in findings[0].message


def test_a_slow_node_is_the_cause_of_a_slow_whole():
    """With a slow node named, the missing bandwidth is its consequence."""
    run = busbw(0.5).bench_has(
        slow=(Slow(nodes=("node3",), direction="both", gbytes_per_s=0.5, peers_gbytes_per_s=3.0),)
    )
    (finding,) = judge(GATE, run)
    assert finding.verdict is Verdict.ERROR
    assert finding.message.startswith("blocked by bench.no_node_is_slower_than_its_peers on node3")


def test_without_a_link_rate_the_peers_judge():
    """Virtual interfaces tell no rate: no gate, and a warning only far below this run's own streams."""
    assert {f.verdict for f in judge(GATE, rate_unknown(busbw(1.0)))} == {Verdict.SKIP}
    assert {f.verdict for f in judge(NEAR, rate_unknown(busbw(2.6)))} == {Verdict.PASS}
    assert {f.verdict for f in judge(NEAR, rate_unknown(busbw(1.0)))} == {Verdict.WARN}


@pytest.mark.parametrize(
    ("backend", "verdict", "why"),
    [("gloo", Verdict.ERROR, "so the streams were held up"), ("nccl", Verdict.SKIP, "NCCL opens several connections")],
)
def test_a_figure_far_above_the_raw_streams_is_no_pass(backend, verdict, why):
    """Streams that were starved expect too little, and several connections carry more than one."""
    (found,) = judge(NEAR, rate_unknown(busbw(11.4)).bench_has(backend=backend))
    assert found.verdict is verdict
    assert f"3.8 times what raw streams reached (3 GB/s), {'for ' if backend == 'nccl' else ''}{why}" in found.message


FLOOR = Expected(busbw_gbytes_per_s=2.4, bound_gbytes_per_s=None, derivation=("EFA", "a floor"), is_floor=True)


def test_a_floor_is_held_against_it_and_no_more():
    """Where healthy nodes differ: far below is a fail, a little less than the best nothing."""
    for rate, verdict in ((3.0, Verdict.PASS), (2.3, Verdict.PASS), (1.0, Verdict.FAIL)):
        run = busbw(rate).bench_has(expected=FLOOR, expected_of={"all_reduce": FLOOR})
        assert {f.verdict for f in judge(GATE, run)} == {verdict}
        assert {f.verdict for f in judge(NEAR, run)} == {Verdict.SKIP}
    assert "wanted at least 2.16 GB/s, 90% of the floor of 2.4 (EFA; a floor)" in judge(GATE, run)[0].message


def test_the_ring_is_judged_beside_the_algorithm_of_nccls_choice():
    """A tree over two nodes hides that the links give half."""
    ring = Expected(busbw_gbytes_per_s=3.0, bound_gbytes_per_s=5.6, derivation=("ring",))
    tree = Expected(busbw_gbytes_per_s=4.0, bound_gbytes_per_s=5.6, derivation=("tree",))
    run = busbw(4.1)
    (chosen,) = run.measured_bench.results
    rates = dict.fromkeys(("busbw_gbytes_per_s", "busbw_low_gbytes_per_s", "busbw_high_gbytes_per_s"), 1.6)
    held = msgspec.structs.replace(chosen, group=RING, **rates)
    both = run.bench_has(results=(chosen, held), backend="nccl", expected_of={"all_reduce": tree, RING: ring})
    (finding,) = judge(GATE, both)
    assert finding.verdict is Verdict.FAIL
    assert "all_reduce (NCCL_ALGO=Ring) busbw 1.6 GB/s" in finding.message
    assert "tree" not in finding.message
    for name in ("bench.no_group_is_slower_than_the_others", "bench.all_reduce_is_correct"):
        assert {f.verdict for f in judge(name, both)} <= {Verdict.SKIP, Verdict.PASS}


def test_a_slow_gpu_is_the_cause_of_a_slow_whole():
    """Where a GPU is slow by itself, no link is blamed for what the ring is short of."""
    run = busbw(0.5).bench_has(devices=(h200(0, "node1"), h200(0, "node2"), h200(0, "node3", matmul_tflops_per_s=300)))
    (finding,) = judge(GATE, run)
    assert finding.message.startswith("blocked by bench.no_gpu_is_slower_than_its_equals on node3")


GPU_CHECKS = [name for name in checks() if name.startswith(("bench.gpus_", "bench.no_gpu_"))]


@pytest.mark.parametrize("name", GPU_CHECKS)
def test_a_processor_is_shown_and_not_judged_as_a_gpu(name):
    """Nor is anything asked of GPUs that were not measured; GPUs that gave no figure are not measured."""
    cpus = [h200(place, "node1", device="cpu", model="cpu", matmul_tflops_per_s=0.1 + place) for place in range(2)]
    assert {f.verdict for f in judge(name, healthy().bench_has(devices=tuple(cpus)))} == {Verdict.SKIP}
    assert {f.verdict for f in judge(name, healthy())} == {Verdict.SKIP}
    (finding,) = judge(name, roce().bench_has(devices=(), devices_not_measured="rank 3 on node2 stopped"))
    assert finding.verdict is Verdict.ERROR
    assert "rank 3 on node2 stopped" in finding.message


TOO_SMALL = "cuda:0 (NVIDIA GeForce RTX 4060) has 8100 MiB"
FILLED = "other processes fill cuda:0"


@pytest.mark.parametrize("name", GPU_CHECKS)
def test_a_gpu_that_gave_no_figure_costs_no_other_its_verdict(name):
    """Its node is skipped where the GPU is too small, not measured where it should have said; the rest are judged."""
    own = healthy(4).names
    told = tuple(h200(0, name) for name in own[:2])
    missing = (
        NoDevice(rank=2, node="node3", why=TOO_SMALL, device="cuda:0", is_too_small=True),
        NoDevice(rank=3, node="node4", why=FILLED, device="cuda:0"),
    )
    verdicts = {
        node: (f.verdict, f.message)
        for f in judge(name, healthy(4).bench_has(devices=told, no_devices=missing))
        for node in f.nodes
    }
    assert {verdicts["node1"][0], verdicts["node2"][0]} <= {Verdict.PASS, Verdict.SKIP}
    assert verdicts["node3"] == (Verdict.SKIP, TOO_SMALL)
    assert verdicts["node4"] == (Verdict.ERROR, f"not measured: GPU by itself: {FILLED}")


@pytest.mark.parametrize("name", GPU_CHECKS)
def test_where_every_gpu_is_too_small_the_check_is_skipped_with_the_reason(name):
    """A GPU that should have given a figure is never skipped with them."""
    small = tuple(NoDevice(rank=place, node=f"node{place}", why=TOO_SMALL, is_too_small=True) for place in (1, 2))
    busy = NoDevice(rank=3, node="node3", why=FILLED)
    (skipped,) = judge(name, healthy(2).bench_has(no_devices=small))
    assert (skipped.verdict, TOO_SMALL in skipped.message) == (Verdict.SKIP, True)
    found = judge(name, healthy(3).bench_has(no_devices=(*small, busy)))
    assert {(f.verdict, f.nodes) for f in found} == {
        (Verdict.SKIP, ("node1", "node2")),
        (Verdict.ERROR, ("node3",)),
    }


def test_a_slow_gpu_is_blamed_beside_one_that_gave_no_figure():
    """The GPUs that measured themselves are compared with each other."""
    told = tuple(
        h200(0, f"node{place}", **({"matmul_tflops_per_s": 300.0} if place == 3 else {})) for place in (1, 2, 3)
    )
    run = healthy(4).bench_has(devices=told, no_devices=(NoDevice(rank=3, node="node4", why=FILLED),))
    found = {f.nodes: f.verdict for f in judge("bench.no_gpu_is_slower_than_its_equals", run)}
    assert found == {("node3",): Verdict.FAIL, ("node4",): Verdict.ERROR, ("node1", "node2"): Verdict.PASS}


def test_a_stream_that_came_to_nothing_is_told_with_both_words():
    """The node that explains several is named alone; of a single one both ends are, and nobody for being slow."""
    words = "{} says: node2 did not connect; node2 says: refused: Connection refused"
    both = tuple(
        Disputed(source="node2", target=peer, least_gbytes_per_s=0, most_gbytes_per_s=0, failure=words.format(peer))
        for peer in ("node1", "node3")
    )
    name = "bench.both_ends_of_a_stream_agree"
    (found,) = (f for f in judge(name, busbw(0.5).bench_has(disputed=both)) if f.verdict is Verdict.FAIL)
    assert found.nodes == ("node2",)
    assert found.message == (
        f"node2 to node1: the stream gave no figure twice: {words.format('node1')}, and 1 more like it"
    )
    (found,) = (f for f in judge(name, busbw(0.5).bench_has(disputed=both[:1])) if f.verdict is Verdict.FAIL)
    assert found.nodes == ("node1", "node2")
    slow = judge("bench.no_node_is_slower_than_its_peers", busbw(0.5).bench_has(disputed=both))
    assert [f.nodes for f in slow if f.verdict is Verdict.ERROR] == [("node2",)]


def test_of_several_groups_the_slowest_is_held_against_what_is_expected():
    """A node whose NVLink is slow is named alone; on Gloo nothing is expected of memory."""
    expected = Expected(busbw_gbytes_per_s=370.8, bound_gbytes_per_s=811.0, derivation=("NVLink",))
    slow = within_nodes(roce(), node1=470.0, node2=466.0, node3=31.0).bench_has(expected=expected)
    assert [(f.nodes, f.verdict) for f in judge(GATE, slow) if f.verdict is Verdict.FAIL] == [
        (("node3",), Verdict.FAIL)
    ]
    on_gloo = within_nodes(healthy(), node1=9.0, node2=1.0).bench_has(expected=None)
    for name in (GATE, "bench.no_node_is_slower_than_its_peers", "bench.no_group_is_slower_than_the_others"):
        assert {f.verdict for f in judge(name, on_gloo)} == {Verdict.SKIP}


def test_what_was_not_asked_is_not_judged():
    """Another collective alone leaves the all-reduce's checks as not applicable, and the other way round."""
    both = also("broadcast")
    alone = both.bench_has(results=both.measured_bench.results[1:], operations=("broadcast",))
    assert {f.verdict for f in judge("bench.all_reduce_is_correct", alone)} == {Verdict.SKIP}
    assert {f.verdict for f in judge(GATE, alone)} == {Verdict.SKIP}
    assert {f.verdict for f in judge("bench.other_collectives_are_correct", healthy())} == {Verdict.SKIP}
    assert {f.verdict for f in judge("bench.nccl_uses_the_rdma_ports", healthy())} == {Verdict.SKIP}


def test_a_broadcast_of_gloo_is_judged_among_two_ranks_only():
    """Its root sends to several others at once: from three ranks on it is slower than the link."""
    slow = {"busbw_gbytes_per_s": 1.5, "busbw_low_gbytes_per_s": 1.4, "busbw_high_gbytes_per_s": 1.6}
    name = "bench.other_collectives_reach_the_expected_bandwidth"
    assert {f.verdict for f in judge(name, also("broadcast", **slow))} == {Verdict.SKIP}
    assert {f.verdict for f in judge(name, also("broadcast", **slow).bench_has(world_size=2))} == {Verdict.FAIL}


def test_a_short_operation_is_not_judged_by_its_bandwidth():
    """Eight bytes have a latency, no bandwidth."""
    (finding,) = judge(GATE, busbw(0.001).all_reduce_has(bytes=8, seconds_median=1e-4))
    assert finding.verdict is Verdict.SKIP
    assert "too short to measure a bandwidth" in finding.message


def test_a_wrong_small_size_fails_too():
    """Every size of a sweep is checked, not the largest alone."""
    run = healthy()
    (large,) = run.measured_bench.results
    small = msgspec.structs.replace(large, bytes=64, wrong=1, wrong_ranks=(0,))
    findings = judge("bench.all_reduce_is_correct", run.bench_has(results=(small, large)))
    assert [finding.nodes for finding in findings if finding.verdict is Verdict.FAIL] == [("node1",)]


def test_without_figures_nothing_passes():
    """A benchmark that ended without a result leaves its checks unmeasured, with the reason."""
    run = healthy().bench_has(results=(), streams=(), expected=None, not_measured="rank 2 on node3 stopped")
    for name in ("bench.all_reduce_is_correct", "bench.no_node_is_slower_than_its_peers", GATE):
        (finding,) = judge(name, run)
        assert finding.verdict is Verdict.ERROR
        assert "rank 2 on node3 stopped" in finding.message


def test_who_contradicts_its_peers_has_no_verdict_of_being_slow():
    """Its streams count for nobody, so nothing was measured of it; the others are judged by theirs."""
    given = healthy().bench_has(
        disputed=tuple(
            Disputed(source=source, target="node3", least_gbytes_per_s=0.119, most_gbytes_per_s=1000.0)
            for source in ("node1", "node2")
        )
    )
    found = judge("bench.no_node_is_slower_than_its_peers", given)
    verdicts = {finding.nodes: finding.verdict for finding in found}
    assert verdicts == {("node3",): Verdict.ERROR, ("node1", "node2"): Verdict.PASS}


@pytest.mark.parametrize("name", ["all_reduce_is_correct", "other_collectives_are_correct"])
def test_one_rank_alone_proves_no_collective(name):
    """Nothing was sent: its sum is its own input."""
    run = also("broadcast").bench_has(world_size=1)
    (found,) = judge(f"bench.{name}", run)
    assert (found.verdict, "one rank alone" in found.message) == (Verdict.SKIP, True)
