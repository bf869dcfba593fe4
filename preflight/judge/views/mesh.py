"""Which nodes do failed connections speak of? The fixture `mesh`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from preflight.errors import Blame
from preflight.facts.cluster import Cluster
from preflight.hosts import fold
from preflight.results import Mesh

REASONS = {
    "refused": "refused (nothing listened there any more)",
    "filtered": "no answer (filtered)",
    "reset": "connection reset",
    "no_echo": "connected, but no data came through",
    "wrong_peer": "another program or node answered",
    "unreachable": "unreachable (no route)",
    "looped": "the connection came back to its own end",
    "local": "the connecting node ran out of ports or sockets",
    "not_attested": "the accepting node never saw the data",
}


@dataclass(frozen=True)
class MeshView:
    """The port mesh of the nodes in `cluster`; failed edges are blamed on the node sets the mesh worked out."""

    result: Mesh
    cluster: Cluster

    def blames(self) -> list[Blame]:
        """One Blame for each set of nodes that the failed edges lie on; a node that took no part is unmeasured."""
        self.cluster.needs_peers()
        self.cluster.gather(lambda node: node.network.training_interface)
        blames = [Blame(self._message(nodes), nodes=nodes) for nodes in self.result.blamed]
        blamed = {node for nodes in self.result.blamed for node in nodes}
        loose = [edge for edge in self.result.failed if not blamed & {edge.source, edge.target}]
        ends = self._ordered(end for edge in loose for end in (edge.source, edge.target))
        return [*blames, *([Blame(self._message(ends), nodes=ends)] if loose else [])]

    def _message(self, nodes: Iterable[str]) -> str:
        """How many connections with these nodes failed in which direction, why, and one of them in full."""
        names = set(nodes)
        edges = [edge for edge in self.result.failed if names & {edge.source, edge.target}]
        sources = [edge.source for edge in edges if edge.target in names]
        targets = [edge.target for edge in edges if edge.source in names and edge.target not in names]
        parts = [
            f"{len(ends)} {direction} {fold(self._ordered(names))} (peers {fold(self._ordered(ends))})"
            for direction, ends in (("to", sources), ("from", targets))
            if ends
        ]
        reasons = ", ".join(sorted({REASONS[edge.reason] for edge in edges}))
        one = edges[0]
        detail = f" ({one.detail})" if one.detail else ""
        return (
            f"connections to random ports failed: {'; '.join(parts)}: {reasons}; "
            f"one of them: {one.source} to {one.target} port {one.port}{detail}"
        )

    def _ordered(self, names: Iterable[str]) -> tuple[str, ...]:
        wanted = set(names)
        return tuple(node.name for node in self.cluster if node.name in wanted)
