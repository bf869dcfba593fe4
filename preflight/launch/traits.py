"""What is true of one launcher by itself: its name, words and habits, without the code that reads or starts it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from preflight.launch.field import Field

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


@dataclass(frozen=True, kw_only=True)
class Traits:
    """What a plan knows of its launcher."""

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

    # Its words: what starts it, and what it is started by.
    programs: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    wrappers: tuple[str, ...] = ()  # programs that start the python command behind them on all nodes

    # Writing and starting: what its files begin with, and what it needs of a node.
    begins_with: str = ""  # the command that starts the job by the one file that was written
    takes_like: bool = False  # whether --like, a file of the user's, is read for its other settings
    needs: str = ""  # the package that the job's interpreter must have on every node, beside torch
    blames: AgentOutput | None = None
    strategy: str = ""  # the workload's strategy that is its own, whatever --strategy says
    trains_with: str = ""  # the same for people
    needs_logins: bool = False  # a real job of it has the nodes log in to each other

    # Starting it the way the user's files start theirs.
    refusal: str = ""  # why its plans are read and judged, but never started by preflight
    refusal_around: str = ""  # the same for plans of another launcher that it claims
    started_as: str = ""  # the launcher that starts its plans in its place
    may_start: tuple[str, ...] = ()  # launchers whose files it may start as well, where --launcher names it

    @property
    def words(self) -> tuple[str, ...]:
        """The words by which a text is known to start a job."""
        return tuple(word for word in (*self.programs, *self.modules, *self.wrappers) if word != PYTHON)
