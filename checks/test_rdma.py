"""Is the RDMA fabric up, the same on every node, and addressed so that NCCL can use it?"""

import pytest

from preflight.facts import fabric
from preflight.facts.value import present
from preflight.judge.tables import faults, gids
from preflight.judge.tables.network import rails as rails_of_network
from preflight.judge.tables.rdma import choice, counters, parity, ports, rails, subnets
from preflight.said import joined, said
from preflight.said.errors import Blame, BlameMany, BlockedBy, FactMissing, NotApplicable

UNREAD = "UNKNOWN"
GID_EXISTS = "rdma.gid_index_exists_on_every_node"


def test_nccl_ib_hca_matches_a_port(node, cluster):
    """Every entry of NCCL_IB_HCA is an RDMA port of every node.

    NCCL silently leaves out what it does not find: a node without that rail talks over TCP, or hangs.
    Fix: `ls /sys/class/infiniband` on the nodes named; correct the list (prefixes, `=` exact, `^` all but these).
    """
    if not any(other.rdma.devices for other in cluster):
        raise NotApplicable("no RDMA device on any node")
    value = node.value("NCCL_IB_HCA")
    if not value:
        raise NotApplicable("NCCL_IB_HCA is not set")
    lacking = fabric.unmatched(node.rdma, value) if not value.startswith("^") else ()
    has = ", ".join(device.name for device in node.rdma.devices) or "none"
    assert not lacking, said(
        "NCCL_IB_HCA={value}: {lacking} matches no port of the node; its devices: {has}", value, ", ".join(lacking), has
    )
    assert fabric.chosen_hcas(node.rdma, value), said(
        "NCCL_IB_HCA={value} leaves no port of the node; its devices: {has}", value, has
    )


@pytest.mark.advisory
def test_nccl_ib_hca_takes_no_more_than_it_names(node):
    """No entry of NCCL_IB_HCA takes, as a prefix, devices that were not meant.

    `mlx5_1` takes mlx5_10 and mlx5_11 too: traffic goes over storage NICs or a rail of another node.
    Fix: write `NCCL_IB_HCA==mlx5_1`: the second `=` asks for exact names.
    """
    value = node.value("NCCL_IB_HCA")
    if not value:
        raise NotApplicable("NCCL_IB_HCA is not set")
    trapped = fabric.taken_by_prefix(node.rdma, value)
    message = joined(
        [said("{entry} takes {others} too", entry, ", ".join(others)) for entry, others in trapped.items()]
    )
    assert not trapped, f"NCCL_IB_HCA={value}: {message}"


def test_infiniband_adapters_have_their_driver(node):
    """Every InfiniBand adapter on the PCI bus is an RDMA device.

    Where its driver is gone, as after a new kernel without its OFED, a node looks like one without RDMA: NCCL takes
    TCP.
    Fix: `modprobe mlx5_ib ib_uverbs` and `dmesg | grep -i mlx` on the nodes named; install the driver for this kernel.
    """
    lost = present(node.rdma.without_driver, "InfiniBand adapters on the PCI bus")
    if not lost and not node.rdma.devices:
        raise NotApplicable(faults.NO_RDMA)
    if node.without_rdma():
        raise NotApplicable(node.without_rdma())
    assert not lost, said("no driver has made an RDMA device of {lost}", ", ".join(lost))


