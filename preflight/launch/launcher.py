"""What does preflight know of one launcher: how it is read, written and started, and what its own words are?

A launcher is one file under launchers/ that ends in a row of this type, and one word in launchers/__init__.py. Whatever
else asks about launchers (rules, options, help, README's table) asks the row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from preflight.judge.ledger.findings import Finding
    from preflight.launch.field import Field
    from preflight.launch.job import Job, Process, Start
    from preflight.launch.layout import Layout
    from preflight.launch.plan import LaunchFiles, Plan
    from preflight.launch.text.options import Reader
    from preflight.launch.text.shell import Word

PYTHON = "python"  # among a launcher's programs: any Python that no other launcher claims


@dataclass(frozen=True, kw_only=True)
class FieldNames:
    """How the launcher writes the values that every job has: an option, a key of its file or a variable."""

    rank: str = "RANK"
    address: str = "MASTER_ADDR"
    port: str = "MASTER_PORT"
    nodes: str = ""
    rendezvous_id: str = ""

    @property
    def rank_option(self) -> str:
        """The rank as a command takes it: accelerate's name for it is a key of its file."""
        return f"--{self.rank}" if self.rank[0].islower() else self.rank


@dataclass(frozen=True, kw_only=True)
class AgentOutput:
    """What an agent, which starts several ranks, prints about them.

    `failed` finds the ranks that the agent says have failed, and has a group ``exit``. `line` marks a line that one
    rank printed. Both have a group ``local_rank``, a rank of the agent's own node, or ``rank``, a rank of the job.
    """

    failed: re.Pattern[str]
    line: re.Pattern[str]


@dataclass(frozen=True)
class Counts:
    """How many processes a launcher starts on how many nodes, as far as its words tell."""

    nodes: Field[int] = None
    processes_per_node: Field[int] = None
    world_size: Field[int] = None


def _by_slurm(reader: Reader, _wrapper: tuple[str, ...]) -> Counts:
    return Counts(reader.slurm.number("nodes") if reader.slurm else None)


def _no(_plan: Plan) -> bool:
    return False


def _nothing(_of: object) -> str:
    return ""


def _no_options(_plan: Plan) -> Iterable[str]:
    return ()


def _one_start(_plan: Plan, start: Start, _files: LaunchFiles) -> tuple[Start, ...]:
    return (start,)


@dataclass(frozen=True, kw_only=True)
class Launcher:
    """One launcher."""

    name: str
    description: str = ""  # for people who choose one: what it starts, in a few words
    field_names: FieldNames = field(default_factory=FieldNames)

    # What it is.
    starts_all_nodes: bool = False  # one command, given once, starts the ranks of every node
    has_agent: bool = False  # it starts one process on a node, which starts the ranks of that node
    runs_program: bool = False  # its command is nothing without the program behind its options
    numbers_processes: bool = False  # its files number every process (RANK), not every node
    equal_ranks: bool = False  # it starts the same number of ranks on every node
    states_world_size: bool = False  # its files state the number of all ranks; else it follows from nodes x ranks
    default_nodes_count: bool = False  # a file without a number of nodes means one, and is no template
    rendezvous_gives_ranks: bool = False  # but for a static one: the nodes agree on their ranks as they meet
    nodes_are_hosts: bool = True  # what it counts as nodes are the machines that HOSTS names

    # Reading: the plan of the words after one of its programs or modules, and the rules for its plans alone.
    programs: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    wrappers: tuple[str, ...] = ()  # programs that start the python command behind them on all nodes
    read: Callable[[Reader, tuple[Word, ...], tuple[str, ...]], Plan | None] | None = None
    around: Callable[[Reader, tuple[str, ...]], Counts] = (
        _by_slurm  # what it starts, as the words around a command tell
    )
    rules: tuple[Callable[[Plan], Iterable[Finding]], ...] = ()
    files_rules: tuple[Callable[[LaunchFiles], Iterable[Finding]], ...] = ()
    finds_nodes: Callable[[Plan], bool] = _no  # whether such a plan finds its nodes in a hostfile, not by an address
    logs_in: Callable[[Plan], bool] = _no  # whether such a plan starts the other nodes over ssh

    # Writing: the text of every launch file by its name.
    write: Callable[[Layout], dict[str, str]] | None = None
    begins_with: str = ""  # the command that starts the job by the one file that was written
    takes_like: bool = False  # whether --like, a file of the user's, is read for its other settings

    # Starting the reference job: the processes of every node, given the port of the rendezvous.
    start: Callable[[Job, int], Mapping[str, list[Process]]] | None = None
    needs: str = ""  # the package that the job's interpreter must have on every node, beside torch
    refuses: Callable[[Job], str] = _nothing  # why it cannot start a job of this shape
    blames: AgentOutput | None = None
    strategy: str = ""  # the workload's strategy that is its own, whatever --strategy says
    trains_with: str = ""  # the same for people
    needs_logins: bool = False  # a real job of it has the nodes log in to each other

    # Starting it the way the user's files start theirs.
    claims: Callable[[Plan], bool] = _no  # whether it starts what a plan describes, whichever launcher stands there
    refusal: str = ""  # why its plans are read and judged, but never started by preflight
    refusal_around: str = ""  # the same for plans of another launcher that it claims
    cannot_start: Callable[[Plan], str] = _nothing  # the same for a plan of a particular kind
    kept_options: Callable[[Plan], Iterable[str]] = _no_options  # options of the user's that the reference job gets
    starts_of: Callable[[Plan, Start, LaunchFiles], tuple[Start, ...]] = _one_start  # of one command for all nodes
    started_as: str = ""  # the launcher that starts its plans in its place
    may_start: tuple[str, ...] = ()  # launchers whose files it may start as well, where --launcher names it

    @property
    def words(self) -> tuple[str, ...]:
        """The words by which a text is known to start a job."""
        return tuple(word for word in (*self.programs, *self.modules, *self.wrappers) if word != PYTHON)
