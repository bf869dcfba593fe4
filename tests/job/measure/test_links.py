"""What do the ports of a node carry, and what joins its GPUs?"""

from __future__ import annotations

import math

import msgspec
import pytest

from preflight.facts.node import NodeFacts
from preflight.facts.pci import PciFunction
from preflight.facts.subjects.environment import Environment, Variable
from preflight.facts.subjects.gpu import Links
from preflight.facts.subjects.gpus.topology import Topology, TopologyRow
from preflight.facts.subjects.network import Address, Interface, Network
from preflight.facts.subjects.rdma import Gid, Rdma, RdmaDevice, RdmaPort
from preflight.facts.value import Missing
from preflight.job.measure import links
from preflight.job.measure.links import Nic
from preflight.testing import roce
from preflight.testing.measured import transport

ABSENT = Missing("none", "absent")


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


def slot(speed, width):
    """The place of a device in a slot of so many lanes."""
    return PciFunction("pci0000:00/0000:00:01.0", 0, width, 16, speed, 64.0, ABSENT, ())


@pytest.mark.parametrize(
    ("speed", "width", "gbytes_per_s"),
    [(8.0, 16, 13.86), (16.0, 16, 27.7), (32.0, 16, 55.4), (16.0, 8, 13.86), (5.0, 8, 3.52), (ABSENT, 16, math.inf)],
)
def test_what_a_pcie_slot_carries(speed, width, gbytes_per_s):
    """55.4 of 63 GB/s is what a Gen5 slot of 16 lanes was measured at."""
    assert links.slot_gbytes_per_s(slot(speed, width)) == pytest.approx(gbytes_per_s, rel=2e-3)


def test_a_narrow_slot_limits_its_adapter_and_says_so():
    """A 400 Gbit adapter in a Gen4 slot gives what the slot carries."""
    nic = Nic("mlx5_0:1", 400, "InfiniBand", 4096, links.slot_gbytes_per_s(slot(16.0, 16)))
    assert nic.gbytes_per_s == pytest.approx(27.7, rel=2e-3)
    assert str(nic).endswith("= 49.685 GB/s, but its PCIe slot carries 27.727")


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
    assert links.uplink_of(facts, backend=backend).nics == found


def test_a_port_without_a_rate_leaves_the_reason():
    """What is expected then says which port."""
    facts = node(ports=(("mlx5_0", "ACTIVE", "InfiniBand", ABSENT),))
    assert "rate of mlx5_0:1" in links.uplink_of(facts, backend="nccl").reason


def test_a_bond_is_no_bound():
    """Its rate may be that of one leg; nobody is told that a healthy one carries more than it can."""
    bond = (("mlx5_bond_0", "ACTIVE", "InfiniBand", 200.0),)
    assert not links.uplink_of(node(ports=bond), backend="nccl").is_bounded
    assert links.uplink_of(node(ports=IB), backend="nccl").is_bounded


EFA = tuple((f"rdmap{place}s0", "ACTIVE", "Unspecified", 100.0) for place in range(4))


def test_efa_is_known_without_a_log():
    """Its ports are no InfiniBand and no Ethernet; what its plugin makes of them is no sure figure."""
    found = links.uplink_of(node(ports=EFA), backend="nccl")
    assert [nic.transport for nic in found.nics] == ["EFA"] * 4
    assert (found.gbytes_per_s, found.least, found.is_bounded) == (50.0, 0.6, False)


@pytest.mark.parametrize(
    ("network", "ports", "transports", "least"),
    [
        ("IB", ("mlx5_0:1/IB",), {"InfiniBand"}, 1.0),
        ("IBext_v8", ("mlx5_0:1/IB",), {"InfiniBand"}, 1.0),
        ("Socket", ("eth0:10.0.0.1<0>",), {"TCP"}, 1.0),
        ("FastSocket", ("eth0:10.0.0.1<0>",), {"TCP"}, 1.0),
        ("AnyPlugin", (), {"InfiniBand"}, 0.4),
    ],
)
def test_the_log_says_which_network_carries_the_data(network, ports, transports, least):
    """Beside an active InfiniBand port NCCL may have taken sockets or a plugin."""
    found = links.uplink_of(node(ports=IB), backend="nccl", used=transport(0, "n1", network, *ports))
    assert {nic.transport for nic in found.nics} == transports
    assert found.least == least
    assert found.is_bounded is (least == 1.0)


