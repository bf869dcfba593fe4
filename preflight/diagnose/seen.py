"""What is known of one cause while its lines are gathered?"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from preflight.diagnose.cause import Cause
from preflight.diagnose.found import Evidence
from preflight.diagnose.quiet import TRIED

EVIDENCE = 3
MOST_WHO = 4096
# What the processes of a job that has ended well may still say, as they go one after the other.
AFTERMATH = re.compile(
    r"sigterm|\bsignal:? 15\b|closing signal|death signal|killing subprocess|: terminated\b|sigint|keyboardinterrupt"
    r"|connection (?:reset|closed|was likely closed)|broken pipe|socket closed|peer closed|server has shut down"
    r"|(?:recv|send)(?:value|bytes)? failed|connection to the c10d store has failed|exit ?code:? (?:143|-15)\b",
    re.IGNORECASE,
)


class Ended(NamedTuple):
    """Where a file tells of a good end: after how many lines of progress, and when; -1 where no time is named."""

    progress: int
    seconds: float


@dataclass
class Seen:
    """The lines of one cause so far."""

    cause: Cause
    order: int
    count: int = 0
    evidence: list[Evidence] = field(default_factory=list)
    ranks: set[int] = field(default_factory=set)
    tasks: set[int] = field(default_factory=set)  # of the ranks those that only the label of a launcher tells
    nodes: set[str] = field(default_factory=set)
    progress: dict[str, int] = field(default_factory=dict)  # file -> lines of progress before the last of it
    waiting: dict[str, set[str]] = field(default_factory=dict)  # file -> nodes for which what was missing has not come
    is_parting: bool = True  # whether each line only tells how a process went
    is_tried: bool = True  # whether each line only tells of a try that another one follows
    is_warning: bool = True  # whether a library only warned of it
    is_cited: bool = True  # whether each line only quotes it, as it may quote another job
    is_mild: bool = True  # whether each line is a warning of what follows a peer's end, be it a good one
    before_end: set[str] = field(default_factory=set)  # files in which a line came before the training had ended
    before_left: set[str] = field(default_factory=set)  # the same, before the program began to end in order

    def come(self, file: str, node: str) -> None:
        """What was missing has come to a node; to all, where a line does not say to which."""
        waiting = self.waiting.get(file, set())
        waiting.discard(node)
        if not node:
            waiting.clear()

    def take(
        self,
        evidence: Evidence,
        progress: int,
        *,
        task: int,
        is_warning: bool,
        is_cited: bool,
        is_mild: bool,
        has_ended: bool,
        has_left: bool,
    ) -> None:
        """Another line of it, after so many lines of progress; one that was told already counts once."""
        if self.evidence and self.evidence[-1].line == evidence.line and self.evidence[-1].file == evidence.file:
            return
        if is_cited and not self.is_cited:
            return
        if self.is_cited and not is_cited:  # what was quoted before may be another job's
            self.evidence.clear()
            self.count = 0
        self.count += 1
        if not has_ended:
            self.before_end.add(evidence.file)
        if not has_left:
            self.before_left.add(evidence.file)
        self.is_parting = self.is_parting and AFTERMATH.search(evidence.text) is not None
        self.is_tried = self.is_tried and TRIED.search(evidence.text) is not None
        self.is_warning = self.is_warning and is_warning
        self.is_cited = self.is_cited and is_cited
        self.is_mild = self.is_mild and is_mild
        is_new = evidence.rank not in self.ranks or not self.evidence
        if len(self.evidence) < EVIDENCE and (is_new or not any(evidence.text == one.text for one in self.evidence)):
            self.evidence.append(evidence)
        if evidence.rank >= 0 and len(self.ranks) < MOST_WHO:
            if evidence.rank != task:
                self.tasks.discard(evidence.rank)
            elif task not in self.ranks:
                self.tasks.add(task)
            self.ranks.add(evidence.rank)
        if evidence.node and len(self.nodes) < MOST_WHO:
            self.nodes.add(evidence.node)
        self.progress[evidence.file] = progress
        self.waiting.setdefault(evidence.file, set()).add(evidence.node)

    @property
    def of_nodes(self) -> tuple[str, ...]:
        """Its nodes, each under its longest name."""
        return tuple(sorted(node for node in self.nodes if not _is_short(node, self.nodes)))


def _is_short(node: str, names: set[str]) -> bool:
    """Whether another name is this one with its domain."""
    return any(name.startswith(f"{node}.") and not name[0].isdigit() for name in names)
