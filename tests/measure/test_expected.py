"""What is expected of the links of these nodes?"""

from __future__ import annotations

import math

import pytest

from preflight.facts.node import NodeFacts
from preflight.facts.subjects.environment import Environment, Variable
from preflight.facts.subjects.gpu import PciFunction
from preflight.facts.subjects.network import Address, Interface, Network
from preflight.facts.subjects.rdma import Gid, Rdma, RdmaDevice, RdmaPort
from preflight.facts.value import Missing
from preflight.measure import expected
from preflight.measure.expected import Nic
from preflight.results import Stream

ABSENT = Missing("none", "absent")


def pairwise(*gbytes_per_s):
    """Streams between a ring of nodes n000, n001, ..., one each way, of which each node sends one at this rate."""
    count = len(gbytes_per_s)
    return [
        Stream(source=f"n{i:03d}", target=f"n{(i + d) % count:03d}", shift=d, gbytes_per_s=rate)
        for d in (1, 2)
        for i, rate in enumerate(gbytes_per_s)
    ]


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
    found = expected.expected({"a": GIGABIT, "b": GIGABIT}, [], world_size=2, ranks_per_node=1)
    assert found.busbw_gbytes_per_s == pytest.approx(0.125 * 1448 / 1538)
    assert found.bound_gbytes_per_s == pytest.approx(found.busbw_gbytes_per_s)
    assert found.derivation[0] == "a: eth0 1 Gbit/s / 8 x 0.9415 (TCP, mtu 1500) = 0.11769 GB/s"


def test_expected_sums_ports_takes_the_weakest_node_and_bounds_by_the_ring_factor():
    """Eight rails, two nodes of eight ranks: the bound is 15/8 of the ring; the weakest node sets it."""
    rails = tuple(Nic(f"mlx5_{i}:1", 400, "InfiniBand", 4096) for i in range(8))
    found = expected.expected({"a": rails, "b": rails[:7]}, [], world_size=16, ranks_per_node=8)
    assert found.busbw_gbytes_per_s == pytest.approx(7 * 50 * 4096 / 4122)
    assert found.bound_gbytes_per_s == pytest.approx(found.busbw_gbytes_per_s * 15 / 8)
    assert "b: 7 ports together 347.79 GB/s" in found.derivation


def test_without_rates_the_raw_streams_stand_in_and_nothing_is_bounded():
    """One slow node among three does not lower what is expected, though it spoils four streams of six."""
    streams = pairwise(0.12, 0.024, 0.12)
    links = {"n000": (), "n001": GIGABIT, "n002": ()}
    found = expected.expected(links, streams, world_size=3, ranks_per_node=1)
    assert (found.busbw_gbytes_per_s, found.bound_gbytes_per_s) == (pytest.approx(0.12), None)
    assert found.derivation[0] == "no link rate is known on n[000,002]"


def slot(speed, width):
    """The place of a device in a slot of so many lanes."""
    return PciFunction("pci0000:00/0000:00:01.0", 0, width, 16, speed, 64.0, ABSENT, ())


@pytest.mark.parametrize(
    ("speed", "width", "gbytes_per_s"),
    [(8.0, 16, 13.86), (16.0, 16, 27.7), (32.0, 16, 55.4), (16.0, 8, 13.86), (5.0, 8, 3.52), (ABSENT, 16, math.inf)],
)
def test_what_a_pcie_slot_carries(speed, width, gbytes_per_s):
    """55.4 of 63 GB/s is what a Gen5 slot of 16 lanes was measured at."""
    assert expected.slot_gbytes_per_s(slot(speed, width)) == pytest.approx(gbytes_per_s, rel=2e-3)


def test_a_narrow_slot_limits_its_adapter_and_says_so():
    """A 400 Gbit adapter in a Gen4 slot gives what the slot carries."""
    nic = Nic("mlx5_0:1", 400, "InfiniBand", 4096, expected.slot_gbytes_per_s(slot(16.0, 16)))
    assert nic.gbytes_per_s == pytest.approx(27.7, rel=2e-3)
    assert str(nic).endswith("= 49.685 GB/s, but its PCIe slot carries 27.727")


def test_nvlink_limits_the_ring_but_not_the_bound():
    """On nodes whose adapters together are faster than NVLink the ring runs at NVLink's rate."""
    rails = tuple(Nic(f"mlx5_{i}:1", 400, "InfiniBand", 4096) for i in range(8))
    found = expected.expected(
        {"a": rails, "b": rails}, [], world_size=16, ranks_per_node=8, nvlinks={"a": math.inf, "b": 164.8}
    )
    assert found.busbw_gbytes_per_s == 164.8
    assert found.bound_gbytes_per_s == pytest.approx(8 * 50 * 4096 / 4122 * 15 / 8)
    assert "within b the ring runs over NVLink at 164.8 GB/s" in found.derivation
    assert "on two nodes a tree" in found.derivation[-1]


