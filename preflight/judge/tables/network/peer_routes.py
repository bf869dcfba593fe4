"""Do packets to the peers leave by the interface that was chosen, in one piece, and is there a way at all?"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterator

from preflight.facts.cluster import Cluster
from preflight.facts.node import NodeFacts
from preflight.facts.subjects.peers import Route
from preflight.facts.value import Missing
from preflight.said import joined, said
from preflight.said.errors import Blame, NotApplicable

OF_LOOPBACK = 65535  # no other interface takes as much


def trouble(node: NodeFacts, cluster: Cluster, routes: Collection[Route]) -> tuple[str, bool]:
    """What is wrong with a node's ways to its peers, "" where nothing is, and whether no job can start like that.

    FactMissing where a way is not known.
    """
    by_words: dict[str, list[str]] = {}
    is_sure = False
    for route in routes:
        if route.refused and _is_own(route, node, cluster):
            is_sure = True
            by_words.setdefault(said("do not leave: {refused}", route.refused), []).append(route.name)
            continue
        leaves_by = route.leaves_by()
        if not leaves_by:
            words = "find no route"
        else:
            words = (
                said("leave by {leaves_by}", leaves_by)
                if leaves_by != node.network.training
                else _size(route, node, cluster)
            )
        if words:
            by_words.setdefault(words, []).append(route.name)
    found = (
        said("packets to {peers} {words}", ", ".join(peers) if len(peers) < len(routes) else "every peer", words)
        for words, peers in by_words.items()
    )
    return joined(found), is_sure


def wrong_cards(cluster: Cluster) -> list[Blame]:
    """Each peer whose packets go to a hardware address that it does not have, and the node that sends them there.

    A cloud, a router or the host of several guests answers for them with a card of its own: what several peers are
    taken for is such a one, and an entry that was learnt is wrong only where another node has learnt the right one.
    NotApplicable where no node has a peer among its neighbours.
    """
    cards = cluster.gather(_cards)
    ways = cluster.gather(lambda node: node.peers.routes)
    if all(isinstance(route.card, Missing) for routes in ways.values() for route in routes):
        raise NotApplicable("no node has the hardware address of a peer among its neighbors")
    right = {route.name for routes in ways.values() for route in routes if route.card in cards.get(route.name, ())}
    held = {card for own in cards.values() for card in own}
    answers: dict[str, set[str]] = {}
    for route in (route for routes in ways.values() for route in routes):
        if isinstance(route.card, str) and route.card not in held:
            answers.setdefault(route.card, set()).add(route.address)
    found = []
    for name, routes in ways.items():
        for route in routes:
            card, own = route.card, cards.get(route.name, ())
            if (
                isinstance(card, Missing)
                or not own
                or card in own
                or len(card) != len(own[0])
                or len(answers.get(card, ())) > 1
            ):
                continue
            if route.is_written or route.name in right:
                how = "by a static entry" if route.is_written else "as its neighbor"
                words = said(
                    "{address} of {name} is taken for {card} {how}; {name} has {own}",
                    route.address,
                    route.name,
                    card,
                    how,
                    ", ".join(own),
                )
                found.append(Blame(words, nodes=[name]))
    return found


def _cards(node: NodeFacts) -> tuple[str, ...]:
    """The hardware addresses of a node: a bond may answer with that of any member."""
    found = (one.mac for one in node.network.interfaces)
    return tuple(dict.fromkeys(mac.lower() for mac in found if not isinstance(mac, Missing)))


def _is_own(route: Route, node: NodeFacts, cluster: Cluster) -> bool:
    """Whether it is this node that has no way to the peer, and not the peer that has a foreign address."""
    if ipaddress.ip_address(route.address.partition("%")[0]) in ipaddress.ip_network(
        node.network.training_interface.subnet()
    ):
        return True
    return any(
        theirs.name == route.name and not isinstance(theirs.interface, Missing)
        for other in _others(node, cluster)
        for theirs in other.peers.routes
    )


def _size(route: Route, node: NodeFacts, cluster: Cluster) -> str:
    """What the size of packets tells that the source does not: a smaller MTU on the way, or another interface."""
    whole = node.network.training_interface.mtu
    if isinstance(route.mtu, Missing) or route.mtu == whole:
        return ""
    if route.mtu > whole:
        return _too_large(route.mtu, node, whole)
    # Where an overlay takes its part, the routes of every node say so.
    if any(_lost(other) == whole - route.mtu for other in _others(node, cluster)):
        return ""
    return said("are cut to {mtu} bytes, though the interface takes {whole}", route.mtu, whole)


def _too_large(mtu: int, node: NodeFacts, whole: int) -> str:
    """An address that is a subnet of its own may be behind any interface, and so may what goes to loopback."""
    if mtu >= OF_LOOPBACK or node.network.training_interface.subnet().endswith(("/32", "/128")):
        return said("leave by another interface, whose MTU is {mtu} and not {whole}", mtu, whole)
    return said(
        "may have {mtu} bytes by the MTU of their route, but the interface drops what is larger than {whole}",
        mtu,
        whole,
    )


def _lost(node: NodeFacts) -> int:
    """How much of its interface's MTU a node's routes leave out at most."""
    if node.network.training_trouble() or isinstance(node.network.training, Missing):
        return 0
    sizes = [route.mtu for route in node.peers.routes if not isinstance(route.mtu, Missing)]
    return node.network.training_interface.mtu - min(sizes, default=node.network.training_interface.mtu)


def _others(node: NodeFacts, cluster: Cluster) -> Iterator[NodeFacts]:
    return (other for other in cluster if other.name != node.name and not other.is_out)
