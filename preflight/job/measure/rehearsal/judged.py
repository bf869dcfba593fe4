"""What becomes of everything that was heard of a rehearsal: the section of report.json."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from preflight.facts.results.rehearsal import ABOUT, Cause, Rehearsal, RehearsedRank, RehearsedScript
from preflight.job.measure.rehearsal import alike, devices, launchers, limits, meeting, pace, ranks, scripts
from preflight.job.measure.rehearsal.rounds import program_of
from preflight.job.start.rehearsal.lines import last_line
from preflight.job.start.rehearsal.story import RankStory, Story
from preflight.launch.cast import Cast

KEPT = ("NCCL_", "GLOO_", "CUDA_", "MASTER_", "UCX_", "FI_", "HF_", "TRITON_")


def judged(story: Story, cast: Cast, sessions: Mapping[str, Mapping[str, int]], *, backend: str) -> Rehearsal:
    """The rehearsal with one cause for everything that does not hold, and what could not be judged for it."""
    causes = tuple(_causes(story, cast, sessions))
    return Rehearsal(
        scripts=tuple(_script(name, story, cast) for name in cast.scripts),
        ranks=tuple(_rank(rank, story) for rank in story.ranks),
        causes=causes,
        unjudged=unjudged(story, cast, causes),
        node_names=cast.nodes,
        backend=backend,
        seconds=round(story.seconds, 1),
    )


def not_run(cast: Cast) -> Rehearsal | None:
    """The rehearsal of a script that must not be run, for its real program would be; None for any other."""
    causes = tuple(scripts.refused(cast))
    if not causes:
        return None
    return Rehearsal(
        scripts=(),
        ranks=(),
        causes=causes,
        unjudged={about: dict.fromkeys(cast.nodes, "ranks") for about in ABOUT},
        node_names=cast.nodes,
    )


def _causes(story: Story, cast: Cast, sessions: Mapping[str, Mapping[str, int]]) -> Iterator[Cause]:
    """What was given wrongly comes first, then what follows from it only where nothing came before."""
    strays = list(scripts.stray(story, cast))
    yield from strays
    if strays:
        return
    stopped = list(scripts.judged(story, cast))
    yield from stopped
    yield from limits.judged(story, cast, sessions)
    yield from devices.judged(story, cast)
    yield from pace.judged(story, cast)
    if not any(not cause.is_advisory for cause in stopped) and meeting.failed_alone(story) and not _unnumbered(story):
        yield from meeting.judged(story, cast)
        return
    given = list(launchers.judged(story, cast)) or list(alike.judged(story, cast))
    if any(not cause.is_advisory for cause in (*stopped, *given)):
        yield from given
        return
    came = list(ranks.judged(story, cast)) if story.ranks else []
    met = [] if came else list(meeting.judged(story, cast))
    # What merely differs between nodes is told where it did no harm; else the harm is.
    yield from came or met or given
    if not came and not met and not story.ranks:
        yield from scripts.unseen(story, cast)


def _unnumbered(story: Story) -> bool:
    return any(rank.rank < 0 for rank in story.ranks)


def unjudged(story: Story, cast: Cast, causes: tuple[Cause, ...]) -> dict[str, dict[str, str]]:
    """About -> node -> why it could not be judged there; nothing is good that was not measured."""
    broken = {cause.about: cause for cause in reversed(causes) if not cause.is_advisory}
    first = next((about for about in ABOUT if about in broken), "")
    found: dict[str, dict[str, str]] = {}
    is_whole = story.has_trained
    for name in cast.nodes:
        came = any(rank.node == name and rank.arrived.names for rank in story.ranks)
        for about in ABOUT[1:]:
            blocked = (about in ("ranks", "training", "pace") and not is_whole) or not came
            if blocked and about != first:
                found.setdefault(about, {})[name] = first or "scripts"
            elif blocked and name not in broken[about].nodes:
                found.setdefault(about, {})[name] = about
    return found


def _script(name: str, story: Story, cast: Cast) -> RehearsedScript:
    node, script = story.nodes[name], cast.scripts[name]
    line = last_line(node, script)
    folder = node.began.folder if node.began else ""
    return RehearsedScript(node=name, file=script.name, folder=folder, code=node.code, line=line.line if line else 0)


def _rank(rank: RankStory, story: Story) -> RehearsedRank:
    variables = rank.arrived.variables
    return RehearsedRank(
        rank=rank.rank,
        world_size=rank.world_size,
        node=rank.node,
        stage=rank.stage,
        interpreter=rank.arrived.interpreter,
        torch=rank.loaded.torch if rank.loaded else "",
        program=program_of(rank),
        master=":".join(variables.get(name, "") for name in ("MASTER_ADDR", "MASTER_PORT")),
        limits=dict(rank.arrived.limits),
        devices=rank.loaded.devices if rank.loaded else (),
        variables={name: value for name, value in variables.items() if name.startswith(KEPT)},
        seconds=seconds(rank, story),
        error=rank.error[:400],
    )


def seconds(rank: RankStory, story: Story) -> dict[str, float]:
    """How long each stage took this rank."""
    return pace.seconds_of(rank, story)
