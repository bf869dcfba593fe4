"""Which ranks belong together? A script may start several jobs, one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from preflight.job.start.rehearsal.story import RankStory, Story


def program_of(rank: RankStory) -> str:
    """The name of the program that the rank stands for."""
    words = rank.arrived.argv[1:]
    for place, word in enumerate(words):
        if word == "-m" and place + 1 < len(words):
            return words[place + 1]
        if word.endswith(".py") or not word.startswith("-"):
            return word.rpartition("/")[2]
    return ""


def rounds(story: Story) -> list[list[RankStory]]:
    """The ranks of each job in the order in which they began: a rank that was done before is in an earlier one."""
    found: dict[tuple[str, int], list[RankStory]] = {}
    done: Counter[tuple[str, str, int]] = Counter()
    for rank in sorted(story.ranks, key=lambda rank: rank.times["began"]):
        key = (program_of(rank), rank.node, rank.rank)
        found.setdefault((key[0], done[key]), []).append(rank)
        if rank.stage == "done":
            done[key] += 1
    return [sorted(ranks, key=lambda rank: rank.rank) for ranks in found.values()]


def world_of(ranks: Sequence[RankStory]) -> int:
    """How many ranks the most of them were told that there are."""
    sizes = Counter(rank.world_size for rank in ranks)
    return max(sizes, key=lambda size: (sizes[size], size)) if sizes else 0
