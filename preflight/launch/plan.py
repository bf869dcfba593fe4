"""What does one launch command or file ask for, and from which line does each value come?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from preflight.judge.ledger.findings import Edit, Finding, Verdict, Where
from preflight.judge.tables.launch_rules import VERDICTS
from preflight.knowledge.variables.judged import is_of_a_job
from preflight.launch.field import Field, Sourced, Unknown, firm, value_of, whole
from preflight.said import said

if TYPE_CHECKING:
    from preflight.launch.text.marks import Marks
    from preflight.launch.text.shell import Command
    from preflight.launch.traits import FieldNames, Traits


@dataclass(frozen=True)
class Slurm:
    """What the #SBATCH lines ask for, each option by its long name."""

    options: Mapping[str, Field[str]] = field(default_factory=dict)
    has_directives: bool = True
    allocated: Field[int] = None  # the nodes of the script, where the command around is a step that says its own
    groups: tuple[Mapping[str, Field[str]], ...] = ()  # of a heterogeneous job, the first of them `options` itself
    some_nodes: bool = False  # whether the command around is a step that names itself which of the nodes it runs on

    def number(self, *names: str) -> Field[int]:
        """The first of these options that is there, as a number."""
        for name in names:
            value = self.options.get(name)
            if isinstance(value, Unknown):
                return value
            if value is not None:
                number = whole(value.value.split("-")[-1].split(":")[-1].split("(")[0])
                if number is None:
                    return Unknown(value.value, value.file, value.line)
                return Sourced(number, value.file, value.line, value.origin)
        return None


@dataclass(frozen=True)
class Granted:
    """What the directives of PBS or LSF ask for: nodes where that is exact, at most so many, and GPUs of a node."""

    system: str
    nodes: Field[int] = None
    most: Field[int] = None
    gpus: Field[int] = None


@dataclass(frozen=True)
class Unset:
    """A variable that a start reads, and that no given file, launcher, scheduler or platform sets."""

    name: str
    holds: str  # what it is to say: "address", "number", "id", "file", "argument"
    value: Unknown

    @property
    def where(self) -> Where:
        """Where it is read."""
        return self.value.where


@dataclass(frozen=True)
class Handed:
    """A word that a launcher is handed; where a part of it is not known, a stand-in is in its place."""

    text: str
    line: int
    is_known: bool


