"""Which nodes do failed connections speak of? The fixture `mesh`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address, ip_network

from preflight.facts.cluster import Cluster
from preflight.facts.node import NodeFacts
from preflight.facts.results import Edge, Filter, Mesh, Rendezvous, Way
from preflight.facts.value import Missing, present
from preflight.judge.tables.network.filters import may_match, shown
from preflight.reach.hosts import fold
from preflight.said import joined, said
from preflight.said.errors import Blame, BlockedBy, FactMissing, NotApplicable, NotMeasured

NAME = re.compile(r"[A-Za-z0-9_.-]+")
REASONS = {
    "refused": "refused (nothing listened there any more, or a firewall refused it)",
    "filtered": "no answer (filtered)",
    "reset": "connection reset (by a firewall on the way, or as the peer's process ended)",
    "no_echo": "connected, but no data came through",
    "wrong_peer": "another program or node answered",
    "unreachable": "unreachable (no route)",
    "looped": "the connection came back to its own end",
    "local": "the connecting node itself refused (no port or socket left, or a route or rule of its own)",
    "not_attested": "the accepting node never saw the data",
}


# Of what a firewall may have dropped where a connection failed so; an answer goes the other way.
PACKETS = {
    **dict.fromkeys(("filtered", "refused", "unreachable", "local"), ("request", "answer")),
    **dict.fromkeys(("reset", "no_echo", "not_attested"), ("data",)),
}
DROPPED = {
    "request": "",
    "answer": " (it drops the answers to connections)",
    "data": " (it ends connections that were let in)",
}
MOST_CAUSES = 3
UNACKNOWLEDGED = "never acknowledged"  # as the connecting end says it
WAY_FIX = (
    "correct, on the node named, what the command in the message shows (a route, a rule of `ip rule`, a neighbor"
    " entry, an address that another node has), and where it is written down; then run again"
)
LARGE_ONES_LOST = "as where large packets are lost on the way: compare the MTUs of nodes and switch ports"


@dataclass(frozen=True)
class Cause:
    """A node whose own settings prevent a connection, and the setting."""

    node: str
    words: str
    drops: str = ""  # what a firewall's rule drops, where that is not the request


@dataclass(frozen=True)
class MeshView:
    """The port mesh of the nodes in `cluster`; failed edges are blamed on the node sets the mesh worked out."""

    result: Mesh
    cluster: Cluster

    def blames(self) -> list[Blame]:
        """One Blame for each set of nodes that the failed edges lie on; a node that took no part is unmeasured."""
        self.cluster.needs_peers()
        self.cluster.gather(lambda node: node.network.training_interface)
        if self.result.failed and not self.result.ok and len(self.cluster) > 2:
            names = self._ordered(end for edge in self.result.failed for end in (edge.source, edge.target))
            return [Blame(self._message(names), nodes=names)]
        blames = [self._blame(nodes) for nodes in self.result.blamed]
        blamed = {node for nodes in self.result.blamed for node in nodes}
        loose = [edge for edge in self.result.failed if not blamed & {edge.source, edge.target}]
        ends = self._ordered(end for edge in loose for end in (edge.source, edge.target))
        return [*blames, *([self._blame(ends)] if loose else [])]

    def _blame(self, nodes: tuple[str, ...]) -> Blame:
        """The nodes to blame: where own settings of some explain every failed connection, only those."""
        edges = [edge for edge in self.result.failed if {*nodes} & {edge.source, edge.target}]
        ways = {cause.node for edge in edges for cause in self._ways(edge)}
        rules = {cause.node for edge in edges for cause in self._rules(edge)}
        guilty = ways | rules
        explains = guilty < {*nodes} and all(guilty & {edge.source, edge.target} for edge in edges)
        fix = WAY_FIX if ways and not rules else ""
        return Blame(self._message(nodes), nodes=self._ordered(guilty) if guilty and explains else nodes, fix=fix)

    def _causes(self, edge: Edge) -> list[Cause]:
        """The causes that the two ends reported for a failed connection."""
        return [*self._rules(edge), *self._ways(edge)]

    def _ways(self, edge: Edge) -> tuple[Cause, ...]:
        way = next((way for way in self.result.ways.get(edge.source, ()) if way.to == edge.target), None)
        return tuple(causes_on_the_way(self.cluster, edge, way)) if way else ()

    def _rules(self, edge: Edge) -> list[Cause]:
        addresses = _address(self.cluster[edge.source]), _address(self.cluster[edge.target])
        ends = {"input": edge.target, "output": edge.source}
        return [
            Cause(name, shown(rule.tool, name, rule.place, rule.rule), DROPPED[packet])
            for packet in PACKETS.get(edge.reason, ())
            for hook, name in (_reversed(ends) if packet == "answer" else ends).items()
            for rule in self.result.filters.get(name, ())
            if rule.packet == packet
            and is_of(rule, hook)
            and may_match(rule.rule, *(addresses[::-1] if packet == "answer" else addresses))
        ]

    def blames_of_port(self) -> list[Blame]:
        """One Blame for each group of nodes that do not reach the port of rank 0; where it was not tried, unmeasured.

        Raises NotApplicable where the job's port is not known, FactMissing where rank 0's node could not listen on it.
        """
        self.cluster.needs_peers()
        found = self.result.rendezvous
        if found is None:
            raise NotApplicable("neither the launch files nor the first node's environment set MASTER_PORT")
        if found.node in found.unmeasured:
            reason = found.unmeasured[found.node]
            if "in use" in reason:
                raise BlockedBy("master.port_is_free_on_the_first_node", nodes=[found.node])
            raise FactMissing(
                said("port {port} of {node}", found.port, found.node),
                said("nothing could listen there: {reason}", reason),
            )
        for name, reason in found.unmeasured.items():
            self.cluster.unmeasured[name] = FactMissing("rendezvous", reason)
        return blames_of_port(found)

    def _message(self, nodes: Iterable[str]) -> str:
        """Who cannot connect to whom, why, and one of the connections in full."""
        names = set(nodes)
        edges = [edge for edge in self.result.failed if names & {edge.source, edge.target}]
        sources = [edge.source for edge in edges if edge.target in names]
        targets = [edge.target for edge in edges if edge.source in names and edge.target not in names]
        these = fold(self._ordered(names))
        sides = _two_sides([edge for edge in edges if {edge.source, edge.target} <= names])
        parts = [said("{ordered} cannot connect to {these}", fold(self._ordered(sources)), these)] if sources else []
        parts += [said("{these} cannot connect to {ordered}", these, fold(self._ordered(targets)))] if targets else []
        if sides and len(names) > 2:
            one_side, other = (fold(self._ordered(side)) for side in sides)
            parts = [said("{one_side} and {other} cannot connect to each other", one_side, other)]
        if not self.result.ok and len(self.cluster) > 2:
            parts = ["no node can connect to any other"]
        elif len(inner := {(edge.source, edge.target) for edge in edges}) <= len(names) == 2:
            (source, target), *back = sorted(inner)
            parts = [
                said("{source} and {target} cannot connect to each other", source, target)
                if back
                else said("{source} cannot connect to {target}", source, target)
            ]
        reasons = ", ".join(sorted({REASONS[edge.reason] for edge in edges}))
        one = edges[0]
        detail = f" ({one.detail})" if one.detail else ""
        # Somebody answers for what is lost, or a rule that may lose it is known.
        is_explained = any(edge.reason == "reset" or self._rules(edge) for edge in edges)
        if not is_explained and any(edge.reason == "no_echo" and UNACKNOWLEDGED in edge.detail for edge in edges):
            detail += f"; {LARGE_ONES_LOST}"
        causes: dict[str, str] = {}  # a rule is told once, whatever else it drops
        for cause in (cause for edge in edges for cause in self._causes(edge)):
            causes[cause.words] = min(causes.get(cause.words, cause.drops), cause.drops)
        message = said(
            "on random ports {parts}: {reasons}; one of them: {source} to {target} port {port}{detail}",
            joined(parts),
            reasons,
            one.source,
            one.target,
            one.port,
            detail,
        )
        told = [said("{words}{drops}", words, drops) for words, drops in list(causes.items())[:MOST_CAUSES]]
        return joined([message, *told])

    def _ordered(self, names: Iterable[str]) -> tuple[str, ...]:
        wanted = set(names)
        return tuple(node.name for node in self.cluster if node.name in wanted)


def _reversed(ends: dict[str, str]) -> dict[str, str]:
    """The ends of the way back."""
    return {"input": ends["output"], "output": ends["input"]}


def is_of(rule: Filter, hook: str) -> bool:
    """Whether a rule may apply to incoming ("input") or outgoing packets; a chain of another name may apply to both."""
    other = "output" if hook == "input" else "input"
    return other not in rule.place.lower()


def _address(node: NodeFacts) -> str:
    try:
        return node.network.training_interface.address()
    except NotMeasured:
        return ""


def causes_on_the_way(cluster: Cluster, edge: Edge, way: Way) -> list[Cause]:
    """What is wrong with the route to a peer: a router between neighbours, a MAC address that is not the peer's."""
    source, target = cluster[edge.source], cluster[edge.target]
    try:
        own, wanted = source.network.training_interface, target.network.training_interface
        address, subnet = wanted.address(), own.subnet()
        mac = present(wanted.mac, "hardware address")
    except NotMeasured:
        return []
    if way.state == "no route":
        return [
            Cause(
                edge.source,
                said("{source} has no route to {target}: `ip route get {address}`", edge.source, edge.target, address),
            )
        ]
    if any(one.is_loopback and one.name == way.interface for one in source.network.interfaces):
        words = said(
            "{source} has {address} itself, the address of {target}: what it sends there comes back",
            edge.source,
            address,
            edge.target,
        )
        return [Cause(edge.source, said("{words}: `ip addr show to {address}`", words, address))]
    if way.interface and way.interface != own.name:
        words = said(
            "what {source} sends to {target} leaves by {interface}, and not by {name}",
            edge.source,
            edge.target,
            way.interface,
            own.name,
        )
        return [Cause(edge.source, said("{words}: `ip route get {address}`", words, address))]
    is_near = ip_address(address.partition("%")[0]) in ip_network(subnet)
    if way.gateway:
        silent = ", where nothing answers" if way.state == "unanswered" else ""
        words = said(
            "{source} sends what is for {target} to the router {gateway}{silent}",
            edge.source,
            edge.target,
            way.gateway,
            silent,
        )
        words += said(", though both are in {subnet}", subnet)
        return [Cause(edge.source, said("{words}: `ip route get {address}`", words, address))] if is_near else []
    if not is_near or way.hardware in ("", mac.lower()):
        return []
    for other in cluster:
        macs = [one.mac.lower() for one in other.network.interfaces if not isinstance(one.mac, Missing)]
        if other.name not in (edge.source, edge.target) and way.hardware in macs:
            return [
                Cause(
                    other.name,
                    said(
                        "{name} answers {source} for {address}, the address of {target}",
                        other.name,
                        edge.source,
                        address,
                        edge.target,
                    ),
                )
            ]
    if way.state == "permanent":
        words = said(
            "{source} has a fixed neighbor entry {hardware} for {target}, whose address is {mac}",
            edge.source,
            way.hardware,
            edge.target,
            mac,
        )
        return [
            Cause(edge.source, said("{words}: `ip neigh del {address} dev {interface}`", words, address, way.interface))
        ]
    return []