def test_plugin_of_nccl_is_there(node):
    """Where NCCL needs a network plugin, as for EFA, GPUDirect-TCPXO or the network that NCCL_NET names, it finds one.

    Without it, or with one for a newer libfabric, NCCL takes TCP sockets, and says so in its log only; with NCCL_NET
    set it ends with an error. Over Slingshot without NCCL_NET it is a warning: a module may bring it with the job.
    Fix: install aws-ofi-nccl (EFA) or the cloud's plugin on the nodes named, and add its folder to LD_LIBRARY_PATH.
    """
    if node.without_rdma():
        raise NotApplicable(node.without_rdma())
    why = fabric.needs_plugin(node.rdma, node.value("NCCL_NET"))
    library = fabric.library_of_plugin(node.value("NCCL_NET_PLUGIN"))
    if library:
        names = [path.rpartition("/")[2] for path in present(node.software.nccl_plugins, "network plugins of NCCL")]
        places = node.value("LD_LIBRARY_PATH") or "not set"
        words = said(
            "NCCL_NET_PLUGIN={value}, and no {library} is found (LD_LIBRARY_PATH: {places})",
            node.value("NCCL_NET_PLUGIN"),
            library,
            places,
        )
        assert any(name.startswith(library) for name in names), words
    if not why and node.has_variable("NCCL_FASTRAK_IFNAME"):
        why = "NCCL_FASTRAK_IFNAME is for GPUDirect-TCPXO"
    if not why and library:
        return
    is_sure = bool(why)
    if not why and rails_of_network.has_slingshot(node) and node.gpu.readable():
        why = "Slingshot has no verbs that NCCL speaks"
    if not why:
        raise NotApplicable("NCCL needs no plugin for the network of these nodes")
    found = present(node.software.nccl_plugins, "network plugins of NCCL")
    places = node.value("LD_LIBRARY_PATH") or "not set"
    if not found:
        words = said(
            "{why}, and no libnccl-net.so is found (LD_LIBRARY_PATH: {places}): NCCL would take TCP", why, places
        )
        raise Blame(words, nodes=[node.name], is_advisory=not is_sure)
    assert not node.software.plugins_lacking, said(
        "{plugins_lacking}: NCCL would take TCP", joined(node.software.plugins_lacking)
    )


def test_port_count_is_the_same_on_every_node(cluster):
    """Every node has the same number of RDMA ports for the job.

    NCCL joins rail to rail: where one is missing, its share goes over the others or over TCP, on every node.
    Fix: `lspci | grep -i -e mellanox -e infiniband` and `dmesg | grep -i mlx` on the nodes named; reboot or leave out.
    """
    faults.needs_rdma(cluster)
    cluster.needs_peers()
    cluster.same(lambda node: len(node.hcas()) if node.rdma.devices else 0, "number of RDMA ports")


def test_ports_are_active(cluster):
    """A port that is active on one node, or that NCCL_IB_HCA names, is active on every node.

    NCCL silently leaves out a port that is not active: that node is slower than the rest, or falls back to TCP.
    Fix: `ibstat <device>` or `rdma link` on the nodes named; check the cable, the switch port and the subnet manager.
    """
    faults.needs_rdma(cluster)
    held = cluster.gather(lambda node: node.hcas())
    used = {hca.name for hcas in held.values() for hca in hcas if hca.is_up}
    used |= {hca.name for name in held for hca in cluster[name].hcas_asked_for_in_vain()}
    down: dict[str, list[str]] = {}
    used |= parity.lost_ports(held)
    for name, hcas in held.items():
        # One that waits for a subnet manager has a check of its own.
        out = [hca for hca in hcas if hca.name in used and not hca.is_up and not hca.is_unmanaged]
        if out:
            message = joined([said("{name} is {state_text}", hca.name, hca.port.state_text()) for hca in out], ", ")
            down.setdefault(message, []).append(name)
    for name, hcas in held.items():
        unread = [hca.name for hca in hcas if UNREAD in (hca.port.state, hca.port.link_layer)]
        if unread:
            cluster.cannot_judge(
                name, FactMissing("state of RDMA ports", said("that of {unread} cannot be read", ", ".join(unread)))
            )
    if down:
        raise BlameMany(
            Blame(said("{message}; wanted ACTIVE", message), nodes=nodes) for message, nodes in down.items()
        )
    if not used:
        raise NotApplicable("no RDMA port is active on any node")


