"""Do all nodes train over the right interface, and do these interfaces fit together?"""

from ipaddress import ip_interface

import pytest

from preflight.errors import BlockedBy, NotApplicable


def test_interface_variables_match_an_interface(node):
    """What NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME name exists on every node.

    Each library looks for it on each node by the same variable: where nothing matches, that rank stops with "no
    socket interface found" or "Unable to find address", and the others wait for it. NCCL takes the names as
    prefixes (`=` before them: exact, `^`: all but these), gloo takes them as they are.
    Fix: `ip -br address` on the nodes named; set the variable to a name, or a prefix, that every node has.
    """
    mismatches = node.interface_mismatches()
    assert not mismatches, "; ".join(mismatches)


def test_training_interface_exists(node, cluster):
    """Every node has an interface that is up, with an address that its peers can reach.

    Without one NCCL and gloo stop, or fall back to loopback and hang.
    Fix: `ip -br address` on the nodes named; bring the interface up, or give it its address.
    """
    cluster.needs_peers()
    if node.interface_mismatches():
        raise BlockedBy("network.interface_variables_match_an_interface")
    trouble = node.network.training_trouble()
    assert not trouble, trouble


def test_mtu_is_the_same_on_every_node(cluster):
    """The training interface has the same MTU on every node.

    With one smaller MTU large packets are lost: small all-reduces work, the first big one hangs.
    Fix: `ip link set dev <interface> mtu <the others' mtu>` on the nodes named, and in their network configuration.
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
    cluster.same(lambda node: node.network.training_interface.subnet(), "subnet of the training interface")


@pytest.mark.advisory
def test_training_interfaces_have_the_same_rate(cluster):
    """The training interface links at the same rate on every node.

    A ring is as fast as its slowest link: one port that came up at a lower rate slows every rank.
    Fix: `ethtool <interface>` on the nodes named; reseat or replace the cable, or correct the port of the switch.
    """
    cluster.needs_peers()
    cluster.same(lambda node: node.network.training_interface.rate_told(), "rate of the training interface")


@pytest.mark.advisory
def test_routes_to_peers_leave_by_the_training_interface(node, cluster):
    """Packets to a peer's training address leave by the training interface.

    Otherwise connections take another path than the one that was chosen: a slower one, or one that answers nobody.
    Fix: `ip route get <address of the peer>` on the nodes named; correct the route or its metric.
    """
    cluster.needs_peers()
    wanted = node.network.training_interface.name
    strays = {}
    for route in node.peers.routes:
        if route.leaves_by() != wanted:
            strays.setdefault(route.leaves_by(), []).append(route.name)
    every = len(node.peers.routes)
    told = "; ".join(
        f"packets to {', '.join(peers) if len(peers) < every else 'every peer'} leave by {name}"
        for name, peers in strays.items()
    )
    assert not strays, f"{told}; the training interface is {wanted}"
