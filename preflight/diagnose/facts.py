"""What do lines say of the job itself: ranks, nodes, interfaces, versions, collectives?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from re import Match

from preflight.diagnose.ends import falls
from preflight.diagnose.found import Hang, Job
from preflight.diagnose.prefix import Line
from preflight.diagnose.recorder import Call, hang_of
from preflight.said import joined, said

MOST_RANKS = 1 << 16
MOST_UNJOINED = 64  # collectives that a reader of the flight recorder tells of: the first matters
MOST_LISTED = 1024  # ranks of one line
# The name of each is the method of Facts that takes it.
PATTERNS = (
    ("communicator", r"comm \S+ rank (\d+) nranks (\d+)"),
    ("bootstrap", r"bootstrap ?: using (?:\[0\])?([^\s:]+):([0-9a-f.:]+)"),
    ("adapters", r"net/(\w+) ?: using (.*)"),
    ("network", r"using network (\S.*)"),
    ("provider", r"selected provider is (\w+)(?:, fabric is [^(]*)? ?\(found (\d+) nics?\)"),
    ("plugin_asked", r"nccl_net(?:_plugin)? set by environment to (\S.*?)\.?$"),
    ("plugin_lost", r"net/plugin ?: (?:could not find|failed to (?:find|open|load))\W* (.*?)\.?$"),
    ("channel", r"channel \d+(?:/\d+)? : .* via (\S+)"),
    ("ring", r"ring \d+(?:/\d+)? : .* via (\S+)"),
    ("nccl", r"nccl version (\d[\w.+-]*)"),
    ("torch", r"pytorch version\S* .*?(\d+\.\d[\w.+]*)"),
    ("world", r"\bworld[_ ]size['\x22]?\s*[=:]\s*(\d+)\b"),
    ("processes", r"starting with (\d+) processes"),
    ("timeout", r"worknccl\((?:seqnum=(\d+), )?optype=(\w+)(?:, numelin=(\d+))?"),
    ("progress", r"last enqueued (?:nccl )?work: (-?\d+), last completed (?:nccl )?work: (-?\d+)"),
    ("joined", r"(\d+)/(\d+) clients joined"),
    ("host", r"^\s*host +: (\S+)"),
    ("rank", r"^\s*rank +: (\d+) \(local_rank: \d+\)"),
    ("exit", r"^\s*exitcode +: (-?\d+)"),
    ("device", r"#\s+rank +(\d+) +(?:group +\d+ +)?pid +\d+ on +(\S+) +device"),
    ("complete", r"all distributed processes registered"),
    ("complete", r"\blocal_rank: \d+ - cuda_visible_devices"),
    ("member", r"global_rank: (\d+), member: \d+/(\d+)"),
    ("ended", r"exits successfully"),
    ("ended", r"trainer\.fit` stopped"),
    ("ended", r"\btrain_runtime\b"),
    (
        "ended",
        r"^(?!.*\b(?:epoch|fold)\b.*training).*\btraining (?:has |is |was )?(?:completed?|finished|done)\b",
    ),
    ("ended", r"\b(?:finished|completed) training\b"),
    ("ended", r"^end training\b[ .!]*$"),
    ("ended", r"^end of training\b[ .!]*$"),
    ("ended", r"\btraining took [\d:.]+"),
    ("ended", r"\bfinal validation metrics: "),
    ("ended", r"exiting program (?:at iteration|after) \d"),
    ("ended", r"worker group successfully finished"),
    ("ended", r"\"key\": ?\"run_stop\".*\"status\": ?\"success\""),
    ("ended", r"^successfully completed\.$"),
    ("ended", r"job terminated of its own accord .*exit-code 0\b"),
    ("ended", r"\bjob \S+ (?:is )?(?:succeeded|successfully completed)"),
    ("ended", r"\brunning -> finished\b"),
    ("ended", r"\bjob \w+ with exit (?:code|status) 0\b"),
    ("ended", r"\bstate: completed \(exit code 0\)"),
    ("ended", r"\bexit_status ?= ?0\b"),
    ("saved", r"\bsaved checkpoint\b"),
    ("saved", r"\bsaved model checkpoint\b"),
    ("saved", r"\bsaving model checkpoint to\b"),
    ("saved", r"\bcheckpoint saved\b"),
    ("saved", r"\bcheckpoint (?:was|has been) saved\b"),
    ("saved", r"\bcheckpoint \S+ is ready now\b"),
    ("saved", r"\bmodel weights saved in\b"),
    ("left", r"\bgraceful shutdown\b"),
    ("left", r"\bgracefully (?:exit|shut|stop|end)\w*"),
    ("left", r"draining requests and shutting down"),
    ("left", r"application shutdown complete"),
    ("left", r"api server: shutdown triggered"),
    ("left", r"exiting program after receiving sigterm"),
    ("begun", r"nohup: ignoring input"),
    ("begun", r"runner\.py:\d+:main\] cmd ="),
    ("begun", r"srun: job \d+ has been allocated resources"),
    ("begun", r"vllm api server version"),
    ("begun_on_node", r"setting omp_num_threads environment variable for each process"),
    ("begun_on_node", r"the following values were not passed to `accelerate launch`"),
    ("unjoined", r"not all ranks joining collective\D+(\d+)"),
    ("unjoined_call", r"\bcollective: (?!sequence)(?:\w+:)?(\w+)"),
    ("unjoined_ranks", r"\bmissing ranks: \{([\d, ]+)\}"),
    ("expected_ranks", r"\bexpected ranks: \{([\d, ]+)\}"),
    ("behind", r"\branks? ([\d, ]+) failed to pass monitoredbarrier"),
    ("awaited", r"keys: /default_pg/\d+//cpu//\d+/(?:rank_)?(\d+)\b"),
    ("preparing", r"\b(\d{1,3})%\|.*\bexamples/s\]"),  # of the library datasets
    ("stalled", r"\[missing ranks: ([\d, ]+)\]"),
    ("stalled_list", r"\bmissing ranks:$"),
    ("stalled_rank", r"(?:^|[ >:])(\d+): \[.*\ballreduce\b"),
    ("stalled_rank", r"(?:^|[ >:])(\d+): \[.*\bbroadcast\b"),
    ("stalled_rank", r"(?:^|[ >:])(\d+): \[.*\ballgather\b"),
    *falls.PATTERNS,
)


@dataclass
class Unjoined:
    """A collective that not all ranks came to, as torch's own reader of the flight recorder prints it."""

    sequence: int
    operation: str = ""
    missing: tuple[int, ...] = ()
    expected: tuple[int, ...] = ()


