"""What did a job measure, and of which node does each figure speak? The fixtures `mesh`, `bench` and `training`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from preflight.errors import Blame, BlockedBy, NotApplicable, NotMeasured
from preflight.facts.cluster import Cluster
from preflight.facts.measured import Bench, Edge, Mesh, Result, Slow, TrainedRank, Training
from preflight.hosts import fold

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
        told = [Blame(self._told(nodes), nodes=nodes) for nodes in self.result.blamed]
        blamed = {node for nodes in self.result.blamed for node in nodes}
        loose = [edge for edge in self.result.failed if not blamed & {edge.source, edge.target}]
        ends = self._ordered(end for edge in loose for end in (edge.source, edge.target))
        return [*told, *([Blame(self._told(ends), nodes=ends)] if loose else [])]

    def _told(self, nodes: Iterable[str]) -> str:
        """How many connections with these nodes failed in which direction, why, and one of them in full."""
        names = set(nodes)
        edges = [edge for edge in self.result.failed if names & {edge.source, edge.target}]
        into = [edge for edge in edges if edge.target in names]
        outof = [edge for edge in edges if edge.source in names and edge.target not in names]
        folded = fold(self._ordered(names))
        parts = [
            f"{len(some)} {direction} {folded} (peers {fold(self._ordered(peers(some)))})"
            for some, direction, peers in (
                (into, "to", lambda some: (edge.source for edge in some)),
                (outof, "from", lambda some: (edge.target for edge in some)),
            )
            if some
        ]
        reasons = ", ".join(sorted({REASONS[edge.reason] for edge in edges}))
        one = edges[0]
        return (
            f"connections to random ports failed: {'; '.join(parts)}: {reasons}; "
            f"one of them: {one.source} to {one.target} port {one.port}{_detail(one)}"
        )

    def _ordered(self, names: Iterable[str]) -> tuple[str, ...]:
        wanted = set(names)
        return tuple(node.name for node in self.cluster if node.name in wanted)


@dataclass(frozen=True)
class BenchView:
    """The benchmark over the nodes of `cluster`."""

    result: Bench
    cluster: Cluster

    def all_reduce(self) -> Result:
        """The all-reduce at its largest size; NotMeasured where none was run."""
        return self.result.result("all_reduce")

    def nodes_of(self, ranks: Iterable[int]) -> tuple[str, ...]:
        """The nodes these ranks ran on, in HOSTS order; all of them where the ranks are not known."""
        wanted = set(ranks)
        names = {report.node for report in self.result.ranks if report.rank in wanted}
        found = tuple(node.name for node in self.cluster if node.name in names)
        return found or self.names

    @property
    def names(self) -> tuple[str, ...]:
        """Every node that took part."""
        return tuple(node.name for node in self.cluster)

    def slow(self) -> tuple[Slow, ...]:
        """The slow places of the shift rounds; NotApplicable on one node, NotMeasured when no stream ran."""
        if not self.cluster.has_peers:
            raise NotApplicable("one node: no link to measure")
        if not self.result.streams and not self.result.slow:
            raise NotMeasured(self.result.not_measured or "no stream was measured between the nodes")
        return self.result.slow

    def reached(self, *, share: float) -> tuple[bool, str]:
        """Whether busbw reaches `share` of the expected, and the sentence that tells.

        The 95 % interval of the median is judged: wholly above the gate holds, wholly below does not, and one
        that straddles it is NotMeasured. So is a figure above what the links can carry.
        """
        if not self.cluster.has_peers:
            raise NotApplicable("one node: no link measured")
        if self.slow():
            cause = self.ordered({name for place in self.result.slow for name in place.nodes})
            raise BlockedBy("bench.no_node_is_slower_than_its_peers", nodes=cause)
        measured, expected = self.all_reduce(), self.result.expected
        if measured.wrong:
            raise BlockedBy("bench.all_reduce_is_correct", nodes=self.nodes_of(measured.wrong_ranks))
        if expected is None:
            raise NotMeasured("no expected bandwidth: neither a link rate nor a raw stream is known")
        low, high = measured.busbw_low_gbytes_per_s, measured.busbw_high_gbytes_per_s
        bound = expected.bound_gbytes_per_s
        told = (
            f"all_reduce busbw {measured.busbw_gbytes_per_s:.4g} GB/s (95 % interval {low:.4g}-{high:.4g}) "
            f"at {measured.bytes} bytes over {self.result.world_size} ranks"
        )
        if bound is not None and low > 1.02 * bound:
            raise NotMeasured(f"{told} is more than the links can carry ({bound:.4g} GB/s): a fact or a figure is wrong")
        gate = share * expected.busbw_gbytes_per_s
        wanted = f"wanted at least {gate:.4g} GB/s = {share:.0%} of {expected.busbw_gbytes_per_s:.4g}"
        if low < gate <= high:
            raise NotMeasured(f"{told} straddles the gate of {gate:.4g} GB/s: run it again, or longer")
        return low >= gate, f"{told}; {wanted} ({'; '.join(expected.derivation)})"

    def ordered(self, names: Iterable[str]) -> tuple[str, ...]:
        """Names in HOSTS order."""
        wanted = set(names)
        return tuple(name for name in self.names if name in wanted)


@dataclass(frozen=True)
class TrainingView:
    """The reference training over the nodes of `cluster`; `planned[rank]` is the node that should run the rank."""

    result: Training
    cluster: Cluster
    planned: tuple[str, ...]

    def ranks(self) -> tuple[TrainedRank, ...]:
        """Every rank that reported, or NotMeasured when the training gave none."""
        return self.result.joined()

    def losses(self) -> tuple[float, ...]:
        """The mean loss of each step, or NotMeasured when there are too few to compare."""
        self.result.joined()
        if len(self.result.losses) < 2:
            raise NotMeasured(f"{len(self.result.losses)} step was trained; wanted at least 2 to compare losses")
        return self.result.losses

    def wrong_gradients(self, *, tolerance: float) -> tuple[TrainedRank, ...]:
        """The ranks whose first gradient is not what their peers computed for the same data.

        Where the peers disagree about a rank, one of them may be the wrong one: such a rank is named only if
        no other rank explains it.
        """
        off = [rank for rank in self.ranks() if not rank.gradient_error <= tolerance]
        certain = [rank for rank in off if rank.reference_agreed]
        return tuple(certain or off)

    def odd_parameters(self, *, tolerance: float) -> tuple[TrainedRank, ...]:
        """The ranks whose parameters are not those of the others: the minority, or on a tie those off the reference."""
        groups: dict[str, list[TrainedRank]] = {}
        for rank in self.ranks():
            groups.setdefault(rank.parameters_digest, []).append(rank)
        if len(groups) == 1:
            return ()
        sizes = sorted((len(group) for group in groups.values()), reverse=True)
        if sizes[0] > sizes[1]:
            return tuple(rank for group in groups.values() if len(group) < sizes[0] for rank in group)
        off = tuple(rank for rank in self.ranks() if not rank.parameters_error <= tolerance)
        return off if 0 < len(off) < len(self.ranks()) else self.ranks()

    def needs_right_gradients(self, *, tolerance: float) -> None:
        """Leave the check as blocked when a gradient was wrong: after the all-reduce it spoils every rank alike."""
        self._blocked("training.first_step_gradients_are_right", self.wrong_gradients(tolerance=tolerance))

    def needs_same_parameters(self, *, tolerance: float) -> None:
        """Leave the check as blocked when ranks hold different parameters."""
        self._blocked("training.parameters_are_the_same_on_every_rank", self.odd_parameters(tolerance=tolerance))

    def blame(self, ranks: Iterable[TrainedRank], message: str) -> Blame:
        """A Blame of the nodes of `ranks`."""
        names = {rank.node for rank in ranks}
        return Blame(message, nodes=[node.name for node in self.cluster if node.name in names])

    def told(self, ranks: Iterable[TrainedRank]) -> str:
        """Ranks with their nodes, as a message says them: ``rank 4, 5 on node3``."""
        of_node: dict[str, list[str]] = {}
        for rank in ranks:
            of_node.setdefault(rank.node, []).append(str(rank.rank))
        return "; ".join(f"rank {', '.join(numbers)} on {node}" for node, numbers in of_node.items())

    def compute_seconds(self) -> dict[int, float]:
        """Rank -> median seconds of a step without waiting for peers, which every rank of DDP does alike."""
        return {r.rank: r.step_seconds_median - r.communication_seconds_median for r in self.ranks()}

    def stragglers(self, *, factor: float) -> tuple[tuple[TrainedRank, ...], float]:
        """The ranks whose own work in a step takes more than `factor` x the median, and that median in seconds."""
        seconds = self.compute_seconds()
        if len(seconds) < 3:
            raise NotApplicable(f"{len(seconds)} ranks: no median to compare with; wanted at least 3")
        middle = median(seconds.values())
        return tuple(rank for rank in self.ranks() if seconds[rank.rank] > factor * middle), middle

    def _blocked(self, check: str, ranks: tuple[TrainedRank, ...]) -> None:
        if ranks:
            raise BlockedBy(check, nodes=dict.fromkeys(rank.node for rank in ranks))


def _detail(edge: Edge) -> str:
    return f" ({edge.detail})" if edge.detail else ""
