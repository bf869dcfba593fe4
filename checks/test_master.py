"""Is MASTER_ADDR:MASTER_PORT a place where rank 0 can listen and every rank finds it?"""

import pytest

from preflight.said import said
from preflight.said.errors import Blame, BlockedBy, NotApplicable

SAME = "master.variables_are_the_same_on_every_node"
BELONGS = "master.address_belongs_to_the_first_node"
VARIABLES = ("MASTER_ADDR", "MASTER_PORT")


def test_variables_are_the_same_on_every_node(cluster):
    """MASTER_ADDR and MASTER_PORT have the same value on every node.

    Ranks that look for rank 0 in different places never meet: all of them hang until the rendezvous times out.
    Fix: `export MASTER_ADDR=<address of the first node> MASTER_PORT=29500` on every node.
    """
    cluster.needs_peers()
    if not any(node.value(name) for node in cluster for name in VARIABLES):
        raise NotApplicable("MASTER_ADDR and MASTER_PORT are set on no node")
    cluster.same_rows((name, lambda node, name=name: node.value(name) or "not set", "", "") for name in VARIABLES)


def test_address_belongs_to_the_first_node(cluster):
    """MASTER_ADDR, asked on the first node, is an address of that node, and not loopback.

    Rank 0 runs on the first node and listens there: with an address of another node every rank waits there forever,
    with localhost every node waits for itself.
    Fix: `export MASTER_ADDR=<address of the first node>` on every node.
    """
    first = cluster.first
    given, addresses = _address(first), first.peers.addresses_of_master()
    if cluster.has_peers and first.calls_itself(given) and first.identity.is_named_loopback:
        if first.backend == "nccl":
            return  # rank 0 listens on every address, and the next check asks where the others look for it
        raise BlockedBy("names.own_hostname_is_not_loopback", nodes=[first.name])
    if not first.network.holds_any(addresses[:1], reachable=cluster.has_peers):
        owners = [node.name for node in cluster if node.network.holds_any(addresses[:1], reachable=True)]
        whose = said(", an address of {owners}", ", ".join(owners)) if owners else ""
        right = first.address_for_peers()
        message = said(
            "MASTER_ADDR {given} is {addresses} on {name}{whose}",
            given,
            ", ".join(addresses) or "unknown",
            first.name,
            whose,
        )
        fix = _given_as(first, right)
        raise Blame(
            said("{message}; rank 0 runs on {name}, whose address is {right}", message, first.name, right),
            nodes=[first.name],
            fix=fix,
        )


def test_address_leads_every_node_to_the_first(node, cluster):
    """MASTER_ADDR, asked on any other node, is an address of the first node.

    Of several addresses the first counts, as a rank tries them in this order; a wrong one behind it is a warning.
    A node that takes the name for another machine, or does not know it, never finds rank 0; the others wait for it.
    Fix: correct the name in DNS or in /etc/hosts of the nodes named, or set MASTER_ADDR to an address.
    """
    cluster.needs_peers()
    first = cluster.first
    given = _address(first)
    if node.name == first.name:
        return
    if node.value("MASTER_ADDR") != given:
        raise BlockedBy(SAME)
    # The first node may take its own name for loopback: its peers find it all the same.
    loopback_name = first.calls_itself(given) and first.identity.is_named_loopback
    if not loopback_name and not first.network.holds_any(first.peers.addresses_of_master()[:1], reachable=True):
        raise BlockedBy(BELONGS, nodes=[first.name])
    addresses = node.peers.addresses_of_master()
    message = said("MASTER_ADDR {given} is {addresses} there", given, ", ".join(addresses) or "unknown")
    strays = first.network.strays(addresses)
    if strays or not addresses:
        is_first_right = not set(strays) & set(addresses[:1]) and bool(addresses)
        place = " first" * (not is_first_right and len(strays) < len(addresses))
        words = said(
            "{message}; wanted{place} {address_for_peers}, the first node", message, place, first.address_for_peers()
        )
        raise Blame(words, nodes=[node.name], is_advisory=is_first_right)