def test_ports_have_the_same_rate(cluster):
    """A port links at the same rate, and over the same kind of link, on every node.

    One port that came up at half its rate slows every rank: a ring is as fast as its slowest link.
    Fix: `ibstat <device>` on the nodes named; reseat or replace the cable, or correct the port of the switch.
    """
    faults.needs_rdma(cluster)
    cluster.needs_peers()
    faults.same_of_ports(cluster, parity.rates, "rate")


def test_gid_index_exists_on_every_node(node, cluster):
    """The GID that NCCL_IB_GID_INDEX chooses is in the table of every RoCE port of every node.

    GID tables differ between nodes: where the row is missing, NCCL ends with "ibv_modify_qp failed: Invalid argument".
    Fix: `show_gids` (or /sys/class/infiniband/*/ports/1/gids) on the nodes named; give the interface its address, or
    choose an index that all nodes have. NCCL 2.21 and later choose by themselves when the variable is not set.
    """
    if not node.has_variable("NCCL_IB_GID_INDEX"):
        raise NotApplicable("NCCL_IB_GID_INDEX is not set")
    lacking = [name for name, gid in node.chosen_gids().items() if gid is None]
    if lacking:
        message = said(
            "GID index {gid_index} (NCCL_IB_GID_INDEX) is not in the table of {lacking}",
            node.gid_index(),
            ", ".join(lacking),
        )
        raise Blame(message, nodes=[node.name], fix=gids.advice(cluster))


def test_gid_index_is_routable_roce_v2(node, cluster):
    """The GID that NCCL_IB_GID_INDEX chooses is RoCE v2 with an IP address that can be routed.

    RoCE v1 and link-local GIDs do not pass a router, and v1 and v2 do not understand each other: NCCL hangs or ends
    with "ibv_modify_qp failed: Connection timed out".
    Fix: `show_gids` on the nodes named; set NCCL_IB_GID_INDEX to the row that says v2 and has an IPv4 address.
    """
    if not node.has_variable("NCCL_IB_GID_INDEX"):
        raise NotApplicable("NCCL_IB_GID_INDEX is not set")
    chosen = node.chosen_gids()
    if None in chosen.values():
        raise BlockedBy(GID_EXISTS)
    unread = [name for name, gid in chosen.items() if gid.roce_version is None and gid.scope in ("ipv4", "ipv6")]
    if unread:
        raise FactMissing("RoCE version of the GID", said("that of {unread} cannot be read", ", ".join(unread)))
    wrong = {name: gid for name, gid in chosen.items() if not gid.is_routable}
    if wrong:
        message = joined([said("{name} has {gid}", name, gid) for name, gid in wrong.items()], ", ")
        words = said("GID index {gid_index}: {message}; wanted routable RoCE v2", node.gid_index(), message)
        raise Blame(words, nodes=[node.name], fix=gids.advice(cluster))


def test_gid_index_means_the_same_on_every_node(cluster):
    """The GID that NCCL_IB_GID_INDEX chooses is of the same address family on every node.

    A port with an IPv4 GID cannot connect to one with an IPv6 GID, though both are RoCE v2 and routable.
    Fix: `show_gids` on the nodes named; choose an index that means the same everywhere, or unset NCCL_IB_GID_INDEX.
    """
    faults.needs_rdma(cluster)
    cluster.needs_peers()
    cluster.same(lambda node: node.gid_family(), "address family of the GID that NCCL_IB_GID_INDEX chooses")


def test_gid_index_leads_to_one_network(cluster):
    """The GID that NCCL_IB_GID_INDEX chooses, or NCCL by itself, is of the same subnet and VLAN on every node.

    Tables are filled in the order in which addresses came: one index can mean the storage network here and the fabric
    there, and NCCL ends with "ibv_modify_qp failed: Connection timed out" or "No such device". On InfiniBand NCCL goes
    from one subnet to another by a FLID only.
    Fix: `show_gids` on the nodes named; set NCCL_IB_GID_INDEX for each node, or unset it with NCCL 2.21 and later.
    """
    faults.needs_rdma(cluster)
    cluster.needs_peers()
    blames = faults.of_any(cluster, (gids.misled, subnets.unrouted))
    if blames:
        raise BlameMany(blames)