@dataclass(frozen=True)
class Plan:
    """One launch as a file tells it. ``start`` says what runs it: each node by hand, or one command for all of them."""

    launcher: Traits
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
    granted: Granted | None = None
    is_opaque: bool = False
    is_conditional: bool = False
    is_standalone: bool = False
    loop: str = ""  # "for" or "while", where the command is a turn of a loop
    shares_host: bool = False  # all nodes of the job are started on the machine that runs the script
    in_background: bool = False  # the shell goes on without waiting for it
    command: str = ""
    folder: str = ""  # where it is started, in full; "" where the script does not say
    config: str = ""  # the text of the accelerate file behind it
    words: tuple[Handed, ...] = ()  # all that the launcher is handed
    unset: tuple[Unset, ...] = ()  # what it takes from variables that nothing is known to set

    def setting(self, name: str) -> Any:
        """The value of a setting of the tool, None where the file does not tell it."""
        return value_of(self.settings.get(name))

    @property
    def spans_nodes(self) -> bool:
        """Whether the file says, past all doubt, that several nodes take part."""
        return (firm(self.nodes) or 1) > 1

    @property
    def has_peers(self) -> bool:
        """Whether the file says, past all doubt, that several nodes or processes take part."""
        return self.spans_nodes or (self.is_by_hand and (firm(self.world_size) or 1) > 1)

    @property
    def is_by_hand(self) -> bool:
        """Whether the file starts and numbers single processes; other launchers number nodes."""
        return self.launcher.numbers_processes and not self.launcher.starts_all_nodes

    @property
    def may_span_nodes(self) -> bool:
        """Whether several nodes may take part for all that the file says."""
        return not isinstance(self.nodes, Sourced) or self.nodes.value > 1 or self.nodes.origin == "environment"

    @property
    def field_names(self) -> FieldNames:
        """What these files call the values that every job has: torchrun's endpoint holds address and port in one."""
        own = self.launcher.field_names
        if "rdzv_endpoint" not in self.settings:
            return own
        return replace(own, address=ADDRESS_OF_ENDPOINT, port="the port of --rdzv_endpoint")

    @property
    def written_rank(self) -> int | None:
        """The rank that the file gives its node or process; None where the environment or the rendezvous does."""
        if self.is_by_hand:
            return firm(self.rank)
        is_written = isinstance(self.node_rank, Sourced) and self.node_rank.origin == "written"
        return firm(self.node_rank) if is_written else None

    @property
    def is_whole(self) -> bool:
        """Whether the file starts all nodes of the job by itself."""
        return self.slurm is not None or bool(self.wraps & STARTS_ALL)

    @property
    def is_one_step(self) -> bool:
        """Whether it is one step of srun beside others, each for some of the nodes."""
        if self.slurm is None or "srun" not in self.wraps:
            return False
        is_aside = self.in_background and firm(self.slurm.number("nodes")) == 1
        return bool(self.loop) or is_aside or self.slurm.some_nodes

    @property
    def is_logged_in(self) -> bool:
        """Whether a program around it runs it on one other node or in one pod, and waits for its end."""
        return bool(self.wraps & {"ssh", "rsh", "qrsh", "pbs_tmrsh"}) or {"kubectl", "exec"} <= self.wraps

    @property
    def is_of_a_manifest(self) -> bool:
        """Whether a manifest or a job file of a cloud stands around the command."""
        return bool(self.wraps & OF_MANIFESTS)

    @property
    def says_something(self) -> bool:
        """Whether the file tells how many take part, or where they meet."""
        fields = (self.nodes, self.world_size, self.processes_per_node, self.master_address, self.node_rank)
        return any(isinstance(held, Sourced) and held.origin != "tool" for held in fields)

    @property
    def is_open(self) -> bool:
        """Whether everything that numbers the nodes, and where they meet, comes from outside of the file."""
        has_port = isinstance(self.master_port, Sourced) and self.master_port.origin != "tool"
        return isinstance(self.nodes, Unknown) and not self.says_something and not has_port

    @property
    def wraps(self) -> frozenset[str]:
        """The programs around the launcher, by their last path component: srun, bash, docker."""
        return frozenset(word.rpartition("/")[2] for word in self.wrapper)


# Who starts all nodes from one description of them: what numbers the nodes is judged where that is read.
ADDRESS_OF_ENDPOINT = "the address of --rdzv_endpoint"
OF_MANIFESTS = frozenset({"kubernetes", "skypilot", "azureml", "dstack", "beaker", "batch"})
STARTS_ALL = frozenset({"srun", "mpirun", "mpiexec", "pdsh", "clush", "ssh", "xargs", "parallel-ssh", "pssh"})
STARTS_ALL |= {"jsrun", "blaunch", "pbsdsh", "pbs_tmrsh", "rsh", "qrsh"}


def numbered(plans: Iterable[Plan]) -> list[Plan]:
    """The starts of one script that are nodes of one job: each names a node rank, and each another."""
    named = [plan for plan in plans if plan.written_rank is not None and plan.spans_nodes and not plan.is_by_hand]
    are_nodes = len({plan.written_rank for plan in named}) == len(named) > 1
    return named if are_nodes and len({plan.launcher.name for plan in named}) == 1 else []


def sharing_host(plans: Iterable[Plan]) -> list[Plan]:
    """Those of one script that are all nodes of a job on the machine that runs it: localhost leads to each of them."""
    found = [plan for plan in numbered(plans) if not plan.is_conditional and not plan.is_whole]
    return found if found and len(found) == firm(found[0].nodes) else []


