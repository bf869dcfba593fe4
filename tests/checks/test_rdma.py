"""Is the node named whose RDMA port, rate or GID does not fit?"""

from __future__ import annotations

import os
import stat

import msgspec
import pytest

from preflight.facts.pci import PciFunction
from preflight.facts.subjects.ending import PortEnd
from preflight.facts.subjects.rdma import Gid, PciRequests
from preflight.facts.value import Missing
from preflight.judge.ledger.findings import Verdict
from preflight.judge.tables.rdma import choice, counters, ports
from preflight.node.sources import rdma_ports
from preflight.node.subjects import kernel
from preflight.testing import healthy, infiniband, roce
from preflight.testing.hardware import hca
from tests.checks.samples import Broken, device, judge, renamed, with_netdevs, without_gid
from tests.checks.test_healthy_platforms import efa

FABRIC, STORAGE = "10.1.0.{}", "10.1.1.{}"


def mapped(address):
    """The GID of an IPv4 address."""
    a, b, c, d = map(int, address.split("."))
    return f"0000:0000:0000:0000:0000:ffff:{a:02x}{b:02x}:{c:02x}{d:02x}"


def table(number, *, storage_first=False, vlan=None):
    """RoCE v2 rows 3 and 4 of a port in two subnets, in the order in which their addresses came."""
    patterns = (STORAGE, FABRIC) if storage_first else (FABRIC, STORAGE)
    tag = Missing("none", "absent") if vlan is None else vlan
    return tuple(
        Gid(index, mapped(pattern.format(number)), "RoCE v2", "rdma0", tag) for index, pattern in enumerate(patterns, 3)
    )


def tables(*, odd, index="3", vlan=None):
    """Nodes whose first port has two subnets; the odd ones have them in the other order."""
    run = with_netdevs(roce()).with_variables(NCCL_IB_GID_INDEX=index, NCCL_IB_HCA="=mlx5_0")
    for number, name in enumerate(run.names, 1):
        swapped = name in odd and vlan is None
        run = run.broken_rdma_port(name, gids=table(number, storage_first=swapped, vlan=vlan if name in odd else None))
    return run


def opened(run, node, error):
    """What opening the device file of the first device of a node gives."""
    first, *rest = run.subjects[node]["rdma"].devices
    return run.broken(node, "rdma", devices=(msgspec.structs.replace(first, open_error=error), *rest))


def ended(state="ACTIVE", **counters):
    """Four nodes; the first port of the second ends like this."""
    run = roce()
    ports = dict(run.subjects["node2"]["ending"].ports)
    ports["mlx5_0:1"] = PortEnd(state, {"link_downed": 0, "symbol_error": 0, **counters})
    return run.broken("node2", "ending", ports=ports)


LOCAL = (Gid(0, "fe80:0000:0000:0000:a088:c2ff:fead:0001", "IB/RoCE v1", "rdma0"),)
SOUND = "rdma.ports_are_sound"
CHOICE = "rdma.choice_of_ports_is_sound"
NETWORK = "rdma.gid_index_leads_to_one_network"
SLOT = PciFunction("pci0000:00/0000:00:01.0/0000:07:00.0", 0, 16, 16, 32.0, 32.0, "identity", ())


def cabled(node, ports):
    """Nodes whose rails have subnets; on this one some ports are in those of other rails."""
    run = with_netdevs(roce())
    held = {port: run.subjects[node]["rdma"].devices[other].ports[0].gids for port, other in ports.items()}
    for port, gids in held.items():
        run = run.broken_rdma_port(node, port, gids=gids)
    return run


def with_adapter_of_the_machine(error):
    """EFA on all nodes, and on one an adapter besides, of which the container has a file, or has none."""
    run = efa()
    held = run.subjects["node2"]["rdma"]
    other = msgspec.structs.replace(hca(9, 2), name="mlx5_9", open_error=error)
    return run.broken("node2", "rdma", devices=(*held.devices, other))


