"""What is expected of the links of these nodes, and is it what healthy clusters have shown?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest

from preflight.facts.pci import PciFunction
from preflight.facts.results import Stream
from preflight.facts.value import Missing
from preflight.job.measure.expected import Node, Use, expected, within
from preflight.job.measure.links import ALONE, UNKNOWN, Inside, Nic, Uplink, slot_gbytes_per_s


def pairwise(*gbytes_per_s):
    """Streams between a ring of nodes n000, n001, ..., one each way, of which each node sends one at this rate."""
    count = len(gbytes_per_s)
    return [
        Stream(source=f"n{i:03d}", target=f"n{(i + d) % count:03d}", shift=d, gbytes_per_s=rate)
        for d in (1, 2)
        for i, rate in enumerate(gbytes_per_s)
    ]


def ports(count, gbits, transport="InfiniBand", mtu=4096):
    """So many ports of a kind."""
    return Uplink(tuple(Nic(f"nic{i}", gbits, transport, mtu) for i in range(count)))


def nvlink(ring, most, nvls=0.0, below=1.0, racks=()):
    """GPUs joined by NVLink."""
    return Inside("NVLink", ring, ring, ring, most, nvls, below, racks)


def by_plugin(uplink, least):
    """Ports whose rate is no sure figure."""
    return Uplink(uplink.nics, least, "the plugin", is_bounded=False)


def spark(*names):
    """Functions of one cable, in four lanes of Gen5 each."""
    lanes = slot_gbytes_per_s(PciFunction("", 0, 4, 4, 32.0, 32.0, ABSENT, ()))
    return Uplink(tuple(Nic(name, 200, "RoCE", 4096, lanes, len(names)) for name in names))


ABSENT = Missing("", "absent")
A100 = nvlink(240.0, 300.0)
HOPPER = nvlink(370.8, 450.0, 475.2)
B200 = nvlink(721.8, 900.0, 838.8, 0.88)
MI300X = Inside("xGMI", 315.0, 315.0, 48.0)
GEN4 = Inside("PCIe", 19.4, 5.5, 5.5, 27.7)
NDR, HDR = ports(8, 400), ports(8, 200)
PLATFORMS = {
    "DGX A100 8xHDR": Node(HDR, A100, 8),
    "A100 4x200G": Node(ports(4, 200), A100, 8),
    "AWS p4d 4xEFA": Node(by_plugin(ports(4, 100, "EFA"), 0.6), A100, 8),
    "V100 NDv2": Node(ports(1, 100), nvlink(120.0, 150.0), 8),
    "DGX H100 8xNDR": Node(NDR, HOPPER, 8),
    "H100 8x400 RoCE": Node(ports(8, 400, "RoCE"), HOPPER, 8),
    "H200 8x400": Node(NDR, HOPPER, 8),
    "H800 8x400": Node(NDR, nvlink(164.8, 200.0, 211.2), 8),
    "B200 8x400": Node(NDR, B200, 8),
    "AWS p5 32xEFA": Node(by_plugin(ports(32, 100, "EFA"), 0.6), HOPPER, 8),
    "AWS p6-b200 8xEFA": Node(by_plugin(ports(8, 400, "EFA"), 0.6), B200, 8),
    "B300 8x800": Node(ports(8, 800), B200, 8),
    "GCP a3-high TCPX": Node(by_plugin(ports(4, 200, "TCP", 8244), 0.4), HOPPER, 8),
    "GCP a3-high, one gVNIC": Node(ports(1, 200, "TCP", 8244), HOPPER, 8),
    "GH200 Slingshot": Node(by_plugin(ports(4, 200, "TCP", 9000), 0.4), nvlink(123.6, 150.0), 4),
    "GCP a3-mega TCPXO": Node(by_plugin(ports(8, 200, "TCP", 8244), 0.4), HOPPER, 8),
    "GCP a3-ultra gIB": Node(by_plugin(ports(8, 400, "RoCE"), 0.4), HOPPER, 8),
    "GB200 NVL72": Node(ports(4, 400), nvlink(721.8, 900.0, 838.8, 0.88, ((8, 629.0), (72, 846.0))), 4),
    "GB300 NVL72": Node(ports(4, 400), nvlink(721.8, 900.0, 838.8, 0.88, ((8, 697.0), (72, 937.0))), 4),
    "MI300X 8x400": Node(NDR, MI300X, 8),
    "A100 PCIe, 2 with a bridge": Node(ports(1, 200), nvlink(208.8, 300.0), 2),
    "A100 PCIe, 8": Node(ports(1, 200), GEN4, 8),
    "L40S PCIe, 2x200": Node(ports(2, 200), GEN4, 8),
    "PCIe, 1x100 TCP": Node(ports(1, 100, "TCP", 9000), GEN4, 8),
    "DGX Spark, both functions": Node(spark("rocep1s0f1:1", "roceP2p1s0f1:1"), ALONE, 1),
    "DGX Spark, one function": Node(spark("rocep1s0f1:1"), ALONE, 1),
    "1x25 GbE": Node(ports(1, 25, "TCP", 1500), ALONE, 1),
    "1 Gbit": Node(ports(1, 1, "TCP", 1500), ALONE, 1),
}


@dataclass(frozen=True)
class Published:
    """What healthy nodes of a platform have shown, and who says so."""

    platform: str
    nodes: int
    gbytes_per_s: float
    source: str
    algorithm: str = "RING"
    op: str = "all_reduce"
    rack: int = 0  # so many nodes are one NVLink domain
    is_floor: bool = False  # healthy ones differ, and what is published is only what one has shown, or what is wanted

    def __str__(self) -> str:
        return f"{self.platform}-{self.nodes}-{self.op}-{self.algorithm}"


PUBLISHED = (
    Published("DGX A100 8xHDR", 1, 232, "Azure NHC wants 228; 235 NVIDIA/nccl-tests#160"),
    Published("DGX A100 8xHDR", 2, 235, "NVIDIA/nccl-tests#160", "TREE"),
    Published("DGX A100 8xHDR", 4, 192, "NVIDIA/nccl#812"),
    Published("DGX A100 8xHDR", 32, 192, "NVIDIA/nccl#812; OCI wants 185"),
    Published("A100 4x200G", 4, 96, "NVIDIA/nccl-tests#119"),
    Published("AWS p4d 4xEFA", 4, 45, "aws-ofi-nccl", is_floor=True),
    Published("V100 NDv2", 1, 110, "Azure NHC"),
    Published("DGX H100 8xNDR", 1, 480, "NVIDIA/nccl-tests#309", "NVLS"),
    Published("DGX H100 8xNDR", 1, 367, "NVIDIA/nccl-tests#212"),
    Published("DGX H100 8xNDR", 2, 470, "NVIDIA/nccl-tests#309", "NVLS_TREE"),
    Published("DGX H100 8xNDR", 4, 366, "NVIDIA/nccl-tests#309"),
    Published("DGX H100 8xNDR", 8, 396, "NVIDIA/nccl-tests#319"),
    Published("DGX H100 8xNDR", 32, 450, "Azure, SHARP", "NVLS"),
    Published("DGX H100 8xNDR", 2, 47.5, "ROCm/cvs, NVIDIA/nccl-tests#290", op="sendrecv"),
    Published("H100 8x400 RoCE", 2, 440, "OCI wants 440", "NVLS_TREE"),
    Published("H200 8x400", 1, 477, "stas00/ml-engineering 473 to 482", "NVLS"),
    Published("H200 8x400", 1, 365.6, "stas00/ml-engineering"),
    Published("H200 8x400", 4, 364.9, "stas00/ml-engineering"),
    Published("H200 8x400", 248, 350, "NVIDIA/nccl-tests#283"),
    Published("H800 8x400", 1, 215, "aliyun/SimAI", "NVLS"),
    Published("B200 8x400", 1, 839, "stas00/ml-engineering at 8 GiB", "NVLS"),
    Published("B200 8x400", 1, 682, "stas00/ml-engineering"),
    Published("AWS p6-b200 8xEFA", 4, 382, "stas00/ml-engineering at 16 GiB", is_floor=True),
    Published("AWS p5 32xEFA", 2, 300, "AWS wants 300", is_floor=True),
    Published("B300 8x800", 1, 840, "OCI", "NVLS"),
    Published("B300 8x800", 2, 700, "OCI wants 700"),
    Published("GCP a3-high TCPX", 2, 60, "Google CHS wants 60", is_floor=True),
    Published("GCP a3-high TCPX", 2, 83.3, "a public lab on two a3-highgpu-8g", is_floor=True),
    Published("GCP a3-high, one gVNIC", 2, 23.7, "a public lab on two a3-highgpu-8g, NET/Socket"),
    Published("GH200 Slingshot", 4, 24.2, "NVIDIA/nccl#1272", op="sendrecv", is_floor=True),
    Published("GCP a3-mega TCPXO", 2, 150, "Google CHS wants 150", is_floor=True),
    Published("GCP a3-ultra gIB", 2, 250, "Google CHS wants 250", is_floor=True),
    Published("GB200 NVL72", 18, 846, "CoreWeave, NVIDIA/nccl-tests pull 43", "NVLS", rack=18),
    Published(
        "GB200 NVL72", 360, 346, "CoreWeave, NVIDIA/nccl-tests pull 48, 20 racks", "NVLS_TREE", rack=18, is_floor=True
    ),
    Published("GB200 NVL72", 3, 196.8, "NVIDIA/nccl#1801: one node a partition", rack=1),
    Published("GB200 NVL72", 6, 393.6, "NVIDIA/nccl#1801: two nodes a partition", rack=2, is_floor=True),
    Published("GB200 NVL72", 4, 200, "Azure, InfiniBand alone; wants 180"),
    Published("GB300 NVL72", 18, 937, "Azure; wants 800", "NVLS", rack=18),
    Published("GB300 NVL72", 2, 697, "8 GPUs in two trays of a rack", "NVLS", rack=2),
    Published("DGX Spark, both functions", 2, 23.7, "ConnectX-7 at 200 Gbit/s, two functions of one cable"),
    Published("DGX Spark, one function", 2, 12.25, "ConnectX-7 at 200 Gbit/s, one function in four lanes"),
    Published("GB300 NVL72", 32, 200, "Azure, InfiniBand alone"),
    Published("MI300X 8x400", 1, 314, "Azure; stas00/ml-engineering 313"),
    Published("MI300X 8x400", 2, 340, "ROCm/cvs 330 to 350"),
    Published("MI300X 8x400", 2, 340, "ROCm/cvs 330 to 350", op="all_gather"),
    Published("MI300X 8x400", 2, 310, "ROCm/cvs", op="reduce"),
    Published("MI300X 8x400", 2, 312, "ROCm/cvs", op="broadcast"),
    Published("MI300X 8x400", 2, 47.5, "ROCm/cvs 47 to 48", op="sendrecv"),
    Published("MI300X 8x400", 2, 47.5, "ROCm/cvs 45 to 50", op="all_to_all", is_floor=True),
    Published("A100 PCIe, 2 with a bridge", 1, 208, "NVIDIA/nccl-tests#178"),
    Published("A100 PCIe, 8", 1, 20, "NVIDIA/nccl-tests#178", is_floor=True),
    Published("L40S PCIe, 2x200", 2, 10, "rings of PCIe cards 10 to 24", is_floor=True),
    Published("L40S PCIe, 2x200", 2, 24, "rings of PCIe cards 10 to 24", is_floor=True),
    Published("PCIe, 1x100 TCP", 2, 11.7, "iperf3 over 100 GbE; a processor may be the limit", is_floor=True),
    Published("1 Gbit", 2, 0.1194, "preflight, iperf3"),
)


def of(platform, nodes, algorithm="RING", op="all_reduce", *, rack=0, streams=()):
    """What is expected of so many nodes of a platform."""
    node = PLATFORMS[platform]
    use = Use(
        world_size=nodes * node.gpus,
        ranks_per_node=node.gpus,
        op=op,
        algorithm=f"{algorithm} SIMPLE" if algorithm else "",
        has_log=bool(algorithm),
        rack_ranks=rack * node.gpus,
        size_bytes=8 << 30,
    )
    return expected({f"n{i:03d}": node for i in range(nodes)}, use, streams)


@pytest.mark.parametrize("row", PUBLISHED, ids=str)
def test_what_healthy_clusters_have_shown_is_expected(row):
    """Within 10 %, or a floor below it that says why; and never more than the links are said to carry."""
    found = of(row.platform, row.nodes, row.algorithm, row.op, rack=row.rack)
    assert found.is_floor is row.is_floor, found
    if row.is_floor:
        assert 0.2 * row.gbytes_per_s < found.busbw_gbytes_per_s <= row.gbytes_per_s / 0.9
        assert found.derivation[-1].startswith("so it is only compared with a floor of")
    else:
        assert found.busbw_gbytes_per_s == pytest.approx(row.gbytes_per_s, rel=0.1)
    assert found.bound_gbytes_per_s is None or row.gbytes_per_s <= 1.02 * found.bound_gbytes_per_s


UNBOUNDED = ("no upper limit is known", "NVLink may join these nodes")


def test_the_table_is_of_twenty_platforms_and_more():
    """At one node, two, four and 32; what is published of them has a source each."""
    assert len(PLATFORMS) >= 26
    assert len(PUBLISHED) >= 52
    assert all(row.source for row in PUBLISHED)
    assert len({row.platform for row in PUBLISHED if not row.is_floor}) >= 15  # held within a tenth
    assert {1, 2, 4, 32} <= {row.nodes for row in PUBLISHED}


@pytest.mark.parametrize("nodes", [1, 2, 4, 32])
@pytest.mark.parametrize("platform", PLATFORMS)
def test_every_platform_has_a_figure_at_every_size(platform, nodes):
    """Whatever the algorithm, whether a log tells it or not: a figure with its steps, and a bound above it."""
    for algorithm in ("", "RING", "TREE", "NVLS_TREE", "NVLS", "COLLNET_DIRECT"):
        found = of(platform, nodes, algorithm)
        if nodes == 1 and PLATFORMS[platform].gpus == 1:
            assert found is None
            continue
        assert math.isfinite(found.busbw_gbytes_per_s)
        assert found.derivation
        assert all(line and "None" not in line for line in found.derivation)
        if found.bound_gbytes_per_s is None:
            assert any(words in line for words in UNBOUNDED for line in found.derivation), found
        else:
            assert found.bound_gbytes_per_s >= found.busbw_gbytes_per_s * 0.999
    assert platform in {row.platform for row in PUBLISHED} or platform == "1x25 GbE"


@pytest.mark.parametrize(("trays", "least"), [(1, 537.7), (2, 697.0), (4, 697.0), (17, 697.0), (18, 937.0)])
def test_a_part_of_a_rack_is_held_to_no_more_than_such_parts_have_shown(trays, least):
    """937 GB/s are of all 72 GPUs; of two trays 697 are published, and of fewer GPUs switches add up less."""
    node = PLATFORMS["GB300 NVL72"]._replace(gpus=2 if trays == 1 else 4)
    nodes = {f"n{number}": node for number in range(max(2, trays))}
    ranks = len(nodes) * node.gpus
    found = expected(nodes, Use(ranks, node.gpus, algorithm="NVLS SIMPLE", has_log=True, rack_ranks=72))
    assert found.busbw_gbytes_per_s == pytest.approx(least, rel=1e-3)


def test_nvls_of_blackwell_is_less_below_eight_gib():
    """740 of 838 GB/s at 4 GiB; other models are at their plateau long before."""
    node = {"n": PLATFORMS["B200 8x400"]}
    found = expected(node, Use(8, 8, algorithm="NVLS SIMPLE", size_bytes=4 << 30))
    assert found.busbw_gbytes_per_s == pytest.approx(740, rel=0.01)


def test_where_no_log_tells_a_ring_is_expected_and_switches_are_allowed():
    """SHARP may add up on any InfiniBand fabric: what it gives is not more than the links can carry."""
    found = of("DGX H100 8xNDR", 32, "")
    assert found.busbw_gbytes_per_s == pytest.approx(370.8)
    assert found.bound_gbytes_per_s == pytest.approx(8 * 50 * 4096 / 4122 * 2 * 255 / 256)
    assert of("DGX H100 8xNDR", 32, "RING").bound_gbytes_per_s < 420


def test_nothing_bounds_nodes_that_nvlink_may_join():
    """Without a log nobody knows whether a GB200 rack is one NVLink domain."""
    assert of("GB200 NVL72", 18, "").bound_gbytes_per_s is None
    assert of("GB200 NVL72", 18, "RING").bound_gbytes_per_s == pytest.approx(4 * 49.7 * 71 / 68, rel=0.01)


GIGABIT = ports(1, 1, "TCP", 1500)


def among(*uplinks, streams=(), gpus=1, **use):
    """What is expected of nodes a, b, ... with these ports and one rank each."""
    nodes = {name: Node(uplink, ALONE, gpus) for name, uplink in zip("abc", uplinks, strict=False)}
    return expected(nodes, Use(len(uplinks), is_nccl=False, **use), streams)


def test_expected_from_link_rates():
    """One 1 Gbit port, one rank a node: expected and bound are its payload rate, step by step."""
    found = among(GIGABIT, GIGABIT)
    assert found.busbw_gbytes_per_s == pytest.approx(0.125 * 1448 / 1538)
    assert found.bound_gbytes_per_s == pytest.approx(found.busbw_gbytes_per_s)
    assert found.derivation[0] == "a: nic0 1 Gbit/s / 8 x 0.9415 (TCP, mtu 1500) = 0.11769 GB/s"


def test_expected_sums_ports_and_takes_the_weakest_node():
    """One of eight rails less on one node."""
    nodes = {"a": Node(NDR, HOPPER, 8), "b": Node(ports(7, 400), nvlink(720.0, 900.0), 8)}
    found = expected(nodes, Use(16, 8, algorithm="RING SIMPLE", has_log=True))
    assert found.busbw_gbytes_per_s == pytest.approx(7 * 50 * 4096 / 4122)
    assert found.bound_gbytes_per_s == pytest.approx(found.busbw_gbytes_per_s * 15 / 8)
    assert "b: 7 ports together 347.79 GB/s" in found.derivation


def test_without_rates_the_raw_streams_stand_in_and_nothing_is_bounded():
    """One slow node among three does not lower what is expected, though it spoils four streams of six."""
    unknown = Uplink((), reason="rate of eth0: not a hardware interface")
    nodes = {name: Node(unknown, ALONE) for name in ("n000", "n001", "n002")}
    found = expected(nodes, Use(3), pairwise(0.12, 0.024, 0.12))
    assert (found.busbw_gbytes_per_s, found.bound_gbytes_per_s) == (pytest.approx(0.12), None)
    assert found.is_by_streams
    assert found.derivation[0] == "no link rate is known on n[000-002]: rate of eth0: not a hardware interface"
    assert expected(nodes, Use(3)) is None


def test_an_unknown_way_between_gpus_leaves_a_floor():
    """Whatever joins them, a ring over PCIe and the host's memory is the least."""
    nodes = {name: Node(NDR, UNKNOWN, 8) for name in "ab"}
    found = expected(nodes, Use(16, 8))
    assert (found.busbw_gbytes_per_s, found.is_floor) == (5.0, True)
    assert expected({"a": nodes["a"]}, Use(8, 8)) is None


