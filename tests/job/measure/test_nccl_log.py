"""Is what NCCL used read from its log as it is written, by old and new versions?"""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.job.measure.nccl_log import NcclUse, parse_nccl_log, took_a_ring

FIELD_DATA = Path(__file__).parents[4] / "shared/field-data/nccl-logs"
NEW = """\
n1:77:77 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth0
n1:77:90 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>
n1:77:90 [0] NCCL INFO Using network IB
n1:77:90 [0] NCCL INFO 16 coll channels, 16 collnet channels, 0 nvls channels, 16 p2p channels, 2 p2p channels per peer
n1:77:95 [0] NCCL INFO Channel 00/0 : 15[7] -> 0[0] [receive] via NET/IB/0/GDRDMA
n1:77:95 [0] NCCL INFO Channel 08/0 : 0[0] -> 8[0] [send] via NET/IB/1(3)/GDRDMA
n1:77:95 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read
step 1: loss 3.2
n1:77:99 [0] NCCL INFO AllReduce: 8 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..0}
n1:77:99 [0] NCCL INFO AllReduce: 268435456 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..15}
n1:77:99 [0] NCCL INFO AllReduce: 4 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..0}
"""
SOCKETS = """\
n2:5:5 [0] NCCL INFO NET/IB : No device found.
n2:5:5 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.2<0> [1]eth1:10.1.0.2<0>
n2:5:5 [0] NCCL INFO Using network Socket
n2:5:5 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[0] [send] via NET/Socket/0
n2:5:5 [0] NCCL INFO Channel 01 : 1[3000] -> 0[2000] via SHM/direct/direct
n2:5:5 [0] NCCL INFO AllReduce: 1048576 Bytes -> Algo 1 proto 2 time 12.5
"""


def test_a_log_of_rdma_with_gpudirect():
    """Network, ports, paths, channels and the algorithm of the largest operation."""
    assert parse_nccl_log(NEW.splitlines()) == NcclUse(
        network="IB",
        ports=("mlx5_0:1/RoCE", "mlx5_1:1/RoCE"),
        between_nodes=("NET/IB/GDRDMA",),
        within_node=("P2P/CUMEM/read",),
        channels=16,
        algorithm="RING SIMPLE",
        algorithms={"all_reduce": "RING SIMPLE"},
    )


@pytest.mark.parametrize(
    "using", ["[0]mlx5_0_dma:1/IB [1]mlx5_1_dma:1/IB", "[0]mlx5_0:1/IB [1]mlx5_0_dma:1/IB [2]mlx5_1:1:0:0/IB"]
)
def test_ports_by_data_direct_are_those_of_their_adapters(using):
    """What sysfs has is mlx5_0: neither the sum of their rates nor what was left out may miss it."""
    used = parse_nccl_log(
        [
            f"n1:77:90 [0] NCCL INFO NET/IB : Using {using} [RO]; OOB eth0:10.0.0.1<0>",
            "n1:77:90 [0] NCCL INFO NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0_dma'",
            "n1:77:90 [0] NCCL INFO Using network IB",
        ]
    )
    assert used.ports == ("mlx5_0:1/IB", "mlx5_1:1/IB")
    assert (used.gpudirect_ports, used.is_data_direct) == (("mlx5_0",), True)


def test_a_log_of_sockets():
    """Numbers of algorithm and protocol, as older versions write them, become names."""
    assert parse_nccl_log(SOCKETS.splitlines()) == NcclUse(
        network="Socket",
        ports=("eth0:10.0.0.2<0>", "eth1:10.1.0.2<0>"),
        between_nodes=("NET/Socket",),
        within_node=("SHM/direct/direct",),
        channels=0,
        algorithm="RING SIMPLE",
        algorithms={"all_reduce": "RING SIMPLE"},
    )


def told(*words: str) -> NcclUse:
    """What is read from these lines, each with NCCL's prefix."""
    return parse_nccl_log(f"n1:77:90 [0] NCCL INFO {line}" for line in words)