def _two_sides(edges: Iterable[Edge]) -> tuple[frozenset[str], ...]:
    """The two sets of nodes of which none reaches one of the other; nothing where that is not all of it."""
    missed: dict[str, set[str]] = {}
    for edge in edges:
        missed.setdefault(edge.source, set()).add(edge.target)
        missed.setdefault(edge.target, set()).add(edge.source)
    sides = tuple(dict.fromkeys(frozenset(others) for others in missed.values()))
    return sides[::-1] if len(sides) == 2 and not sides[0] & sides[1] else ()


def blames_of_port(found: Rendezvous) -> list[Blame]:
    """Who keeps which nodes from the port of rank 0, by which rule where one was read."""
    by_reason: dict[str, list[Edge]] = {}
    for edge in found.failed:
        by_reason.setdefault(edge.reason, []).append(edge)
    blames = []
    for reason, edges in by_reason.items():
        sources = [edge.source for edge in edges]
        whose = (
            "no other node reaches" if len(sources) == found.tried else said("{sources} cannot reach", fold(sources))
        )
        guilty = [name for name in (found.node, *sources) if name in found.filters]
        if not guilty:
            guilty = [found.node] if len(sources) == found.tried else sources
        held = (
            shown(rule.tool, name, rule.place, rule.rule) for name in guilty for rule in found.filters.get(name, ())
        )
        rules = list(dict.fromkeys(held))
        port = said("port {port} of {node} ({address})", found.port, found.node, found.address)
        message = said("{whose} {port}, where rank 0 will listen: {REASONS}", whose, port, REASONS[edges[0].reason])
        if rules:
            message = joined([message, *rules[:3]])
        elif reason == "filtered":
            message = joined([message, *[edges[0].detail] * bool(edges[0].detail)])
        blames.append(Blame(message, nodes=guilty))
    return blames
