"""Is MASTER_ADDR:MASTER_PORT a place where rank 0 can listen and every rank finds it?"""

import pytest

from preflight.errors import Blame, BlockedBy, NotApplicable

OWN_HOSTNAME = "names.own_hostname_is_not_loopback"
BELONGS = "master.address_belongs_to_the_first_node"


def test_variables_are_the_same_on_every_node(cluster):
    """MASTER_ADDR and MASTER_PORT have the same value on every node.

    Ranks that look for rank 0 in different places never meet: all of them hang until the rendezvous times out.
    Fix: `export MASTER_ADDR=<address of the first node> MASTER_PORT=29500` alike on every node.
    """
    cluster.needs_peers()
    if not any(node.has_variable("MASTER_ADDR") or node.has_variable("MASTER_PORT") for node in cluster):
        raise NotApplicable("MASTER_ADDR and MASTER_PORT are set on no node")
    cluster.same_rows(
        (name, lambda node, name=name: node.told(name), "", "") for name in ("MASTER_ADDR", "MASTER_PORT")
    )


def test_address_belongs_to_the_first_node(cluster):
    """MASTER_ADDR, asked on the first node, is an address of that node, and not loopback.

    Rank 0 runs on the first node and listens there: an address of another node makes every rank wait there in vain,
    localhost makes every node wait for itself.
    Fix: `export MASTER_ADDR=<address of the first node>` on every node.
    """
    first = cluster.first
    given, addresses = first.told("MASTER_ADDR"), first.peers.addresses_of_master()
    if cluster.has_peers and given == first.identity.hostname and first.identity.is_named_loopback:
        raise BlockedBy(OWN_HOSTNAME, nodes=[first.name])
    if not first.network.holds_any(addresses, reachable=cluster.has_peers):
        owners = [node.name for node in cluster if node.network.holds_any(addresses, reachable=True)]
        told = f"MASTER_ADDR {given} is {', '.join(addresses) or 'unknown'} on {first.name}"
        whose = f", an address of {', '.join(owners)}" if owners else ""
        right = first.best_address()
        raise Blame(
            f"{told}{whose}; rank 0 runs on {first.name}, whose address is {right}",
            nodes=[first.name],
            fix=f"`export MASTER_ADDR={right}` on every node",
        )


def test_address_leads_every_node_to_the_first(node, cluster):
    """MASTER_ADDR, asked on any other node, is an address of the first node.

    A node that takes the name for another machine, or does not know it, never finds rank 0; the others wait for it.
    Fix: correct the name in DNS or in /etc/hosts of the nodes named, or set MASTER_ADDR to an address.
    """
    cluster.needs_peers()
    first = cluster.first
    if node.name == first.name:
        raise NotApplicable("the first node is where MASTER_ADDR leads")
    addresses = node.peers.addresses_of_master()
    given, told = node.told("MASTER_ADDR"), ", ".join(addresses) or "unknown"
    own = given == first.identity.hostname and first.identity.is_named_loopback
    if not own and not first.network.holds_any(first.peers.addresses_of_master(), reachable=True):
        raise BlockedBy(BELONGS, nodes=[first.name])
    assert first.network.holds_any(addresses, reachable=True), (
        f"MASTER_ADDR {given} is {told} there; wanted {first.best_address()}, the first node"
    )


@pytest.mark.advisory
def test_address_is_on_the_training_interface(cluster):
    """MASTER_ADDR is an address of the first node's training interface.

    The port mesh and the benchmark prove that interface only: over another one the rendezvous may be filtered.
    Fix: `export MASTER_ADDR=<address of the first node's training interface>` on every node.
    """
    cluster.needs_peers()
    first = cluster.first
    addresses = first.peers.addresses_of_master()
    if not first.network.holds_any(addresses, reachable=True):
        raise BlockedBy(BELONGS, nodes=[first.name])
    interface = first.network.training_interface
    if not interface.holds_any(addresses):
        told = f"MASTER_ADDR is {', '.join(addresses)}; the training interface {interface.name} has {interface.address()}"
        raise Blame(told, nodes=[first.name])


def test_port_is_free_on_the_first_node(cluster):
    """MASTER_PORT can be bound on the first node.

    Rank 0 listens there. While another program holds the port, the start ends with "Address already in use", or
    the ranks connect to that program and hang.
    Fix: `ss -ltnp 'sport = :<port>'` on the first node; stop what listens there, or choose another MASTER_PORT.
    """
    first = cluster.first
    port = first.master_port()
    if not first.network.holds_any(first.peers.addresses_of_master()) and not first.peers.master_port_holder:
        raise BlockedBy(BELONGS, nodes=[first.name])
    if first.peers.master_port_error:
        holder = first.peers.master_port_holder
        by = f", held by {holder}" if holder else ""
        raise Blame(f"MASTER_PORT {port} cannot be bound: {first.peers.master_port_error}{by}", nodes=[first.name])


@pytest.mark.advisory
def test_port_is_outside_the_ephemeral_range(cluster):
    """MASTER_PORT is not among the ports that the kernel hands out by itself.

    Any program on the first node may get such a port for a connection of its own just before the job starts.
    Fix: choose a MASTER_PORT below the range that `sysctl net.ipv4.ip_local_port_range` prints, 29500 for one.
    """
    first = cluster.first
    port, (low, high) = first.master_port(), first.network.ephemeral_ports
    if low <= port <= high:
        raise Blame(f"MASTER_PORT {port} is in the ephemeral range {low}-{high} of {first.name}", nodes=[first.name])
