"""Which process ended first, by what the launcher saw: torchrun, srun, mpirun, DeepSpeed, Lightning, Ray, Composer?"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from re import Match

from preflight.diagnose.prefix import Line, seconds_of

MOST = 4096
# The name of each begins with "fell"; its groups say who fell.
PATTERNS: tuple[tuple[str, str], ...] = (
    # torchrun's table of failures, one for each agent, line by line
    ("fell_time", r"^\s*time +: (\d{4}-\d\d-\d\d[_ t]\d\d:\d\d:\d\d)"),
    ("fell_rank", r"^\s*rank +: (?P<rank>\d+) \(local_rank: \d+\)"),
    ("fell_code", r"^\s*exitcode +: (-?\d+)"),
    ("fell_noticed", r"failed \(exitcode: (?P<code>-?\d+)\) local_rank: (?P<rank>\d+)"),  # its agent, as it happens
    ("fell_task", r"srun: error: (?P<node>[\w.-]+): tasks? (?P<rank>[\d,-]+): (?!terminated)\w"),
    (
        "fell",
        r"process name: (?:\[\[\d+,\d+\],|prterun-\S+@\d+,)(?P<rank>\d+)\]?",
    ),  # mpirun
    ("fell", r"process rank (?P<rank>\d+) with pid \d+ on node (?P<node>[\w.-]+) exited"),
    ("fell_local", r"--local_rank=(?P<rank>\d+)\W.* exits with return code = (?!-15\b)"),
    ("fell", r"\[rank: (?P<rank>\d+)\] child process with pid \d+ terminated with code (?!-15\b)"),
    ("fell", r"\[rank (?P<rank>[\d,]+) error snippet\]"),  # Ray Train
    ("fell", r"-- process (?P<rank>\d+) terminated with the following error"),  # torch.multiprocessing
    ("fell", r"\bprocess (?P<rank>\d+) terminated with (?:exit code [1-9]|signal (?!sigterm))"),
    ("fell", r"\brank (?P<rank>\d+) crashed with exit code (?!-15\b)"),  # Composer
    ("fell", r"^process (?P<rank>\d+) exit with status code (?!143\b|0\b)"),  # Horovod
)
ENDED_FOR_OTHERS = frozenset(("-15", "143"))  # by the launcher, once another one had failed
BY_HAND = frozenset(("-2", "130"))  # SIGINT
KILLED = frozenset(("-9", "137"))
ABORTED = frozenset(("-6", "134"))  # as a rank ends itself that waited for another one
SPAN = re.compile(r"(\d+)(?:-(\d+))?")


@dataclass(frozen=True)
class Fall:
    """Ranks that a launcher saw end, by one line or entry of its table; ``seconds`` are negative where unknown."""

    ranks: frozenset[int]
    node: str = ""
    seconds: float = -1.0
    code: str = ""
    is_task: bool = False  # of srun, which may start several ranks


@dataclass
class Falls:
    """All of them, in the order in which they were told."""

    told: list[Fall] = field(default_factory=list)
    _seconds: float = -1.0
    _rank: int = -1

    def take(self, name: str, found: Match[str], line: Line) -> None:
        """A line that one of the patterns fits."""
        if name == "fell_time":
            self._seconds, self._rank = seconds_of(found[1].upper()), -1
        elif name == "fell_rank":
            self._rank = int(found["rank"])
        elif name == "fell_code":
            if self._rank >= 0:
                self._add(Fall(frozenset((self._rank,)), "", self._seconds, found[1]))
            self._rank = -1
        elif name == "fell_noticed":
            self._add(Fall(frozenset(), line.node, line.seconds, found["code"]))
        elif name != "fell_local" or not line.node:  # several nodes: each counts its own from 0
            node = found.groupdict().get("node") or line.node
            self._add(Fall(frozenset(_ranks(found["rank"])), node, is_task=name == "fell_task"))

    def _add(self, fall: Fall) -> None:
        if len(self.told) < MOST:
            self.told.append(fall)

    def first(self, *, several_a_task: bool) -> frozenset[int]:
        """The ranks that ended first: by the times of tables, else those told of first; none where unknown."""
        own = [one for one in self.told if one.code not in ENDED_FOR_OTHERS and not (one.is_task and several_a_task)]
        own = [one for one in own if one.code not in ABORTED and one.ranks] or [one for one in own if one.ranks]
        timed = [one for one in own if one.seconds >= 0]
        if timed:
            earliest = min(one.seconds for one in timed)
            return _all(one for one in timed if one.seconds == earliest)
        return own[0].ranks if own else frozenset()

    @property
    def has_killed_first(self) -> bool:
        """Whether the first process that ended had been killed: no exception of Python did that."""
        own = [one for one in self.told if one.code and one.code not in ENDED_FOR_OTHERS]
        first = (
            min(own, key=lambda one: one.seconds)
            if own and all(one.seconds >= 0 for one in own)
            else next(iter(own), None)
        )
        return first is not None and first.code in KILLED

    @property
    def is_by_hand(self) -> bool:
        """Whether ranks were only interrupted, and the others ended for it."""
        codes = {one.code for one in self.told if one.code}
        return bool(codes & BY_HAND) and codes <= BY_HAND | ENDED_FOR_OTHERS


def _all(falls: Iterable[Fall]) -> frozenset[int]:
    return frozenset(rank for one in falls for rank in one.ranks)


def _ranks(text: str) -> list[int]:
    """The numbers of a list with spans, as srun writes it."""
    found: list[int] = []
    for one in SPAN.finditer(text):
        found.extend(range(int(one[1]), min(int(one[2] or one[1]), int(one[1]) + MOST) + 1))
    return found[:MOST]
