"""Shift rounds and who is slow; what is expected, and how a result is judged."""

from __future__ import annotations

import math
import random
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preflight import bandwidth
from preflight.bandwidth import Nic
from preflight.facts.measured import Expected, Result, Slow, Stream
from preflight.facts.node import NodeFacts
from preflight.facts.values import (
    Address,
    Environment,
    Gid,
    Interface,
    Missing,
    Network,
    Rdma,
    RdmaDevice,
    RdmaPort,
    Variable,
)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6, 7, 8, 16, 100, 256, 1000])
def test_shift_distances(count):
    """At most three, distinct, each a real distance, pairwise prime; all there are up to three nodes."""
    distances = bandwidth.shifts(count)
    assert len(distances) == min(count - 1, 3)
    assert len(set(distances)) == len(distances)
    assert all(1 <= d < count for d in distances)
    assert all(math.gcd(one, other) == 1 for one, other in combinations(distances, 2))


def names(count):
    """Node names."""
    return tuple(f"n{index:03d}" for index in range(count))


def simulate(nodes, *, egress=None, ingress=None, path=None, noise=0.0, seed=0):
    """Streams of all shift rounds; slow things are {name: share} and {(source, target): share} of 0.12 GB/s."""
    chance = random.Random(seed)
    egress, ingress, path = egress or {}, ingress or {}, path or {}
    streams = []
    for shift in bandwidth.shifts(len(nodes)):
        for place, source in enumerate(nodes):
            target = nodes[(place + shift) % len(nodes)]
            share = min(egress.get(source, 1.0), ingress.get(target, 1.0), path.get((source, target), 1.0))
            streams.append(Stream(source, target, shift, 0.12 * share * (1 + chance.uniform(-noise, noise))))
    return streams


def told(slow):
    """Who, and in which direction."""
    return [(each.nodes, each.direction) for each in slow]


@settings(max_examples=150, deadline=None)
@given(
    count=st.integers(3, 256),
    share=st.floats(0.05, 0.7),
    direction=st.sampled_from(["egress", "ingress", "both"]),
    seed=st.integers(0, 1 << 30),
)
def test_one_slow_node_is_always_found_and_nobody_else(count, share, direction, seed):
    """From three nodes up: the node and its direction, and no other name, with 3 % noise."""
    nodes = names(count)
    bad = nodes[seed % count]
    options = {way: {bad: share} for way in ("egress", "ingress") if direction in (way, "both")}
    streams = simulate(nodes, noise=0.03, seed=seed, **options)
    assert told(bandwidth.locate(streams, nodes)) == [((bad,), direction)]


@settings(max_examples=80, deadline=None)
@given(count=st.integers(2, 256), seed=st.integers(0, 1 << 30))
def test_healthy_nodes_are_never_named(count, seed):
    """Noise of 5 % names nobody."""
    nodes = names(count)
    assert bandwidth.locate(simulate(nodes, noise=0.05, seed=seed), nodes) == ()


@settings(max_examples=80, deadline=None)
@given(count=st.integers(3, 64), seed=st.integers(0, 1 << 30))
def test_a_slow_path_names_the_path_or_nothing(count, seed):
    """A path that was sampled is named as a path; its ends are not called slow nodes."""
    nodes = names(count)
    source, target = random.Random(seed).sample(nodes, 2)
    streams = simulate(nodes, path={(source, target): 0.2}, noise=0.03, seed=seed)
    is_sampled = any((stream.source, stream.target) == (source, target) for stream in streams)
    wanted = [((source, target), "path")] if is_sampled else []
    assert told(bandwidth.locate(streams, nodes)) == wanted


