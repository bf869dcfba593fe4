"""Is the node whose interface does not fit the others' named?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from preflight.facts.subjects.kernel import BondMember
from preflight.facts.subjects.network import Address, Gateway
from preflight.facts.value import Missing
from preflight.job.collect.trust import called
from preflight.job.options.launch import with_files
from preflight.job.options.options import Options
from preflight.judge.ledger.findings import Verdict
from preflight.launch.read import read_files
from preflight.node.subjects.environment import may_leave_node
from preflight.testing import healthy, roce
from tests.checks.samples import (
    Broken,
    comes_back,
    judge,
    leaves_by,
    with_gateways,
    with_interface,
    with_route,
    with_second_address,
)
from tests.judge.tables.network.test_rails import with_rails


def installed(run, package):
    """A package more on every node."""
    for name in run.names:
        packages = {**run.subjects[name]["software"].packages, package: "1.0"}
        run = run.broken(name, "software", packages=packages)
    return run


def default_by_wifi(run, package, *nodes):
    """A package that asks for the default route, which leaves by Wi-Fi on some nodes."""
    run = installed(run, package)
    for name in nodes:
        run = with_interface(run, name, "wlan0", f"192.168.1.{run.names.index(name) + 1}")
        run = run.broken(name, "network", gateways=(Gateway("wlan0", "192.168.1.254", "inet"),))
    return run


def started_by(run, **fields):
    """What a launch file has the first node call, and takes for set there."""
    return replace(run, missing={}).broken("node1", "trust", **fields)


def with_docker(run, *nodes):
    """Docker's bridge on some nodes, and Horovod on all."""
    run = installed(run, "horovod")
    for name in nodes:
        run = with_interface(run, name, "docker0", "172.17.0.1", prefix=16).broken_interface(
            name, "docker0", is_up=False
        )
    return run


def link_local_first(run, *nodes, index=9):
    """An IPoIB interface that is up and that nobody gave an address, on some nodes."""
    for number, name in enumerate(nodes):
        run = with_interface(run, name, "ib0", "10.79.0.2")
        held = (Address("fe80::7", 64, "inet6"),)
        run = run.broken_interface(name, "ib0", addresses=held, index=index + number * (index < 9))
    return run


def to_the_bmc(run, *nodes, address="169.254.3.1", first=True):
    """An interface to the machine's own BMC, which most boards call usb0 or bmc_redfish0, on some nodes."""
    for number, name in enumerate(nodes):
        run = with_interface(run, name, "usb0", address.format(number), prefix=16, first=first)
    return run


def on_cards(run, node):
    """The GPUs of a node are PCIe cards, and no NVLink joins them."""
    for index in range(8):
        run = run.broken_gpu(node, index, name="NVIDIA L40S")
    return run.broken(node, "gpu", switches=0)


