"""What is said of what NCCL's log proves, and what of a log that says nothing?"""

from __future__ import annotations

import random
from dataclasses import asdict

import msgspec
import pytest

from preflight.facts.subjects.rdma import RdmaDevice, RdmaPort
from preflight.job.measure.nccl_log import parse_nccl_log
from preflight.judge.views.nccl import NcclView
from preflight.said.errors import NotApplicable, NotMeasured
from preflight.testing import healthy, infiniband, roce
from preflight.testing.hardware import made, topology
from preflight.testing.measured import transport
from tests.checks.samples import logged

QUESTIONS = ("sockets_beside_rdma", "ports_left_out", "differences", "lost_plugins", "detours_within", "slow_ways")


def of(run):
    """The view of a run."""
    return NcclView(run.bench(), run.cluster)


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("run", [roce(), infiniband()], ids=["roce", "infiniband"])
def test_nothing_is_said_of_a_healthy_cluster(run, question):
    """GPUDirect, NVLS and every port on all nodes."""
    assert getattr(of(run), question)() == []


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_log_that_says_nothing_is_not_measured(question):
    """Empty, cut short, or of a form that nobody knows: never a pass; without NCCL nothing is asked."""
    mute = roce()
    used = list(mute.bench().transports)
    used[2] = msgspec.structs.replace(used[2], network="", ports=(), between_nodes=())
    with pytest.raises(NotMeasured, match="the ranks on node3 does not say which network"):
        getattr(of(mute.bench_has(transports=tuple(used))), question)()
    with pytest.raises(NotMeasured, match="node1, node2, node3, node4"):
        getattr(of(mute.bench_has(transports=())), question)()
    with pytest.raises(NotMeasured, match="rank 3 stopped"):
        getattr(of(mute.bench_has(transports=(), not_measured="rank 3 stopped")), question)()
    with pytest.raises(NotApplicable):
        getattr(of(healthy()), question)()


def with_efa(run):
    """The same nodes with EFA in place of their adapters."""
    port = made(RdmaPort, number=1, state="ACTIVE", link_layer="Unspecified", rate_gbps=100.0, gids=(), counters={})
    devices = tuple(made(RdmaDevice, name=f"rdmap{place}s0", ports=(port,)) for place in range(4))
    return run.broken(run.names, "rdma", devices=devices).with_variables(NCCL_IB_HCA="", NCCL_IB_GID_INDEX="")


def test_sockets_beside_efa_lack_the_plugin():
    """The job would run at one hundredth: EFA is no port that NCCL knows by itself."""
    lost = "NET/Plugin: Could not find: libnccl-net.so"
    told = {name: {"network": "Socket", "ports": ("eth0:10.0.0.1<0>",), "lost_plugin": lost} for name in ("node2",)}
    others = {name: {"network": "AWS Libfabric", "ports": ("rdmap0s0-rdm",)} for name in ("node1", "node3", "node4")}
    view = of(logged({**told, **others}, with_efa(roce())))
    (blame,) = view.sockets_beside_rdma()
    assert blame.nodes == ("node2",)
    assert lost in str(blame)
    assert blame.fix.startswith("install aws-ofi-nccl")
    with pytest.raises(NotApplicable):
        view.ports_left_out()


@pytest.mark.parametrize(
    ("told", "nodes", "words"),
    [
        ({"node4": {"network": "Socket", "ports": ("eth0:10.0.0.4<0>",)}}, ("node4",), "network that NCCL took"),
        ({"node1": {"channels": 8}}, ("node1",), "channels of NCCL: 16 on node[2-4], 8 on node1"),
        ({"node1": {"within_node": ("P2P/CUMEM", "SHM/direct")}}, ("node1",), "between the GPUs of a node"),
        ({"node3": {"is_rack": True}}, ("node3",), "not joined on node[1-2,4], joined on node3"),
        ({"node3": {"is_data_direct": True}}, ("node3",), "Data Direct: not used on node[1-2,4], used on node3"),
        ({"node3": {"is_proxied": True}}, ("node3",), "(PXN): not used on node[1-2,4], used on node3"),
    ],
)
def test_who_does_otherwise_is_named(told, nodes, words):
    """The minority, with the row's own words and way out."""
    blames = of(logged(told)).differences()
    assert {blame.nodes for blame in blames} == {nodes}
    assert any(words in str(blame) for blame in blames)
    assert all(blame.fix for blame in blames)


