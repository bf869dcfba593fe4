"""What became of a job: did every rank end, and if not, who is to blame and why?"""

from __future__ import annotations

import re
import signal
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from preflight.job.start.patience import STAGES
from preflight.job.start.symptoms import UNKNOWN, Symptom, symptom
from preflight.job.start.words import (
    NOT_REACHED,
    accused,
    in_one_line,
    last_entered,
    own_address,
    particular,
    speaks_of_a_peer,
    warned,
    was_aborted,
    without_stack,
)
from preflight.launch.job import ALL_RANKS, Job, Placement
from preflight.launch.traits import AgentOutput
from preflight.said import joined, said

# What an exit says that is not the rank's own.
OURS = {
    "": "",
    "stopped": ", went no further and was ended",
    "time limit": ", went no further and was ended at the time limit",
}
ENDED_BY_US = frozenset(OURS)
ABORTED = frozenset({*ENDED_BY_US, "-6", "134"})  # by a watchdog of its own; 134 is a shell's code for SIGABRT
# The last lines of an interpreter that ended before it had a frame: they give no reason.
NO_FRAME = re.compile(r"\s*(?:<no Python frame>|Current thread 0x[0-9a-f]+ \(most recent call first\):)\s*")
NOISE = re.compile(
    r"\[W\d+ |frame #\d+|Exception raised from |<omitting python frames>"
)  # warnings of torch, and its native stack


@dataclass
class RankStory:
    """What one rank reported before it ended."""

    placement: Placement
    stage: str = "start"
    records: list[dict[str, Any]] = field(default_factory=list)
    error: str = ""
    exit: str = ""
    log: str = ""
    mark: re.Pattern[str] | None = None  # how its agent begins a line that the rank printed
    is_placed: bool = False  # whether its node has reported it
    elsewhere: tuple[str, ...] = ()  # other nodes that started a rank with this number
    kept_waiting: bool = False  # whether it stayed in its stage too long while others were further on
    files: dict[str, str] = field(default_factory=dict)  # NCCL's log and torch's flight recorder, where the job failed

    @property
    def is_done(self) -> bool:
        """Whether the rank said that its work is done; an exit code alone proves nothing."""
        return self.stage == "done"

    @property
    def lost_a_peer(self) -> bool:
        """Whether its error is about another rank that failed."""
        if self.error:
            return speaks_of_a_peer(self.error)
        return self.exit in ABORTED and was_aborted(self.log)

    @property
    def last_output(self) -> str:
        """Its error, else its log with what NCCL wrote."""
        return self.error or f"{self.log}\n{self.files.get('nccl', '')}"

    @property
    def cannot_connect(self) -> bool:
        """Whether it failed to connect while all ranks connect with the first, or with each other."""
        return self.stage in {"rendezvous", "communicator"} and any(
            sign in without_stack(self.error) for sign in NOT_REACHED
        )

    @property
    def last_lines(self) -> list[str]:
        """What the rank printed last."""
        mark = self.mark
        lines = ((mark.sub("", line, count=1) if mark else line).strip() for line in self.log.splitlines())
        return [line for line in lines if line and not NOISE.match(line)][-5:]


@dataclass(frozen=True)
class Outcome:
    """The end of a job: every rank's story, and why it failed, if it did.

    ``is_proven`` tells whether the guilty nodes are (a rank died there, gave a reason of its own, or kept the others
    waiting), or only the place where nothing more was heard.
    """

    stories: tuple[RankStory, ...]
    failure: str
    guilty: tuple[str, ...]
    seconds: float
    is_proven: bool = False
    culprits: tuple[RankStory, ...] = ()
    why: Symptom = UNKNOWN
    commands: Mapping[str, str] = field(default_factory=dict)  # what was started on each node

    def records(self, kind: str) -> list[dict[str, Any]]:
        """Every record of one kind, in rank order."""
        return [record for story in self.stories for record in story.records if record.get("record") == kind]


