"""Did a script fail to log in to a node whose ranks it starts, by what ssh printed?"""

from __future__ import annotations

from collections.abc import Sequence

from preflight.job.start.rehearsal.lines import last_words
from preflight.job.start.rehearsal.story import Story
from preflight.launch.cast import Cast
from preflight.reach.transport.ssh import CAUSES, FAILED, Ssh
from preflight.said import said


def says(missing: Sequence[str], story: Story, cast: Cast) -> str:
    """What the scripts that still run printed of the nodes that are missing: what ssh said, else their last words.

    What a script starts in the background fails without a line of its own.
    """
    running = [story.nodes[name] for name in cast.scripts if story.nodes[name].code is None]
    printed = [line for node in running if node.output for line in node.output.err.splitlines()]
    refused = [line for line in printed for sign, _, _ in CAUSES if sign in line]
    # Where several nodes are missing, the one that the line is about.
    named = [(name, line) for name in missing for line in refused if name in line or len(missing) == 1]
    if named:
        name, line = named[0]
        return said("; ssh to {name}: {why}", name, Ssh().explain(name, FAILED, line))
    words = next(filter(None, map(last_words, running)), "")
    return said("; it says: {words}", words) if words else ""
