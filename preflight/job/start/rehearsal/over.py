"""When is a rehearsal over? When all that was started has ended, or nothing that is still to come can help."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from preflight.job.start.rehearsal.story import NodeStory, Story
from preflight.launch.cast import Cast

QUIET_SECONDS = 1.0  # behind the last word, where all has ended
GRACE_SECONDS = 5.0  # for the words of others, behind the first failure
STILL_SECONDS = 45.0  # in a launcher, where nobody moves
WAITING_SECONDS = 30.0  # of ranks for ranks that do not come, while the scripts of these do nothing that is seen
ENDED, FAILED, STILL = "ended", "failed", "still"


def why_over(story: Story, cast: Cast, now: float) -> str:
    """One of the words above, "" while it goes on; `now` is in seconds of a monotonic clock."""
    nodes = story.nodes
    if any(node.stray for node in nodes.values()):
        return FAILED
    quiet = now - max(node.moved for node in nodes.values())
    started = [nodes[name] for name in cast.scripts]
    has_ended = all(node.code is not None or node.failure for node in started)
    if has_ended and all(rank.is_over for rank in story.ranks) and quiet > QUIET_SECONDS:
        return ENDED
    has_failed = any(rank.error for rank in story.ranks) or any(
        node.failure or (node.code and not story.has_trained) for node in started
    )
    began = any(node.launched or node.ranks for node in nodes.values())
    has_failed = has_failed or any(
        began and node.code == 0 and not node.launched and not node.ranks for node in started if len(started) > 1
    )
    if has_failed and quiet > GRACE_SECONDS:
        return FAILED
    waits = [rank for rank in story.ranks if rank.stage in ("rendezvous", "communicator") and not rank.error]
    if waits and quiet > WAITING_SECONDS and _are_launching(started, cast):
        return STILL
    return STILL if quiet > STILL_SECONDS and (_are_launching(started, cast) or has_ended) else ""


def _are_launching(started: Collection[NodeStory], cast: Cast) -> bool:
    """Whether every script that goes on stands at the command that starts the job, as far as its lines are known."""
    lines = starting_lines(cast)
    running = [node for node in started if node.code is None and not node.failure]
    return all(node.launched or node.ranks or not node.rows or _is_at(node, cast, lines) for node in running)


def _is_at(node: NodeStory, cast: Cast, lines: Mapping[str, Collection[int]]) -> bool:
    script = cast.scripts[node.node]
    own = [row for row in node.rows if row.source == script.path]
    return bool(own) and own[-1].line in lines.get(script.name, ())


def starting_lines(cast: Cast) -> dict[str, set[int]]:
    """File -> the lines on which its commands start a job."""
    lines: dict[str, set[int]] = {}
    for plan in cast.plans:
        lines.setdefault(plan.where.file, set()).add(plan.where.line)
    return lines