@pytest.mark.parametrize("count", [16, 64, 256])
def test_several_slow_nodes_are_found_without_false_names(count):
    """5 % of slow nodes, each in its own direction, over 30 seeded draws."""
    nodes = names(count)
    for seed in range(30):
        chance = random.Random(seed)
        bad = sorted(chance.sample(nodes, max(1, count // 20)))
        directions = [chance.choice(["egress", "ingress", "both"]) for _ in bad]
        streams = simulate(
            nodes,
            egress={n: 0.3 for n, d in zip(bad, directions, strict=True) if d != "ingress"},
            ingress={n: 0.3 for n, d in zip(bad, directions, strict=True) if d != "egress"},
            noise=0.03,
            seed=seed,
        )
        assert told(bandwidth.locate(streams, nodes)) == [((n,), d) for n, d in zip(bad, directions, strict=True)]


def test_a_slow_node_tells_its_figure_and_its_peers():
    """The message can say how slow, beside what is usual."""
    streams = simulate(names(3), egress={"n001": 0.2}, ingress={"n001": 0.25})
    assert bandwidth.locate(streams, names(3)) == (Slow(("n001",), "both", pytest.approx(0.024), pytest.approx(0.12)),)


def test_two_nodes_name_the_pair():
    """Which of two is to blame no stream tells: the slow direction names both."""
    found = bandwidth.locate(simulate(names(2), egress={"n001": 0.2}), names(2))
    assert found == (Slow(("n001", "n000"), "path", pytest.approx(0.024), pytest.approx(0.12)),)
    assert bandwidth.locate(simulate(names(2), egress={"n000": 0.2}, ingress={"n000": 0.2}), names(2)) == ()


def test_a_node_measured_once_is_not_named_alone():
    """Where other rounds failed, the one slow stream is a path."""
    streams = [s for s in simulate(names(6), egress={"n002": 0.2}) if s.source != "n002" or s.shift == 1]
    assert told(bandwidth.locate(streams, names(6))) == [(("n002", "n003"), "path")]


def test_no_streams_name_nobody():
    """Nothing measured, nothing said."""
    assert bandwidth.locate([], names(4)) == ()


@pytest.mark.parametrize(
    ("nic", "efficiency"),
    [
        (Nic("m", 400, "InfiniBand", 4096), 0.994),
        (Nic("m", 400, "RoCE", 4096), 0.980),
        (Nic("m", 400, "RoCE", 1024), 0.926),
        (Nic("e", 100, "TCP", 9000), 0.990),
        (Nic("e", 100, "TCP", 1500), 0.9415),
    ],
)
def test_protocol_efficiency(nic, efficiency):
    """What headers leave of the line rate."""
    assert nic.efficiency == pytest.approx(efficiency, abs=0.0005)


GIGABIT = (Nic("eth0", 1.0, "TCP", 1500),)


def test_expected_from_link_rates():
    """One 1 Gbit port, one rank a node: expected and bound are its payload rate, step by step."""
    found = bandwidth.expected({"a": GIGABIT, "b": GIGABIT}, [], world_size=2, ranks_per_node=1)
    assert found.busbw_gbytes_per_s == pytest.approx(0.125 * 1448 / 1538)
    assert found.bound_gbytes_per_s == pytest.approx(found.busbw_gbytes_per_s)
    assert found.derivation[0] == "a: eth0 1 Gbit/s / 8 x 0.9415 (TCP, mtu 1500) = 0.11769 GB/s"


def test_expected_sums_ports_takes_the_weakest_node_and_bounds_by_the_ring_factor():
    """Eight rails, two nodes of eight ranks: the bound is 15/8 of the ring; the weakest node sets it."""
    rails = tuple(Nic(f"mlx5_{i}:1", 400, "InfiniBand", 4096) for i in range(8))
    found = bandwidth.expected({"a": rails, "b": rails[:7]}, [], world_size=16, ranks_per_node=8)
    assert found.busbw_gbytes_per_s == pytest.approx(7 * 50 * 4096 / 4122)
    assert found.bound_gbytes_per_s == pytest.approx(found.busbw_gbytes_per_s * 15 / 8)
    assert "b: 7 ports together 347.79 GB/s" in found.derivation


def test_without_rates_the_raw_streams_stand_in_and_nothing_is_bounded():
    """One slow node among three does not lower what is expected, though it spoils four streams of six."""
    streams = simulate(names(3), egress={"n001": 0.2}, ingress={"n001": 0.2})
    links = {"n000": (), "n001": GIGABIT, "n002": ()}
    found = bandwidth.expected(links, streams, world_size=3, ranks_per_node=1)
    assert (found.busbw_gbytes_per_s, found.bound_gbytes_per_s) == (pytest.approx(0.12), None)
    assert found.derivation[0] == "no link rate is known on n[000,002]"


def test_expected_is_none_for_one_node_or_when_nothing_is_known():
    """One node has no link; no rate and no stream leave no expectation."""
    assert bandwidth.expected({"a": GIGABIT}, [], world_size=2, ranks_per_node=2) is None
    assert bandwidth.expected({"a": (), "b": ()}, [], world_size=2, ranks_per_node=1) is None


def test_fast_tcp_is_expected_to_do_what_a_processor_drives():
    """On 100 Gbit TCP the streams lower the expectation, not the bound; on 10 Gbit they do not."""
    streams = [Stream("a", "b", 1, 0.6), Stream("b", "a", 1, 0.6)]
    fast, sure = (Nic("e", 100, "TCP", 9000),), (Nic("e", 10, "TCP", 9000),)
    found = bandwidth.expected({"a": fast, "b": fast}, streams, world_size=2, ranks_per_node=1)
    assert found.busbw_gbytes_per_s == pytest.approx(0.6)
    assert found.bound_gbytes_per_s == pytest.approx(12.5 * 0.990, rel=1e-3)
    found = bandwidth.expected({"a": sure, "b": sure}, streams, world_size=2, ranks_per_node=1)
    assert found.busbw_gbytes_per_s == pytest.approx(1.25 * 0.990, rel=1e-3)


def result(low, middle, high, **more):
    """An all-reduce of which only the bus bandwidth matters."""
    seconds = dict.fromkeys(
        ("seconds_first", "seconds_median", "seconds_p5", "seconds_p95", "seconds_low", "seconds_high"), 0.1
    )
    return Result(
        op="all_reduce",
        bytes=1 << 26,
        iterations=10,
        cv=0.01,
        algbw_gbytes_per_s=middle,
        busbw_gbytes_per_s=middle,
        busbw_low_gbytes_per_s=low,
        busbw_high_gbytes_per_s=high,
        **{"wrong": 0, **seconds, **more},
    )


@pytest.mark.parametrize(
    ("interval", "bound", "verdict", "words"),
    [
        ((0.97, 0.98, 0.99), 1.0, "pass", "98%"),
        ((0.95, 0.98, 0.99), 1.0, "pass", "98%"),
        ((0.91, 0.93, 0.94), 1.0, "warn", "below 0.95"),
        ((0.94, 0.96, 0.97), 1.0, "warn", "below 0.95"),
        ((0.85, 0.87, 0.89), 1.0, "fail", "below 0.9"),
        ((0.85, 0.92, 0.99), 1.0, "error", "unstable"),
        ((1.01, 1.018, 1.03), 1.0, "pass", "102%"),
        ((1.02, 1.03, 1.04), 1.0, "error", "faster than the links can be"),
        ((1.02, 1.03, 1.04), None, "pass", "103%"),
        ((1.4, 1.5, 1.6), 1.875, "pass", "150%"),
    ],
)
def test_the_gate_is_judged_on_the_interval(interval, bound, verdict, words):
    """Above passes, below fails, straddling is an error, and so is the impossible where a bound is known."""
    found, reason = bandwidth.judge(result(*interval), Expected(1.0, bound, ()))
    assert found == verdict
    assert words in reason


def test_wrong_values_fail_however_fast():
    """Correctness comes first, with the ranks."""
    wanted = Expected(1.0, 1.0, ())
    found = bandwidth.judge(result(0.97, 0.98, 0.99, wrong=3, wrong_ranks=(1, 2)), wanted)
    assert found == ("fail", "3 wrong elements on ranks 1, 2")
    assert bandwidth.judge(result(9, 9, 9), None) == ("pass", "values are right; no link measured")


ABSENT = Missing("none", "absent")


def node(*, speed_mbps=100000, is_physical=True, mtu=9000, ports=(), **variables):
    """A node with eth0, RDMA ports (name, state, link layer, rate) and variables."""
    held = (Address("10.0.0.1", 24, "inet"),)
    eth0 = Interface("eth0", 2, held, mtu, speed_mbps, is_up=True, is_loopback=False, is_physical=is_physical)
    gids = (Gid(3, "::ffff:10.0.0.1", "RoCE v2", "eth0"),)
    devices = tuple(
        RdmaDevice(
            name=name,
            firmware=ABSENT,
            board=ABSENT,
            node_type=ABSENT,
            ports=(RdmaPort(1, state, ABSENT, rate, layer, gids if layer == "Ethernet" else (), ABSENT, ABSENT, {}),),
        )
        for name, state, layer, rate in ports
    )
    subjects = {
        "network": Network((eth0,), (), (32768, 60999), "eth0"),
        "rdma": Rdma(devices),
        "environment": Environment({key: Variable(value, "node") for key, value in variables.items()}),
    }
    return NodeFacts("n1", 0, "10.0.0.1", subjects, {})


IB = (("mlx5_0", "ACTIVE", "InfiniBand", 400.0), ("mlx5_1", "DOWN", "InfiniBand", 400.0))
ROCE = (("mlx5_0", "ACTIVE", "Ethernet", 200.0),)


@pytest.mark.parametrize(
    ("facts", "backend", "found"),
    [
        (node(), "gloo", (Nic("eth0", 100, "TCP", 9000),)),
        (node(ports=IB), "gloo", (Nic("eth0", 100, "TCP", 9000),)),
        (node(ports=IB), "nccl", (Nic("mlx5_0:1", 400, "InfiniBand", 4096),)),
        (node(ports=ROCE), "nccl", (Nic("mlx5_0:1", 200, "RoCE", 4096),)),
        (node(ports=ROCE, mtu=1500), "nccl", (Nic("mlx5_0:1", 200, "RoCE", 1024),)),
        (node(ports=IB, NCCL_IB_DISABLE="1"), "nccl", (Nic("eth0", 100, "TCP", 9000),)),
        (node(ports=IB, NCCL_IB_HCA="mlx5_1"), "nccl", (Nic("eth0", 100, "TCP", 9000),)),
        (node(ports=(("mlx5_0", "ACTIVE", "InfiniBand", ABSENT),)), "nccl", ()),
        (node(is_physical=False, speed_mbps=10000), "gloo", ()),
        (node(speed_mbps=0), "nccl", ()),
    ],
)
def test_the_ports_a_job_uses(facts, backend, found):
    """RDMA for NCCL unless it is switched off or not there; a veth's speed is no rate."""
    assert bandwidth.nics_of(facts, backend=backend) == found