OVER_TCP = replace(healthy(4), backend="nccl")
BROKEN = (
    Broken(
        "network.serving_stacks_take_the_training_address",
        default_by_wifi(healthy(), "vllm", "node2"),
        ("node2",),
        "vLLM takes the address of the default route: 192.168.1.2 of wlan0, and the job trains over eth0",
    ),
    Broken(
        "network.mpi_takes_no_bridge_of_every_machine",
        started_by(
            with_docker(healthy(), "node1", "node2"),
            programs={"mpirun": "/usr/bin/mpirun"},
            unset=("OMPI_MCA_btl_tcp_if_exclude",),
        ),
        ("node1", "node2"),
        "docker0 has 172.17.0.1 on each",
    ),
    Broken(
        "network.horovod_finds_an_interface_of_one_name",
        started_by(
            installed(healthy().broken_interface("node2", "eth0", name="enp4s0"), "horovod"),
            unset=("HOROVOD_GLOO_IFACE",),
        ),
        ("node1", "node2", "node3"),
        "no interface has one name on all nodes: eth0 on node[1,3]; enp4s0 on node2",
    ),
    Broken(
        "network.data_interfaces_are_alike",
        with_rails().broken_interface("node2", "hsn2", is_up=False),
        ("node2",),
        "hsn2 has no link; it is in use on node[1,3]",
    ),
    Broken(
        "network.peers_are_taken_for_their_own_cards",
        with_route(healthy(), "node2", "node3", card="02:00:00:00:00:99", is_written=True),
        ("node2",),
        "10.0.0.3 of node3 is taken for 02:00:00:00:00:99 by a static entry",
    ),
    Broken(
        "network.hardware_addresses_are_unique",
        healthy(4).broken_interface("node3", mac="02:00:0a:00:00:01"),
        ("node1", "node3"),
        "several machines have the address 02:00:0a:00:00:01",
    ),
    Broken(
        "network.nccl_starts_on_an_interface_of_the_peers",
        with_interface(OVER_TCP, "node2", "ib0", "10.79.0.2"),
        ("node2",),
        "NCCL starts on ib0 (10.79.0.2), whose subnet holds no peer; it could take eth0",
    ),
    Broken(
        "network.interface_variables_match_an_interface",
        roce().with_variables("node2", GLOO_SOCKET_IFNAME="lo"),
        ("node2",),
        "GLOO_SOCKET_IFNAME=lo takes lo, which no peer can reach",
    ),
    Broken(
        "network.training_interface_is_fast_enough_for_gpus",
        roce().broken_interface("node2", speed_mbps=1000),
        ("node2",),
        "links at 1000 Mbit/s beside RDMA at 400 Gbit/s; wanted at least 4000",
    ),
    Broken(
        "network.no_interface_counted_errors_during_the_run",
        healthy().broken("node2", "ending", link_errors={"eth0": 19}),
        ("node2",),
        "eth0 counted 12 rx/tx errors",
    ),
    Broken(
        "network.interface_variables_match_an_interface",
        healthy().with_variables("node3", NCCL_SOCKET_IFNAME="=ib0"),
        ("node3",),
        "NCCL_SOCKET_IFNAME==ib0 matches no interface",
    ),
    Broken(
        "network.interface_variables_match_an_interface",
        healthy().with_variables("node3", GLOO_SOCKET_IFNAME="eth"),
        ("node3",),
        "GLOO_SOCKET_IFNAME=eth matches no interface",
    ),
    Broken(
        "network.training_interface_exists",
        roce().with_variables("node2", NCCL_SOCKET_IFNAME="").broken_interface("node2", is_up=False),
        ("node2",),
        "the training interface is lo",
    ),
    Broken(
        "network.mtu_is_the_same_on_every_node",
        healthy().broken_interface("node3", mtu=1400),
        ("node3",),
        "9000 on node[1-2], 1400 on node3",
    ),
    Broken(
        "network.mtu_is_the_same_on_every_node",
        healthy(2).broken_interface("node2", mtu=1400),
        ("node1", "node2"),
        "9000 on node1",
    ),
    Broken(
        "network.nccl_starts_on_an_interface_of_the_peers",
        with_interface(OVER_TCP, "node2", "rsip", "172.20.0.2", first=True),
        ("node2",),
        "NCCL starts on rsip (172.20.0.2), whose subnet holds no peer; it could take eth0",
    ),
    Broken(
        "network.nccl_starts_on_an_interface_of_the_peers",
        link_local_first(OVER_TCP, "node2"),
        ("node2",),
        "NCCL starts on ib0, which has a link-local address only (fe80::7)",
    ),
    Broken(
        "network.nccl_takes_no_more_interfaces_than_meant",
        with_interface(OVER_TCP.with_variables(NCCL_SOCKET_IFNAME="eth0"), "node2", "eth0.2093", "10.93.0.2"),
        ("node2",),
        "eth0 takes eth0.2093 too, as a prefix",
    ),
    Broken(
        "network.nccl_takes_no_more_interfaces_than_meant",
        with_interface(OVER_TCP.with_variables(NCCL_SOCKET_IFNAME="eth"), "node2", "eth7", "192.168.7.2"),
        ("node2",),
        "eth takes eth7, whose subnet holds no peer",
    ),
    Broken(
        "network.training_addresses_are_unique",
        healthy().broken_interface("node3", addresses=(Address("10.0.0.2", 24, "inet"),)),
        ("node2", "node3"),
        "several nodes train on 10.0.0.2",
    ),
    Broken(
        "network.training_addresses_are_unique",
        with_second_address(healthy(), "node3", "10.0.0.2"),
        ("node3",),
        "here has 10.0.0.2, the address that node2 trains on",
    ),
    Broken(
        "network.training_addresses_are_unique",
        comes_back(healthy(), "node3", "node2", "docker0"),
        ("node3",),
        "docker0 here has 10.0.0.2, the address that node2 trains on",
    ),
    Broken(
        "network.interfaces_of_nccl_have_subnets_of_their_own",
        with_interface(healthy(), "node2", "eth1", "10.0.0.77"),
        ("node2",),
        "eth0 and eth1 are both in 10.0.0.0/24",
    ),
    Broken(
        "network.training_interface_is_a_real_one",
        with_interface(healthy(), "node2", "tun0", "10.8.0.2").with_variables("node2", GLOO_SOCKET_IFNAME="tun0"),
        ("node2",),
        "the training interface tun0 is a VPN",
    ),
    Broken(
        "network.training_interface_is_fast_enough_for_gpus",
        on_cards(roce(2).broken("node2", "rdma", devices=()), "node2").broken_interface("node2", speed_mbps=1000),
        ("node2",),
        "links at 1000 Mbit/s; wanted at least 10000",
    ),
    Broken(
        "network.training_interface_is_fast_enough_for_gpus",
        roce(2).broken("node2", "rdma", devices=()).broken_interface("node2", speed_mbps=25_000),
        ("node2",),
        "links at 25000 Mbit/s between boards of GPUs that NVLink joins; wanted at least 40000",
    ),
    Broken(
        "network.default_routes_are_alike",
        with_gateways(healthy(), "node1", "node2"),
        ("node3",),
        "no default route",
    ),
    Broken(
        "network.training_addresses_share_a_subnet",
        healthy().broken_interface("node2", addresses=(Address("10.5.0.2", 24, "inet"),)),
        ("node2",),
        "10.0.0.0/24 on node[1,3], 10.5.0.0/24 on node2",
    ),
    Broken(
        "network.training_addresses_share_a_subnet",
        healthy().broken_interface("node2", addresses=(Address("10.0.0.2", 16, "inet"),)),
        ("node2",),
        "10.0.0.0/16, where its peers have 10.0.0.0/24",
    ),
    Broken(
        "network.training_interfaces_have_the_same_rate",
        healthy().broken_interface("node1", speed_mbps=1000),
        ("node1",),
        "1000 Mbit/s on node1",
    ),
    Broken(
        "network.routes_to_peers_leave_by_the_training_interface",
        with_route(healthy(), "node2", "node3", interface=Missing("no route"), refused="a blackhole route"),
        ("node2",),
        "packets to node3 do not leave: a blackhole route",
    ),
)