def test_expected_is_none_for_one_node_or_when_nothing_is_known():
    """One node has no link; no rate and no stream leave no expectation."""
    assert expected.expected({"a": GIGABIT}, [], world_size=2, ranks_per_node=2) is None
    assert expected.expected({"a": (), "b": ()}, [], world_size=2, ranks_per_node=1) is None


def test_fast_tcp_is_expected_to_do_what_a_processor_drives():
    """On 100 Gbit TCP the streams lower the expectation, not the bound; on 10 Gbit they do not."""
    streams = [
        Stream(source="a", target="b", shift=1, gbytes_per_s=0.6),
        Stream(source="b", target="a", shift=1, gbytes_per_s=0.6),
    ]
    fast, sure = (Nic("e", 100, "TCP", 9000),), (Nic("e", 10, "TCP", 9000),)
    found = expected.expected({"a": fast, "b": fast}, streams, world_size=2, ranks_per_node=1)
    assert found.busbw_gbytes_per_s == pytest.approx(0.6)
    assert found.bound_gbytes_per_s == pytest.approx(12.5 * 0.990, rel=1e-3)
    found = expected.expected({"a": sure, "b": sure}, streams, world_size=2, ranks_per_node=1)
    assert found.busbw_gbytes_per_s == pytest.approx(1.25 * 0.990, rel=1e-3)


def test_one_rank_a_node_has_its_share_of_the_ports_and_all_of_them_as_bound():
    """Of eight GPUs with eight ports one is used; of a GPU with four ports all four."""
    rails = tuple(Nic(f"mlx5_{i}:1", 400, "InfiniBand", 4096) for i in range(8))
    one = 50 * 4096 / 4122
    for gpus, ports in ((8, 1), (2, 4)):
        found = expected.expected_of_few(
            {"a": rails, "b": rails}, [], world_size=2, ranks_per_node=1, gpus_per_node=gpus
        )
        assert found.busbw_gbytes_per_s == pytest.approx(ports * one)
        assert found.bound_gbytes_per_s == pytest.approx(8 * one)
        assert found.derivation[-1].startswith(f"1 of {gpus} GPUs a node")
    links = {"a": GIGABIT, "b": GIGABIT}
    alone = expected.expected_of_few(links, [], world_size=2, ranks_per_node=1, gpus_per_node=1)
    assert alone == expected.expected(links, [], world_size=2, ranks_per_node=1)


def test_within_a_node_nvlink_is_expected():
    """An H100 with 18 links: 371 GB/s for a ring, more for a switch that adds up; nothing where no NVLink tells."""
    found = expected.expected_within({"a": 18 * 20.6, "b": math.inf}, ranks_per_node=8)
    assert found.busbw_gbytes_per_s == pytest.approx(370.8)
    assert 480 < found.bound_gbytes_per_s < 900
    assert expected.expected_within({"a": math.inf}, ranks_per_node=8) is None
    assert expected.expected_within({}, ranks_per_node=2) is None


def node(*, speed_mbps=100000, is_physical=True, mtu=9000, ports=(), **variables):
    """A node with eth0, RDMA ports (name, state, link layer, rate) and variables."""
    held = (Address("10.0.0.1", 24, "inet"),)
    eth0 = Interface(
        name="eth0",
        index=2,
        addresses=held,
        mtu=mtu,
        speed_mbps=speed_mbps,
        is_up=True,
        is_loopback=False,
        is_physical=is_physical,
    )
    gids = (Gid(3, "::ffff:10.0.0.1", "RoCE v2", "eth0"),)
    devices = tuple(
        RdmaDevice(
            name=name,
            firmware=ABSENT,
            board=ABSENT,
            node_type=ABSENT,
            ports=(
                RdmaPort(
                    number=1,
                    state=state,
                    physical_state=ABSENT,
                    rate_gbps=rate,
                    link_layer=layer,
                    gids=gids if layer == "Ethernet" else (),
                    lid=ABSENT,
                    sm_lid=ABSENT,
                    counters={},
                ),
            ),
        )
        for name, state, layer, rate in ports
    )
    subjects = {
        "network": Network(interfaces=(eth0,), gateways=(), ephemeral_ports=(32768, 60999), training="eth0"),
        "rdma": Rdma(devices=devices),
        "environment": Environment(variables={key: Variable(value, "node") for key, value in variables.items()}),
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
    assert expected.nics_of(facts, backend=backend) == found
