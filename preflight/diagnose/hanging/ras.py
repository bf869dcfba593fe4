"""What does the report of NCCL's RAS service say of the ranks: who is dead, who does not answer, who is behind?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from preflight.said import joined, said

MOST_NAMED = 8
SECTION = re.compile(r"(?:#\d+-\d+ \([0-9a-fx]+\) )?(DEAD|INCOMPLETE|MISMATCH|TIMEOUT|ABORT|ERROR)")
PROCESS = re.compile(r"^ *Process (\d+) on node (\S+) managing GPUs? ([\d,-]+)")
RANK = re.compile(r"^ *Rank (\d+) -- GPU (\S+) managed by process (\d+) on node (\S+)")
MISSING = re.compile(r"^ *The missing ranks?: ([\d, -]+)")
COUNT = re.compile(r"^ *(\d+) ranks? (?:has|have) launched up to operation (\d+)")


@dataclass(frozen=True)
class Named:
    """A process that the report names; ``rank`` is -1 where it does not say which rank that is."""

    what: str  # "dead", "silent" or "behind"
    pid: int
    node: str
    rank: int = -1
    operation: int = -1  # the last collective that it launched

    @property
    def words(self) -> str:
        """The process, its rank and its node."""
        rank = said("rank {rank}, ", self.rank) if self.rank >= 0 else ""
        return said("{rank}process {pid} on {node}", rank, self.pid, self.node)


@dataclass(frozen=True)
class Report:
    """The report: the processes that differ, the ranks without data, and how far the ranks are that most belong to."""

    named: tuple[Named, ...] = ()
    missing: tuple[int, ...] = ()
    furthest: int = -1

    @property
    def is_healthy(self) -> bool:
        """Whether it names nobody."""
        return not self.named and not self.missing


def parse(text: str) -> Report:
    """One report of VERBOSE STATUS, in the words of NCCL 2.24 to 2.30."""
    named: dict[tuple[int, str], Named] = {}
    missing: list[int] = []
    section, operation, furthest = "", -1, -1
    for line in text.splitlines():
        kind = SECTION.fullmatch(line.strip())
        if kind:
            section, operation = kind[1], -1
        elif found := COUNT.match(line):
            operation = int(found[2])
            furthest = max(furthest, operation)
        elif found := PROCESS.match(line):
            what = "dead" if section == "DEAD" else "silent"
            named.setdefault((int(found[1]), found[2]), Named(what, int(found[1]), found[2]))
        elif found := RANK.match(line):
            one = Named("behind", int(found[3]), found[4], int(found[1]), operation)
            named.setdefault((one.pid, one.node), one)
        elif found := MISSING.match(line):
            missing += _numbers(found[1])
    behind = [one for one in named.values() if one.what != "behind" or one.operation < furthest or one.operation < 0]
    return Report(tuple(behind), tuple(sorted(set(missing))), furthest)


def standing(reports: Sequence[str]) -> Report:
    """What the last report names and the first one too: a rank that is only a step late has gone on in between."""
    parsed = [parse(text) for text in reports]
    if not parsed:
        return Report()
    first, last = parsed[0], parsed[-1]
    if len(parsed) > 1 and last.furthest > first.furthest >= 0:
        return Report(tuple(one for one in last.named if one.what != "behind"), last.missing, last.furthest)
    return last


def verdict(report: Report) -> str:
    """One sentence; "" where the report names nobody."""
    if report.is_healthy:
        return ""
    lost = [one for one in report.named if one.what != "behind"]
    ranks = ", ".join(map(str, report.missing[:MOST_NAMED]))
    of_ranks = said(" (rank {ranks})", ranks) if ranks else ""
    if lost:
        shown = joined([one.words for one in lost[:MOST_NAMED]], "; ")
        if any(one.what == "dead" for one in lost):
            return said(
                "NCCL's RAS counts as dead: {shown}{of_ranks}: it ended, stands still or cannot be reached",
                shown,
                of_ranks,
            )
        return said(
            "NCCL's RAS gets no answer from {shown}{of_ranks}: it is stopped, or its node cannot be reached",
            shown,
            of_ranks,
        )
    if report.named:
        late = [one for one in report.named if one.operation >= 0]
        shown = joined([one.words for one in (late or report.named)[:MOST_NAMED]], "; ")
        if late:
            return said(
                "NCCL's RAS: {shown} launched collectives only up to number {operation}, the others {furthest}: "
                "they wait for it",
                shown,
                late[0].operation,
                report.furthest,
            )
        return said("NCCL's RAS: the ranks of a communicator are in different states: {shown}", shown)
    return said("NCCL's RAS has no data of rank {ranks}", ranks)


def steps(report: Report) -> tuple[str, ...]:
    """What to do next, a line for each process that is named."""
    return tuple(
        said(
            "on {node}: `ps -o pid,stat,wchan:20,cmd -p {pid}`; where STAT is T, `kill -CONT {pid2}`; "
            "where it is not there, read the end of that rank's own log",
            one.node,
            one.pid,
            one.pid,
        )
        if one.what != "behind"
        else said("on {node}: `py-spy dump --pid {pid}` shows what it does instead", one.node, one.pid)
        for one in report.named[:MOST_NAMED]
    )


def _numbers(text: str) -> list[int]:
    found: list[int] = []
    for part in re.findall(r"\d+(?:-\d+)?", text)[:1024]:
        low, _, high = part.partition("-")
        found += range(int(low), min(int(high or low), int(low) + 4096) + 1)
    return found