BROKEN = (
    *(
        Broken(
            "rdma.adapters_ask_for_memory_alike_on_every_node",
            device(roce(), "node2", 3, requests=PciRequests(*held)),
            ("node2",),
            f"PCIe requests of mlx5_3: MaxReadReq 512, relaxed ordering on, ATS off on node[1,3-4], {words} on node2",
        )
        for held, words in (
            ((128, True, False), "MaxReadReq 128, relaxed ordering on, ATS off"),
            ((512, False, False), "MaxReadReq 512, relaxed ordering off, ATS off"),
            ((512, True, True), "MaxReadReq 512, relaxed ordering on, ATS on"),
        )
    ),
    Broken(
        "rdma.infiniband_addresses_are_unique",
        infiniband().broken_rdma_port("node3", 0, lid="0x1"),
        ("node1", "node3"),
        "several machines have the LID 0x1 on mlx5_0:1, under the subnet manager 0x1",
    ),
    Broken(
        "rdma.flow_control_is_the_same_on_every_node",
        roce().broken_rdma_port("node2", 4, pfc_priorities="none"),
        ("node2",),
        "flow control of mlx5_4:1: lossless priorities (PFC): 3 on node[1,3-4], none on node2",
    ),
    Broken(
        "rdma.ports_are_in_the_subnet_of_their_rail",
        cabled("node3", {2: 5, 5: 2}),
        ("node3",),
        "mlx5_2:1 is in 10.1.5.0/24, which is that of mlx5_5:1 on node[1-2,4]",
    ),
    Broken(
        CHOICE,
        device(roce(), "node2", 3, pci=SLOT._replace(width=8)),
        ("node2",),
        "mlx5_3 is on PCIe x8, where x16 is possible",
    ),
    Broken(
        CHOICE,
        device(roce(), "node2", 3, pci=SLOT._replace(speed=16.0)),
        ("node2",),
        "mlx5_3 is on PCIe 16 GT/s, where 32 GT/s is possible",
    ),
    Broken(
        "rdma.infiniband_adapters_have_their_driver",
        roce().broken("node2", "rdma", without_driver=("0000:07:00.0",)),
        ("node2",),
        "no driver has made an RDMA device of 0000:07:00.0",
    ),
    Broken(
        "rdma.plugin_of_nccl_is_there",
        roce().with_variables("node2", NCCL_NET="FasTrak", LD_LIBRARY_PATH="/opt/x"),
        ("node2",),
        "NCCL_NET=FasTrak, and no libnccl-net.so is found (LD_LIBRARY_PATH: /opt/x): NCCL would take TCP",
    ),
    Broken(CHOICE, device(roce(), "node2", 3, node_type="RNIC"), ("node2",), "mlx5_3 speaks iWARP"),
    Broken(
        "rdma.infiniband_ports_have_a_subnet_manager",
        infiniband().broken_rdma_port("node2", link_layer="InfiniBand", lid="0x0"),
        ("node2",),
        "mlx5_0:1: it is active and has no address (LID 0)",
    ),
    Broken(NETWORK, tables(odd={"node2"}), ("node2",), "10.1.0.0/24 on node[1,3-4], 10.1.1.0/24 on node2"),
    Broken(
        NETWORK,
        tables(odd={"node2"}, vlan=70),
        ("node2",),
        "VLAN of the chosen GID of mlx5_0:1: none on node[1,3-4], 70",
    ),
    Broken(
        "rdma.roce_ports_have_an_address",
        roce().broken_rdma_port("node2", gids=LOCAL),
        ("node2",),
        "mlx5_0:1 has link-local GIDs only",
    ),
    Broken(
        "rdma.devices_can_be_opened",
        opened(roce(), "node2", "/dev/infiniband/uverbs0: Operation not permitted"),
        ("node2",),
        "mlx5_0:1: it cannot be opened: /dev/infiniband/uverbs0: Operation not permitted",
    ),
    Broken(
        "rdma.infiniband_ports_have_a_subnet_manager",
        infiniband().broken_rdma_port("node2", state="INIT"),
        ("node2",),
        "mlx5_0:1: it waits for a subnet manager (INIT (LinkUp))",
    ),
    Broken(
        "rdma.active_mtu_is_the_same_on_every_node",
        infiniband().broken_rdma_port("node2", active_mtu=1024),
        ("node2",),
        "active MTU of mlx5_0:1: 4096 on node[1,3-4], 1024 on node2",
    ),
    Broken(
        "rdma.active_mtu_is_enough_for_device_initiated_traffic",
        infiniband().broken_rdma_port("node2", active_mtu=1024),
        ("node2",),
        "active MTU: mlx5_0:1 has 1024; NVSHMEM_IB_ENABLE_IBGDA needs 4096",
    ),
    Broken(
        "rdma.partition_is_the_same_on_every_node",
        infiniband().broken_rdma_port("node2", pkeys=("0x8001", "0xffff")),
        ("node2",),
        "partition key of mlx5_0:1: 0x7fff on node[1,3-4], 0x0001 on node2",
    ),
    Broken(SOUND, infiniband().broken_rdma_port("node2", sm_lid="0x0"), ("node2",), "it knows no subnet manager"),
    Broken(
        SOUND,
        infiniband().broken_rdma_port("node2", physical_state="LinkErrorRecovery"),
        ("node2",),
        "its link is in LinkErrorRecovery, though the port is active",
    ),
    Broken(
        SOUND, infiniband().broken_rdma_port("node2", pkeys=("0x7fff",)), ("node2",), "limited member only (0x7fff)"
    ),
    Broken(
        SOUND, infiniband().broken_rdma_port("node2", width=1, rate_gbps=10.0), ("node2",), "one lane only, 10 Gbit/s"
    ),
    Broken(SOUND, roce().broken_rdma_port("node2", gids=LOCAL), ("node2",), "all its GIDs are link-local"),
    Broken(
        CHOICE,
        roce().with_variables("node2", NCCL_IGNORE_NET_MISMATCH="1"),
        ("node2",),
        "NCCL_IGNORE_NET_MISMATCH=1 hides",
    ),
    Broken(
        CHOICE,
        infiniband().broken_rdma_port("node2", link_layer="Ethernet"),
        ("node2",),
        "InfiniBand and Ethernet ports together: mlx5_0:1 is Ethernet, mlx5_1:1 is InfiniBand",
    ),
    Broken(
        CHOICE,
        roce().broken_rdma_port("node2", rate_gbps=100.0),
        ("node2",),
        "mlx5_0:1 links at 100 Gbit/s, others of its board at 400",
    ),
    Broken(
        CHOICE,
        roce().with_variables("node2", NCCL_IB_GID_INDEX="").broken("node2", "software", nccl="2.19.3"),
        ("node2",),
        "NCCL 2.19.3 takes GID 0 where NCCL_IB_GID_INDEX is not set",
    ),
    Broken(
        "rdma.devices_have_the_same_names_on_every_node",
        renamed(roce(), "node2", 0, "mlx5_bond_0"),
        ("node2",),
        "mlx5_bond_0:1 on node2",
    ),
    Broken(
        "rdma.adapters_reach_gpu_memory",
        roce().broken("node2", "kernel", modules=("nvidia", "ib_uverbs"), is_driver_open=False),
        ("node2",),
        "neither nvidia_peermem nor dma-buf",
    ),
    Broken(
        "rdma.libfabric_may_open_every_device",
        with_adapter_of_the_machine("/dev/infiniband/uverbs9: Operation not permitted"),
        ("node2",),
        "may not open /dev/infiniband/uverbs9: Operation not permitted",
    ),
    Broken(
        "rdma.nccl_finds_the_module_of_gpu_memory",
        roce()
        .broken("node2", "software", nccl="2.22.3")
        .broken("node2", "kernel", is_driver_open=False, peer_memory=()),
        ("node2",),
        "NCCL 2.22.3 does not know nvidia_peermem",
    ),
    Broken("rdma.no_link_went_down_during_the_run", ended(link_downed=2), ("node2",), "mlx5_0:1 went down 2 times"),
    Broken("rdma.no_link_went_down_during_the_run", ended("DOWN"), ("node2",), "mlx5_0:1 was ACTIVE and is DOWN"),
    Broken(
        "rdma.no_link_went_down_during_the_run",
        roce().broken("node2", "ending", ports={}),
        ("node2",),
        "mlx5_0:1 is gone",
    ),
    Broken(
        "rdma.no_errors_were_counted_during_the_run",
        ended(symbol_error=7),
        ("node2",),
        "symbol_error of mlx5_0:1 grew by 7",
    ),
    Broken(
        "rdma.nccl_ib_hca_matches_a_port",
        roce().with_variables("node2", NCCL_IB_HCA="mlx5_0,mlx5_9"),
        ("node2",),
        "mlx5_9 matches no port of the node",
    ),
    Broken(
        "rdma.nccl_ib_hca_matches_a_port",
        roce().with_variables("node2", NCCL_IB_HCA="^mlx5"),
        ("node2",),
        "NCCL_IB_HCA=^mlx5 leaves no port",
    ),
    Broken(
        "rdma.nccl_ib_hca_takes_no_more_than_it_names",
        renamed(roce().with_variables(NCCL_IB_HCA="mlx5_1"), "node2", 0, "mlx5_10"),
        ("node2",),
        "mlx5_1 takes mlx5_10 too",
    ),
    Broken(
        "rdma.port_count_is_the_same_on_every_node",
        roce().broken("node2", "rdma", devices=()),
        ("node2",),
        "number of RDMA ports: 8 on node[1,3-4], 0 on node2",
    ),
    Broken(
        "rdma.ports_are_active",
        roce().broken_rdma_port("node2", state="DOWN", physical_state="Polling"),
        ("node2",),
        "mlx5_0:1 is DOWN (Polling); wanted ACTIVE",
    ),
    Broken(
        "rdma.ports_have_the_same_rate",
        roce().broken_rdma_port("node2", rate_gbps=200.0),
        ("node2",),
        "rate of mlx5_0:1: 400 Gbit/s Ethernet on node[1,3-4], 200 Gbit/s Ethernet on node2",
    ),
    Broken(
        "rdma.gid_index_exists_on_every_node",
        without_gid(roce(), "node3", 3),
        ("node3",),
        "GID index 3 (NCCL_IB_GID_INDEX) is not in the table of mlx5_0:1",
    ),
    Broken(
        "rdma.gid_index_is_routable_roce_v2",
        roce().with_variables("node3", NCCL_IB_GID_INDEX="2"),
        ("node3",),
        "GID index 2: mlx5_0:1 has RoCE v1 ipv4 10.1.0.3",
    ),
    Broken(
        "rdma.gid_index_is_routable_roce_v2",
        roce().with_variables("node3", NCCL_IB_GID_INDEX="1"),
        ("node3",),
        "link-local",
    ),
    Broken(
        "rdma.gid_index_means_the_same_on_every_node",
        roce().broken_rdma_port("node3", gids=(Gid(3, "2001:0db8:0000:0000:0000:0000:0000:0003", "RoCE v2", "rdma0"),)),
        ("node3",),
        "ipv4 on node[1-2,4], ipv4, ipv6 on node3",
    ),
)