@pytest.mark.parametrize(
    ("line", "algorithms"),
    [
        ("4294967296 Bytes -> Algo 1 proto 2 time 22012.500000", {"": "RING SIMPLE"}),  # 2.20 to 2.22
        ("AllReduce: 4294967296 Bytes -> Algo 5 proto 2 time 9.5", {"all_reduce": "NVLS_TREE SIMPLE"}),  # 2.23
        (
            "AllGather: 1024 Bytes -> Algo PAT proto SIMPLE channel{Lo..Hi}={0..15}",
            {"all_gather": "PAT SIMPLE"},
        ),
        ("Reduce: 64 Bytes -> Algo RING proto LL128 channel{Lo..Hi}={0..3}", {"reduce": "RING LL128"}),
        ("Broadcast: 64 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..3}", {"broadcast": "RING LL"}),
        ("ReduceScatter: 64 Bytes -> Algo COLLNET_DIRECT proto LL128 channel{Lo..Hi}={0..3}", None),
    ],
)
def test_how_each_version_says_the_algorithm(line, algorithms):
    """By number or by name, with the operation or without it."""
    assert told(line).algorithms == (algorithms or {"reduce_scatter": "COLLNET_DIRECT LL128"})


def test_the_largest_operation_of_each_kind_counts():
    """A larger all-gather does not hide what the all-reduce took."""
    used = told(
        "AllReduce: 8 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..0}",
        "AllReduce: 4096 Bytes -> Algo NVLS proto SIMPLE channel{Lo..Hi}={0..15}",
        "AllGather: 65536 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..15}",
        "AllReduce: 4 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..0}",
    )
    assert used.algorithm == "NVLS SIMPLE"
    assert used.algorithms == {"all_reduce": "NVLS SIMPLE", "all_gather": "RING SIMPLE"}


@pytest.mark.parametrize(
    ("way", "between", "within"),
    [
        ("Channel 00 : 15[c1000] -> 0[7000] [receive] via NET/IB/0", ("NET/IB",), ()),  # 2.10
        ("Channel 03/0 : 8[0] -> 0[0] [send] via NET/AWS Libfabric/2/GDRDMA", ("NET/AWS Libfabric/GDRDMA",), ()),
        ("Channel 03/1 : 8[0] -> 0[0] [send] via NET/IB/9(12)/GDRDMA(PCI)/Shared", ("NET/IB/GDRDMA(PCI)",), ()),
        ("CollNet 00/0 : 3 [send] via COLLNET/SHARP/0/GDRDMA", ("COLLNET/SHARP/GDRDMA",), ()),
        ("Channel 00 : 0[7000] -> 1[f000] via direct shared memory", (), ("SHM/direct",)),  # 2.10
        ("Channel 00 : 0[0] -> 1[1] via SHM/direct/CE", (), ("SHM/direct/CE",)),
        ("Channel 00/0 : 0[0] -> 1[1] via P2P/direct pointer/read", (), ("P2P/direct pointer/read",)),
        ("Channel 00/0 : 0[0] -> 2[2] via P2P/indirect/1[1]", (), ("P2P/indirect",)),
        ("Channel 00/0 : 0[0] -> 4[0] via P2P/MNNVL", (), ("P2P/MNNVL",)),
    ],
)
def test_the_path_of_a_channel_is_read_whole(way, between, within):
    """Names of plugins have blanks; the number of the port and of the proxy do not count."""
    used = told(way)
    assert (used.between_nodes, used.within_node) == (between, within)


@pytest.mark.parametrize(
    ("written", "ports"),
    [
        ("[0]mlx5_0:1/IB [1]mlx5_1:1/IB ; OOB ib0:10.4.0.1<0>", ("mlx5_0:1/IB", "mlx5_1:1/IB")),  # 2.10
        (
            "[0]mlx5_0:1/RoCE [2]={[0] mlx5_0:1/RoCE, [1] mlx5_1:1/RoCE} [RO]; OOB eth0:10.0.0.1<0>",
            ("mlx5_0:1/RoCE", "mlx5_1:1/RoCE"),
        ),  # 2.21: two ports merged
        ("[0]mlx5_0:1:2:1/IB [1]mlx5_1:1::3/IB [RO]; OOB eth0:10.0.0.1<0>", ("mlx5_0:1/IB", "mlx5_1:1/IB")),  # 2.30
    ],
)
def test_the_ports_of_infiniband(written, ports):
    """Merged ports, rails and planes are those of the same adapters."""
    assert told(f"NET/IB : Using {written}", "Using network IB").ports == ports