@pytest.mark.advisory
def test_ports_are_in_the_subnet_of_their_rail(cluster):
    """Where each rail has a subnet, a port is in the same one on every node.

    NCCL joins the first port to the first and the second to the second: cables that cross lead their traffic over
    other switches, which slows it, or into a network that has no way back. On InfiniBand the subnet manager gives
    the subnet.
    Fix: `ip -br addr` and `lldpctl` (or `iblinkinfo`) on the nodes named; swap the cables or the addresses.
    """
    faults.needs_rdma(cluster)
    cluster.needs_peers()
    blames = faults.of_any(cluster, rails.FINDS)
    if blames:
        raise BlameMany(blames)


def test_roce_ports_have_an_address(cluster):
    """An RoCE port that has an address on one node has one on every node.

    A port whose interface has no address offers link-local GIDs only, which do not pass a router: NCCL times out.
    Fix: `ip -br addr` on the nodes named; give the interface of the port its address.
    """
    faults.needs_rdma(cluster)
    cluster.needs_peers()
    found = faults.values_by_node(
        cluster, lambda node: {h.name: h.has_address for h in node.active_hcas() if h.is_roce}
    )
    used = {name for of_node in found.values() for name, has_address in of_node.items() if has_address}
    lacking: dict[str, list[str]] = {}
    for node, of_node in found.items():
        names = [name for name, has_address in of_node.items() if name in used and not has_address]
        if names:
            lacking.setdefault(", ".join(names), []).append(node)
    if lacking:
        raise BlameMany(
            Blame(said("{names} has link-local GIDs only", names), nodes=nodes) for names, nodes in lacking.items()
        )
    if not used:
        raise NotApplicable("no RoCE port has an address on any node")


def test_devices_can_be_opened(cluster):
    """Every RDMA device that the job may use can be opened by its processes.

    NCCL leaves out a device that it cannot open: it takes TCP, or other rails than its peers, and hangs.
    Fix: give the container /dev/infiniband (`--device=/dev/infiniband`), load ib_uverbs on the nodes named.
    """
    faults.needs_rdma(cluster)
    faults.judge(cluster, ports.OPENABLE, ports.to_open(cluster), kind=faults.link)


def test_infiniband_ports_have_a_subnet_manager(cluster):
    """No InfiniBand port that is linked waits for a subnet manager.

    Without one the port has no address: it stays in INIT, and NCCL silently leaves it out.
    Fix: `sminfo` on the nodes named; start the subnet manager.
    """
    faults.needs_rdma(cluster)
    faults.judge(cluster, ports.MANAGED, faults.ports, kind=faults.link)


def test_infiniband_addresses_are_unique(cluster):
    """No two machines have an InfiniBand port with the same GUID, or the same LID in one subnet.

    The subnet manager routes the packets of both to one of them: NCCL ends with "transport retry counter exceeded", on
    either node. Virtual functions that were given one GUID, cards flashed from one image, or two subnet managers do it.
    Fix: `ibstat <device>` on the nodes named; give each function a GUID of its own, or let only one subnet manager run.
    """
    faults.needs_rdma(cluster)
    cluster.needs_peers()
    blames = gids.same_infiniband(cluster)
    if blames:
        raise BlameMany(blames)


def test_active_mtu_is_the_same_on_every_node(cluster):
    """An RDMA port has the same active MTU on every node.

    NCCL is meant to use the smaller of the two. From 2.20 on the receiver uses its own: with 1024 here and 4096 there,
    all-reduce hangs or ends with IBV_WC_LOC_LEN_ERR.
    Fix: `ibv_devinfo | grep active_mtu` on the nodes named; correct the MTU of the port, its interface or its switch.
    """
    faults.needs_rdma(cluster)
    cluster.needs_peers()
    parity.same_mtus(cluster)