@pytest.mark.parametrize("broken", BROKEN, ids=str)
def test_the_broken_nodes_are_named(broken):
    """Each row: the check names exactly the broken nodes, says what is wrong, and how to fix it."""
    broken.assert_named()


@pytest.mark.parametrize("name", ["rdma.gid_index_is_routable_roce_v2", "rdma.gid_index_means_the_same_on_every_node"])
def test_a_missing_gid_is_told_once(name):
    """What a GID is cannot be asked where it is missing: blocked, not a second fail."""
    findings = {f.nodes: f for f in judge(name, without_gid(roce(), "node3", 3))}
    assert findings["node3",].verdict is Verdict.ERROR
    assert findings["node3",].message.startswith("blocked by rdma.gid_index_exists_on_every_node")
    assert findings["node1", "node2", "node4"].verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("name", "variables"),
    [
        ("rdma.nccl_ib_hca_takes_no_more_than_it_names", {"NCCL_IB_HCA": "mlx5_0"}),
        ("rdma.gid_index_exists_on_every_node", {"NCCL_IB_GID_INDEX": "3"}),
        ("rdma.gid_index_is_routable_roce_v2", {"NCCL_IB_GID_INDEX": "3"}),
    ],
)
def test_a_variable_of_one_node_is_not_missed_on_the_others(name, variables):
    """Where it is not set there is nothing to judge, and nothing that was not measured."""
    run = roce(3)
    held = {node: dict(run.subjects[node]["environment"].variables) for node in run.names}
    run = run.broken(run.names, "environment", variables={k: v for k, v in held["node1"].items() if k not in variables})
    told = judge(name, run.with_variables("node3", **variables))
    assert {finding.verdict for finding in told if "node3" not in finding.nodes} == {Verdict.SKIP}