def test_fast_tcp_is_expected_to_do_what_a_processor_drives():
    """On 100 Gbit TCP the streams lower the expectation, not the bound; on 10 Gbit they do not."""
    streams = [
        Stream(source="a", target="b", shift=1, gbytes_per_s=0.6),
        Stream(source="b", target="a", shift=1, gbytes_per_s=0.6),
    ]
    fast, sure = ports(1, 100, "TCP", 9000), ports(1, 10, "TCP", 9000)
    found = among(fast, fast, streams=streams)
    assert found.busbw_gbytes_per_s == pytest.approx(0.6)
    assert found.bound_gbytes_per_s == pytest.approx(12.5 * 0.990, rel=1e-3)
    assert among(sure, sure, streams=streams).busbw_gbytes_per_s == pytest.approx(1.25 * 0.990, rel=1e-3)


@pytest.mark.parametrize(("gpus", "used"), [(8, 1), (2, 4)])
def test_one_rank_a_node_has_its_share_of_the_ports_and_all_of_them_as_bound(gpus, used):
    """Of eight GPUs with eight ports one is used; of a GPU with four ports all four."""
    found = among(NDR, NDR, gpus=gpus)
    one = 50 * 4096 / 4122
    assert found.busbw_gbytes_per_s == pytest.approx(used * one)
    assert found.bound_gbytes_per_s == pytest.approx(8 * one)
    assert f"1 of {gpus} GPUs a node use their share of the ports" in found.derivation