def take_exit(
    event: dict[str, Any], node: str, stories: dict[int, RankStory], blames: AgentOutput | None
) -> list[RankStory]:
    """Write a process's end into the stories of its ranks (its own, or those of its agent) -> those stories.

    `blames` is how the launcher's agents name failed ranks; None for a launcher without agents.
    """
    name, log = str(event["name"]), str(event["log"])
    failed = list(blames.failed.finditer(log)) if blames is not None else []
    taken = []
    for story in stories.values():
        placement = story.placement
        is_one, is_agent = name == f"rank{placement.rank}", name in {node, ALL_RANKS}
        if (placement.node != node and name != ALL_RANKS) or not (is_one or is_agent):
            continue
        story.exit, story.log = str(event["exit"]), log
        if is_agent and blames is not None:
            story.log, story.mark = of_rank(log, placement, blames.line), blames.line
            if failed:  # the agent names the ranks that failed; the others it has stopped itself
                own = (found["exit"] for found in failed if _is_of(found, placement))
                story.exit = next(own, "stopped")
        taken.append(story)
    return taken


def of_rank(log: str, placement: Placement, line: re.Pattern[str]) -> str:
    """An agent's log without the lines of other ranks."""
    kept = []
    for text in log.splitlines(keepends=True):
        marked = line.match(text)
        if marked is None or _is_of(marked, placement):
            kept.append(text)
    return "".join(kept)


def _is_of(found: re.Match[str], placement: Placement) -> bool:
    """Whether an agent's line is about this rank, named by its number in the job or on its node."""
    named = found.groupdict()
    rank, local_rank = named.get("rank"), named.get("local_rank")
    return int(rank) == placement.rank if rank is not None else int(local_rank or -1) == placement.local_rank


def conclude(job: Job, stories: dict[int, RankStory], failures: dict[str, str], seconds: float) -> Outcome:
    """The end of a job from its ranks' stories; ``failures`` are the nodes that were lost, with the reason."""
    ranks = tuple(stories[placement.rank] for placement in job.placements)
    unfinished = [story for story in ranks if not story.is_done]
    if not unfinished:
        return Outcome(ranks, "", (), seconds)
    if failures:
        behind = _left_behind(unfinished, failures)
        if behind:
            failure = said(
                "{next}; by then {came_to}, and the others waited", next(iter(failures.values())), _came_to(behind)
            )
            return Outcome(ranks, failure, tuple(dict.fromkeys(story.placement.node for story in behind)), seconds)
        reason = joined([said("{node}: {why}", node, why) for node, why in sorted(failures.items())])
        return Outcome(ranks, reason, tuple(failures), seconds)
    doubles = _started_twice(ranks)
    if doubles:
        return Outcome(ranks, doubles[0], doubles[1], seconds, is_proven=True, why=symptom(text="same rank", exited=""))
    culprits, is_proven = _first_to_fail(unfinished)
    words = [_last_words(story) for story in culprits[:4]]
    if len(culprits) > len(words):
        left = len(culprits) - len(words)
        words.append(said("and {left} more rank{s}", left, "s" * (left != 1)))
    guilty = tuple(dict.fromkeys(story.placement.node for story in culprits))
    first = culprits[0]
    error = (
        first.error
        or _error_line(first)
        or warned(first.files.get("nccl", ""))
        or next((story.error for story in ranks if story.cannot_connect), "")
    )
    why = symptom(text=particular(error), exited=first.exit)
    return Outcome(ranks, joined(words), guilty, seconds, is_proven=is_proven, culprits=tuple(culprits), why=why)


def _left_behind(unfinished: list[RankStory], failures: Mapping[str, str]) -> list[RankStory]:
    """Where time ended for all nodes alike, the ranks for which the others waited; none where no rank was further."""
    stages = [STAGES.index(story.stage) for story in unfinished]
    is_of_all = {story.placement.node for story in unfinished} <= set(failures) and len(set(failures.values())) == 1
    if not is_of_all or min(stages) == max(stages) or min(stages) >= STAGES.index("rendezvous"):
        return []
    return [story for story, stage in zip(unfinished, stages, strict=True) if stage == min(stages)]


def _came_to(stories: list[RankStory]) -> str:
    """How far the ranks came, the first few of them by name."""
    named = joined(
        [said("rank {rank} on {node}", story.placement.rank, story.placement.node) for story in stories[:4]], ", "
    )
    more = said(" and {stories} more", len(stories) - 4) if len(stories) > 4 else ""
    return said("{named}{more} had come no further than stage {stage}", named, more, stories[0].stage)