def test_a_plugin_lists_its_ports_with_what_they_can():
    """A plugin has no line of its ports, but NCCL asks each whether it reaches the memory of GPUs."""
    used = told(
        "NET/OFI Initializing aws-ofi-nccl 1.16.0",
        "NET/AWS Libfabric : GPU Direct RDMA Enabled for HCA 0 'rdmap79s0-rdm'",
        "NET/AWS Libfabric : GPU Direct RDMA Disabled for HCA 1 'rdmap80s0-rdm'",
        "Assigned NET plugin AWS Libfabric to comm",
    )
    assert (used.network, used.ports) == ("AWS Libfabric", ("rdmap79s0-rdm", "rdmap80s0-rdm"))
    assert (used.gpudirect_ports, used.other_ports) == (("rdmap79s0-rdm",), ("rdmap80s0-rdm",))


@pytest.mark.parametrize(
    "line",
    [
        "NET/Plugin : No plugin found (libnccl-net.so), using internal implementation",
        "NET/Plugin : Plugin load returned 2 : libfabric.so.1: cannot open shared object file",
        "NET/Plugin : Plugin load (libnccl-net.so) returned 2 : libfabric.so.1: cannot open shared object file",
        "NET/Plugin: Could not find: libnccl-net.so",
        "Failed to initialize NET plugin AWS Libfabric",
    ],
)
def test_why_a_plugin_was_not_loaded(line):
    """Kept as it is said."""
    assert told(line, "Using network Socket").lost_plugin == line


def test_why_a_plugin_did_not_start():
    """Up to 2.26 NCCL tells every symbol that it tries first; the plugin says why it gives up, before the rest."""
    tried = ["NET/Plugin: Failed to find ncclNetPlugin_v9 symbol.", "NET/Plugin: Loaded net plugin Libfabric (v8)"]
    tried += ["NET/Plugin: Failed to find ncclCollNetPlugin_v9 symbol."]
    tried += ["NET/Plugin: Failed to find ncclCollNetPlugin symbol (>= v5). symbols v4 and lower are not supported."]
    assert told(*tried, "Using network Libfabric").lost_plugin == ""
    assert told(*tried, "Using network Socket").lost_plugin == ""
    lines = [f"n1:77:90 [0] NCCL INFO {line}" for line in tried]
    lines += ["", "n1:77:90 [0] find_ofi_provider:612 NCCL WARN NET/OFI Could not find any optimal provider"]
    lines += ["n1:77:90 [0] nccl_net_ofi_init:260 NCCL WARN NET/OFI initialization failed"]
    lines += [
        "n1:77:90 [0] NCCL INFO Failed to initialize NET plugin Libfabric",
        "n1:77:90 [0] NCCL INFO Using network Socket",
    ]
    assert parse_nccl_log(lines).lost_plugin == "NET/OFI Could not find any optimal provider"
    without = "NET/Plugin: Failed to find ncclNetPlugin symbol (>= v5). symbols v4 and lower are not supported."
    assert told(without, "Using network IB").lost_plugin == without