def test_infiniband_does_not_ask_for_the_gid_index():
    """NCCL reads NCCL_IB_GID_INDEX for Ethernet links only."""
    run = roce()
    for node in run.names:
        for number in range(8):
            run = run.broken_rdma_port(node, number, link_layer="InfiniBand", gids=())
    assert {f.verdict for f in judge("rdma.gid_index_exists_on_every_node", run)} == {Verdict.SKIP}


def test_a_port_that_is_down_everywhere_is_not_in_use():
    """A port nobody plugged in is no fault, unless NCCL_IB_HCA names it."""
    run = roce().with_variables(NCCL_IB_HCA="")
    for node in run.names:
        run = run.broken_rdma_port(node, 7, state="DOWN")
    assert {f.verdict for f in judge("rdma.ports_are_active", run)} == {Verdict.PASS}
    named = judge("rdma.ports_are_active", run.with_variables(NCCL_IB_HCA="mlx5_7"))
    assert {f.verdict for f in named} == {Verdict.FAIL}


def test_a_port_that_is_down_does_not_count_as_slow():
    """The rates of active ports are compared; a port that is down has its own check."""
    run = roce().broken_rdma_port("node2", state="DOWN", rate_gbps=10.0)
    assert {f.verdict for f in judge("rdma.ports_have_the_same_rate", run)} == {Verdict.PASS}


