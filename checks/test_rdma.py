"""Is the RDMA fabric up, alike on every node, and addressed so that NCCL can use it?"""

import pytest

from preflight.errors import Blame, BlameMany, BlockedBy, NotApplicable
from preflight.facts import fabric

GID_EXISTS = "rdma.gid_index_exists_on_every_node"
GID_ROUTABLE = "rdma.gid_index_is_routable_roce_v2"


def test_nccl_ib_hca_matches_a_port(node, cluster):
    """Every entry of NCCL_IB_HCA is an RDMA port of every node.

    NCCL leaves out what it does not find, without a word: a node without that rail talks over TCP, or hangs.
    Fix: `ls /sys/class/infiniband` on the nodes named; correct the list (prefixes, `=` exact, `^` all but these).
    """
    if not any(other.rdma.devices for other in cluster):
        raise NotApplicable("no RDMA device on any node")
    value = node.value("NCCL_IB_HCA")
    if not value:
        raise NotApplicable("NCCL_IB_HCA is not set")
    lacking = fabric.unmatched(node.rdma, value) if not value.startswith("^") else ()
    has = ", ".join(device.name for device in node.rdma.devices) or "none"
    assert not lacking, f"NCCL_IB_HCA={value}: {', '.join(lacking)} matches no port of the node; its devices: {has}"
    assert fabric.chosen_hcas(node.rdma, value), f"NCCL_IB_HCA={value} leaves no port of the node; its devices: {has}"


@pytest.mark.advisory
def test_nccl_ib_hca_takes_no_more_than_it_names(node):
    """No entry of NCCL_IB_HCA takes, as a prefix, devices that nobody meant.

    `mlx5_1` takes mlx5_10 and mlx5_11 too: traffic goes over storage NICs or a rail of another node.
    Fix: write `NCCL_IB_HCA==mlx5_1`: the second `=` asks for exact names.
    """
    value = node.variable("NCCL_IB_HCA")
    trapped = fabric.taken_by_prefix(node.rdma, value)
    told = "; ".join(f"{entry} takes {', '.join(others)} too" for entry, others in trapped.items())
    assert not trapped, f"NCCL_IB_HCA={value}: {told}"


def test_port_count_is_the_same_on_every_node(cluster):
    """Every node has the same number of RDMA ports for the job.

    NCCL joins rail to rail: where one is missing, its share goes over the others or over TCP, on every node.
    Fix: `lspci | grep -i -e mellanox -e infiniband` and `dmesg | grep -i mlx` on the nodes named; reboot or leave out.
    """
    cluster.needs_peers()
    if not any(cluster.gather(lambda node: len(node.rdma.devices)).values()):
        raise NotApplicable("no RDMA device on any node")
    cluster.same(lambda node: len(node.hcas()) if node.rdma.devices else 0, "number of RDMA ports")


def test_ports_are_active(cluster):
    """A port that is active on one node, or that NCCL_IB_HCA names, is active on every node.

    NCCL leaves a port out that is not active, without a word: that node is slower than the rest, or falls back to TCP.
    Fix: `ibstat <device>` or `rdma link` on the nodes named; mend the cable, the switch's port or the subnet manager.
    """
    ports = cluster.gather(lambda node: node.hcas())
    used = {hca.name for name, hcas in ports.items() for hca in hcas if hca.is_active or cluster[name].names_hcas()}
    down: dict[str, list[str]] = {}
    for name, hcas in ports.items():
        out = [hca for hca in hcas if hca.name in used and not hca.is_active]
        if out:
            told = ", ".join(f"{hca.name} is {hca.port.state_told()}" for hca in out)
            down.setdefault(told, []).append(name)
    if down:
        raise BlameMany(Blame(f"{told}; wanted ACTIVE", nodes=nodes) for told, nodes in down.items())
    if not used:
        raise NotApplicable("no RDMA port is active on any node")


def test_ports_have_the_same_rate(cluster):
    """A port links at the same rate, and over the same kind of link, on every node.

    One port that came up at half its rate slows every rank: a ring is as fast as its slowest link.
    Fix: `ibstat <device>` on the nodes named; reseat or replace the cable, or correct the port of the switch.
    """
    cluster.needs_peers()
    rates = cluster.gather(lambda node: {hca.name: hca.port.rate_told() for hca in node.active_hcas()})
    names = dict.fromkeys(name for of_node in rates.values() for name in of_node)
    blames = []
    for name in names:
        groups: dict[str, list[str]] = {}
        for node, of_node in rates.items():
            if name in of_node:
                groups.setdefault(of_node[name], []).append(node)
        blames += cluster.differing(groups, f"rate of {name}")
    if blames:
        raise BlameMany(blames)


def test_gid_index_exists_on_every_node(node):
    """The GID that NCCL_IB_GID_INDEX chooses is in the table of every RoCE port of every node.

    GID tables differ between nodes: where the row is missing, NCCL ends with "ibv_modify_qp failed: Invalid argument".
    Fix: `show_gids` (or /sys/class/infiniband/*/ports/1/gids) on the nodes named; give the interface its address, or
    choose an index that all nodes have. NCCL 2.21 and later choose by themselves when the variable is not set.
    """
    lacking = [name for name, gid in node.chosen_gids().items() if gid is None]
    assert not lacking, f"GID index {node.gid_index()} (NCCL_IB_GID_INDEX) is not in the table of {', '.join(lacking)}"


def test_gid_index_is_routable_roce_v2(node):
    """The GID that NCCL_IB_GID_INDEX chooses is RoCE v2 with an IP address that can be routed.

    RoCE v1 and link-local GIDs do not pass a router, and v1 and v2 do not understand each other: NCCL hangs or ends
    with "ibv_modify_qp failed: Connection timed out".
    Fix: `show_gids` on the nodes named; set NCCL_IB_GID_INDEX to the row that says v2 and has an IPv4 address.
    """
    gids = node.chosen_gids()
    if None in gids.values():
        raise BlockedBy(GID_EXISTS)
    wrong = {name: gid for name, gid in gids.items() if not gid.is_routable}
    told = ", ".join(f"{name} has {gid}" for name, gid in wrong.items())
    assert not wrong, f"GID index {node.gid_index()}: {told}; wanted routable RoCE v2"


def test_gid_index_means_the_same_on_every_node(cluster):
    """The GID that NCCL_IB_GID_INDEX chooses is of the same address family on every node.

    A port with an IPv4 GID cannot connect to one with an IPv6 GID, though both are RoCE v2 and routable.
    Fix: `show_gids` on the nodes named; choose an index that means the same everywhere, or unset NCCL_IB_GID_INDEX.
    """
    cluster.needs_peers()
    cluster.same(lambda node: node.gid_family(), "address family of the GID that NCCL_IB_GID_INDEX chooses")
