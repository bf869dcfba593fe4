"""Do the nodes' own names, and what the others take them for, lead to the right addresses?"""

from collections import Counter

import pytest

from preflight.errors import Blame, BlameMany, BlockedBy


def test_own_hostname_is_not_loopback(cluster):
    """A node's own hostname, asked on that node, does not resolve to a loopback address.

    gloo asks gethostbyname(gethostname()) and offers the answer to its peers: with 127.0.1.1, Debian's default,
    they connect to themselves and the job hangs. Only GLOO_SOCKET_IFNAME keeps gloo from asking.
    Fix: in /etc/hosts of the nodes named, replace `127.0.1.1 <hostname>` by `<address of the node> <hostname>`.
    """
    cluster.needs_peers()
    blames = []
    for address, names in cluster.group_by(_address_for_gloo).items():
        nodes = [cluster[name] for name in names if address and cluster[name].identity.is_named_loopback]
        fix = ""
        if len(nodes) == 1:
            name, right = nodes[0].identity.hostname, nodes[0].best_address()
            fix = f"in /etc/hosts of {nodes[0].name}, replace `{address} {name}` by `{right} {name}`"
        if nodes:
            message = f"the node's own hostname resolves to {address} there, which no peer can reach"
            blames.append(Blame(message, nodes=[node.name for node in nodes], fix=fix))
    if blames:
        raise BlameMany(blames)


def test_own_hostname_is_an_address_of_the_node(node, cluster):
    """A node's own hostname resolves, on that node, to an address that one of its interfaces has.

    gloo binds to that address: a stale entry of /etc/hosts or DNS, or none, sends it to loopback and the job hangs.
    Fix: on the nodes named, `getent hosts $(hostname)` must print an address that `ip -br address` lists.
    """
    cluster.needs_peers()
    if node.value("GLOO_SOCKET_IFNAME"):
        return
    if node.identity.is_named_loopback:
        raise BlockedBy("names.own_hostname_is_not_loopback")
    addresses = node.identity.hostname_addresses
    assert addresses, "the node's own hostname does not resolve there"
    told = f"{node.identity.hostname} is {', '.join(addresses)}"
    assert node.network.holds_any(addresses), f"the node's own hostname {told}, which no interface there has"


def test_hostnames_are_unique(cluster):
    """Every node has a hostname of its own.

    Launchers and torch tell nodes apart by hostname: torchrun may take a peer for itself, NCCL two nodes for one.
    Fix: `hostnamectl set-hostname <name>` on the nodes named, each its own, and start their sessions anew.
    """
    cluster.needs_peers()
    same = {name: nodes for name, nodes in cluster.group_by(lambda node: node.identity.hostname).items() if nodes[1:]}
    machines = {node.identity.boot_id for nodes in same.values() for node in map(cluster.__getitem__, nodes)}
    if same and len(machines) == len(same):
        raise BlockedBy("reach.no_machine_is_named_twice", nodes=[node for nodes in same.values() for node in nodes])
    if same:
        raise BlameMany(Blame(f"several nodes call themselves {name}", nodes=nodes) for name, nodes in same.items())


def test_peers_are_taken_for_themselves(node, cluster):
    """Where a node can resolve the hostname of a peer, it gets an address that this peer has.

    A stale line in /etc/hosts or DNS sends ranks to another machine or to themselves: the start hangs or is refused.
    Fix: correct the line of the peer in /etc/hosts of the nodes named; check with `getent ahosts <peer>`.
    """
    cluster.needs_peers()
    bearers = Counter(other.identity.hostname for other in cluster)
    wrong = []
    for route in node.peers.routes:
        peer = cluster[route.name]
        if bearers[peer.identity.hostname] > 1:
            raise BlockedBy("names.hostnames_are_unique")
        if route.resolved and not peer.network.holds_any(route.resolved, reachable=True):
            wrong.append(f"{peer.identity.hostname} is {', '.join(route.resolved)} there, not {peer.best_address()}")
    assert not wrong, "; ".join(wrong)


@pytest.mark.advisory
def test_peers_can_be_resolved(node, cluster):
    """Every node can resolve the hostname of every peer.

    torchrun with the c10d rendezvous tells all nodes the *name* of rank 0's node; a job that is given addresses
    only does without.
    Fix: add the peers named to DNS, or to /etc/hosts of the nodes named.
    """
    cluster.needs_peers()
    unknown = [cluster[route.name].identity.hostname for route in node.peers.routes if not route.resolved]
    whom = ", ".join(unknown) if len(unknown) < len(node.peers.routes) else "any peer"
    assert not unknown, f"cannot resolve the hostname of {whom}"


def _address_for_gloo(node):
    """What gloo will offer to its peers for want of GLOO_SOCKET_IFNAME; "" where it will not ask."""
    return "" if node.value("GLOO_SOCKET_IFNAME") else node.identity.own_address