def test_plain_clusters_are_not_asked():
    """Without RDMA anywhere, a variable for it is nobody's fault."""
    run = healthy().with_variables(NCCL_IB_HCA="mlx5")
    assert {f.verdict for f in judge("rdma.nccl_ib_hca_matches_a_port", run)} == {Verdict.SKIP}


ROWS = (
    *ports.OPENABLE,
    *ports.MANAGED,
    *ports.FRAGILE,
    *choice.NODES,
    *choice.DEVICE_INITIATED,
)


@pytest.mark.parametrize(
    "fault", [*ROWS, *choice.GPUDIRECT, *choice.UNDER_ANOTHER_NAME, *counters.FLAPPED, *counters.COUNTED]
)
def test_every_row_has_its_source(fault):
    """Who a row is from can be looked up."""
    assert fault.name
    assert fault.source


def test_the_right_index_is_told_for_each_node():
    """Where one index cannot fit all, the fix says which to set where."""
    (finding,) = [f for f in judge(NETWORK, tables(odd={"node2"})) if f.verdict is Verdict.FAIL]
    assert finding.fix.startswith("set NCCL_IB_GID_INDEX=4 on node2 (a line of /etc/nccl.conf")
    assert "right already: 3 on node[1,3-4]" in finding.fix


def test_two_nodes_with_opposite_tables_are_both_named():
    """Without a majority both are told, each with its own index."""
    run = with_netdevs(roce(2)).with_variables(NCCL_IB_HCA="=mlx5_0")
    run = run.broken_rdma_port("node1", gids=table(1)).broken_rdma_port("node2", gids=table(2, storage_first=True))
    (finding,) = judge(NETWORK, run)
    assert (finding.verdict, finding.nodes) == (Verdict.FAIL, ("node1", "node2"))
    assert "NCCL_IB_GID_INDEX=4 on node2" in finding.fix
    assert "right already: 3 on node1" in finding.fix