def test_a_plugin_without_rdma_ports_drives_the_interfaces_beside_the_training_interface():
    """As FasTrak and TCPX do; where there are none, nothing is known."""
    found = links.uplink_of(node(), backend="nccl", used=transport(0, "n1", "FasTrak"))
    assert (found.nics, found.reason) == ((), "rate: which ports the network FasTrak of NCCL drives is not known")
    run = roce(2).broken("node1", "rdma", devices=())
    facts = run.cluster["node1"]
    more = [msgspec.structs.replace(facts.network.interface("eth0"), name=f"eth{i}", index=i + 2) for i in (1, 2)]
    facts = run.broken("node1", "network", interfaces=(*facts.network.interfaces, *more)).cluster["node1"]
    found = links.uplink_of(facts, backend="nccl", used=transport(0, "node1", "FasTrak"))
    assert [nic.name for nic in found.nics] == ["eth1", "eth2"]


def test_libfabric_without_efa_drives_the_fastest_interfaces():
    """HPE's Slingshot: hsn0 is the training interface and one of the network's own; it has no RDMA port."""
    run = roce(2).broken("node1", "rdma", devices=())
    network = run.cluster["node1"].network
    more = [msgspec.structs.replace(network.interface("eth0"), name=f"hsn{i}", index=i + 2) for i in (1, 2, 3)]
    slow = msgspec.structs.replace(network.interface("eth0"), name="nmn0", index=9, speed_mbps=1000)
    facts = run.broken("node1", "network", interfaces=(*network.interfaces, *more, slow)).cluster["node1"]
    found = links.uplink_of(facts, backend="nccl", used=transport(0, "node1", "AWS Libfabric"))
    assert [nic.name for nic in found.nics] == ["eth0", "hsn1", "hsn2", "hsn3"]
    assert (found.least, found.is_bounded) == (0.4, False)


def gpus(name, *, count=8, nvlinks=0, relation="SYS", switches=0, slot=(16.0, 16)):
    """A node with GPUs of a model, so many NVLinks each, and what lies between them."""
    run = roce(1)
    held = run.cluster["node1"].gpu.devices[:count]
    pci = held[0].pci._replace(speed=2.5, speed_max=slot[0], width=slot[1])
    wired = Links(nvlinks, 0) if nvlinks else ABSENT
    rows = [TopologyRow(f"GPU{i}", tuple("X" if i == j else relation for j in range(count))) for i in range(count)]
    devices = tuple(msgspec.structs.replace(gpu, name=name, links=wired, pci=pci) for gpu in held)
    changed = {"devices": devices, "switches": switches, "topology": Topology(tuple(rows), {})}
    return run.broken("node1", "gpu", **changed).cluster["node1"]


SXM = {"nvlinks": 18, "relation": "NV18", "switches": 4}