@pytest.mark.parametrize("broken", BROKEN, ids=str)
def test_the_broken_nodes_are_named(broken):
    """Each row: the check names exactly the broken nodes, says what is wrong, and how to fix it."""
    broken.assert_named()


def test_a_prefix_is_enough_for_nccl():
    """NCCL takes `eth` for eth0, as its own sources do."""
    run = healthy().with_variables(NCCL_SOCKET_IFNAME="eth")
    assert {f.verdict for f in judge("network.interface_variables_match_an_interface", run)} == {Verdict.PASS}


def test_a_node_without_its_interface_blocks_what_is_asked_of_it():
    """The MTU of an interface that is not there is an error of that node, and the others are judged."""
    run = roce().with_variables("node3", NCCL_SOCKET_IFNAME="=ib0")
    verdicts = {f.nodes: (f.verdict, f.message) for f in judge("network.mtu_is_the_same_on_every_node", run)}
    assert verdicts["node3",][0] is Verdict.ERROR
    assert verdicts["node3",][1].startswith("blocked by network.training_interface_exists")
    assert verdicts["node1", "node2", "node4"][0] is Verdict.PASS


@pytest.mark.parametrize("mtus", [(2044, 2044, 2044), (65520, 65520, 65520), (4092, 4092, 4092), (65520, 65520, 2044)])
def test_ipoib_is_judged_by_its_peers(mtus):
    """Datagram or connected mode, Gloo takes either; one node in the other mode has another MTU."""
    run = healthy(3).with_variables(GLOO_SOCKET_IFNAME="ib0")
    for name, mtu in zip(run.names, mtus, strict=True):
        run = run.broken_interface(name, name="ib0", mtu=mtu, speed_mbps=200000)
    found = [f for f in judge("network.mtu_is_the_same_on_every_node", run) if f.verdict is not Verdict.PASS]
    assert [(f.verdict, f.nodes) for f in found] == [(Verdict.FAIL, ("node3",))] * (len(set(mtus)) > 1)
    assert all("connected mode" in f.fix for f in found)