def test_an_index_that_is_missing_names_the_right_one():
    """The table of one node begins later: its own index is told, and that the others keep theirs."""
    rows = tuple(msgspec.structs.replace(gid, index=gid.index + 3) for gid in table(3)[:1])
    run = with_netdevs(roce()).with_variables(NCCL_IB_HCA="=mlx5_0").broken_rdma_port("node3", gids=rows)
    (finding,) = [f for f in judge("rdma.gid_index_exists_on_every_node", run) if f.verdict is Verdict.FAIL]
    assert "NCCL_IB_GID_INDEX=6 on node3" in finding.fix
    assert "right already: 3 on node[1-2,4]" in finding.fix


def test_a_fabric_that_routes_has_a_subnet_for_each_node():
    """Subnets that differ where no node has a row in the others' are the fabric's own affair."""
    run = with_netdevs(roce()).with_variables(NCCL_IB_HCA="=mlx5_0")
    for number, name in enumerate(run.names, 1):
        network = run.subjects[name]["network"]
        held = (msgspec.structs.replace(network.interfaces[2].addresses[0], address=f"10.{number}.0.1"),)
        changed = msgspec.structs.replace(network.interfaces[2], addresses=held)
        run = run.broken(name, "network", interfaces=(*network.interfaces[:2], changed))
        run = run.broken_rdma_port(name, gids=(Gid(3, mapped(f"10.{number}.0.1"), "RoCE v2", "rdma0"),))
    assert {f.verdict for f in judge(NETWORK, run)} == {Verdict.PASS}


def test_a_port_without_a_subnet_manager_is_told_once():
    """That it is not ACTIVE is the consequence."""
    run = infiniband().broken_rdma_port("node2", state="INIT")
    assert {f.verdict for f in judge("rdma.ports_are_active", run)} == {Verdict.PASS}


def test_the_open_driver_shares_memory_by_dma_buf():
    """On a kernel that has it, NVIDIA's open modules need no nvidia_peermem."""
    run = roce()
    for name in run.names:
        run = run.broken(name, "kernel", modules=("nvidia",), is_driver_open=True)
    assert {f.verdict for f in judge("rdma.adapters_reach_gpu_memory", run)} == {Verdict.PASS}


def test_ports_that_are_all_local_are_no_difference():
    """One layer 2 segment without addresses works, and is fragile."""
    run = roce().with_variables(NCCL_IB_GID_INDEX="")
    for name in run.names:
        for number in range(8):
            run = run.broken_rdma_port(name, number, gids=LOCAL)
    assert {f.verdict for f in judge("rdma.roce_ports_have_an_address", run)} == {Verdict.SKIP}
    assert {f.verdict for f in judge(SOUND, run)} == {Verdict.WARN}


def test_a_counter_that_was_reset_is_no_error():
    """A counter that is lower at the end was cleared by somebody."""
    run = roce().broken_rdma_port("node2", counters={"link_downed": 9, "symbol_error": 9})
    for name in ("rdma.no_link_went_down_during_the_run", "rdma.no_errors_were_counted_during_the_run"):
        assert {f.verdict for f in judge(name, run)} == {Verdict.PASS}


RAILS = "rdma.ports_are_in_the_subnet_of_their_rail"


@pytest.mark.parametrize("run", [roce(), infiniband(), tables(odd=())], ids=["no netdev", "infiniband", "one subnet"])
def test_a_fabric_without_a_subnet_for_each_rail_has_none_to_cross(run):
    """One subnet for all, or no address known: nothing is said."""
    assert {finding.verdict for finding in judge(RAILS, run)} <= {Verdict.SKIP, Verdict.PASS}


def test_infiniband_subnets_that_cross_are_told():
    """By the prefix of their GIDs."""
    run = infiniband()
    for name in run.names:
        for number in range(8):
            rail = 7 - number if name == "node2" and number in (0, 7) else number
            gid = f"fe80:0000:0000:000{rail}:a088:c203:00ad:{number:04x}"
            run = run.broken_rdma_port(name, number, gids=(Gid(0, gid, "IB/RoCE v1", Missing("none", "absent")),))
    (warned,) = [finding for finding in judge(RAILS, run) if finding.verdict is Verdict.WARN]
    assert warned.nodes == ("node2",)
    assert "mlx5_0:1 is in the InfiniBand subnet fe80:0000:0000:0007" in warned.message