def test_ranks_on_all_gpus_use_all_ports_though_they_do_not_divide():
    """Three ports of two GPUs: one each would leave the third out."""
    node = Node(ports(3, 400), HOPPER, 2)
    found = expected({"a": node, "b": node}, Use(4, 2))
    alone = expected({"a": Node(ports(1, 400), HOPPER, 2), "b": Node(ports(1, 400), HOPPER, 2)}, Use(4, 2))
    assert found.busbw_gbytes_per_s == pytest.approx(3 * alone.busbw_gbytes_per_s)


@pytest.mark.parametrize(("count", "gpus", "used"), [(8, 8, 1), (4, 8, 1), (32, 8, 4), (4, 2, 2)])
def test_sendrecv_goes_over_the_ports_of_one_gpu(count, gpus, used):
    """However many ports the node has."""
    node = Node(ports(count, 400), HOPPER, gpus)
    found = expected({"a": node, "b": node}, Use(2 * gpus, gpus, op="sendrecv"))
    assert found.busbw_gbytes_per_s == pytest.approx(used * 50 * 4096 / 4122)


def test_a_slow_port_beside_the_others_counts_for_the_bound_only():
    """Azure ND H100 v5: mlx5_an0 of 80 Gbit/s, which NCCL takes where NCCL_IB_HCA does not leave it out."""
    uplink = Uplink((Nic("mlx5_an0:1", 80, "RoCE", 1024), *NDR.nics))
    nodes = {name: Node(uplink, HOPPER, 8) for name in "ab"}
    sent = expected(nodes, Use(16, 8, op="sendrecv"))
    assert sent.busbw_gbytes_per_s == pytest.approx(47.5, rel=0.1)
    nodes = {name: Node(uplink, A100, 8) for name in "ab"}
    found = expected(nodes, Use(16, 8, algorithm="RING SIMPLE", has_log=True))
    assert found.bound_gbytes_per_s > 15 / 8 * NDR.gbytes_per_s
    assert not any("mlx5_an0" in line for line in found.derivation)


