"""What did the mesh, the bench and the reference training measure? Each is the section of that name in report.json."""

from __future__ import annotations

from typing import Literal

import msgspec

from preflight.errors import NotMeasured

Reason = Literal[
    "refused", "filtered", "reset", "no_echo", "wrong_peer", "unreachable", "looped", "local", "not_attested"
]
Direction = Literal["egress", "ingress", "both", "path"]


class Measured(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The base of every section: frozen, and strict when a stored run is read again."""


class Edge(Measured, frozen=True, rename={"source": "from", "target": "to"}):
    """One ordered pair that failed: `source` connected (or tried) to a random port of `target`."""

    source: str
    target: str
    port: int
    reason: Reason
    detail: str = ""


class Mesh(Measured, frozen=True):
    """Connections on random ports over the training interface; an edge is ok when both ends hold the nonce."""

    edges: int
    ok: int
    failed: tuple[Edge, ...]
    blamed: tuple[tuple[str, ...], ...] = ()  # node sets, from preflight.mesh.blame
    unmeasured: dict[str, str] = {}  # nodes that took no part, with the reason
    seconds: float = 0.0


class Result(Measured, frozen=True):
    """One collective at one size. Seconds are of one operation, the maximum over ranks, over `iterations`."""

    op: str
    bytes: int
    iterations: int
    seconds_first: float
    seconds_median: float
    seconds_p5: float
    seconds_p95: float
    seconds_low: float  # 95 % interval of the median
    seconds_high: float
    cv: float
    algbw_gbytes_per_s: float
    busbw_gbytes_per_s: float
    busbw_low_gbytes_per_s: float
    busbw_high_gbytes_per_s: float
    wrong: int
    wrong_ranks: tuple[int, ...] = ()
    dtype: str = "float32"
    in_place: bool = True


class Expected(Measured, frozen=True):
    """The bandwidth these nodes should show, and how the figure came about, one step a line."""

    busbw_gbytes_per_s: float
    bound_gbytes_per_s: float | None  # nothing can be faster than this; None where no rate is known
    derivation: tuple[str, ...]


class Slow(Measured, frozen=True):
    """A slow place that the shift rounds found."""

    nodes: tuple[str, ...]
    direction: Direction
    gbytes_per_s: float
    peers_gbytes_per_s: float


class Stream(Measured, frozen=True, rename={"source": "from", "target": "to"}):
    """One raw TCP stream of one shift round, timed at the receiver."""

    source: str
    target: str
    shift: int
    gbytes_per_s: float


class RankReport(Measured, frozen=True):
    """What one rank says of itself when it has joined."""

    rank: int
    node: str
    device: str
    import_seconds: float
    init_seconds: float
    nccl: str = ""


class Bench(Measured, frozen=True):
    """All-reduce over all ranks, the raw streams beside it, and who is slow."""

    backend: str
    world_size: int
    nodes: int
    results: tuple[Result, ...]
    expected: Expected | None
    slow: tuple[Slow, ...]
    streams: tuple[Stream, ...] = ()
    ranks: tuple[RankReport, ...] = ()
    not_measured: str = ""  # why `results` is empty, with the node that is to blame
    not_measured_nodes: tuple[str, ...] = ()

    def result(self, op: str) -> Result:
        """The result of a collective at its largest size."""
        found = [result for result in self.results if result.op == op]
        if not found:
            raise NotMeasured(self.not_measured or f"no {op} was run")
        return max(found, key=lambda result: result.bytes)


class TrainedRank(Measured, frozen=True):
    """One rank of the reference training.

    Fingerprints are projections of a gradient on fixed pseudo-random vectors: equal gradients give equal
    fingerprints up to rounding. `gradient_error` is the relative distance of the gradient this rank put into its
    first all-reduce from what its peers computed for the same data; `parameters_error` that of its parameters
    after the first step from a single process on the whole batch.
    """

    rank: int
    node: str
    device: str
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


class Training(Measured, frozen=True):
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

    def joined(self) -> tuple[TrainedRank, ...]:
        """The ranks, or NotMeasured when the training gave none."""
        if not self.ranks:
            raise NotMeasured(self.not_measured or "the reference training gave no result")
        return self.ranks