def test_a_variant_of_a_way_is_the_same_way():
    """Reading or writing, by CUMEM or IPC: NCCL chooses for each pair."""
    assert of(logged({"node1": {"within_node": ("P2P/IPC/read", "P2P/CUMEM")}})).differences() == []


def test_nodes_that_measured_by_themselves_took_the_same_algorithm():
    """One that lost NVLS takes a ring; its own first rank says so."""
    told = {f"node{i}": {"algorithms": {"all_reduce": "NVLS SIMPLE"}} for i in (1, 2, 4)}
    told["node3"] = {"algorithms": {"all_reduce": "RING SIMPLE"}}
    run = logged(told).bench_has(scope="intra", operations=("all_reduce",))
    assert [blame.nodes for blame in of(run).differences()] == [("node3",)]


def test_a_port_that_nobody_takes_and_nobody_named_is_not_missed():
    """A storage adapter that NCCL_IB_HCA leaves out, or a port of which NCCL makes nothing anywhere."""
    seven = tuple(f"mlx5_{i}:1/RoCE" for i in range(7))
    run = roce().with_variables(NCCL_IB_HCA="")
    assert of(logged({name: {"ports": seven} for name in run.names}, run)).ports_left_out() == []
    assert of(logged({name: {"ports": seven} for name in run.names}, roce())).ports_left_out() != []
    excluded = roce().with_variables(NCCL_IB_HCA="^mlx5_7")
    assert of(logged({name: {"ports": seven} for name in run.names}, excluded)).ports_left_out() == []


def test_cards_without_nvlink_may_talk_through_the_hosts_memory():
    """As GPUs below two processors do; and so may GPUs of which NVLink joins pairs only."""
    far = topology(8)
    rows = tuple(msgspec.structs.replace(row, relations=tuple("SYS" for _ in row.relations)) for row in far.rows)
    run = roce()
    for name in run.names:
        run = run.broken(name, "gpu", topology=far._replace(rows=rows))
    with pytest.raises(NotApplicable):
        of(logged({"node1": {"within_node": ("SHM/direct",)}}, run)).detours_within()


def test_a_plugin_that_is_not_asked_for_is_not_missed():
    """NCCL looks for one at every start."""
    lost = {"node1": {"lost_plugin": "NET/Plugin: Could not find: libnccl-net.so"}}
    for word in ("", "none"):
        with pytest.raises(NotApplicable):
            of(logged(lost, roce().with_variables(NCCL_NET_PLUGIN=word))).lost_plugins()
    of_hpcx = {"node1": {"network": "IBext_v8", "lost_plugin": "NET/Plugin: Could not find: libnccl-net-other.so"}}
    assert of(logged(of_hpcx, roce())).lost_plugins() == []


def test_a_port_that_a_plugin_made_of_nccls_own_leaves_out_is_missed():
    """IBext of HPC-X and gIB list their ports; one that lists none is not judged."""
    every = tuple(f"mlx5_{i}:1/RoCE" for i in range(8))
    logs = {name: {"network": "gIB", "ports": every} for name in roce().names}
    assert of(logged(logs)).ports_left_out() == []
    logs["node2"] = {"network": "gIB", "ports": every[:5] + every[6:]}
    (blame,) = of(logged(logs)).ports_left_out()
    assert blame.nodes == ("node2",)
    assert "left out mlx5_5:1" in str(blame)


