"""What was heard of a rehearsal, node by node: lines of the script, launchers, ranks, what is still there?"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec

from preflight.reach.session import replies

MOST_ROWS = 40000
MOST_RANKS = 4096
STAGES = (
    *("arrived", "numbered", "import", "rendezvous", "communicator", "first_step", "running", "checking"),
    "done",
)
Text = Annotated[str, msgspec.Meta(max_length=4096)]
Texts = Annotated[tuple[Text, ...], msgspec.Meta(max_length=128)]
Number = Annotated[int, msgspec.Meta(ge=-1, le=2**63 - 1)]


class Row(msgspec.Struct, frozen=True, array_like=True):
    """The shell comes to a command: how the one before it ended, in which shell, how deep, when, and where it is."""

    status: Annotated[int, msgspec.Meta(ge=0, le=255)]
    shell: Number
    depth: Number
    at: float
    line: Number
    source: Text


class Cache(msgspec.Struct, frozen=True):
    """A folder for what is compiled or downloaded."""

    variable: Text
    path: Text
    can_write: bool
    kind: Text
    free_bytes: Number
    locks: Texts


class Arrived(msgspec.Struct, frozen=True, kw_only=True):
    """Where a rank is, as it says itself."""

    host: Text
    pid: Number
    parent: Number
    user: Number
    argv: Texts
    names: Texts
    interpreter: Text
    python: Text
    variables: Annotated[dict[Text, Text], msgspec.Meta(max_length=512)]
    limits: dict[Text, Number]
    shm_bytes: Number
    cgroup: Text
    folder: Text
    own_network: bool = False  # another than that of its node
    caches: Annotated[tuple[Cache, ...], msgspec.Meta(max_length=16)]
    began: float


class Loaded(msgspec.Struct, frozen=True):
    """What was loaded with torch."""

    torch: Text
    torch_file: Text
    cuda: Text
    nccl: Text
    devices: Texts


class Meets(msgspec.Struct, frozen=True):
    """Where a rank is to meet the others, and why it cannot."""

    place: Text
    addresses: Texts
    own: bool
    error: Text


class Launched(msgspec.Struct, frozen=True):
    """A launcher, and the words that it was started with."""

    launcher: Texts
    pid: Number
    parent: Number
    at: float


class Socket(msgspec.Struct, frozen=True):
    """A connection, or one that is tried."""

    peer: Text
    state: Text


class Process(msgspec.Struct, frozen=True):
    """What was still there at the end."""

    pid: Number
    parent: Number
    state: Text
    command: Text
    sockets: Annotated[tuple[Socket, ...], msgspec.Meta(max_length=64)]


class Began(msgspec.Struct, frozen=True):
    """Which file was started, and where."""

    path: Text
    folder: Text
    differs: bool
    at: float


class Output(msgspec.Struct, frozen=True):
    """What the script printed, and what its login printed before it."""

    out: str
    err: str
    out_before: str
    err_before: str
    has_begun: bool


@dataclass
class RankStory:
    """One rank."""

    node: str
    arrived: Arrived
    rank: int = -1
    stage: str = "arrived"
    times: dict[str, float] = field(default_factory=dict)
    loaded: Loaded | None = None
    meets: Meets | None = None
    chosen: tuple[str, ...] = ()
    error: str = ""
    records: list[dict[str, Any]] = field(default_factory=list)

    @property
    def world_size(self) -> int:
        """How many ranks it was told that there are."""
        names = self.arrived.names
        size = self.arrived.variables.get(names[1], "") if len(names) > 1 else ""
        return int(size) if size.isdigit() else 0

    @property
    def is_over(self) -> bool:
        """Whether it has done its work, or given up."""
        return self.stage == "done" or bool(self.error)


@dataclass
class NodeStory:
    """One node."""

    node: str
    is_ready: bool = False  # whether the hook is in its place
    began: Began | None = None
    shell: int = 0  # the process of the script, known when it has ended
    code: int | None = None
    ended_at: float = 0.0
    rows: list[Row] = field(default_factory=list)
    launched: list[Launched] = field(default_factory=list)
    ranks: dict[str, RankStory] = field(default_factory=dict)
    processes: tuple[Process, ...] = ()
    output: Output | None = None
    stray: str = ""  # the command line of a real program that ran here
    failure: str = ""  # why nothing more was heard
    moved: float = field(default_factory=time.monotonic)

    def take(self, event: dict[str, Any]) -> None:
        """Write an event of the node into its story. Raises BadReply for one that does not fit."""
        for key, take in TAKERS.items():
            if key in event:
                take(self, event)

    def _take_ready(self, _event: dict[str, Any]) -> None:
        self.is_ready = True

    def _take_began(self, event: dict[str, Any]) -> None:
        self.began = replies.read(self.node, Began, event["began"], "began")
        self.moved = time.monotonic()

    def _take_rows(self, event: dict[str, Any]) -> None:
        rows = replies.read(self.node, list[Row], event["rows"], "rows")
        self.rows += rows[: MOST_ROWS - len(self.rows)]
        self.moved = time.monotonic()

    def _take_ended(self, event: dict[str, Any]) -> None:
        self.code = replies.read(self.node, int, event["ended"], "ended")
        self.shell = replies.read(self.node, int, event["shell"], "shell")
        self.ended_at = replies.read(self.node, float, event["at"], "at")
        self.moved = time.monotonic()

    def _take_processes(self, event: dict[str, Any]) -> None:
        self.processes = replies.read(self.node, tuple[Process, ...], event["processes"], "processes")

    def _take_stray(self, event: dict[str, Any]) -> None:
        self.stray = self.stray or replies.read(self.node, str, event["stray"], "stray")[:400]
        self.moved = time.monotonic()

    def _take_output(self, event: dict[str, Any]) -> None:
        self.output = replies.read(self.node, Output, event["output"], "output")

    def _take_notes(self, event: dict[str, Any]) -> None:
        for name, note in replies.read(self.node, list[tuple[str, dict[str, Any]]], event["notes"], "notes"):
            if "launcher" in note:
                self.launched.append(replies.read(self.node, Launched, note, "launcher"))
            elif "made" not in note:
                self._take_record(name, note)
        self.moved = time.monotonic()

    def _take_record(self, name: str, record: dict[str, Any]) -> None:
        kind = record.get("record")
        at = replies.read(self.node, float, record.get("at", 0.0), "at")
        if kind == "arrived" and len(self.ranks) < MOST_RANKS:
            arrived = replies.read(self.node, Arrived, record, "arrived")
            self.ranks[name] = RankStory(self.node, arrived, _number(arrived), times={"began": arrived.began})
        story = self.ranks.get(name)
        if story is None:
            return
        if kind == "numbered":
            story.rank = replies.read(self.node, int, record.get("rank"), "rank")
            story.chosen = replies.read(self.node, tuple[str, ...], record.get("chosen"), "chosen")
        elif kind == "loaded":
            story.loaded = replies.read(self.node, Loaded, record, "loaded")
        elif kind == "meets":
            story.meets = replies.read(self.node, Meets, record, "meets")
        elif kind == "failed":
            story.error = replies.read(self.node, str, record.get("error"), "error")[:4000]
        elif kind == "done":
            story.stage = "done"
        elif kind not in ("arrived", "stage"):
            story.records.append(record)
        stage = record.get("stage") if kind == "stage" else kind
        if stage in STAGES:
            story.times.setdefault(stage, at)
            if STAGES.index(stage) > STAGES.index(story.stage):
                story.stage = stage


def _number(arrived: Arrived) -> int:
    value = (
        arrived.variables.get(arrived.names[0], "") if arrived.names[:1] != ("LOCAL_RANK",) and arrived.names else ""
    )
    return int(value) if value.isdigit() else -1


TAKERS = {
    "ready": NodeStory._take_ready,  # noqa: SLF001
    "began": NodeStory._take_began,  # noqa: SLF001
    "rows": NodeStory._take_rows,  # noqa: SLF001
    "notes": NodeStory._take_notes,  # noqa: SLF001
    "ended": NodeStory._take_ended,  # noqa: SLF001
    "processes": NodeStory._take_processes,  # noqa: SLF001
    "stray": NodeStory._take_stray,  # noqa: SLF001
    "output": NodeStory._take_output,  # noqa: SLF001
}


@dataclass
class Story:
    """All of it."""

    nodes: dict[str, NodeStory]
    began: float = field(default_factory=time.monotonic)
    seconds: float = 0.0
    why_over: str = ""  # of ENDS

    @property
    def ranks(self) -> list[RankStory]:
        """Every rank that came, by node and by number."""
        return [rank for node in self.nodes.values() for rank in sorted(node.ranks.values(), key=lambda r: r.rank)]

    @property
    def has_trained(self) -> bool:
        """Whether as many ranks as were told came to their end, and no other is left."""
        ranks = self.ranks
        wanted = max((rank.world_size for rank in ranks), default=0)
        return bool(ranks) and all(rank.stage == "done" for rank in ranks) and len({r.rank for r in ranks}) >= wanted