@dataclass
class Facts:
    """What the lines so far have said."""

    sizes: Counter[int] = field(default_factory=Counter)
    node_of: dict[int, str] = field(default_factory=dict)
    heard: set[int] = field(default_factory=set)
    interfaces: dict[str, dict[str, None]] = field(default_factory=dict)
    networks: dict[str, None] = field(default_factory=dict)
    transports: Counter[str] = field(default_factory=Counter)
    falls: falls.Falls = field(default_factory=falls.Falls)  # the ends that launchers saw
    plugins: dict[str, dict[str, None]] = field(default_factory=dict)  # of NCCL: "plugin_asked" for, and "plugin_lost"
    versions: dict[str, dict[str, None]] = field(default_factory=dict)
    exits: dict[int, str] = field(default_factory=dict)
    timeouts: dict[int, tuple[int, str, int]] = field(default_factory=dict)
    enqueued: dict[int, int] = field(default_factory=dict)
    calls: dict[int, list[Call]] = field(default_factory=dict)  # of the flight recorder, by rank
    late: set[int] = field(default_factory=set)
    prepared: dict[int, int] = field(default_factory=dict)  # rank -> percent of the data set, -1 where no rank is named
    stalled: set[int] = field(default_factory=set)  # ranks that Horovod waits for
    awaited: dict[int, int] = field(default_factory=dict)  # rank -> the one whose address it waited for in the store
    size_of: dict[int, int] = field(default_factory=dict)  # rank -> the most ranks that its own lines count
    unjoined: list[Unjoined] = field(default_factory=list)
    members: Counter[int] = field(default_factory=Counter)  # ranks that Lightning started to join, and how often
    is_complete: bool = False  # whether all ranks have joined
    _table: dict[str, str] = field(default_factory=dict)
    _lists_stalled: bool = False

    def take(self, name: str, found: Match[str], line: Line) -> None:
        """A line that one of the patterns fits."""
        takers: dict[str, Callable[[Match[str], Line], None]] = {
            "communicator": self._communicator,
            "bootstrap": self._bootstrap,
            "adapters": self._adapters,
            "timeout": self._timeout,
            "progress": self._progress,
            "host": self._host,
            "rank": self._rank,
            "exit": self._exit,
            "behind": self._behind,
            "preparing": self._preparing,
            "awaited": self._awaited,
            "stalled": self._stalled,
            "stalled_list": self._stalled_list,
            "stalled_rank": self._stalled_rank,
            "unjoined": self._unjoined,
            "unjoined_call": self._unjoined_call,
            "unjoined_ranks": self._unjoined_ranks,
            "expected_ranks": self._expected_ranks,
            "device": self._device,
            "member": self._member,
            "complete": self._complete,
            "ended": self._told,
            "saved": self._told,
            "left": self._told,
            "begun": self._told,
            "begun_on_node": self._told,
        }
        if name in takers:
            takers[name](found, line)
        elif name in {"channel", "ring"}:
            self.transports[found[1].upper()] += 1
        elif name == "network":
            _add(self.networks, found[1].strip())
        elif name == "provider":
            _add(self.networks, said("{provider} ({adapters} adapters)", found[1], int(found[2])))
        elif name.startswith("fell"):
            self.falls.take(name, found, line)
        elif name.startswith("plugin_"):
            _add(self.plugins.setdefault(name, {}), found[1])
        elif name in {"nccl", "torch"}:
            _add(self.versions.setdefault(name, {}), found[1])
        else:
            size = int(found[2] if name == "joined" else found[1])
            self._size(size, line.rank)

    def hear(self, line: Line) -> None:
        """Count a line for its rank, whatever it says."""
        if 0 <= line.rank < MOST_RANKS:
            self.heard.add(line.rank)
            if line.node:
                self.node_of.setdefault(line.rank, line.node)

    def _size(self, size: int, rank: int) -> None:
        if 0 < size <= MOST_RANKS:
            self.sizes[size] += 1
            if 0 <= rank < MOST_RANKS:
                self.size_of[rank] = max(size, self.size_of.get(rank, 0))

    def _communicator(self, found: Match[str], line: Line) -> None:
        rank, size = int(found[1]), int(found[2])
        if 0 < size <= MOST_RANKS and rank < size:
            self.sizes[size] += 1
            if line.node and size >= max(self.sizes):  # ranks of smaller groups are numbered from 0 again
                self.node_of[rank] = line.node
                self.heard.add(rank)

    def _bootstrap(self, found: Match[str], line: Line) -> None:
        _add(self.interfaces.setdefault(line.node, {}), f"{found[1]}:{found[2].rstrip(':')}")

    def _adapters(self, found: Match[str], line: Line) -> None:
        del line
        _add(self.networks, found[1])

    def _timeout(self, found: Match[str], line: Line) -> None:
        if 0 <= line.rank < MOST_RANKS:
            self.timeouts.setdefault(line.rank, (int(found[1] or -1), found[2].upper(), int(found[3] or -1)))

    def _progress(self, found: Match[str], line: Line) -> None:
        if 0 <= line.rank < MOST_RANKS:
            self.enqueued[line.rank] = int(found[1])

    def _host(self, found: Match[str], line: Line) -> None:
        del line
        self._table = {"host": found[1]}

    def _rank(self, found: Match[str], line: Line) -> None:
        del line
        self._table["rank"] = found[1]
        if "host" in self._table and int(found[1]) < MOST_RANKS:
            self.node_of[int(found[1])] = self._table["host"]

    def _exit(self, found: Match[str], line: Line) -> None:
        del line
        if "rank" in self._table and int(self._table["rank"]) < MOST_RANKS:
            self.exits[int(self._table["rank"])] = found[1]

    def _preparing(self, found: Match[str], line: Line) -> None:
        if line.rank < MOST_RANKS:
            self.prepared[line.rank] = int(found[1])

    def _behind(self, found: Match[str], line: Line) -> None:
        del line
        self.late |= {int(word) for word in found[1].replace(",", " ").split()[:1024]}

    def _awaited(self, found: Match[str], line: Line) -> None:
        if line.rank >= 0 and int(found[1]) < MOST_RANKS:
            self.awaited.setdefault(line.rank, int(found[1]))

    def _stalled(self, found: Match[str], line: Line) -> None:
        del line
        self.stalled |= set(_numbers(found[1]))

    def _stalled_list(self, found: Match[str], line: Line) -> None:
        """A later Horovod writes a line for each rank below these words."""
        del found, line
        self._lists_stalled = True

    def _stalled_rank(self, found: Match[str], line: Line) -> None:
        del line
        if self._lists_stalled:
            self.stalled |= set(_numbers(found[1]))

    def _unjoined(self, found: Match[str], line: Line) -> None:
        del line
        if len(self.unjoined) < MOST_UNJOINED:
            self.unjoined.append(Unjoined(int(found[1])))

    def _unjoined_call(self, found: Match[str], line: Line) -> None:
        del line
        if self.unjoined:
            self.unjoined[-1].operation = self.unjoined[-1].operation or found[1][:64].upper()

    def _unjoined_ranks(self, found: Match[str], line: Line) -> None:
        del line
        if self.unjoined:
            self.unjoined[-1].missing = self.unjoined[-1].missing or _numbers(found[1])

    def _expected_ranks(self, found: Match[str], line: Line) -> None:
        del line
        if self.unjoined:
            self.unjoined[-1].expected = self.unjoined[-1].expected or _numbers(found[1])

    def _device(self, found: Match[str], line: Line) -> None:
        """nccl-tests list the device of every rank."""
        del line
        if int(found[1]) < MOST_RANKS:
            self.node_of[int(found[1])] = found[2]

    def _member(self, found: Match[str], line: Line) -> None:
        del line
        if int(found[1]) < int(found[2]) <= MOST_RANKS:
            self._size(int(found[2]), int(found[1]))
            self.members[int(found[1])] += 1

    def _complete(self, found: Match[str], line: Line) -> None:
        del found, line
        self.is_complete = True

    def _told(self, found: Match[str], line: Line) -> None:
        """Good ends and beginnings are counted by file: a failure before one was survived."""
        del found, line

    @property
    def world_size(self) -> int:
        """The largest number of ranks that any line speaks of; groups are smaller."""
        return max(self.sizes, default=0)

    def job(self) -> Job:
        """The job as far as its lines tell."""
        size = self.world_size
        silent: tuple[int, ...] = ()
        if size and self.heard and len(self.heard & set(range(size))) * 2 > size:
            silent = tuple(sorted(set(range(size)) - self.heard))
        return Job(
            world_size=size,
            node_of=dict(sorted(self.node_of.items())),
            silent=silent,
            interfaces={node: tuple(names) for node, names in sorted(self.interfaces.items())},
            networks=tuple(self.networks),
            transports=tuple(name for name, _ in self.transports.most_common(6)),
            versions={name: tuple(values) for name, values in self.versions.items()},
            exits=self.exits,
            hang=self.hang(),
        )

    def hang(self) -> Hang | None:
        """The collective in which most ranks waited, and who was not there; None where no watchdog spoke."""
        recorded = hang_of(self.calls) or self._reported() or self._of_horovod()
        if recorded is not None or not self.timeouts:
            return recorded
        counted = Counter(self.timeouts.values())
        (sequence, operation, elements), _ = counted.most_common(1)[0]
        waiting = {rank for rank, call in self.timeouts.items() if call[0] == sequence}
        missing = {rank for rank, last in self.enqueued.items() if 0 <= last < sequence}
        missing |= self.late
        size = self.world_size
        reports = bool(size) and len(waiting) * 2 >= size
        silent = set(range(size)) - set(self.timeouts) - missing if reports else set()
        missing |= silent
        return Hang(
            sequence,
            operation,
            elements,
            tuple(sorted(waiting - missing)),
            tuple(sorted(missing)),
            tuple(sorted(silent)),
            self._mismatch(sequence),
        )

    def _reported(self) -> Hang | None:
        """The first collective of which torch's reader of the flight recorder says who did not come to it."""
        for one in self.unjoined:
            if one.missing:
                waiting = tuple(rank for rank in one.expected if rank not in one.missing)
                return Hang(one.sequence, one.operation or "COLLECTIVE", -1, waiting, one.missing)
        return None

    def _of_horovod(self) -> Hang | None:
        missing = tuple(sorted(self.stalled))
        return Hang(-1, "an operation of Horovod", -1, (), missing) if missing else None

    def _mismatch(self, sequence: int) -> str:
        """What differs between ranks at the same sequence number."""
        calls = {rank: call for rank, call in self.timeouts.items() if call[0] == sequence and sequence >= 0}
        kinds: dict[str, list[int]] = {}
        for rank, (_, operation, elements) in sorted(calls.items()):
            shown = (
                operation
                if operation in {"BROADCAST", "SEND", "RECV", "COALESCED"}
                else said("{operation} of {elements}", operation, elements)
            )
            kinds.setdefault(shown, []).append(rank)
        if len(kinds) < 2:
            return ""
        return joined(
            [said("{kind} on rank {ranks}", kind, ", ".join(map(str, ranks[:8]))) for kind, ranks in kinds.items()]
        )


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(sorted({int(word) for word in text.replace(",", " ").split()[:MOST_LISTED]}))


def _add(names: dict[str, None], name: str, *, most: int = 32) -> None:
    if len(names) < most:
        names[name[:200]] = None