def test_variables_that_only_a_plugin_reads_ask_for_it():
    """GPUDirect-TCPX and TCPXO: all nodes alike take sockets, and no RDMA port tells of it."""
    lost = "NET/Plugin: Could not find: libnccl-net.so"
    bare = (
        roce()
        .broken(roce().names, "rdma", devices=())
        .with_variables(NCCL_FASTRAK_IFNAME="eth1,eth2", NCCL_NET_PLUGIN="")
    )
    socket = {"network": "Socket", "ports": ("eth0:10.0.0.1<0>",), "lost_plugin": lost}
    blames = of(logged(dict.fromkeys(bare.names, socket), bare)).lost_plugins()
    assert [blame.nodes[0] for blame in blames] == list(bare.names)
    assert str(blames[0]) == f"NCCL_FASTRAK_IFNAME, and NCCL took Socket: {lost}"
    loaded = {"network": "FasTrak", "ports": ()}
    assert of(logged(dict.fromkeys(bare.names, loaded), bare)).lost_plugins() == []


def test_efa_does_not_reach_the_memory_of_small_gpus():
    """g5 and g6: their healthy log has no GDRDMA; that of a p5 has."""
    logs = {name: {"network": "Libfabric", "between_nodes": ("NET/Libfabric",)} for name in roce().names}
    run = with_efa(roce())
    assert len(of(logged(logs, run)).slow_ways()) == 1
    for name in run.names:
        gpus = tuple(msgspec.structs.replace(gpu, name="NVIDIA A10G") for gpu in run.cluster[name].gpu.devices)
        run = run.broken(name, "gpu", devices=gpus)
    assert of(logged(logs, run)).slow_ways() == []


def test_gpudirect_is_missed_only_where_it_could_be():
    """Without nvidia_peermem and dma-buf there is a check of its own; one path of several is enough."""
    slow = {"node1": {"between_nodes": ("NET/IB",)}}
    without = roce().broken("node1", "kernel", modules=(), is_driver_open=False)
    assert of(logged(slow, without)).slow_ways() == []
    assert of(logged({"node1": {"between_nodes": ("NET/IB", "NET/IB/GDRDMA")}})).slow_ways() == []
    (blame,) = of(logged(slow, roce().with_variables("node1", NCCL_NET_GDR_LEVEL="LOC"))).slow_ways()
    assert "(NCCL_NET_GDR_LEVEL=LOC)" in str(blame)


def test_a_log_of_version_2_10_and_one_of_2_30_lead_to_the_same_words():
    """From the text to the blame."""
    old = ["NET/IB : Using [0]mlx5_0:1/RoCE ; OOB eth0:10.0.0.1<0>", "Using network IB"]
    old += ["Channel 00 : 15[c1000] -> 0[7000] [receive] via NET/IB/0"]
    new = ["NET/IB : Using [0]mlx5_0:1::2/RoCE [RO]; OOB eth0:10.0.0.1<0>", "Assigned NET plugin IB to comm"]
    new += ["Channel 00/0 : 15[7] -> 0[0] [receive] via NET/IB/0"]
    told = []
    for lines in (old, new):
        used = parse_nccl_log(f"n:1:1 [0] NCCL INFO {line}" for line in lines)
        run = roce(2).with_variables(NCCL_IB_HCA="=mlx5_0")
        fields = {"between_nodes": used.between_nodes, "ports": used.ports}
        logs = tuple(transport(i, name, used.network, *used.ports) for i, name in enumerate(run.names))
        logs = tuple(msgspec.structs.replace(one, **fields) for one in logs)
        view = of(run.bench_has(transports=logs))
        told.append(([str(blame) for blame in view.slow_ways()], view.ports_left_out()))
    assert told[0] == told[1]
    assert told[0][0] == ["NCCL went over NET/IB through the host's memory, though nvidia_peermem is there"]