def test_clouds_that_give_every_node_a_host_route_are_not_judged_by_subnet():
    """With /32 addresses every node is a subnet of its own, and all is well."""
    run = healthy()
    for number, name in enumerate(run.names, 1):
        run = run.broken_interface(name, addresses=(Address(f"10.0.0.{number}", 32, "inet"),))
    assert {f.verdict for f in judge("network.training_addresses_share_a_subnet", run)} == {Verdict.SKIP}


def test_bridges_of_every_machine_are_no_way_to_a_peer():
    """A bridge has the same address on every node: that its subnet holds a peer's address proves nothing."""
    run = healthy()
    for name in run.names:
        run = with_interface(run, name, "br0", "172.18.0.1", prefix=16, first=True)
    findings = judge("network.nccl_starts_on_an_interface_of_the_peers", run)
    assert {(finding.verdict, finding.nodes) for finding in findings} == {(Verdict.WARN, run.names)}


def test_a_second_network_of_all_nodes_is_no_wrong_one():
    """Management and training networks lie side by side on most clusters; so do routed networks."""
    run = healthy()
    for number, name in enumerate(run.names, 1):
        run = with_interface(run, name, "mgmt0", f"10.9.0.{number}", first=True)
    findings = judge("network.nccl_starts_on_an_interface_of_the_peers", run)
    assert {finding.verdict for finding in findings} == {Verdict.PASS}
    alone = with_interface(healthy(), "node2", "wan0", "192.0.2.1", prefix=30, first=True)
    for peer in ("node1", "node3"):
        alone = leaves_by(alone, "node2", peer, "wan0")
    findings = judge("network.nccl_starts_on_an_interface_of_the_peers", alone)
    assert {finding.verdict for finding in findings} == {Verdict.PASS}


@pytest.mark.parametrize(
    ("run", "verdict"),
    [
        (link_local_first(OVER_TCP, *OVER_TCP.names), Verdict.WARN),
        (link_local_first(OVER_TCP, *OVER_TCP.names, index=5), Verdict.FAIL),
        (link_local_first(OVER_TCP, "node2").with_variables(NCCL_SOCKET_IFNAME="eth0"), Verdict.PASS),
        (link_local_first(OVER_TCP, "node2").with_variables(NCCL_SOCKET_FAMILY="AF_INET"), Verdict.PASS),
        (with_interface(healthy(), "node2", "rsip", "172.20.0.2", first=True), Verdict.WARN),
        (to_the_bmc(OVER_TCP, *OVER_TCP.names), Verdict.FAIL),
        (to_the_bmc(OVER_TCP, "node2"), Verdict.FAIL),
        (to_the_bmc(OVER_TCP, *OVER_TCP.names, address="169.254.3.{}"), Verdict.WARN),
        (to_the_bmc(OVER_TCP, *OVER_TCP.names, first=False), Verdict.PASS),
        (to_the_bmc(OVER_TCP, *OVER_TCP.names).with_variables(NCCL_SOCKET_IFNAME="eth"), Verdict.PASS),
        (to_the_bmc(OVER_TCP, *OVER_TCP.names).with_variables(NCCL_SOCKET_FAMILY="AF_INET6"), Verdict.PASS),
        (to_the_bmc(OVER_TCP, *OVER_TCP.names).with_variables(NCCL_COMM_ID="10.0.0.1:7777"), Verdict.PASS),
    ],
    ids=[
        *("one index everywhere", "other indexes", "named", "IPv4 only", "gloo", "the BMC first", "on one node"),
        *("link-local by intent", "the BMC last", "eth named", "IPv6 only", "in a subnet"),
    ],
)
def test_a_wrong_first_interface_fails_where_it_surely_hangs(run, verdict):
    """A link-local address is reached by the index of the peer's own interface; Gloo takes none of NCCL's."""
    findings = {f.verdict for f in judge("network.nccl_starts_on_an_interface_of_the_peers", run)}
    assert findings - {Verdict.PASS} == {verdict} - {Verdict.PASS}