def test_adapters_that_are_gone_everywhere_are_told():
    """No node has an RDMA device, and all have InfiniBand adapters on their PCI bus."""
    run = roce().with_variables(NCCL_IB_HCA="", NCCL_IB_GID_INDEX="")
    run = run.broken(run.names, "rdma", devices=(), without_driver=("0000:07:00.0",))
    assert [f.verdict for f in judge("rdma.infiniband_adapters_have_their_driver", run)] == [Verdict.FAIL]


@pytest.mark.parametrize("field", ["state", "link_layer"])
def test_a_port_whose_state_cannot_be_read_is_not_measured(field):
    """On one node, and on all: it may be up or down."""
    everywhere = roce()
    for name in everywhere.names:
        everywhere = everywhere.broken_rdma_port(name, 7, **{field: "UNKNOWN"})
    for run in (roce().broken_rdma_port("node2", 7, link_layer="UNKNOWN"), everywhere):
        findings = {node: f.verdict for f in judge("rdma.ports_are_active", run) for node in f.nodes}
        assert findings["node2"] is Verdict.ERROR


def test_a_gid_whose_type_cannot_be_read_is_no_wrong_one():
    """It has an address, and may well be RoCE v2."""
    gids = tuple(msgspec.structs.replace(gid, kind=Missing("denied", "denied")) for gid in hca(0, 2).ports[0].gids)
    run = roce().broken_rdma_port("node2", gids=gids)
    findings = {f.nodes: f.verdict for f in judge("rdma.gid_index_is_routable_roce_v2", run)}
    assert findings["node2",] is Verdict.ERROR


def with_device(run, node, **fields):
    """Other values in the facts of the first device of a node."""
    first, *rest = run.subjects[node]["rdma"].devices
    return run.broken(node, "rdma", devices=(msgspec.structs.replace(first, **fields), *rest))


CUT_SHORT = Missing("cut short")
LOST_PCI = PciFunction("pci0000:10/0000:11:00.0", 0, CUT_SHORT, 16, 32.0, 32.0, CUT_SHORT, ())


@pytest.mark.parametrize(
    ("check", "lose"),
    [
        (
            "software.companions_are_the_same_on_every_node",
            lambda run, node: with_device(run, node, firmware=CUT_SHORT),
        ),
        ("rdma.choice_of_ports_is_sound", lambda run, node: with_device(run, node, node_type=CUT_SHORT)),
        ("rdma.choice_of_ports_is_sound", lambda run, node: with_device(run, node, pci=LOST_PCI)),
        ("rdma.gid_index_is_routable_roce_v2", lambda run, node: run.broken_rdma_port(node, unread=("gids/3",))),
        ("rdma.roce_ports_have_an_address", lambda run, node: run.broken_rdma_port(node, unread=("gids/3",))),
        (
            "rdma.no_errors_were_counted_during_the_run",
            lambda run, node: run.broken_rdma_port(node, unread=("symbol_error",)),
        ),
    ],
)
def test_what_could_not_be_read_is_never_a_pass(check, lose):
    """On one node it is an error of that node alone, on all of them an error of each."""
    everywhere = roce()
    for name in everywhere.names:
        everywhere = lose(everywhere, name)
    on_one = {name: f.verdict for f in judge(check, lose(roce(), "node2")) for name in f.nodes}
    on_all = {name: f.verdict for f in judge(check, everywhere) for name in f.nodes}
    assert [name for name, verdict in on_one.items() if verdict is Verdict.ERROR] == ["node2"]
    assert set(on_all.values()) == {Verdict.ERROR}


