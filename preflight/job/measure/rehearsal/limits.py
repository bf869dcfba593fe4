"""Do limits and caches hold where they count: inside the job?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from preflight.facts.results.rehearsal import Cause
from preflight.job.measure.rehearsal.alike import lines_with
from preflight.job.start.rehearsal.story import RankStory, Story
from preflight.launch.cast import Cast
from preflight.said import said

OPTIONS = {"nofile": "n", "memlock": "l", "nproc": "u"}
NAMES = {"nofile": "open files", "memlock": "locked memory", "nproc": "processes"}
FEW = {"nofile": 1024, "nproc": 1024}  # up to here a job of some ranks and data loaders fails
LITTLE_BYTES = 1 << 30
UNLIMITED = -1
INFINITE = float("inf")


def judged(story: Story, cast: Cast, sessions: Mapping[str, Mapping[str, int]]) -> Iterator[Cause]:
    """What is lower inside the job than in a session there or than on other nodes, and what cannot be used there.

    `sessions` holds the limits of a session on each node, by the names of OPTIONS.
    """
    ranks = {name: [rank for rank in node.ranks.values() if rank.arrived.names] for name, node in story.nodes.items()}
    firsts = [min(held, key=lambda rank: rank.rank) for held in ranks.values() if held]
    for first in firsts:
        yield from _limits(first, firsts, cast, sessions.get(first.node, {}))
        yield from _caches(first)


def _limits(rank: RankStory, firsts: Sequence[RankStory], cast: Cast, session: Mapping[str, int]) -> Iterator[Cause]:
    for name, inside in rank.arrived.limits.items():
        others = [
            (other.arrived.limits[name], said("on {node}", other.node))
            for other in firsts
            if name in other.arrived.limits
        ]
        places = [(session[name], "in a session there")] if name in session else []
        outside, where = max([*places, *others], key=lambda place: INFINITE if place[0] < 0 else place[0])
        if inside == UNLIMITED or (outside != UNLIMITED and inside >= outside):
            continue
        lines = [place for place in lines_with(cast, "ulimit") if _sets(cast, place, OPTIONS[name])]
        at = f" ({lines[0][0]}:{lines[0][1]})" if lines else ""
        wanted = "unlimited" if outside == UNLIMITED else str(outside)
        yield Cause(
            about="limits",
            nodes=(rank.node,),
            message=said(
                "{NAMES}: {inside} inside the job on {node}; {wanted} {where}{at}",
                NAMES[name],
                inside,
                rank.node,
                wanted,
                where,
                at,
            ),
            fix=said(
                "`ulimit -{OPTIONS} {wanted}` in the script, or in what starts it (slurmd: LimitNOFILE and "
                "LimitMEMLOCK of its unit, PropagateResourceLimits)",
                OPTIONS[name],
                wanted,
            ),
            where=tuple(lines),
            is_advisory=not (name in FEW and inside <= FEW[name]),
        )


def _sets(cast: Cast, place: tuple[str, int], letter: str) -> bool:
    text = next(script.text for script in cast.scripts.values() if script.name == place[0])
    line = text.splitlines()[place[1] - 1]
    return f"-{letter}" in line or f"S{letter}" in line or f"H{letter}" in line


def _caches(rank: RankStory) -> Iterator[Cause]:
    for cache in rank.arrived.caches:
        if cache.locks:
            yield Cause(
                about="limits",
                nodes=(rank.node,),
                message=said(
                    "{locks} was left on {node} by a build that was killed; the next waits for it",
                    cache.locks[0],
                    rank.node,
                ),
                names=(cache.variable,),
                fix=said("`rm {locks}` on {node}, when no job of yours runs there", cache.locks[0], rank.node),
            )
        elif not cache.can_write:
            text = said(
                "{variable} {path} cannot be written on {node}", cache.variable or "the cache", cache.path, rank.node
            )
            fix = said("`export {variable}=` a folder that the job may write, in the script", cache.variable)
            names = (cache.variable,)
            yield Cause(about="limits", nodes=(rank.node,), message=text, fix=fix, names=names, is_advisory=True)
        elif 0 <= cache.free_bytes < LITTLE_BYTES and cache.kind != "":
            text = said(
                "{path} ({variable}) has {free_bytes} MiB free on {node}",
                cache.path,
                cache.variable,
                cache.free_bytes >> 20,
                rank.node,
            )
            yield Cause(about="limits", nodes=(rank.node,), message=text, is_advisory=True)
