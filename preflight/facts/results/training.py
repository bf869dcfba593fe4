"""What did the reference training show of each rank? The section `training` of report.json."""

from __future__ import annotations

from preflight.facts.results.measured import Measured, OnDevice
from preflight.said.errors import NotMeasured


class TrainedRank(OnDevice, frozen=True, kw_only=True):
    """One rank of the reference training.

    Fingerprints are projections of a gradient on fixed pseudo-random vectors: equal gradients give equal
    fingerprints up to rounding. `gradient_error` is the relative distance of the gradient this rank put into its
    first all-reduce from what its peers computed for the same data; `parameters_error` that of its parameters
    after the first step from a single process on the whole batch. `replay_error`, `accumulation_error` and
    `resume_error` are relative distances of a second computation (the first steps again, a batch in two halves, the
    steps after the checkpoint again) from the first; None where it was not made.
    """

    step_seconds_median: float
    step_seconds_p95: float
    parameters_digest: str
    gradient_error: float
    parameters_error: float
    import_seconds: float
    finite: bool
    reference_agreed: bool = True  # the peers that recomputed this rank's gradient agree with each other
    samples_digest: str = ""
    communication_seconds_median: float = 0.0
    compute_seconds_mean: float = 0.0  # the rest of a step, without the slowest tenth of steps
    optimizer_digest: str = ""
    samples_right: bool = True  # they are those that DistributedSampler should deal to this rank
    samples_shared: int = 0  # how many of them another rank uses too
    replay_error: float | None = None
    accumulation_error: float | None = None
    resume_error: float | None = None
    checkpoint_error: str = ""  # why this rank could not read what rank 0 wrote
    alone_step_seconds_median: float | None = None  # its node training by itself; None where there is one node
    data_seconds_median: float = 0.0
    quota_periods: int = 0  # of its control group's quota of CPU, while the steps ran; 0 where there is none
    quota_periods_stopped: int = 0  # in which the quota stopped the group
    memory_peak_bytes: int = 0


class JobFailure(Measured, frozen=True, kw_only=True):
    """Where a job stopped, whose fault that is, and what may fix it.

    ``is_proven`` tells whether the nodes are guilty (a rank died there, gave a reason of its own or kept the others
    waiting), or only the place where the last output came from.
    """

    nodes: tuple[str, ...]
    is_proven: bool
    message: str
    stage: str = ""
    ranks: tuple[int, ...] = ()
    cause: str = ""
    fix: str = ""
    last_lines: tuple[str, ...] = ()


class Drill(Measured, frozen=True, kw_only=True):
    """What became of two trainings in which one rank killed itself: without restarts, and with torchrun's."""

    rank: int
    node: str
    named: tuple[str, ...]  # the nodes that the failed job was blamed on
    seconds_to_end: float  # from the start of the job to the end of its last rank
    limit_seconds: float
    restarted_losses: tuple[float, ...] = ()  # after the restart, from the checkpoint on
    wanted_losses: tuple[float, ...] = ()  # of the training without a killed rank
    not_restarted: str = ""


class Training(Measured, frozen=True, kw_only=True):
    """The reference training: losses are the means over ranks, one a step."""

    launcher: str
    world_size: int
    losses: tuple[float, ...]
    ranks: tuple[TrainedRank, ...]
    backend: str = "gloo"
    steps: int = 0
    tokens_per_s: float = 0.0
    not_measured: str = ""
    not_measured_nodes: tuple[str, ...] = ()
    model: str = "tiny"
    strategy: str = "ddp"
    precision: str = "fp32"
    accumulate: int = 1  # parts of a batch whose gradients are summed before they are exchanged
    checkpoints_activations: bool = False
    samples_missing: int = 0  # how many samples no rank used
    scaling_efficiency: float | None = None  # tokens/s of all nodes, over the sum of each node by itself
    expected_communication_seconds: float | None = None  # of a step, from the bench's all-reduce
    checkpoint_dir: str = ""
    failure: JobFailure | None = None
    drill: Drill | None = None
    node_names: tuple[str, ...] = ()  # the nodes it was started on

    def joined(self) -> tuple[TrainedRank, ...]:
        """The ranks, or NotMeasured when the training gave none."""
        if not self.ranks:
            raise NotMeasured(self.not_measured or "the reference training gave no result")
        return self.ranks