@pytest.mark.parametrize("op", ["gather", "scatter"])
def test_nothing_is_expected_of_what_loads_the_links_unevenly(op):
    """One root has everybody's data."""
    assert of("DGX H100 8xNDR", 2, op=op) is None


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_a_switch_that_adds_up_bounds_gpus_on_nvlink(ranks):
    """Each GPU sends its data once at the rate of its links, instead of 2(n-1)/n times."""
    found = within({"n": PLATFORMS["DGX H100 8xNDR"]}, Use(ranks, ranks, algorithm="NVLS SIMPLE", size_bytes=8 << 30))
    assert found.bound_gbytes_per_s == pytest.approx(450.0 * 2 * (ranks - 1) / ranks)
    assert (found.busbw_gbytes_per_s, found.is_floor) == (475.2, False)


def test_nothing_bounds_gpus_on_another_link():
    """What PCIe or xGMI carries at most is not known, and said so."""
    for platform in ("MI300X 8x400", "A100 PCIe, 8"):
        assert within({"n": PLATFORMS[platform]}, Use(8, 8)).bound_gbytes_per_s is None


def test_gpus_within_a_node_are_held_to_the_weakest_of_the_nodes():
    """By a ring, whatever the order of the nodes; a link that differs among healthy ones gives a floor."""
    nodes = {"a": PLATFORMS["DGX H100 8xNDR"], "b": PLATFORMS["DGX A100 8xHDR"], "c": PLATFORMS["DGX H100 8xNDR"]}
    assert within(nodes, Use(8, 8)).busbw_gbytes_per_s == 240.0
    floor = within({"n": PLATFORMS["A100 PCIe, 8"]}, Use(8, 8))
    assert (floor.busbw_gbytes_per_s, floor.is_floor) == (5.5, True)