def test_beside_rdma_a_dead_end_is_a_warning():
    """Data does not go over it."""
    run = with_interface(roce(), "node2", "eth7", "192.168.7.2")
    findings = {f.nodes: f.verdict for f in judge("network.nccl_takes_no_more_interfaces_than_meant", run)}
    assert findings["node2",] is Verdict.WARN


def test_exact_names_take_nothing_else():
    """`=eth0` and `^docker` are no prefixes that could take too much."""
    for value in ("=eth0", "^docker"):
        run = with_interface(healthy().with_variables(NCCL_SOCKET_IFNAME=value), "node2", "eth0.7", "10.93.0.2")
        findings = judge("network.nccl_takes_no_more_interfaces_than_meant", run)
        assert {finding.verdict for finding in findings} == {Verdict.PASS}


def test_a_gateway_of_the_head_node_alone_is_no_fault_of_the_others():
    """Most clusters let only one machine out."""
    findings = judge("network.default_routes_are_alike", with_gateways(healthy(), "node1"))
    assert {finding.verdict for finding in findings} == {Verdict.PASS}


def bonded(*slow, mode="IEEE 802.3ad Dynamic link aggregation", over="bond0"):
    """Four nodes that train over a bond of two ports of 25 Gbit/s, some of which came up at 10."""
    run = healthy(4).with_variables(GLOO_SOCKET_IFNAME=over, NCCL_SOCKET_IFNAME=over)
    for number, name in enumerate(run.names, 1):
        speed = 10000 if name in slow else 25000
        members = tuple(BondMember("bond0", port, speed, 1) for port in ("eno1", "eno2"))
        for held in dict.fromkeys(("bond0", over)):
            run = with_interface(run, name, held, f"10.9.{len(held)}.{number}")
        run = run.broken(
            name,
            "kernel",
            bonds={"bond0": {"eno1": True, "eno2": True}},
            bond_modes={"bond0": mode},
            bond_members=members,
        )
    return run


@pytest.mark.parametrize(
    ("mode", "over", "words"),
    [
        ("IEEE 802.3ad Dynamic link aggregation", "bond0", "50000 Mbit/s on node[1-2,4], 20000 Mbit/s on node3"),
        ("IEEE 802.3ad Dynamic link aggregation", "bond0.12", "50000 Mbit/s on node[1-2,4], 20000 Mbit/s on node3"),
        ("fault-tolerance (active-backup)", "bond0", "25000 Mbit/s on node[1-2,4], 10000 Mbit/s on node3"),
    ],
)
def test_a_bond_is_as_fast_as_its_links(mode, over, words):
    """Together, or one of them where they stand in for each other; a VLAN as what it is on."""
    name = "network.training_interfaces_have_the_same_rate"
    assert {one.verdict for one in judge(name, bonded(mode=mode, over=over))} == {Verdict.PASS}
    found = [one for one in judge(name, bonded("node3", mode=mode, over=over)) if one.verdict is Verdict.WARN]
    assert [(one.nodes, words in one.message) for one in found] == [(("node3",), True)]


