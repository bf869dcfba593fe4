"""Do all nodes train over the right interface, and do these interfaces fit together?"""

from ipaddress import ip_interface

import pytest

from preflight.facts.value import present
from preflight.judge.tables import faults, gids
from preflight.judge.tables.network import interfaces, links, nccl_interfaces, peer_routes, rails, stacks
from preflight.knowledge.interfaces import virtual
from preflight.said import joined, said
from preflight.said.errors import Blame, BlameMany, BlockedBy, NotApplicable

EXISTS = "network.training_interface_exists"


def test_interface_variables_match_an_interface(node, cluster):
    """What NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME name exists on every node, and is not the loopback interface.

    Each library looks for it on each node by the same variable: where nothing matches, that rank stops with "no
    socket interface found" or "Unable to find address", and the others wait for it. NCCL takes the names as
    prefixes (`=` before them: exact, `^`: all but these), gloo takes them as they are.
    Fix: `ip -br address` on the nodes named; set the variable to a name, or a prefix, that every node has.
    """
    if not any(node.value(name) for name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")):
        raise NotApplicable("neither NCCL_SOCKET_IFNAME nor GLOO_SOCKET_IFNAME is set")
    mismatches = _mismatches(node, cluster)
    assert not mismatches, joined(mismatches)


def test_training_interface_exists(node, cluster):
    """Every node has an interface that is up, with an address that its peers can reach.

    Without one NCCL and gloo stop, or fall back to loopback and hang.
    Fix: `ip -br address` on the nodes named; bring the interface up, or give it its address.
    """
    cluster.needs_peers()
    if _mismatches(node, cluster):
        raise BlockedBy("network.interface_variables_match_an_interface")
    trouble = node.network.training_trouble()
    assert not trouble, trouble


def test_mtu_is_the_same_on_every_node(cluster):
    """The training interface has the same MTU on every node.

    With one smaller MTU large packets are lost: small all-reduces work, the first big one hangs.
    Fix: `ip link set dev <interface> mtu <the others' mtu>` on the nodes named, and in their network configuration;
    IPoIB (ib0) takes more than 4092 in connected mode only (`echo connected > /sys/class/net/ib0/mode`).
    """
    cluster.needs_peers()
    cluster.same(lambda node: node.network.training_interface.mtu, "mtu of the training interface (bytes)")


@pytest.mark.advisory
def test_training_addresses_share_a_subnet(cluster):
    """The training interfaces of all nodes are in one subnet.

    Packets between subnets go through a router, which may be slow or filter; often it means that a node chose the
    wrong interface.
    Fix: set NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME so that every node takes the interface of one network.
    """
    cluster.needs_peers()
    subnets = cluster.gather(lambda node: node.network.training_interface.subnet())
    if subnets and all(ip_interface(subnet).network.num_addresses == 1 for subnet in subnets.values()):
        raise NotApplicable("host routes: every training address is a subnet of its own")
    nested = interfaces.of_other_masks(subnets)
    if nested:
        raise BlameMany(nested)
    cluster.same(lambda node: node.network.training_interface.subnet(), "subnet of the training interface")


@pytest.mark.advisory
def test_training_interfaces_have_the_same_rate(cluster):
    """The training interface links at the same rate on every node.

    A ring is as fast as its slowest link: one port that came up at a lower rate slows every rank.
    Fix: `ethtool <interface>` on the nodes named; reseat or replace the cable, or correct the port of the switch.
    """
    cluster.needs_peers()
    cluster.same(interfaces.rate_text, "rate of the training interface")


def test_routes_to_peers_leave_by_the_training_interface(node, cluster):
    """Packets to a peer's training address leave by the training interface, whole.

    Otherwise connections take another path than the one that was chosen: a slower one, or one without an answer. Where
    a route has a smaller MTU than its interface, data goes in more and smaller packets than the peers send; where it
    has a larger one, packets are lost. A peer that no route leads to, or that a blackhole or a rule keeps from this
    node, is a failure.
    Fix: `ip route get <address of the peer> from <own address>` on the nodes named; correct the route, its metric or
    its mtu, or the rule (`ip rule`).
    """
    cluster.needs_peers()
    wanted = node.network.training_interface.name
    # A peer without a training interface was asked about by the address that it was reached at.
    routes = [route for route in node.peers.routes if not cluster[route.name].is_out]
    if node.peers.routes and not routes:
        raise BlockedBy(EXISTS, nodes=[route.name for route in node.peers.routes], detail="no peer has one")
    message, is_sure = peer_routes.trouble(node, cluster, routes)
    if message:
        state = "" if node.network.training_interface.is_up else ", which has no link"
        raise Blame(
            said("{message}; the training interface is {wanted}{state}", message, wanted, state),
            nodes=[node.name],
            is_advisory=not is_sure,
        )


def test_nccl_starts_on_an_interface_of_the_peers(node, cluster):
    """Where no variable says which interface NCCL takes, the first one it finds leads to the peers.

    NCCL starts its connections on the first interface that is neither docker nor loopback: a VPN, a bridge or a second
    card that the peers are not on hangs the start, however good the others are. Where a router may know the way, and on
    nodes without GPUs, it is a warning.
    Fix: `export NCCL_SOCKET_IFNAME=<interface of the training network>` on every node, and GLOO_SOCKET_IFNAME too.
    """
    cluster.needs_peers()
    trouble = nccl_interfaces.first_trouble(node, cluster)
    if trouble.words:
        if all(peer.name == node.name or peer.is_out for peer in cluster):
            peers = [name for name in cluster.names if name != node.name]
            raise BlockedBy(EXISTS, nodes=peers, detail="no peer has one")
        raise Blame(trouble.words, nodes=[node.name], is_advisory=not trouble.is_sure or node.backend != "nccl")


def test_nccl_takes_no_more_interfaces_than_meant(node, cluster):
    """NCCL_SOCKET_IFNAME takes no interface beyond those it names.

    NCCL takes the names as prefixes: bond0 takes the VLAN bond0.2093 too, eth1 takes eth10. What cannot be reached
    hangs the first collective where data goes over TCP; beside RDMA it is a warning.
    Fix: write `NCCL_SOCKET_IFNAME==<interface>` (one = of the shell, one of NCCL) to take exactly that interface.
    """
    cluster.needs_peers()
    if not node.value("NCCL_SOCKET_IFNAME"):
        raise NotApplicable("NCCL_SOCKET_IFNAME is not set")
    taken = nccl_interfaces.taken_by_prefix(node, cluster)
    if taken:
        is_sure = node.backend == "nccl" and any(one.is_sure for one in taken)
        raise Blame(joined(one.words for one in taken), nodes=[node.name], is_advisory=not is_sure)


def test_training_addresses_are_unique(cluster):
    """No two nodes have the same address, whether of the training interface or of an RDMA port.

    Their peers reach one of them only, or themselves: two machines with one static address, containers that all have
    the address of a bridge behind their machine's own (172.17.0.2), a bridge of Docker in the training network.
    Fix: give each node an address of its own; start containers in the machine's network (`--network=host`).
    """
    cluster.needs_peers()
    blames = []
    for address, names in cluster.group_by(lambda node: node.network.training_interface.address()).items():
        if len(names) == 1:
            continue
        if len({cluster[name].identity.boot_id for name in names}) > 1:
            blames.append(Blame(said("several nodes train on {address}", address), nodes=names))
        else:
            for name in names:
                cluster.cannot_judge(name, BlockedBy("reach.no_machine_is_named_twice"))
    blames += interfaces.of_a_peer(cluster)
    blames += gids.shared(cluster)
    if blames:
        raise BlameMany(blames)


def test_hardware_addresses_are_unique(cluster):
    """No two machines have the same hardware (MAC) address on their training interface.

    A switch sends the packets of both to the one that spoke last: connections stall at random, on either node. Machines
    that were cloned, or whose MAC was written into a configuration, have it.
    Fix: `ip link show dev <interface>` on the nodes named; have the hypervisor make another, or remove MACAddress= and
    HWADDR= from the network's configuration.
    """
    cluster.needs_peers()
    groups = cluster.group_by(lambda node: present(node.network.training_interface.mac, "hardware address"))
    shared = {
        mac: names
        for mac, names in groups.items()
        if len(names) > 1 and len({cluster[name].identity.boot_id.partition(":")[0] for name in names}) > 1
    }
    if shared:
        raise BlameMany(
            Blame(said("several machines have the address {mac}", mac), nodes=names) for mac, names in shared.items()
        )


@pytest.mark.advisory
def test_peers_are_taken_for_their_own_cards(cluster):
    """Packets to a peer go to a hardware address that this peer has.

    Where another machine has its IP address too, or a static entry of the neighbor table is older than the peer's
    card, they go elsewhere: connections hang, from this node alone or from some.
    Fix: `ip neigh show` on the nodes named; `ip neigh del <address of the peer> dev <interface>` for a static entry
    (and where it is written down: /etc/ethers, a script of arp -s); else find the machine that has the hardware address
    (`arping -D`, the switch's table) and give it another IP address.
    """
    cluster.needs_peers()
    wrong = peer_routes.wrong_cards(cluster)
    if wrong:
        raise BlameMany(wrong)


@pytest.mark.advisory
def test_interfaces_of_nccl_have_subnets_of_their_own(node, cluster):
    """Two interfaces that NCCL takes on a node are never in one subnet.

    The kernel then answers for both on either of them: packets leave by the one and come back by the other, where
    they are dropped or share one link.
    Fix: give each interface a subnet of its own, or name the one to take in NCCL_SOCKET_IFNAME.
    """
    cluster.needs_peers()
    # Where data takes RDMA, or the network of a plugin, NCCL needs its first interface only.
    taken = nccl_interfaces.of_nccl(node)[: 1 if nccl_interfaces.goes_over_rdma(node) else None]
    shared = interfaces.in_one_subnet(taken)
    assert not shared, joined(
        [said("{names} are both in {subnet}", " and ".join(names), subnet) for subnet, names in shared.items()]
    )


@pytest.mark.advisory
def test_training_interface_is_a_real_one(node, cluster):
    """The training interface is not a container bridge, a VPN or an overlay network.

    A bridge does not lead off its machine; VPNs and overlays wrap every packet: slow, and with a smaller MTU.
    Fix: `export NCCL_SOCKET_IFNAME=<interface> GLOO_SOCKET_IFNAME=<interface>` of the real network on every node.
    """
    cluster.needs_peers()
    name = node.network.training_interface.name
    what = virtual(name)
    assert not what, said("the training interface {name} is {what}", name, what)


@pytest.mark.advisory
def test_training_interface_is_fast_enough_for_gpus(node, cluster, settings):
    """Where GPUs have no RDMA, the training interface links at 10 Gbit/s or more; beside RDMA, at 1 % of its rate.

    At 1 Gbit/s the gradients of a model of 100 million parameters take seconds: nearly all of a step is waiting.
    GPUs joined by NVLink finish a step before 10 or 25 Gbit/s can carry its gradients: there 40 Gbit/s or more is
    wanted. Beside RDMA, what goes over Gloo (checkpoints, samplers, CPU offload) and every start still takes this
    interface.
    Fix: train over a faster interface (`ethtool <interface>` shows the rate), or with fewer, larger exchanges.
    """
    cluster.needs_peers()
    if not node.gpu.readable():
        raise NotApplicable("no GPU")
    interface, wanted, beside = node.network.training_interface, settings.network.min_rate_mbps, ""
    if node.rdma.active_ports() and node.value("NCCL_IB_DISABLE") != "1":
        if not interface.reports_rate:
            raise NotApplicable(said("{name} reports no rate, and the data goes over RDMA", interface.name))
        rdma = node.rdma.rate_gbps()
        wanted, beside = settings.network.min_share_of_rdma * rdma * 1000, said(" beside RDMA at {rdma:g} Gbit/s", rdma)
    elif node.gpu.are_on_a_board():
        wanted, beside = settings.network.min_rate_of_joined_gpus_mbps, " between boards of GPUs that NVLink joins"
    rate = interface.rate_mbps()
    assert rate >= wanted, said(
        "the training interface links at {rate} Mbit/s{beside}; wanted at least {wanted:g}", rate, beside, wanted
    )


@pytest.mark.advisory
def test_no_interface_counted_errors_during_the_run(ending):
    """No interface of the job counted rx/tx errors or lost its link while preflight ran.

    A bad cable, transceiver or port loses packets under load: each loss stalls a connection, and all ranks wait for it.
    Fix: `ip -s -s link show dev <interface>`, `ethtool -S <interface>` on the nodes named; reseat or replace the cable.
    """
    ending.needs_peers()
    faults.judge(ending, links.OF_RUN, faults.itself)


@pytest.mark.advisory
def test_default_routes_are_alike(cluster):
    """A node has a default route where most of its peers have one.

    Ray, vLLM and others find their own address by asking for the route to a far address, and end with "Network is
    unreachable" without one; downloads and metrics fail on this node only.
    Fix: `ip route add default via <gateway>` on the nodes named, and in their network configuration.
    """
    cluster.needs_peers()
    ways = cluster.gather(lambda node: node.network.gateways)
    lacking = [name for name, gateways in ways.items() if not gateways]
    if 0 < len(lacking) <= len(ways) / 2:
        raise Blame("no default route, which its peers have", nodes=lacking)


@pytest.mark.advisory
def test_data_interfaces_are_alike(cluster):
    """Each of several data interfaces of a node (hsn0, eth1 to eth8) is up, fast and addressed as on the other nodes.

    The training interface is one of them. NCCL and its plugins take the others too: where one is down, lost its MTU of
    9000 or links at half the rate on one node, all ranks wait for that node, or the start hangs.
    Fix: `ip -br link`, `ip -br address` and `ethtool <interface>` on the nodes named and on one that is not; bring the
    interface up, give it the address and the MTU that the network's configuration has on the others.
    """
    cluster.needs_peers()
    found = rails.differing(cluster)
    if found:
        raise BlameMany(found)


@pytest.mark.advisory
def test_serving_stacks_take_the_training_address(node, cluster):
    """Where vLLM, SGLang or Ray is installed, the default route leads over the training interface, or it is named.

    They ask for the route to a far address, take the address it leaves by for the node's own, and tell the peers. With
    Wi-Fi or a network of management there, the start freezes after NCCL and Gloo came up on the right one.
    Fix: run the command in the finding on each node, before the job starts; it has an address of its own on each.
    """
    cluster.needs_peers()
    words, commands = stacks.by_default_route(node)
    if words:
        raise Blame(words, nodes=[node.name], fix=said("{commands} before the job starts", commands))


def test_mpi_takes_no_bridge_of_every_machine(cluster):
    """Where Open MPI starts the job, no two machines have the same address on a bridge that it would take.

    It connects over every interface but lo: docker0 is 172.17.0.1 on each machine, so that a rank that calls its peer
    there talks to its own machine: "unexpected process identifier", "Connection refused", or a hang in MPI_Init. It is
    a failure where mpirun starts Horovod or mpi4py and no RDMA port carries the data, else a warning.
    Fix: `mpirun --mca btl_tcp_if_exclude lo,docker0` (or btl_tcp_if_include with the network of the peers).
    """
    cluster.needs_peers()
    found = stacks.of_mpi(cluster)
    if found:
        raise BlameMany(found)


def test_horovod_finds_an_interface_of_one_name(cluster):
    """Where Horovod is installed, an interface has the same name on all nodes.

    horovodrun looks for names that all hosts have, and hangs where eth0 of one is enp4s0 of the other. It is a failure
    where a launch file starts other hosts by it and names no interface, else a warning.
    Fix: `horovodrun --network-interface <names>`, HOROVOD_GLOO_IFACE on each node, or one name for the interfaces.
    """
    cluster.needs_peers()
    found = stacks.without_common_name(cluster)
    if found:
        raise BlameMany(found)


def _mismatches(node, cluster):
    """What the variables name that cannot be taken; alone, a node may well use its loopback interface."""
    return node.interface_mismatches() + (node.loopback_choices() if cluster.has_peers else ())