@pytest.mark.parametrize(
    ("inside", "op", "ranks"),
    [(HOPPER, "all_to_all", 8), (HOPPER, "all_reduce", 1), (UNKNOWN, "all_reduce", 8)],
)
def test_nothing_is_expected_within_where_nothing_is_known(inside, op, ranks):
    """Of uneven traffic, of a rank alone, and of a link that no fact tells; one such node is enough."""
    assert within({"a": Node(NDR, HOPPER, 8), "b": Node(NDR, inside, 8)}, Use(ranks, ranks, op=op)) is None
    assert within({}, Use(8, 8)) is None


def test_a_pair_of_gpus_is_held_to_what_one_link_carries():
    """sendrecv does not add up the links of a ring."""
    found = within({"n": Node(NDR, MI300X, 8)}, Use(8, 8, op="sendrecv"))
    assert found.busbw_gbytes_per_s == 48.0


@pytest.mark.parametrize(("op", "figure"), [("all_reduce", 721.8), ("sendrecv", 600.0), ("all_to_all", None)])
def test_within_a_rack_nvlink_counts_and_not_the_ports(op, figure):
    """A pair has its own figure, of all at once nothing is known, and a ring has that of its slowest node."""
    slow, fast = (Inside("NVLink", ring, ring, 600.0, 900.0) for ring in (721.8, 800.0))
    nodes = {"a": Node(NDR, fast, 4), "b": Node(NDR, slow, 4)}
    found = expected(nodes, Use(8, 4, op=op, has_log=True, rack_ranks=8))
    assert (found.busbw_gbytes_per_s if found and found.bound_gbytes_per_s is None else None) == figure