@pytest.mark.parametrize(
    ("facts", "kind", "ring", "nvls"),
    [
        (gpus("NVIDIA H100 80GB HBM3", **SXM), "NVLink", 370.8, 475.2),
        (gpus("NVIDIA H20-3e", **SXM), "NVLink", 370.8, 475.2),
        (gpus("NVIDIA H800", nvlinks=8, relation="NV8", switches=4), "NVLink", 164.8, 211.2),
        (gpus("NVIDIA B200", **SXM), "NVLink", 721.8, 838.8),
        (gpus("NVIDIA GB200", count=4, **SXM), "NVLink", 721.8, 838.8),
        (gpus("NVIDIA A100-SXM4-80GB", nvlinks=12, relation="NV12", switches=6), "NVLink", 240.0, 0.0),
        (gpus("NVIDIA A800-SXM4-80GB", nvlinks=8, relation="NV8", switches=6), "NVLink", 160.0, 0.0),
        (gpus("Tesla V100-SXM2-32GB", count=4, nvlinks=6, relation="NV2"), "NVLink", 120.0, 0.0),
        (gpus("NVIDIA A100 80GB PCIe", count=2, nvlinks=12, relation="NV12"), "NVLink", 208.8, 0.0),
        (gpus("NVIDIA A100 80GB PCIe", nvlinks=12), "PCIe", 19.4, 0.0),
        (gpus("NVIDIA L40S"), "PCIe", 19.4, 0.0),
        (gpus("AMD Instinct MI300X"), "xGMI", 315.0, 0.0),
        (gpus("AMD Instinct MI210"), "", math.inf, 0.0),
        (gpus("NVIDIA L40S", slot=(ABSENT, ABSENT)), "", math.inf, 0.0),
    ],
)
def test_what_joins_the_gpus_of_a_node(facts, kind, ring, nvls):
    """NVLink by its links, where it joins all of them; else the slot, at the speed a GPU has at work."""
    found = links.inside_of(facts, ranks=8)
    assert found.kind == kind
    assert found.ring == pytest.approx(ring, rel=0.01)
    assert found.nvls == pytest.approx(nvls, rel=0.01)
    assert (found.least < found.ring) is (kind in ("PCIe", ""))


def test_one_rank_a_node_meets_no_other_gpu():
    """And unreadable GPUs are joined in an unknown way."""
    assert links.inside_of(gpus("NVIDIA L40S"), ranks=1) == links.ALONE
    unread = roce(1).broken("node1", "gpu", devices=Missing("nvidia-smi hangs")).cluster["node1"]
    assert links.inside_of(unread, ranks=8) == links.UNKNOWN


@pytest.mark.parametrize(
    ("facts", "most", "below", "racks"),
    [
        (gpus("Tesla P100-SXM2-16GB", count=4, nvlinks=4, relation="NV1"), 80.0, 1.0, {}),
        (gpus("Tesla V100-SXM2-32GB", nvlinks=6, relation="NV2"), 150.0, 1.0, {}),
        (gpus("NVIDIA A100-SXM4-80GB", nvlinks=12, relation="NV12", switches=6), 300.0, 1.0, {}),
        (gpus("NVIDIA H200", **SXM), 450.0, 1.0, {}),
        (gpus("NVIDIA B200", **SXM), 900.0, 0.88, {}),
        (gpus("NVIDIA GB200", count=4, **SXM), 900.0, 0.88, {8: 629.0, 72: 846.0}),
        (gpus("NVIDIA GB300", count=4, **SXM), 900.0, 0.88, {8: 697.0, 72: 937.0}),
    ],
)
def test_what_nvlink_carries_at_most_and_joins_of_a_rack(facts, most, below, racks):
    """By the specification 900 GB/s a GPU of Blackwell, 450 of Hopper; over trays what CoreWeave and Azure measured."""
    found = links.inside_of(facts, ranks=8)
    assert (found.most, found.nvls_below, dict(found.racks)) == (most, below, racks)


@pytest.mark.parametrize(
    ("name", "ring", "least", "pair"), [("MI300X", 315.0, 315.0, 48.0), ("MI355X", 378.0, 226.8, 57.0)]
)
def test_what_xgmi_carries(name, ring, least, pair):
    """What was measured of MI300X is sure; what MI355X reaches follows from its faster links, and may be less."""
    found = links.inside_of(gpus(f"AMD Instinct {name}"), ranks=8)
    assert (found.ring, found.least, found.pair) == (ring, pytest.approx(least), pair)
    assert found.kind == "xGMI"


def test_a_ring_over_slots_reaches_a_share_of_one():
    """Cards in Gen4 slots: of 27.7 GB/s usually 19.4, and 5.5 by way of two processors."""
    found = links.inside_of(gpus("NVIDIA L40S"), ranks=8)
    carries = links.slot_gbytes_per_s(slot(16.0, 16))
    assert [found.ring, found.least, found.pair, found.most] == pytest.approx(
        [0.7 * carries, 0.2 * carries, 0.2 * carries, carries]
    )