@dataclass(frozen=True)
class Skip:
    """A file that is not judged, and why."""

    file: str
    line: int
    reason: str
    of_start: bool = False  # whether it is a start of a job that is not judged, or not wholly
    is_template: bool = False  # whether it leaves all counts and addresses to whoever starts it


@dataclass(frozen=True)
class HostLine:
    """A line of a hostfile."""

    name: str
    slots: Field[int]
    where: Where


@dataclass(frozen=True)
class Hostfile:
    """The hosts of a DeepSpeed or MPI hostfile."""

    file: str
    hosts: tuple[HostLine, ...]

    @property
    def where(self) -> Where:
        """Where it begins: in the script that writes it, if one does."""
        file = self.hosts[0].where.file if self.hosts else self.file
        return Where(file, 1 if file == self.file else self.hosts[0].where.line)


BATCH_KEYS = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")


@dataclass(frozen=True)
class BatchConfig:
    """A DeepSpeed configuration: its batch figures and what else the rules read; a figure may be "auto"."""

    file: str
    values: Mapping[str, Field[Any]]

    @property
    def says_something(self) -> bool:
        """Whether it has anything that the rules read."""
        return not self.values.keys().isdisjoint((*BATCH_KEYS, "zero_optimization"))


@dataclass(frozen=True)
class ScriptFile:
    """A shell script as a whole: every command it runs, and the starts of a job among them."""

    commands: tuple[Command, ...]
    plans: tuple[Plan, ...]
    marks: Marks
    slurm: Slurm | None
    is_started: bool  # by another script, which is there too


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
    scripts: tuple[ScriptFile, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)  # as they were given, by file
    programs: Mapping[str, str] = field(default_factory=dict)  # in Python: given, or beside the script that starts them

    @property
    def are_judged(self) -> bool:
        """Whether anything in them was understood well enough to be judged."""
        known = any(not plan.is_opaque or plan.says_something for plan in self.plans)
        reported = any(map(is_of_a_job, (name for _, values in self.variables for name in values)))
        return known or reported or bool(self.hostfiles) or any(config.says_something for config in self.batches)

    @property
    def script_texts(self) -> Mapping[str, str]:
        """The shell scripts among them, as they were given."""
        names = {script.marks.file for script in self.scripts}
        return {name: text for name, text in self.texts.items() if name in names}

    @property
    def unjudged(self) -> tuple[Skip, ...]:
        """The starts of a job that could not be judged."""
        return tuple(skip for skip in self.skips if skip.of_start)

    @property
    def are_open(self) -> bool:
        """Whether they are starts alone that leave everything to whoever calls them: nothing in them can be wrong."""
        others = self.hostfiles or self.batches or self.variables
        return bool(self.plans) and all(plan.is_open for plan in self.plans) and not others


def problem(
    verdict: Verdict,
    rule: str,
    message: str,
    *where: Where,
    fix: str = "",
    nodes: tuple[str, ...] = (),
    edits: tuple[Edit, ...] = (),
) -> Finding:
    """A finding of a launch rule, its places in the order given and each once; KeyError for one of no known rule."""
    if str(verdict) not in VERDICTS[rule]:
        raise ValueError(
            said("launch.{rule} gives {VERDICTS}, and never {verdict}", rule, ", ".join(VERDICTS[rule]), verdict)
        )
    return Finding(f"launch.{rule}", verdict, nodes, message, fix, tuple(dict.fromkeys(where)), edits=edits)


def fail(
    rule: str, message: str, *where: Where, fix: str = "", nodes: tuple[str, ...] = (), edits: tuple[Edit, ...] = ()
) -> Finding:
    """The job will not start, or not as meant."""
    return problem(Verdict.FAIL, rule, message, *where, fix=fix, nodes=nodes, edits=edits)


def warn(
    rule: str, message: str, *where: Where, fix: str = "", nodes: tuple[str, ...] = (), edits: tuple[Edit, ...] = ()
) -> Finding:
    """The job starts, slower or more fragile than it could be."""
    return problem(Verdict.WARN, rule, message, *where, fix=fix, nodes=nodes, edits=edits)