@pytest.mark.parametrize(
    ("lines", "network", "ports", "between"),
    [
        (  # HPC-X up to 2.20: the plugin is made of NCCL's own, and lists its ports as that does
            (
                "NET/Plugin: Loaded net plugin NCCL RDMA Plugin v6 (v6)",
                "P2P plugin IBext",
                "NET/IB : Using [0]mlx5_0:1/IB/SHARP [1]mlx5_4:1/IB/SHARP [RO]; OOB ibp25s0:10.20.0.1<0>",
                "Using non-device net plugin version 0",
                "Using network IBext",
                "Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IBext/0/GDRDMA",
                "CollNet 00/0 : 0 [send] via COLLNET/SHARP/0/GDRDMA",
            ),
            "IBext",
            ("mlx5_0:1/IB/SHARP", "mlx5_4:1/IB/SHARP"),
            ("COLLNET/SHARP/GDRDMA", "NET/IBext/GDRDMA"),
        ),
        (  # gIB of Google
            (
                "NET/gIB : Initializing gIB v1.0.6",
                "NET/gIB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.52.2.7<0>",
                "Using network gIB",
                "Channel 03/0 : 2[2] -> 11[3] [send] via NET/gIB/3/GDRDMA",
            ),
            "gIB",
            ("mlx5_0:1/RoCE", "mlx5_1:1/RoCE"),
            ("NET/gIB/GDRDMA",),
        ),
        (  # TCPX of Google, over interfaces
            (
                "NET/GPUDirectTCPX : Using [0]eth1:10.0.1.2<0> [1]eth2:10.0.2.2<0>",
                "Using network GPUDirectTCPX_v7",
                "Channel 00/0 : 8[0] -> 0[0] [receive] via NET/GPUDirectTCPX_v7/3(2)/GDRDMA",
            ),
            "GPUDirectTCPX_v7",
            ("eth1:10.0.1.2<0>", "eth2:10.0.2.2<0>"),
            ("NET/GPUDirectTCPX_v7/GDRDMA",),
        ),
        (  # RCCL
            (
                "NET/Plugin: No plugin found (librccl-net.so)",
                "NET/IB : Using [0]bnxt_re0:1/RoCE [1]bnxt_re1:1/RoCE [RO]; OOB eno8303:10.7.0.1<0>",
                "Using network IB",
                "Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/0/GDRDMA comm 0x55 nRanks 16",
                "Ring 00 : 0 -> 1 -> 2 comm 0x55 nRanks 16 busId 7000",
            ),
            "IB",
            ("bnxt_re0:1/RoCE", "bnxt_re1:1/RoCE"),
            ("NET/IB/GDRDMA",),
        ),
        (  # 2.28 and later, with EFA: GPUs start transfers over a second plugin
            (
                "NET/Plugin: Loaded external network plugin libnccl-net-ofi.so",
                "Initialized NET plugin Libfabric",
                "Assigned NET plugin Libfabric to comm",
                "Assigned GIN plugin Libfabric_GIN to comm",
                "Using network Libfabric",
                "NET/Libfabric : GPU Direct RDMA Enabled for HCA 0 'rdmap85s0'",
                "Channel 00/0 : 0[0] -> 8[0] [send] via NET/Libfabric/0/GDRDMA/Shared",
            ),
            "Libfabric",
            ("rdmap85s0",),
            ("NET/Libfabric/GDRDMA",),
        ),
    ],
)
def test_how_plugins_and_rccl_write_it(lines, network, ports, between):
    """The same forms, with their own names."""
    used = told(*lines)
    assert (used.network, used.ports, used.between_nodes) == (network, ports, between)
    assert used.lost_plugin in ("", "NET/Plugin: No plugin found (librccl-net.so)")


def test_nvls_that_could_not_bind_its_memory_is_lost():
    """2.27 and 2.28 say that it is available, fail to bind, and go on without; the next communicator says it again."""
    used = told(
        "NVLS multicast support is available on dev 0 (NVLS_NCHANNELS 16)",
        "Failed to bind NVLink SHARP (NVLS) Multicast memory of size 16777216 : CUDA error 401 'the operation cannot "
        "be performed in the present state'. Proceeding without NVLS support.",
        "16 coll channels, 16 collnet channels, 0 nvls channels, 32 p2p channels, 2 p2p channels per peer",
        "NVLS multicast support is available on dev 0 (NVLS_NCHANNELS 16)",
    )
    assert used.nvls == "not available"