def log_of(version, *, ports=range(8), network="IB", gpudirect=True, nvls=True, within="P2P"):
    """What one rank of a node writes, as that version of NCCL does."""
    lines = []
    listed = "".join(
        f" [{place}]mlx5_{port}:1{'::2' if version >= (2, 30) else ''}/RoCE" for place, port in enumerate(ports)
    )
    end = " ; OOB" if version < (2, 14) else " [RO]; OOB"
    if network == "IB":
        lines += [f"NET/IB : Using{listed}{end} eth0:10.0.0.1<0>"]
        lines += [f"NET/IB : GPU Direct RDMA {'Enabled' if gpudirect else 'Disabled'} for HCA 0 'mlx5_0'"]
    else:
        lines += ["NET/IB : No device found.", "NET/Socket : Using [0]eth0:10.0.0.1<0>"]
    is_named = (2, 23) <= version < (2, 26)
    lines += [f"Assigned NET plugin {network} to comm" if is_named else f"Using network {network}"]
    place = "0[7000] -> 8[7000]" if version < (2, 12) else "0[0] -> 8[0]"
    number = "00" if version < (2, 12) else "00/0"
    way = f"NET/{network}/0" + "/GDRDMA" * (gpudirect and network == "IB") + "/Shared" * (version >= (2, 27))
    lines += [f"Channel {number} : {place} [send] via {way}"]
    inner = {"P2P": "P2P/IPC" if version < (2, 18) else "P2P/CUMEM/read", "SHM": "SHM/direct/direct"}[within]
    inner = "direct shared memory" if within == "SHM" and version < (2, 12) else inner
    lines += [f"Channel {number} : 0[0] -> 1[1] via {inner}"]
    counts = {True: "16 coll channels, 16 nvls channels, ", False: "16 coll channels, "}[version >= (2, 17)]
    lines += [counts + "16 p2p channels, 2 p2p channels per peer"]
    if version >= (2, 17):
        lines += [f"NVLS multicast support is {'' if nvls else 'not '}available on dev 0"]
    return [f"n:{4}:{9} [0] NCCL INFO {line}" for line in lines]


VERSIONS = ((2, 10), (2, 12), (2, 14), (2, 18), (2, 21), (2, 24), (2, 27), (2, 30))
FAULTS = {
    "healthy": {},
    "rail lost": {"ports": (0, 1, 2, 4, 5, 6, 7)},
    "GPUDirect lost": {"gpudirect": False},
    "NVLS lost": {"nvls": False},
    "peer access lost": {"within": "SHM"},
    "fell back to sockets": {"network": "Socket", "gpudirect": False},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_text_of_any_version_is_named_in_twenty_of_twenty(fault):
    """The node that has it and no other; a healthy cluster is silent."""
    for seed in range(20):
        chance = random.Random(f"{fault} {seed}")
        nodes = chance.randint(3, 6)
        version = chance.choice([one for one in VERSIONS if fault != "NVLS lost" or one >= (2, 17)])
        bad = f"node{chance.randint(1, nodes)}" if FAULTS[fault] else ""
        run = roce(nodes)
        used = []
        for rank, name in enumerate(run.names):
            told = parse_nccl_log(log_of(version, **(FAULTS[fault] if name == bad else {})))
            fields = {key: value for key, value in asdict(told).items() if key not in ("network", "ports")}
            used.append(transport(rank, name, told.network, *told.ports, **fields))
        view = of(run.bench_has(transports=tuple(used)))
        blames = [blame for question in QUESTIONS for blame in getattr(view, question)()]
        assert {node for blame in blames for node in blame.nodes} == ({bad} if bad else set()), (seed, version, blames)


@pytest.mark.parametrize("count", [2, 3, 8])
def test_two_ranks_of_a_node_are_enough_to_talk_over_nvlink(count):
    """Those that talk through the host's memory are told."""
    run = roce()
    ranks = [one for one in run.measured_bench.ranks if one.rank % 8 < count]
    used = tuple(transport(rank, name, within_node=("SHM/direct",)) for rank, name in enumerate(run.names))
    (found,) = of(run.bench_has(ranks=tuple(ranks), transports=used)).detours_within()
    assert found.nodes == run.names


def test_one_rank_of_each_node_asks_for_no_nvlink():
    """There is nobody whom it could reach so."""
    run = roce()
    ranks = tuple(one for one in run.measured_bench.ranks if one.rank % 8 == 0)
    with pytest.raises(NotApplicable, match="no node has several ranks"):
        of(run.bench_has(ranks=ranks)).detours_within()
