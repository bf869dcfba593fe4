"""How long did each stage take on each node, and whom did the others wait for?"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median_low

from preflight.facts.results.rehearsal import Cause
from preflight.job.measure.rehearsal.rounds import rounds
from preflight.job.start.rehearsal.story import RankStory, Story
from preflight.launch.cast import Cast
from preflight.said import said

# Stage -> the moments between which it lies, by the clock of its own node.
STAGES = {
    "script": ("script", "launched"),
    "launcher": ("launched", "began"),
    "import": ("numbered", "rendezvous"),
    "rendezvous": ("rendezvous", "communicator"),
    "communicator": ("communicator", "first_step"),
    "first step": ("first_step", "running"),
}
OWN = ("script", "launcher", "import")  # in which nobody waits for another
SLOW_SECONDS = 10.0
SLOW_FACTOR = 2.0


def seconds_of(rank: RankStory, story: Story) -> dict[str, float]:
    """How long each stage took, of those that it came through."""
    node = story.nodes[rank.node]
    at = dict(rank.times)
    if node.began is not None:
        at["script"] = node.began.at
        launched = [each.at for each in node.launched if each.at <= at["began"]]
        at["launched"] = max(launched, default=at["began"])
    return {
        stage: round(max(0.0, at[end] - at[begin]), 2)
        for stage, (begin, end) in STAGES.items()
        if begin in at and end in at
    }


def judged(story: Story, cast: Cast) -> Iterator[Cause]:
    """The node for which the others stood still, by the stage that took it so long."""
    slowest: dict[str, dict[str, float]] = {}
    first = next(iter(rounds(story)), [])
    for rank in first:
        held = seconds_of(rank, story)
        before = slowest.get(rank.node, {})
        slowest[rank.node] = {stage: max(held.get(stage, 0.0), before.get(stage, 0.0)) for stage in OWN}
    if len(slowest) < 2:
        return
    # Where one script starts the ranks of all nodes, it is nobody's own.
    for stage in OWN if len(cast.scripts) > 1 else OWN[2:]:
        usual = median_low([held[stage] for held in slowest.values()])
        for name, held in slowest.items():
            if held[stage] > max(SLOW_FACTOR * usual, usual + SLOW_SECONDS):
                text = said(
                    "{name} took {held:.0f} s for stage {stage}, where the others took {usual:.0f} s",
                    name,
                    held[stage],
                    stage,
                    usual,
                )
                yield Cause(about="pace", nodes=(name,), message=said("{text} and waited", text), is_advisory=True)
