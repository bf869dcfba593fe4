"""What was found in the logs: evidence, causes, and the job as it can be rebuilt from them."""

from __future__ import annotations

from dataclasses import dataclass, field

from preflight.diagnose.cause import Cause
from preflight.diagnose.ends.end import Outcome
from preflight.diagnose.ends.stages import Stage
from preflight.said import said

# Causes that end no job and make it slow.
SLOWING = frozenset(
    (
        *("gpu-thermal", "rdma-no-device", "rdma-peer-memory", "nccl-plugin-lost"),
        *("sharp-manager", "sharp-resources", "sharp-ports", "sharp-failure"),
    )
)


@dataclass(frozen=True)
class Evidence:
    """A line, its place, and who printed it. ``rank`` is -1 and ``seconds`` negative where unknown."""

    file: str
    line: int
    text: str
    rank: int = -1
    node: str = ""
    seconds: float = -1.0
    stage: Stage = Stage.UNKNOWN  # in which it was printed


@dataclass(frozen=True)
class Finding:
    """A cause with the lines that speak of it.

    ``survived`` tells that the training went on after the last of them, ``is_after_end`` that it had ended well before
    the first of them, ``is_aftermath`` that they then only tell how its processes went; ``is_parting`` that they do so
    after the program had saved its state, or left in order as it was asked to. ``is_warning`` tells that a library
    only warned of it, ``is_mild`` that torch's native code only warned of a peer that had left. ``later`` counts the
    lines of progress after the last of them.
    """

    cause: Cause
    evidence: tuple[Evidence, ...]
    count: int
    ranks: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()
    survived: bool = False
    is_after_end: bool = False
    is_aftermath: bool = False
    is_parting: bool = False
    is_warning: bool = False
    is_mild: bool = False
    later: int = 0
    detail: str = ""

    @property
    def where(self) -> str:
        """The ranks and nodes that the lines are of, as words; "" where no line says so."""
        ranks = ", ".join(map(str, self.ranks[:8])) + (
            said(" and {ranks} more", len(self.ranks) - 8) if len(self.ranks) > 8 else ""
        )
        nodes = ", ".join(self.nodes[:4]) + (
            said(" and {nodes} more", len(self.nodes) - 4) if len(self.nodes) > 4 else ""
        )
        words = [f"rank{'s' * (len(self.ranks) != 1)} {ranks}"] if self.ranks else []
        return " on ".join([*words, nodes] if nodes else words)


@dataclass(frozen=True)
class Gap:
    """What was given and could not be read: nothing of it, or, where ``is_read``, not all of it."""

    file: str
    reason: str
    is_read: bool = False

    @property
    def words(self) -> str:
        """The file and the reason."""
        return said("{file}: {reason}", self.file, self.reason)


@dataclass(frozen=True)
class Hang:
    """The collective that ranks waited in.

    ``missing`` are those that had not come to it; of the ``silent`` among them this is known only because they
    did not report it.
    """

    sequence: int
    operation: str
    elements: int
    waiting: tuple[int, ...]
    missing: tuple[int, ...]
    silent: tuple[int, ...] = ()
    mismatch: str = ""  # what the ranks did not agree on


@dataclass(frozen=True)
class Job:
    """The run as its logs show it; empty where they do not say."""

    world_size: int = 0
    node_of: dict[int, str] = field(default_factory=dict)
    silent: tuple[int, ...] = ()  # ranks of the world that no line is of
    interfaces: dict[str, tuple[str, ...]] = field(default_factory=dict)  # node -> name:address
    networks: tuple[str, ...] = ()
    transports: tuple[str, ...] = ()
    versions: dict[str, tuple[str, ...]] = field(default_factory=dict)
    exits: dict[int, str] = field(default_factory=dict)
    fallen: tuple[int, ...] = ()  # the ranks that ended first, as launchers saw it
    hang: Hang | None = None
    has_ended: bool = False  # whether the training said that it ended well
    runs: int = 1  # that stand in one file, one after the other: only the last is judged


@dataclass(frozen=True)
class Diagnosis:
    """What the logs say: ``causes``, the first one first; what followed from them; what else was seen."""

    files: tuple[str, ...]
    lines: int
    job: Job
    causes: tuple[Finding, ...] = ()
    consequences: tuple[Finding, ...] = ()
    notes: tuple[Finding, ...] = ()
    collect: tuple[str, ...] = ()  # what to gather next, where no cause is known
    gaps: tuple[Gap, ...] = ()  # what was given and not read
    outcome: Outcome = field(default_factory=Outcome)

    @property
    def slowing(self) -> tuple[Finding, ...]:
        """What a job runs on with, and more slowly than it could."""
        return tuple(one for one in self.notes if one.cause.name in SLOWING)

    @property
    def is_known(self) -> bool:
        """Whether a cause was found, and not only what follows from one."""
        return bool(self.causes)

    @property
    def has_failed(self) -> bool:
        """Whether anything in the logs speaks of a failure."""
        return bool(self.causes or self.consequences)