def test_a_bond_whose_file_cannot_be_read_has_no_rate_that_passes():
    """The others' is known: that of this node is an error, and no pass."""
    run = bonded().broken("node2", "kernel", bonds={}, bond_modes={}, bond_members=(),
                          bonds_unread={"bond0": Missing("Permission denied", "denied")})  # fmt: skip
    found = {one.nodes: one.verdict for one in judge("network.training_interfaces_have_the_same_rate", run)}
    assert found["node2",] is Verdict.ERROR


def fixed(run, node, command):
    """The cluster once a node's environment has what the command in a finding exports."""
    words = command.split("`")[1].removeprefix("export ")
    given = dict(word.split("=", 1) for word in words.split())
    assert all(may_leave_node(name) for name in given)
    return run.with_variables(node, **given) if node else run.with_variables(**given)


@pytest.mark.parametrize("package", ["vllm", "sglang"])
def test_the_variable_that_names_the_training_address_ends_the_warning(package):
    """Each node exports its own, as the command in the finding says."""
    name = "network.serving_stacks_take_the_training_address"
    run = default_by_wifi(healthy(), package, "node2")
    (told,) = [one for one in judge(name, run) if one.verdict is Verdict.WARN]
    assert "_HOST_IP=10.0.0.2" in told.fix
    run = fixed(run, "node2", told.fix)
    assert not [one for one in judge(name, run) if one.verdict is Verdict.WARN]


def test_ray_is_told_with_an_option():
    """It reads no variable for that."""
    run = default_by_wifi(healthy(), "ray", "node2")
    (told,) = [one for one in judge("network.serving_stacks_take_the_training_address", run) if one.fix]
    assert "ray start --node-ip-address=10.0.0.2" in told.fix


def test_a_default_route_elsewhere_is_fine_without_such_a_stack():
    """torchrun takes the interface that it is told."""
    found = judge("network.serving_stacks_take_the_training_address", default_by_wifi(healthy(), "numpy", "node2"))
    assert {one.verdict for one in found} == {Verdict.SKIP}


def test_mpi_that_leaves_the_bridge_out_is_well():
    """By the variable in the finding, or with a bridge that one machine has."""
    name = "network.mpi_takes_no_bridge_of_every_machine"
    run = with_docker(healthy(), "node1", "node2")
    (told,) = [one for one in judge(name, run) if one.verdict is Verdict.WARN]
    assert {one.verdict for one in judge(name, fixed(run, "", told.fix))} == {Verdict.SKIP}
    assert {one.verdict for one in judge(name, with_docker(healthy(), "node1"))} == {Verdict.PASS}


@pytest.mark.parametrize(("words", "is_told"), [("", True), ("--mca btl_tcp_if_include eth0", False)])
def test_mpirun_of_a_launch_file_is_known(tmp_path, words, is_told):
    """By its command, which says which interfaces to take, or does not."""
    (tmp_path / "start.sh").write_text(f"mpirun -np 16 -H node1:8,node2:8 {words} python train.py\n")
    read = with_files(Options(), read_files([str(tmp_path / "start.sh")]), launcher=None)
    asked = called(read)
    assert asked["programs"] == ["mpirun"]
    run = with_docker(roce(), "node1", "node2")
    for name in run.names:
        run = run.broken(name, "software", packages={"torch": "2.13.0"})
    run = run.broken("node1", "trust", programs={"mpirun": "/usr/bin/mpirun"}, unset=tuple(asked["variables"]))
    found = judge("network.mpi_takes_no_bridge_of_every_machine", run)
    assert (Verdict.WARN in {one.verdict for one in found}) is is_told


def test_one_name_on_all_nodes_is_enough_for_horovod():
    """Others may differ, and HOROVOD_GLOO_IFACE names each node's own."""
    name = "network.horovod_finds_an_interface_of_one_name"
    assert {one.verdict for one in judge(name, installed(healthy(), "horovod"))} == {Verdict.PASS}
    run = installed(healthy().broken_interface("node2", "eth0", name="enp4s0"), "horovod")
    assert {one.verdict for one in judge(name, run.with_variables(HOROVOD_GLOO_IFACE="eth0"))} == {Verdict.PASS}