@pytest.mark.parametrize(
    ("line", "ranks"),
    [
        ("comm 0x55 rank 0 nRanks 72 nNodes 1 localRanks 72 localRank 0 MNNVL 1", 0),  # 2.20: it is all or none
        ("MNNVL 1 cliqueId 7ffe cliqueSize 72 cliqueRank 0 ", 72),  # 2.21
        ("MNNVL 1 cliqueId 7ffe cliqueSize 36 cliqueRank 3 nvlDomainSize 72", 36),  # 2.30
    ],
)
def test_how_many_ranks_a_rack_joins(line, ranks):
    """From 2.21 on several racks may run one job: NVLink joins the ranks of each."""
    used = told("MNNVL busId 0x901000 fabric UUID 31.28 cliqueId 0x7ffe state 3 healthMask 0xaa", line)
    assert (used.is_rack, used.rack_ranks) == (True, ranks)


def test_what_switches_and_racks_do():
    """NVLS is there or not, with its channels; NVLink may join nodes; a ring may go by way of another GPU."""
    used = told(
        "NVLS multicast support is available on dev 0",
        "comm 0x55 rank 0 nRanks 72 nNodes 1 localRanks 72 localRank 0 MNNVL 1",
        "24 coll channels, 24 collnet channels, 16 nvls channels, 32 p2p channels, 2 p2p channels per peer",
        "Connected all rings, use ring PXN 1 GDR 1",
    )
    assert (used.nvls, used.nvls_channels, used.channels) == ("available", 16, 24)
    assert used.is_rack
    assert used.is_proxied
    lacking = told(
        "NVLS multicast support is not available on dev 3",
        "MNNVL 0 cliqueId 0 cliqueSize 1 cliqueRank 0",
        "16 coll channels, 0 nvls channels, 16 p2p channels, 16 p2p channels per peer",  # 2.17 to 2.19
    )
    assert (lacking.nvls, lacking.nvls_channels, lacking.channels) == ("not available", 0, 16)
    assert not lacking.is_rack


def test_a_log_that_tells_nothing():
    """No line, no claim."""
    assert parse_nccl_log(["Traceback (most recent call last):", ""]) == NcclUse()


@pytest.mark.parametrize(
    ("name", "network", "port", "between"),
    [
        ("bigscience-v100-n16-opa/n16_32gb_all_reduce_bench.txt", "IB", "hfi1_0:1/IB", ("NET/IB",)),
        ("bigscience-meg-ds-zero-n16/meg_ds_zero_gpt2_perf_n16-1999616.out", "IB", "hfi1_0:1/IB", ()),
        ("mle-net-lines/fastsocket.log", "FastSocket", "ibs108:10.0.19.12<0>", ()),
    ],
)
def test_logs_from_the_field(name, network, port, between):
    """Real logs, lines of many ranks mixed: what is alike on all of them is read."""
    if not FIELD_DATA.is_dir():
        pytest.skip("the field data is not here")
    used = parse_nccl_log((FIELD_DATA / name).read_text(errors="replace").splitlines())
    assert used.network == network
    assert port in used.ports
    assert used.between_nodes == between


CHOSE = "n1:1:1 [0] NCCL INFO AllReduce: 65536 Bytes -> Algo {} proto SIMPLE channel{{Lo..Hi}}={{0..1}}"
READ = "n1:1:1 [0] NCCL INFO NCCL_ALGO set by environment to Ring"


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([READ, CHOSE.format("RING")], ""),
        ([CHOSE.format("RING")], ""),
        ([READ], ""),  # before 2.20 nothing says what is chosen
        ([READ, CHOSE.format("TREE")], "NCCL's log says that it took TREE SIMPLE"),
        ([READ.replace("Ring", "Tree")], "NCCL's log does not say that it read NCCL_ALGO again"),
        ([], "NCCL's log does not say that it read NCCL_ALGO again"),
    ],
)
def test_nccls_own_log_shows_that_it_was_held_to_a_ring(lines, why):
    """A variable that is set is no proof that it was read."""
    assert took_a_ring(lines) == why
