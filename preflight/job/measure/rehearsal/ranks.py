"""Did every rank come once, and as many as were promised?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from preflight.facts.results.rehearsal import Cause
from preflight.job.measure.rehearsal.alike import lines_with
from preflight.job.measure.rehearsal.logins import says
from preflight.job.measure.rehearsal.rounds import program_of, rounds, world_of
from preflight.job.measure.rehearsal.scripts import LOGINS
from preflight.job.start.rehearsal.lines import last_line
from preflight.job.start.rehearsal.story import RankStory, Story
from preflight.launch.cast import Cast
from preflight.reach.hosts import fold
from preflight.said import said

MOST_NAMED = 8
# What a cause may be about: how a rank is numbered, and how many there are, in the words of each launcher.
NUMBER = ("RANK", "--node-rank", "machine_rank")
COUNT = ("WORLD_SIZE", "--nnodes", "--nproc-per-node", "num_machines", "num_processes", "NNODES", "--standalone")


def judged(story: Story, cast: Cast) -> Iterator[Cause]:
    """Ranks without a number, twice, too few, in a world of one, or not as many as the files promise."""
    for ranks in rounds(story):
        found = list(_of_round(ranks, story, cast))
        yield from found
        if found:
            return


def _of_round(ranks: Sequence[RankStory], story: Story, cast: Cast) -> Iterator[Cause]:
    unnumbered = [rank for rank in ranks if rank.rank < 0]
    if unnumbered:
        yield _unnumbered(unnumbered, cast)
        return
    size = world_of(ranks)
    alone = [rank for rank in ranks if rank.world_size == 1]
    if len(alone) == len(ranks) and len(cast.nodes) > 1:
        several = said("{ranks} rank{s} on {nodes}", len(ranks), "s" * (len(ranks) > 1), _nodes(ranks))
        fix = "give the launcher the number of nodes, and every node its own number"
        yield _cause(
            ranks, cast, said("{several}, each in a world of one: every node would train alone", several), fix, COUNT
        )
        return
    twice = _twice(ranks)
    if twice:
        yield _cause(
            twice, cast, _twice_text(twice, size), "give every node its own node rank, or RANK its own number", NUMBER
        )
        return
    yield from _missing(ranks, size, story, cast)
    if cast.ranks and size and cast.ranks != size:
        text = said(
            "the files promise {ranks} ranks, and those that came were told that there are {size}", cast.ranks, size
        )
        yield _cause(ranks, cast, text, "", COUNT)


def _unnumbered(ranks: Sequence[RankStory], cast: Cast) -> Cause:
    by_accelerate = any(name.startswith("ACCELERATE_") for rank in ranks for name in rank.arrived.variables)
    program = program_of(ranks[0])
    what = "accelerate started it as one process" if by_accelerate else "no RANK reaches it, and no launcher numbers it"
    value = ranks[0].arrived.variables.get("RANK", "")
    if value and not value.isdigit():
        what = said("its RANK is {value!r}, which is no number", value)
    elif _is_of_batch_shell(ranks[0]):
        what = "the batch shell started it, on its own node alone, and no step of srun"
    fix = (
        "`sed -i 's/\\r$//'` on the script: its lines end as those of Windows do"
        if value.endswith("\r")
        else "start it with `srun`"
        if _is_of_batch_shell(ranks[0])
        else "write distributed_type: MULTI_GPU, num_machines and num_processes into its file, or start with torchrun"
        if by_accelerate
        else "`export` RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT before it, or start it with torchrun"
    )
    message = said("{program} on {nodes} would train alone: {what}", program, _nodes(ranks), what)
    cause = _cause(ranks, cast, message, fix, (*NUMBER, "srun" if _is_of_batch_shell(ranks[0]) else program))
    return msgspec.structs.replace(cause, where=(*cause.where, *lines_with(cast, "RANK="))) if value else cause


def _twice(ranks: Sequence[RankStory]) -> list[RankStory]:
    numbers = [rank.rank for rank in ranks]
    return [rank for rank in ranks if numbers.count(rank.rank) > 1]


def _twice_text(ranks: Sequence[RankStory], size: int) -> str:
    number = ranks[0].rank
    nodes = sorted(rank.node for rank in ranks if rank.rank == number)
    where = (
        said("on {nodes} {nodes2} times", nodes[0], len(nodes))
        if len({*nodes}) == 1
        else said("on {nodes}", ", ".join(nodes))
    )
    several = len({rank.rank for rank in ranks})
    more = said(", as {several} more", several - 1) if several > 1 else ""
    return said("rank {number} of {size} came {where}{more}", number, size, where, more)


def _missing(ranks: Sequence[RankStory], size: int, story: Story, cast: Cast) -> Iterator[Cause]:
    missing = sorted({*range(size)} - {rank.rank for rank in ranks})
    if not missing:
        return
    without = [name for name in cast.nodes if not any(rank.node == name for rank in ranks)]
    nodes = without or list(dict.fromkeys(rank.node for rank in ranks))
    few = ", ".join(map(str, missing[:MOST_NAMED])) + (" ..." if len(missing) > MOST_NAMED else "")
    came = said(
        "{size} of {size2} ranks came, rank{s} {few} did not", size - len(missing), size, "s" * (len(missing) > 1), few
    )
    from_where = said(": none from {without}", fold(without)) if without else ""
    batch = [rank for rank in ranks if _is_of_batch_shell(rank)]
    if batch:
        why, fix = "; it is the batch shell that starts them, on its own node alone", "start them with `srun`"
    else:
        why, fix = "".join(_at_rest(name, story, cast) for name in without[:3]) + says(without, story, cast), ""
    waiting = [rank for rank in ranks if rank.stage in ("rendezvous", "communicator")]
    waits = said("; rank {rank} on {node} waits for them", waiting[0].rank, waiting[0].node) if waiting else ""
    where = _where(without or [rank.node for rank in ranks], story, cast)
    message, names = f"{came}{from_where}{why}{waits}", ("srun",) if batch else COUNT
    yield Cause(about="ranks", nodes=tuple(nodes), message=message, fix=fix, where=where, names=names)


def _is_of_batch_shell(rank: RankStory) -> bool:
    variables = rank.arrived.variables
    return "SLURM_JOB_ID" in variables and "SLURM_STEP_ID" not in variables


def _at_rest(name: str, story: Story, cast: Cast) -> str:
    """What the script of a node does that gave no rank."""
    if name not in cast.scripts:
        return ""
    node = story.nodes[name]
    line = last_line(node, cast.scripts[name])
    if line is None:
        return ""
    if node.code is None:
        return said("; its script is at {command}", line.command)
    return said("; its script ended with {code}, last at {command}", node.code, line.command)


def _where(nodes: Sequence[str], story: Story, cast: Cast) -> tuple[tuple[str, int], ...]:
    lines = [
        line
        for name in dict.fromkeys(nodes)
        if name in cast.scripts
        for line in [last_line(story.nodes[name], cast.scripts[name])]
        if line is not None
    ]
    # One that still runs may wait for what it has started in the background.
    running = {cast.scripts[name].name for name in nodes if name in cast.scripts and story.nodes[name].code is None}
    starts = [(p.where.file, p.where.line) for p in cast.plans if p.where.file in running and p.wraps & LOGINS]
    return tuple(dict.fromkeys([*starts, *((line.file, line.line) for line in lines)]))


def _cause(ranks: Sequence[RankStory], cast: Cast, message: str, fix: str, names: tuple[str, ...]) -> Cause:
    nodes = tuple(dict.fromkeys(rank.node for rank in ranks))
    places = tuple(dict.fromkeys((plan.where.file, plan.where.line) for plan in cast.plans))
    at = f" ({places[0][0]}:{places[0][1]})" if len(places) == 1 else ""
    return Cause(about="ranks", nodes=nodes, message=f"{message}{at}", fix=fix, where=places, names=names)


def _nodes(ranks: Sequence[RankStory]) -> str:
    return fold(list(dict.fromkeys(rank.node for rank in ranks)))
