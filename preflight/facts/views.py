"""What did a job measure, and of which node does each figure speak? The fixtures `mesh`, `bench` and `training`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from preflight.errors import Blame, BlameMany, BlockedBy, NotApplicable, NotMeasured
from preflight.facts.cluster import Cluster
from preflight.facts.measured import Bench, Expected, Mesh, Result, Slow, TrainedRank, Training
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

    def same_nccl(self) -> None:
        """Every rank loaded the same NCCL; otherwise the nodes of the minority are blamed, all of them on a tie."""
        loaded = [report for report in self.result.ranks if report.nccl]
        if not loaded:
            raise NotApplicable(f"no rank loaded NCCL (backend {self.result.backend})")
        groups: dict[str, tuple[str, ...]] = {}
        for report in loaded:
            groups[report.nccl] = tuple(dict.fromkeys((*groups.get(report.nccl, ()), report.node)))
        blames = self.cluster.differing(groups, "NCCL that the ranks loaded")
        if blames:
            raise BlameMany(blames)

    def slow_blames(self) -> list[Blame]:
        """A Blame for each slow place; NotApplicable on one node, NotMeasured when no stream ran."""
        self._needs_links()
        if not self.result.streams and not self.result.slow:
            raise NotMeasured(self.result.not_measured or "no stream was measured between the nodes")
        return [Blame(_told_slow(place), nodes=self.ordered(place.nodes)) for place in self.result.slow]

    def expected(self) -> Expected:
        """What the links should give; NotApplicable on one node, NotMeasured where nobody could tell."""
        self._needs_links()
        if self.result.expected is None:
            raise NotMeasured(self.result.not_measured or "neither a link rate nor a raw stream is known")
        return self.result.expected

    def needs_rate(self) -> None:
        """Leave the check as not applicable where no link tells its rate: the nodes are judged against each other."""
        if self.expected().bound_gbytes_per_s is None:
            raise NotApplicable("no link tells its rate: the nodes are judged against each other")

    def shortfall(self, *, share: float, impossible_above: float, needs_certainty: bool) -> str:
        """What there is to say when busbw stays below `share` of the expected; "" when it does not.

        The 95 % interval of the median is judged: wholly below the gate is a shortfall; one that straddles it is
        NotMeasured where certainty is needed. So is a figure above what the links can carry.
        """
        expected, measured = self.expected(), self.all_reduce()
        if self.result.slow:
            cause = self.ordered(name for place in self.result.slow for name in place.nodes)
            raise BlockedBy("bench.no_node_is_slower_than_its_peers", nodes=cause)
        if measured.wrong:
            raise BlockedBy("bench.all_reduce_is_correct", nodes=self.nodes_of(measured.wrong_ranks))
        low, high = measured.busbw_low_gbytes_per_s, measured.busbw_high_gbytes_per_s
        told = (
            f"all_reduce busbw {measured.busbw_gbytes_per_s:.4g} GB/s (95 % interval {low:.4g}-{high:.4g}) "
            f"at {measured.bytes} bytes over {self.result.world_size} ranks"
        )
        bound = expected.bound_gbytes_per_s
        if bound is not None and low > impossible_above * bound:
            raise NotMeasured(f"{told}: more than the links can carry ({bound:.4g} GB/s), a fact or a figure is wrong")
        gate = share * expected.busbw_gbytes_per_s
        if low < gate <= high and needs_certainty:
            raise NotMeasured(f"{told}: straddles the gate of {gate:.4g} GB/s; run it again, or longer")
        derivation = "; ".join(expected.derivation)
        wanted = f"wanted at least {gate:.4g} GB/s, {share:.0%} of {expected.busbw_gbytes_per_s:.4g} ({derivation})"
        return f"{told}; {wanted}" if high < gate else ""

    def _needs_links(self) -> None:
        if not self.cluster.has_peers:
            raise NotApplicable("one node: no link measured")

    def ordered(self, names: Iterable[str]) -> tuple[str, ...]:
        """Names in HOSTS order."""
        wanted = set(names)
        return tuple(name for name in self.names if name in wanted)


@dataclass(frozen=True)
class TrainingView:
    """The reference training over the nodes of `cluster`.

    ``planned[rank]`` is the node that should run the rank; empty where the launcher may place ranks as it likes.
    """

    result: Training
    cluster: Cluster
    planned: tuple[str, ...] = ()

    def ranks(self) -> tuple[TrainedRank, ...]:
        """Every rank that reported, or NotMeasured when the training gave none."""
        return self.result.joined()

    def misplaced(self) -> list[Blame]:
        """A Blame for ranks that never joined, joined twice, or joined on another node than planned."""
        where: dict[int, list[str]] = {rank: [] for rank in range(self.result.world_size)}
        for report in self.ranks():
            where.setdefault(report.rank, []).append(report.node)
        blames = []
        for rank, nodes in where.items():
            planned = self.planned[rank] if rank < len(self.planned) else ""
            if len(nodes) == 1 and planned in {"", nodes[0]} and rank < self.result.world_size:
                continue
            seen = f"joined on {', '.join(nodes)}" if nodes else "never joined"
            wanted = f"wanted once on {planned}" if planned else f"wanted each of {self.result.world_size} ranks once"
            guilty = {planned, *nodes} - {""} or {node.name for node in self.cluster}
            ordered = [node.name for node in self.cluster if node.name in guilty]
            blames.append(Blame(f"rank {rank} {seen}; {wanted}", nodes=ordered))
        return blames

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
        """The ranks whose parameters are not those of the rest: the minority, or on a tie those off the reference."""
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


def _told_slow(place: Slow) -> str:
    """A slow place as a message says it."""
    names = " and ".join(place.nodes)
    what = {
        "egress": f"{names} sends",
        "ingress": f"{names} receives",
        "both": f"{names} sends and receives",
        "path": f"the path between {names} carries",
    }[place.direction]
    return f"{what} {place.gbytes_per_s:.4g} GB/s where its peers reach {place.peers_gbytes_per_s:.4g} GB/s"