def test_active_mtu_is_enough_for_device_initiated_traffic(cluster):
    """Where GPUs start transfers themselves (NCCL GIN, NVSHMEM, DeepEP), every port has an active MTU of 4096.

    That path sends 4096 bytes at once: with less, an all-to-all hangs.
    Fix: `ip link set dev <netdev> mtu 9000` on the nodes named and on the switches between them.
    """
    faults.needs_rdma(cluster)
    faults.judge(cluster, choice.DEVICE_INITIATED, faults.itself)


def test_partition_is_the_same_on_every_node(cluster):
    """The partition key that NCCL takes on an InfiniBand port is the same on every node.

    Ports of two partitions do not see each other: NCCL ends with "ibv_modify_qp failed" or hangs.
    Fix: correct the partitions on the subnet manager, or set NCCL_IB_PKEY to the right row on the nodes named.
    """
    faults.needs_rdma(cluster)
    cluster.needs_peers()
    faults.same_of_ports(cluster, parity.partitions, "partition key")


@pytest.mark.advisory
def test_flow_control_is_the_same_on_every_node(cluster):
    """A RoCE port has the same lossless priorities (PFC), ECN, trusted marking and traffic class on every node.

    Where one node's packets are not of the lossless class they are dropped under load, and each loss sends a whole
    window again: every ring is as slow as that node, at random.
    Fix: `mlnx_qos -i <netdev>` on the nodes named; `mlnx_qos -i <netdev> --trust dscp --pfc 0,0,0,1,0,0,0,0` as on the
    others, and the same line in a unit that runs at boot.
    """
    faults.needs_rdma(cluster)
    cluster.needs_peers()
    faults.same_of_ports(cluster, parity.flow_control, "flow control")


@pytest.mark.advisory
@pytest.mark.needs("root")
def test_adapters_ask_for_memory_alike_on_every_node(cluster):
    """An adapter has the same MaxReadReq, relaxed ordering and ATS on every node.

    Where one node's firmware lets its adapters ask for 128 bytes at once and the others' for 4096, that node sends at a
    part of the rate, and every ring is as slow.
    Fix: `lspci -vvs <adapter> | grep -e MaxReadReq -e ATSCtl` on a node named and on one that is not; set the BIOS as
    on the others, or MaxReadReq by `setpci -s <adapter> CAP_EXP+8.w=5000:7000` (4096 bytes) at every boot.
    """
    faults.needs_rdma(cluster)
    cluster.needs_peers()
    faults.same_of_ports(cluster, parity.requests, "PCIe requests")


@pytest.mark.advisory
def test_ports_are_sound(cluster):
    """No active port is known to be fragile: one lane only, link-local, a limited member, without its subnet manager.

    Each of these works until it is needed: at the next start, over a router, or at full speed.
    Fix: `ibstat` and `show_gids` on the nodes named.
    """
    faults.needs_rdma(cluster)
    faults.judge(cluster, ports.FRAGILE, choice.used_ports, kind=faults.link)


@pytest.mark.advisory
def test_choice_of_ports_is_sound(cluster):
    """The ports that NCCL takes on a node are alike, and NCCL's own checks of them are not switched off.

    NCCL takes every active port that it may, of whatever kind and speed, and paces all by the slowest.
    Fix: name the ports of the job in NCCL_IB_HCA.
    """
    faults.needs_rdma(cluster)
    faults.judge(cluster, choice.NODES, faults.itself)


