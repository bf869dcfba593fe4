"""Which ranks does a job have, on which of the nodes?"""

from __future__ import annotations

from dataclasses import dataclass

from preflight.facts import view
from preflight.facts.cluster import Cluster
from preflight.facts.node import NodeFacts
from preflight.job.options.options import Options
from preflight.judge.tables import visible
from preflight.launch.job import Job, Placement, Starting
from preflight.said import said
from preflight.said.errors import NotMeasured

NOT_OURS = Starting()


def without_master(layer: dict[str, str]) -> dict[str, str]:
    """A layer of the environment without the endpoint of the user's own job."""
    return {name: value for name, value in layer.items() if name not in ("MASTER_ADDR", "MASTER_PORT")}


@dataclass(frozen=True)
class JobNodes:
    """The nodes that jobs run on: those that answered, without those left out."""

    cluster: Cluster
    names: tuple[str, ...]  # every host that was asked for, in HOSTS order
    options: Options

    @property
    def backend(self) -> str:
        """The backend the ranks use."""
        asked = self.options.backend
        return view.automatic_backend(list(self.cluster)) if asked == "auto" else asked

    def job(self, workload: str, settings: dict[str, object], *, seconds: float) -> Job:
        """A job over all these nodes, rank 0 on the first. NotMeasured when there is no rank to run."""
        placements = self.placements()
        if not placements:
            raise NotMeasured(said("backend {backend} has no rank to run: no GPU on these nodes", self.backend))
        if self.backend == "nccl":
            self._needs_a_gpu_a_rank(placements)
        busy = view.busy_gpus(self.cluster) if self.backend == "nccl" and not self.options.force else ""
        if busy:
            raise NotMeasured(
                said("other programs use {busy}, and would be disturbed: end them, or give --force", busy)
            )
        return Job(
            workload=workload,
            settings=settings,
            placements=placements,
            master_address=self.cluster.nodes[0].address_for_peers(),
            # the user's MASTER_ADDR and MASTER_PORT are inspected, never used
            environment=tuple((name, without_master(layer)) for name, layer in self.options.layers),
            seconds=seconds,
        )

    def _needs_a_gpu_a_rank(self, placements: tuple[Placement, ...]) -> None:
        """NotMeasured where a node has more ranks than CUDA shows GPUs: those end with `invalid device ordinal`."""
        for node in self.cluster:
            ranks = sum(placement.node == node.name for placement in placements)
            seen = visible.count(node)
            if 0 < seen < ranks:
                name, value = visible.choice(node)
                held = "MIG is on" if node.gpu_count() > seen else said("{seen} are there", seen)
                why = f"{name}={value}" if name else held
                raise NotMeasured(
                    said(
                        "{ranks} ranks on {name}, where CUDA shows a process {seen} GPU{s} ({why})",
                        ranks,
                        node.name,
                        seen,
                        "s" * (seen != 1),
                        why,
                    )
                )

    def planned(self) -> tuple[str, ...]:
        """The node of every rank of the training, by rank; empty where its agents number them as they like."""
        starting = self.options.starting
        return () if starting.numbers_freely else tuple(place.node for place in self.placements(starting))

    def placements(self, starting: Starting = NOT_OURS) -> tuple[Placement, ...]:
        """Every rank with its node, in HOSTS order, as the user's files place them where they say."""
        if starting.nodes not in (0, len(self.cluster)):
            counted = f"{starting.nodes} node{'s' * (starting.nodes > 1)}"
            raise NotMeasured(
                said("the launch files start {counted}; the job would have {cluster}", counted, len(self.cluster))
            )
        placed: list[Placement] = []
        for node in self.cluster:
            start = starting.of(self.names.index(node.name)) if starting.starts else None
            count = (start.processes if start else 0) or self.ranks_on(node)
            numbers = (start.ranks if start else ()) or range(len(placed), len(placed) + count)
            placed += [Placement(rank, node.name, local, count) for local, rank in enumerate(numbers)]
        return tuple(sorted(placed, key=lambda placement: placement.rank))

    def ranks_on(self, node: NodeFacts) -> int:
        """--ranks-per-node, else slots=, else the GPUs that the job sees, else 1; 2 where one node has no GPU."""
        if self.options.ranks_per_node != "auto":
            return int(self.options.ranks_per_node)
        if node.slots:
            return node.slots
        if self.backend == "nccl":
            return visible.count(node)
        return 2 if len(self.cluster) == 1 else 1