@pytest.mark.parametrize(
    ("silent", "errors", "words"),
    [
        (("node2",), ("node2",), "active MTU of mlx5_0:1"),
        (("node1", "node2", "node3"), (), "Not reported by any node: active MTU of mlx5_0:1 (but on node4)"),
        (("node1", "node2", "node3", "node4"), (), "no port reports it"),
    ],
)
def test_an_mtu_that_a_node_does_not_tell_is_not_the_same(silent, errors, words):
    """Where ibv_devinfo failed on one node; where only one node has it, the others have lost nothing."""
    run = infiniband()
    for name in silent:
        for index, _ in enumerate(run.cluster[name].rdma.devices):
            run = run.broken_rdma_port(name, index, active_mtu=Missing("not reported", "absent"))
    found = judge("rdma.active_mtu_is_the_same_on_every_node", run)
    assert tuple(name for one in found if one.verdict is Verdict.ERROR for name in one.nodes) == errors
    assert any(words in one.message for one in found)
    assert not any(one.verdict in (Verdict.FAIL, Verdict.WARN) for one in found)


def peer_memory(tmp_path, *names):
    """Kernel facts of a node with the closed driver, from the files of its kernel; these names are in memory_peers."""
    (tmp_path / "kernel" / "mm" / "ksm").mkdir(parents=True)
    for name in names:
        (tmp_path / "kernel" / "mm" / "memory_peers" / name).mkdir(parents=True)
    (tmp_path / "modules").write_text("nvidia_peermem 16384 0 - Live 0x0\nmlx5_ib 1 0 - Live 0x0\n")
    version = tmp_path / "driver" / "nvidia" / "version"
    version.parent.mkdir(parents=True)
    version.write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54\n")
    here = os.fspath(tmp_path)
    found = kernel.collect({"proc": here, "sysfs": here, "kmsg": f"{here}/kmsg"})
    return {name: tuple(found[name]) for name in ("modules", "peer_memory")} | {"is_driver_open": False}


@pytest.mark.parametrize(
    ("names", "nccl", "verdict"),
    [
        ((), "2.22.3", Verdict.FAIL),
        ((), "2.18.1", Verdict.FAIL),
        (("nv_mem",), "2.22.3", Verdict.PASS),
        (("nv_mem_nc",), "2.22.3", Verdict.PASS),
    ],
)
def test_the_name_that_nccl_looks_for_is_read_from_the_kernel(tmp_path, names, nccl, verdict):
    """NCCL to 2.22 takes GPUDirect for absent unless memory_peers has the older module's name."""
    run = roce().broken("node2", "kernel", **peer_memory(tmp_path, *names)).broken("node2", "software", nccl=nccl)
    found = judge("rdma.nccl_finds_the_module_of_gpu_memory", run)
    assert verdict in {one.verdict for one in found if "node2" in one.nodes}, found


def test_one_adapter_loses_less_without_gpudirect(tmp_path):
    """The host's memory carries what one adapter does, or half of it."""
    run = roce().broken("node2", "kernel", **peer_memory(tmp_path)).broken("node2", "software", nccl="2.18.1")
    devices = run.subjects["node2"]["rdma"].devices[:1]
    found = judge("rdma.nccl_finds_the_module_of_gpu_memory", run.broken("node2", "rdma", devices=devices))
    assert Verdict.WARN in {one.verdict for one in found if "node2" in one.nodes}, found


@pytest.mark.parametrize(("has_file", "verdict"), [(True, Verdict.FAIL), (False, Verdict.PASS)])
def test_a_file_that_libfabric_may_not_open_is_tried(tmp_path, has_file, verdict):
    """The device file is opened: of one without a driver, and of one that the container was not given."""
    folder = tmp_path / "sys" / "mlx5_9"
    (folder / "device" / "infiniband_verbs" / "uverbs9").mkdir(parents=True)
    (tmp_path / "dev" / "infiniband").mkdir(parents=True)
    if has_file:
        os.mknod(tmp_path / "dev" / "infiniband" / "uverbs9", stat.S_IFCHR | 0o600, os.makedev(231, 255))
    error = rdma_ports.open_error(os.fspath(folder), dev=os.fspath(tmp_path / "dev"))
    found = judge("rdma.libfabric_may_open_every_device", with_adapter_of_the_machine(error))
    assert {one.verdict for one in found if "node2" in one.nodes} == {verdict}