@pytest.mark.advisory
def test_devices_have_the_same_names_on_every_node(cluster):
    """The RDMA ports for the job have the same names on every node, bonds included.

    Where names differ, one NCCL_IB_HCA for all nodes takes different rails on some of them, or a bond where their
    peers have its members.
    Fix: `ls /sys/class/infiniband` on the nodes named; rename by udev, or set NCCL_IB_HCA for each node.
    """
    faults.needs_rdma(cluster)
    cluster.needs_peers()
    chosen = set(cluster.gather(lambda node: node.value("NCCL_IB_HCA")).values())
    if len(chosen) > 1 and all(chosen):
        raise NotApplicable("NCCL_IB_HCA is set on each node separately")
    if chosen and not all(chosen) and all(cluster.gather(lambda node: node.is_confined()).values()):
        raise NotApplicable("no variable of all nodes names a port, and each container has functions of its own")
    cluster.same(lambda node: ", ".join(sorted(hca.name for hca in node.hcas())), "RDMA ports")


@pytest.mark.advisory
def test_adapters_reach_gpu_memory(cluster):
    """Where there are GPUs and RDMA ports, the adapters can reach the GPUs' memory: by nvidia_peermem or dma-buf.

    Without it every transfer goes through the host's memory: half the bandwidth, or less.
    Fix: `modprobe nvidia_peermem` on the nodes named, and a line with its name in /etc/modules-load.d.
    """
    faults.needs_gpus(cluster)
    faults.needs_rdma(cluster)
    faults.judge(cluster, choice.GPUDIRECT, faults.itself)


def test_libfabric_may_open_every_device(node):
    """Where a node has EFA, each device file in /dev/infiniband may be opened.

    libfabric opens them all before it takes those of EFA, and tells nothing where one refuses: the provider is not
    there ("fi_info -p efa: -61"), and all data goes over TCP. A pod that mounts /dev/infiniband of its machine beside
    the resource of EFA has files of adapters that it may not open.
    Fix: take the hostPath of /dev/infiniband out of the pod: `vpc.amazonaws.com/efa` gives it the devices it may open.
    """
    there = ports.closed_to_libfabric(node)
    assert not there, said("libfabric takes no EFA where it may not open {files}", ", ".join(there))


def test_nccl_finds_the_module_of_gpu_memory(cluster):
    """The NCCL of the job looks for the module by which adapters reach the GPUs' memory here.

    NCCL before 2.23 knows nv_peer_mem only. Where an upgrade has put nvidia_peermem in its place, it takes GPUDirect
    RDMA for absent, and every transfer goes through the host's memory: a tenth of the bandwidth was measured on nodes
    with eight adapters. Where the adapters of a node carry less than 800 Gbit/s together, it is a warning.
    Fix: NCCL 2.23.4 or later (`pip install -U nvidia-nccl-cu12`), or the driver's open modules on Linux 5.12 or later.
    """
    faults.needs_gpus(cluster)
    faults.needs_rdma(cluster)
    faults.judge(cluster, choice.UNDER_ANOTHER_NAME, faults.itself)


def test_no_link_went_down_during_the_run(ending):
    """Every RDMA port that was active at the start is active at the end, and was all the time.

    A link that flaps stops NCCL for seconds, or for good: "port error", then a time-out of the whole job.
    Fix: `dmesg -T | grep -i link` on the nodes named; reseat or replace the cable, then the adapter.
    """
    faults.needs_rdma(ending)
    faults.judge(ending, counters.FLAPPED, _watched, kind=counters.kind_of_counts)


@pytest.mark.advisory
def test_no_errors_were_counted_during_the_run(ending):
    """No error counter of an RDMA port grew during the run.

    A bad cable or a dirty connector costs retransmissions, and every rank waits for them.
    Fix: `perfquery` or the files in /sys/class/infiniband/*/ports/*/counters on the nodes named; clean or replace it.
    """
    faults.needs_rdma(ending)
    faults.judge(ending, counters.COUNTED, _watched, kind=counters.kind_of_counts)


def _watched(node):
    """The ports without a label: the words name them."""
    return [("", port) for _, port in counters.watched(node)]