def _started_twice(ranks: tuple[RankStory, ...]) -> tuple[str, tuple[str, ...]] | None:
    """The nodes whose ranks took the numbers of others, while their own numbers are missing."""
    wrong = {node: story for story in ranks for node in story.elsewhere}
    if not wrong:
        return None
    listed = joined(
        [
            said("{node} started rank {rank}, which is {node2}'s", node, s.placement.rank, s.placement.node)
            for node, s in wrong.items()
        ]
    )
    return listed, tuple(wrong)


def _first_to_fail(unfinished: list[RankStory]) -> tuple[list[RankStory], bool]:
    """The ranks that were killed; else those with a reason of their own; else those that came least far.

    The second value says whether that is proof: it is not where all merely lost a peer, or ran out of time.
    """
    own = [story for story in unfinished if not story.lost_a_peer and not story.cannot_connect]
    killed = [story for story in own if story.exit not in ENDED_BY_US and not story.error]
    reasoned = [story for story in own if story.error]
    if killed or reasoned:
        return killed or reasoned, True
    calling = [story for story in unfinished if story.cannot_connect]
    called = [story for story in unfinished if not story.cannot_connect]
    if calling and not 0 < len(called) < len(calling):
        return calling if len(calling) != len(called) else unfinished, True  # of a single pair either may be wrong
    least = min(STAGES.index(story.stage) for story in called)
    behind = [story for story in called if STAGES.index(story.stage) == least]
    culprits = [story for story in behind if not story.lost_a_peer] or _fewest_entered(behind)
    culprits = culprits if len(culprits) < len(behind) else _most_accused(behind)
    others = [story for story in unfinished if story not in culprits]
    waited = any(story.error or story.lost_a_peer for story in others)
    return culprits, waited or (bool(others) and all(story.kept_waiting for story in culprits))


def _fewest_entered(stories: list[RankStory]) -> list[RankStory]:
    """Of ranks that all waited: those whose flight recorder has the fewest collectives, where that singles some out."""
    entered = {story.placement.rank: last_entered(story.files.get("trace", "")) for story in stories}
    least = min(entered.values())
    return [story for story in stories if entered[story.placement.rank] == least] if least >= 0 else stories


def _most_accused(stories: list[RankStory]) -> list[RankStory]:
    """Of ranks that all lost a peer: those of the node whose address most others name, where it is a single node.

    The peer in NCCL's words is at fault, not the rank that says them.
    """
    node_of = {
        address: story.placement.node for story in stories if (address := own_address(story.files.get("nccl", "")))
    }
    accusations = {
        (story.placement.node, node_of.get(peer, "")) for story in stories for peer in accused(story.last_output)
    }
    votes = Counter(peer for node, peer in accusations if peer not in ("", node))
    (first, most), *rest = [*votes.most_common(2), ("", 0)]
    if most < 2 or (rest and rest[0][1] == most):
        return stories
    return [story for story in stories if story.placement.node == first]


def _error_line(story: RankStory) -> str:
    """The last line of the log that looks like an error."""
    looks_bad = re.compile(r"error|fail|abort", re.IGNORECASE)
    return next((line for line in reversed(story.last_lines) if looks_bad.search(line)), "")


def _last_words(story: RankStory) -> str:
    where = said("rank {rank} on {node}", story.placement.rank, story.placement.node)
    lines = [line for line in story.last_lines if not NO_FRAME.fullmatch(line)]
    message = in_one_line(story.error) or (lines[-1] if lines else "no output")
    return said(
        "{where} stopped at stage {stage}{how_it_ended}: {message}",
        where,
        story.stage,
        _how_it_ended(story.exit),
        message[:400],
    )


def _how_it_ended(code: str) -> str:
    """Whether it left by itself, by which signal, or was ended here; nothing where its end was not seen."""
    if code in OURS:
        return OURS[code]
    number = -int(code) if code.startswith("-") and code[1:].isdecimal() else 0
    name = f" ({signal.Signals(number).name})" if number in set(signal.Signals) else ""
    return said(", ended with {code}{name}", code, name) + (", and its work was not done" if code == "0" else "")
