"""What did the reference training show, and of which node does each figure speak? The fixture `training`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from math import inf
from statistics import median_low

from preflight.facts.cluster import Cluster
from preflight.facts.results import Drill, TrainedRank, Training
from preflight.judge.settings import TrainingSettings
from preflight.said import joined, said
from preflight.said.errors import Blame, BlockedBy, NotApplicable, NotMeasured

ENOUGH = 3  # nodes, of which two outvote the third
JOINED = "training.every_rank_joined_where_planned"


@dataclass(frozen=True)
class TrainingView:
    """The reference training over the nodes of `cluster`.

    ``planned[rank]`` is the node that should run the rank; empty where the launcher may place ranks as it likes.
    """

    result: Training
    cluster: Cluster
    planned: tuple[str, ...] = ()

    def ranks(self) -> tuple[TrainedRank, ...]:
        """Every rank that reported; BlockedBy where a rank is to blame that none did, NotMeasured where no rank is."""
        failure = self.result.failure
        if failure is not None and failure.is_proven:
            raise BlockedBy(JOINED, nodes=self._ordered(failure.nodes))
        return self.result.joined()

    def misplaced(self) -> list[Blame]:
        """A Blame for ranks that never joined, joined twice, or joined on another node or device than planned.

        Where the job did not end, the Blame is of the nodes that are to blame for that.
        """
        failure = self.result.failure
        if failure is not None and failure.is_proven:
            cause = said("; likely cause: {cause}", failure.cause) if failure.cause else ""
            return [
                Blame(
                    failure.message + cause + self._limits_of(failure.nodes),
                    nodes=self._ordered(failure.nodes),
                    fix=failure.fix,
                )
            ]
        where: dict[int, list[TrainedRank]] = {rank: [] for rank in range(self.result.world_size)}
        for report in self.ranks():
            where.setdefault(report.rank, []).append(report)
        blames = []
        for rank, reports in where.items():
            nodes = [report.node for report in reports]
            planned = self.planned[rank] if rank < len(self.planned) else ""
            if len(nodes) == 1 and planned in {"", nodes[0]} and rank < self.result.world_size:
                device = self._planned_device(rank)
                if device and device != reports[0].device:
                    message = said(
                        "rank {rank} on {nodes} ran on {device}; wanted {device2}",
                        rank,
                        nodes[0],
                        reports[0].named,
                        device,
                    )
                    blames.append(Blame(message, nodes=nodes))
                continue
            seen = said("joined on {nodes}", ", ".join(nodes)) if nodes else "never joined"
            wanted = (
                said("wanted once on {planned}", planned)
                if planned
                else said("wanted each of {world_size} ranks once", self.result.world_size)
            )
            guilty = {planned, *nodes} - {""} or {node.name for node in self.cluster}
            blames.append(Blame(said("rank {rank} {seen}; {wanted}", rank, seen, wanted), nodes=self._ordered(guilty)))
        return blames

    def _limits_of(self, nodes: Iterable[str]) -> str:
        """The limits of those nodes with which no job gets far: a rank that they end seldom says so."""
        found = ""
        for node in self.cluster:
            with suppress(NotMeasured):  # stored by a version that did not ask
                if node.name in nodes and node.limits.is_hopeless():
                    limits = ", ".join(node.limits.held_down().values())
                    found += said(
                        "; limits of the {context} session on {name}: {limits}",
                        node.identity.context,
                        node.name,
                        limits,
                    )
        return found

    def losses(self) -> tuple[float, ...]:
        """The mean loss of each step, or NotMeasured when there are too few to compare."""
        self.ranks()
        if len(self.result.losses) < 2:
            raise NotMeasured(
                said("{losses} step was trained; wanted at least 2 to compare losses", len(self.result.losses))
            )
        return self.result.losses

    def limits(self, settings: TrainingSettings) -> TrainingSettings:
        """The settings with the tolerances of the precision that was trained in, and of the device."""
        is_rounded = self.result.precision != "fp32"
        if self.result.backend == "nccl":
            replay = settings.gpu_bf16_replay_tolerance if is_rounded else settings.gpu_replay_tolerance
            settings = replace(settings, replay_tolerance=max(settings.replay_tolerance, replay))
        if not is_rounded:
            return settings
        return replace(
            settings, gradient_tolerance=settings.bf16_tolerance, parameters_tolerance=settings.bf16_tolerance
        )

    # -- who is wrong

    def wrong_samples(self) -> tuple[TrainedRank, ...]:
        """The ranks whose samples are not theirs; where all are, those that share samples with others."""
        wrong = tuple(rank for rank in self.ranks() if not rank.samples_right)
        return wrong or tuple(rank for rank in self.ranks() if rank.samples_shared)

    def infinite(self) -> tuple[TrainedRank, ...]:
        """The ranks where a gradient or a loss first stopped being a finite number."""
        return tuple(rank for rank in self.ranks() if not rank.finite)

    def needs_whole_gradients(self) -> None:
        """Leave the check as not applicable where the strategy sums gradients in shards, never those of a rank."""
        if not self._sees_gradients():
            raise NotApplicable(said("strategy {strategy}: gradients are exchanged in shards", self.result.strategy))

    def wrong_gradients(self, *, tolerance: float) -> tuple[TrainedRank, ...]:
        """The ranks whose first gradient is not what their peers computed for the same data.

        Where the peers disagree about a rank, one of them may be the wrong one: such a rank is named only if
        no other rank explains it.
        """
        ranks = self.ranks()
        off = [rank for rank in ranks if not rank.gradient_error <= tolerance] if self._sees_gradients() else []
        certain = [rank for rank in off if rank.reference_agreed]
        return tuple(certain or off)

    def odd_parameters(self, *, tolerance: float) -> tuple[TrainedRank, ...]:
        """The ranks whose parameters are not those of the rest: the minority, or on a tie those off the reference."""
        odd = self._minority(lambda rank: rank.parameters_digest)
        if len(odd) < len(self.ranks()):
            return odd
        off = tuple(rank for rank in self.ranks() if not rank.parameters_error <= tolerance)
        return off if 0 < len(off) < len(odd) else odd

    def odd_optimizers(self) -> tuple[TrainedRank, ...]:
        """The ranks whose optimizer holds another state than most, all of them on a tie."""
        if not all(rank.optimizer_digest for rank in self.ranks()):
            raise NotApplicable(
                said("strategy {strategy}: each rank holds its own shard of the optimizer", self.result.strategy)
            )
        return self._minority(lambda rank: rank.optimizer_digest)

    def beyond(
        self, error: Callable[[TrainedRank], float | None], *, tolerance: float
    ) -> tuple[tuple[TrainedRank, ...], float]:
        """The ranks whose error is above the tolerance, and the largest error; NotMeasured where none has one."""
        errors = {rank.rank: error(rank) for rank in self.ranks()}
        known = {number: value for number, value in errors.items() if value is not None}
        if len(known) < len(errors):
            raise NotMeasured(
                said("not reported by {errors} of {errors2} ranks", len(errors) - len(known), len(errors))
            )
        return tuple(rank for rank in self.ranks() if not known[rank.rank] <= tolerance), max(known.values())

    def needs_checkpoint(self) -> None:
        """Leave the check as not applicable where no folder for checkpoints is given."""
        self.ranks()
        if not self.result.checkpoint_dir:
            raise NotApplicable("no folder for a checkpoint is given (--checkpoint-dir)")

    def blind(self) -> tuple[TrainedRank, ...]:
        """The ranks that could not read the checkpoint that rank 0 wrote."""
        return tuple(rank for rank in self.ranks() if rank.checkpoint_error)

    def drill(self) -> Drill:
        """What became of the trainings in which a rank was killed; NotApplicable where that was not asked for."""
        self.ranks()
        if self.result.drill is None:
            raise NotApplicable("no drill was asked for (--drill)")
        return self.result.drill

    # -- one cause, reported once

    def needs_sound_data(self) -> None:
        """Leave the check as blocked when samples were dealt wrongly, or numbers are no longer finite."""
        self._blocked("training.data_shards_are_disjoint_and_complete", self.wrong_samples())
        self._blocked("training.gradients_are_finite", self.infinite())

    def needs_right_gradients(self, *, tolerance: float) -> None:
        """Leave the check as blocked when a gradient was wrong: after the all-reduce it spoils every rank."""
        self.needs_sound_data()
        self._blocked("training.first_step_gradients_are_right", self.wrong_gradients(tolerance=tolerance))

    def needs_same_parameters(self, *, tolerance: float) -> None:
        """Leave the check as blocked when ranks hold different parameters."""
        self._blocked("training.parameters_are_the_same_on_every_rank", self.odd_parameters(tolerance=tolerance))

    def needs_sound_training(self, settings: TrainingSettings) -> None:
        """Leave the check as blocked when the training itself went wrong on some rank."""
        limits = self.limits(settings)
        self.needs_right_gradients(tolerance=limits.gradient_tolerance)
        self.needs_same_parameters(tolerance=limits.parameters_tolerance)

    def needs_readable_checkpoint(self) -> None:
        """Leave the check as blocked when a rank could not read the checkpoint: then none resumes."""
        self._blocked("training.checkpoint_is_read_by_every_rank", self.blind())

    # -- words

    def blame(self, ranks: Iterable[TrainedRank], message: str) -> Blame:
        """A Blame of the nodes of `ranks`."""
        return Blame(message, nodes=self._ordered(rank.node for rank in ranks))

    def ranks_text(self, ranks: Iterable[TrainedRank]) -> str:
        """Ranks with their nodes, as a message says them: ``rank 4, 5 on node3``."""
        of_node: dict[str, list[str]] = {}
        for rank in ranks:
            of_node.setdefault(rank.node, []).append(str(rank.rank))
        return joined([said("rank {numbers} on {node}", ", ".join(numbers), node) for node, numbers in of_node.items()])

    # -- speed

    def compute_seconds(self) -> dict[int, float]:
        """Rank -> seconds of a step without waiting for peers; with that, all ranks of DDP take the same."""
        seconds = {rank.rank: rank.compute_seconds_mean for rank in self.ranks()}
        if not all(seconds.values()):  # runs stored by an earlier version
            raise NotMeasured("this training has no time for a step without communication")
        return seconds

    def stragglers(self, *, above: float, up_to: float = inf, min_seconds: float) -> tuple[TrainedRank, ...]:
        """The ranks whose own work in a step takes more than `above` x the median, at most `up_to` x, and long enough.

        What is within `min_seconds` of the median is no straggler, whatever its ratio.
        """
        seconds = self.compute_seconds()
        self.needs_whole_gradients()
        if len(seconds) < 3 and len({rank.node for rank in self.ranks()}) < 2:
            raise NotApplicable(said("{seconds} ranks on one node: no others to compare with", len(seconds)))
        middle = self._usual_seconds()
        slow = (rank for rank in self.ranks() if seconds[rank.rank] > middle + min_seconds)
        return tuple(rank for rank in slow if above * middle < seconds[rank.rank] <= up_to * middle)

    def stopped_by_quota(self, *, share: float) -> tuple[TrainedRank, ...]:
        """The ranks that a quota of CPU stopped in at least `share` of its periods, and more than once or twice."""
        return tuple(
            rank for rank in self.ranks() if rank.quota_periods_stopped >= max(ENOUGH, share * rank.quota_periods)
        )

    def quota_text(self, stopped: Iterable[TrainedRank]) -> str:
        """These ranks, and how often the quota stopped them."""
        times = joined(
            [
                said("{quota_periods_stopped} of {quota_periods}", rank.quota_periods_stopped, rank.quota_periods)
                for rank in stopped
            ],
            ", ",
        )
        return said(
            "{ranks_text}: the quota of CPU stopped it in {times} periods while it trained",
            self.ranks_text(stopped),
            times,
        )

    def _usual_seconds(self) -> float:
        """The usual time of a step's own work: each node has one voice, so none has the say for all.

        Of an even number the lower one: half of the ranks may be on the slow node.
        """
        seconds = self.compute_seconds()
        of_node: dict[str, list[float]] = {}
        for rank in self.ranks():
            of_node.setdefault(rank.node, []).append(seconds[rank.rank])
        if len(of_node) < ENOUGH:
            return median_low(seconds.values())
        return median_low(median_low(values) for values in of_node.values())

    def stragglers_text(self, slow: Iterable[TrainedRank]) -> str:
        """These ranks, the time of each, and that of the others."""
        seconds = self.compute_seconds()
        times = ", ".join(f"{seconds[rank.rank]:.4g} s" for rank in slow)
        middle = self._usual_seconds()
        return said(
            "{ranks_text}: {times} for a step without communication; the median is {middle:.4g} s",
            self.ranks_text(slow),
            times,
            middle,
        )

    def _sees_gradients(self) -> bool:
        return self.result.strategy == "ddp"

    def _planned_device(self, rank: int) -> str:
        """The device that the rank's place on its node gives it; "" where no place is planned."""
        if rank >= len(self.planned):
            return ""
        return f"cuda:{self._local_ranks[rank]}" if self.result.backend == "nccl" else "cpu"

    @cached_property
    def _local_ranks(self) -> tuple[int, ...]:
        """Rank -> its place among the ranks planned for its node."""
        counts = {node: count() for node in self.planned}
        return tuple(next(counts[node]) for node in self.planned)

    def _minority(self, digest: Callable[[TrainedRank], str]) -> tuple[TrainedRank, ...]:
        """The ranks whose digest is not that of most; all of them on a tie, none where all are equal."""
        groups: dict[str, list[TrainedRank]] = {}
        for rank in self.ranks():
            groups.setdefault(digest(rank), []).append(rank)
        if len(groups) == 1:
            return ()
        sizes = sorted((len(group) for group in groups.values()), reverse=True)
        if sizes[0] > sizes[1]:
            return tuple(rank for group in groups.values() if len(group) < sizes[0] for rank in group)
        return self.ranks()

    def _blocked(self, check: str, ranks: tuple[TrainedRank, ...]) -> None:
        if ranks:
            raise BlockedBy(check, nodes=dict.fromkeys(rank.node for rank in ranks))

    def _ordered(self, names: Iterable[str]) -> list[str]:
        wanted = set(names)
        return [node.name for node in self.cluster if node.name in wanted]