@pytest.mark.advisory
def test_first_node_knows_the_address_for_its_own(cluster):
    """The first node's own hostname leads to the address that MASTER_ADDR stands for.

    torchrun's c10d rendezvous is hosted by the node whose hostname resolves to the endpoint: if none does, every
    node connects, and none listens ("connect() timed out", though ping and TCP work).
    Fix: set the endpoint to the hostname of the first node, or write `<MASTER_ADDR> <hostname>` into its /etc/hosts.
    """
    cluster.needs_peers()
    first = cluster.first
    given, addresses = _address(first), first.peers.addresses_of_master()
    if first.calls_itself(given) or not first.network.holds_any(addresses[:1], reachable=True):
        return  # recognised by its name, or the business of the checks above
    if first.identity.is_named_loopback and first.backend != "nccl":
        raise BlockedBy("names.own_hostname_is_not_loopback", nodes=[first.name])
    own = first.identity.hostname_addresses
    if not set(own) & set(addresses):
        message = said(
            "MASTER_ADDR {given} is {addresses}; {hostname} is {own}",
            given,
            ", ".join(addresses),
            first.identity.hostname,
            ", ".join(own) or "unknown",
        )
        raise Blame(said("{message} on {name}", message, first.name), nodes=[first.name])


@pytest.mark.advisory
def test_address_is_on_the_training_interface(cluster):
    """MASTER_ADDR is an address of the first node's training interface.

    The port mesh and the benchmark prove that interface only: over another one the rendezvous may be filtered.
    Fix: `export MASTER_ADDR=<address of the first node's training interface>` on every node.
    """
    cluster.needs_peers()
    first = cluster.first
    given, addresses = _address(first), first.peers.addresses_of_master()
    if not first.network.holds_any(addresses[:1], reachable=True):
        raise BlockedBy(BELONGS, nodes=[first.name])
    interface = first.network.training_interface
    if not interface.holds_any(addresses):
        message = said(
            "MASTER_ADDR {given} is {addresses}; the training interface {name}",
            given,
            ", ".join(addresses),
            interface.name,
        )
        right = first.address_for_peers()
        raise Blame(said("{message} has {right}", message, right), nodes=[first.name], fix=_given_as(first, right))


def test_port_is_free_on_the_first_node(cluster):
    """MASTER_PORT can be bound on the first node.

    Rank 0 listens there. While another program holds the port, the start ends with "Address already in use", or
    the ranks connect to that program and hang.
    Fix: `ss -ltnp 'sport = :<port>'` on the first node; stop what listens there, or choose another MASTER_PORT.
    """
    first = cluster.first
    port = _port(first)
    if first.peers.master_port_error:
        holder = first.peers.master_port_holder
        by = said(", held by {holder}", holder) if holder else ""
        raise Blame(
            said(
                "MASTER_PORT {port} cannot be bound: {master_port_error}{by}", port, first.peers.master_port_error, by
            ),
            nodes=[first.name],
        )


@pytest.mark.advisory
def test_port_is_outside_the_ephemeral_range(cluster):
    """MASTER_PORT is not among the ports that the kernel hands out by itself.

    Any program on the first node may get such a port for a connection of its own just before the job starts.
    Fix: choose a MASTER_PORT below the range that `sysctl net.ipv4.ip_local_port_range` prints, 29500 for one.
    """
    first = cluster.first
    port, (low, high) = _port(first), first.network.ephemeral_ports
    if low <= port <= high:
        raise Blame(
            said("MASTER_PORT {port} is in the ephemeral range {low}-{high} of {name}", port, low, high, first.name),
            nodes=[first.name],
        )


def _address(first):
    """The MASTER_ADDR of the first node, which the whole job means."""
    if not first.value("MASTER_ADDR"):
        raise NotApplicable(said("MASTER_ADDR is not set on {name}", first.name))
    return first.value("MASTER_ADDR")


def _given_as(first, right):
    """Where the right address is to be written: a rendezvous endpoint of a launch file is no variable of a shell."""
    if first.setting("MASTER_ADDR").layer == "launch files":
        return said("{right} in every launch file that names the address of rank 0", right)
    return said("`export MASTER_ADDR={right}` on every node", right)


def _port(first):
    """The MASTER_PORT of the first node as a number."""
    text = first.value("MASTER_PORT")
    if not text:
        raise NotApplicable(said("MASTER_PORT is not set on {name}", first.name))
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise Blame(said("MASTER_PORT {text!r} is not a port; wanted 1-65535", text), nodes=[first.name])
    return int(text)
