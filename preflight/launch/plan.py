"""What does one launch command or file ask for, and from which line does each value come?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from preflight.findings import Finding, Verdict, Where

T = TypeVar("T", covariant=True)  # noqa: PLC0105 -- the short name reads better in Field[T]
# "environment": the default in ${NAME:-value}, which whoever starts the script may replace.
Origin = Literal["written", "tool", "environment"]


def words(text: str) -> tuple[str, ...]:
    """A table of names, as it is written here."""
    return tuple(text.split())


@dataclass(frozen=True)
class Sourced(Generic[T]):
    """A value that a file tells, and the line that tells it."""

    value: T
    file: str
    line: int
    origin: Origin = "written"

    @property
    def where(self) -> Where:
        """Its place."""
        return Where(self.file, self.line)


@dataclass(frozen=True)
class Unknown:
    """A value that only running the script would tell: a command substitution, an argument, a foreign variable.

    ``varies`` says that it is worked out on every node and comes out different there: ``$RANDOM``, ``$(hostname)``;
    ``in_container`` that this happens inside a container.
    """

    expression: str
    file: str
    line: int
    varies: bool = False
    in_container: bool = False

    @property
    def where(self) -> Where:
        """Its place."""
        return Where(self.file, self.line)


# None: the file does not say.
Field = Sourced[T] | Unknown | None


def told(value: Field[T]) -> T | None:
    """The value where the file tells one, a default that the environment may replace included."""
    return value.value if isinstance(value, Sourced) else None


def firm(value: Field[T]) -> T | None:
    """The value where nothing but an edit of the file can change it, or it is the tool's own default."""
    return value.value if isinstance(value, Sourced) and value.origin != "environment" else None


def written(value: Field[T]) -> bool:
    """Whether the file says anything about it, be it unknown."""
    return isinstance(value, Unknown) or (isinstance(value, Sourced) and value.origin != "tool")


def shown(value: Field[Any]) -> str:
    """A field as a message says it."""
    if value is None:
        return "not set"
    return value.expression if isinstance(value, Unknown) else str(value.value)


Launcher = Literal["accelerate", "torchrun", "env", "deepspeed", "srun", "llamafactory", "mpirun", "kubernetes"]


@dataclass(frozen=True)
class Slurm:
    """What the #SBATCH lines ask for, each option by its long name."""

    options: Mapping[str, Field[str]] = field(default_factory=dict)
    has_directives: bool = True

    def number(self, *names: str) -> Field[int]:
        """The first of these options that is there, as a number."""
        for name in names:
            value = self.options.get(name)
            if isinstance(value, Unknown):
                return value
            if value is not None:
                digits = value.value.split("-")[-1].split(":")[-1].split("(")[0]
                if not digits.isascii() or not digits.isdigit() or len(digits) > 9:
                    return Unknown(value.value, value.file, value.line)
                return Sourced(int(digits), value.file, value.line, value.origin)
        return None


@dataclass(frozen=True)
class Plan:
    """One launch as a file tells it. ``start`` says what runs it: each node by hand, or one command for all of them."""

    launcher: Launcher
    where: Where
    start: Literal["each node", "all nodes"] = "each node"
    nodes: Field[int] = None
    fewest_nodes: Field[int] = None
    node_rank: Field[int] = None
    processes_per_node: Field[int] = None
    world_size: Field[int] = None
    rank: Field[int] = None
    local_rank: Field[int] = None
    master_address: Field[str] = None
    master_port: Field[int] = None
    backend: Field[str] = None
    rendezvous: Field[str] = None
    rendezvous_id: Field[str] = None
    device_ids: Field[str] = None
    mixed_precision: Field[str] = None
    program: Field[str] = None
    arguments: tuple[Sourced[str] | Unknown, ...] = ()
    environment: Mapping[str, Field[str]] = field(default_factory=dict)
    unexported: Mapping[str, Field[str]] = field(default_factory=dict)
    settings: Mapping[str, Field[Any]] = field(default_factory=dict)
    wrapper: tuple[str, ...] = ()
    slurm: Slurm | None = None
    is_opaque: bool = False
    is_conditional: bool = False
    is_standalone: bool = False
    command: str = ""
    config: str = ""  # the text of the accelerate file behind it

    def setting(self, name: str) -> Any:
        """The value of a setting of the tool, None where the file does not tell it."""
        return told(self.settings.get(name))

    @property
    def spans_nodes(self) -> bool:
        """Whether the file says, past all doubt, that several nodes take part."""
        return (firm(self.nodes) or 1) > 1

    @property
    def may_span_nodes(self) -> bool:
        """Whether several nodes may take part for all that the file says."""
        return not isinstance(self.nodes, Sourced) or self.nodes.value > 1 or self.nodes.origin == "environment"

    @property
    def wraps(self) -> frozenset[str]:
        """The programs around the launcher, by their last path component: srun, bash, docker."""
        return frozenset(word.rpartition("/")[2] for word in self.wrapper)


@dataclass(frozen=True)
class Skip:
    """A file that is not judged, and why."""

    file: str
    line: int
    reason: str


@dataclass(frozen=True)
class Host:
    """A line of a hostfile."""

    name: str
    slots: Field[int]
    where: Where


@dataclass(frozen=True)
class Hostfile:
    """The hosts of a DeepSpeed or MPI hostfile."""

    file: str
    hosts: tuple[Host, ...]


@dataclass(frozen=True)
class BatchConfig:
    """A DeepSpeed configuration: its batch figures and what else the rules read; a figure may be "auto"."""

    file: str
    values: Mapping[str, Field[Any]]


@dataclass(frozen=True)
class LaunchFiles:
    """Everything that the given files say, and what was wrong with a file by itself while it was read."""

    files: tuple[str, ...] = ()
    plans: tuple[Plan, ...] = ()
    hostfiles: tuple[Hostfile, ...] = ()
    batches: tuple[BatchConfig, ...] = ()
    variables: tuple[tuple[str, Mapping[str, Field[str]]], ...] = ()
    skips: tuple[Skip, ...] = ()
    problems: tuple[Finding, ...] = ()


def problem(
    verdict: Verdict, rule: str, message: str, *where: Where, fix: str = "", nodes: tuple[str, ...] = ()
) -> Finding:
    """A finding of a launch rule, its places in the order given and each once."""
    return Finding(f"launch.{rule}", verdict, nodes, message, fix, tuple(dict.fromkeys(where)))


def fail(rule: str, message: str, *where: Where, fix: str = "", nodes: tuple[str, ...] = ()) -> Finding:
    """The job will not start, or not as meant."""
    return problem(Verdict.FAIL, rule, message, *where, fix=fix, nodes=nodes)


def warn(rule: str, message: str, *where: Where, fix: str = "", nodes: tuple[str, ...] = ()) -> Finding:
    """The job starts, slower or more fragile than it could be."""
    return problem(Verdict.WARN, rule, message, *where, fix=fix, nodes=nodes)
