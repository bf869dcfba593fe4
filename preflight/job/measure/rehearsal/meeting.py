"""Did all ranks meet and train, or who waits where, and for whom?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from preflight.facts.results.rehearsal import Cause
from preflight.job.measure.rehearsal.alike import lines_with
from preflight.job.measure.rehearsal.logins import says
from preflight.job.measure.rehearsal.rounds import program_of, rounds
from preflight.job.start.outcome import Outcome, conclude
from preflight.job.start.outcome import RankStory as JobRank
from preflight.job.start.rehearsal.over import ENDED, FAILED
from preflight.job.start.rehearsal.story import Process, RankStory, Story
from preflight.launch.cast import Cast
from preflight.launch.job import Job, Placement
from preflight.reach.hosts import fold
from preflight.said import said
from preflight.said.redact import without_secrets

EARLY = ("arrived", "numbered")
ALONE = (*EARLY, "import")
DONE = "done"
MEETING = ("MASTER_ADDR", "--master-addr", "--rdzv-endpoint", "main_process_ip")
OF_A_JOB = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE")
NAMED = ("NCCL_", "GLOO_", "UCX_", "FI_", "MASTER_PORT")  # by their value; an address stands in every failure
WORD = re.compile(r"[\w.:-]*\w")


def failed_alone(story: Story) -> bool:
    """Whether a rank failed before it met any other."""
    return any(rank.error and rank.stage in ALONE for rank in story.ranks)


def judged(story: Story, cast: Cast) -> Iterator[Cause]:
    """The ranks that failed, or kept the others waiting; what calls an address that does not answer."""
    for ranks in rounds(story):
        if all(rank.stage == DONE for rank in ranks):
            continue
        found = [] if failed_alone(story) else list(in_own_network(ranks, cast)) or list(no_way(ranks, cast))
        yield from found
        if found:
            return
        outcome = outcome_of(ranks, story.seconds)
        if outcome.failure:
            nodes = outcome.guilty or tuple(dict.fromkeys(rank.node for rank in ranks))
            calling = "".join(f"; {text}" for _, text in calls(story))
            yield Cause(
                about="training",
                nodes=nodes,
                message=without_secrets(outcome.failure + calling)[:1500] + _at(places(cast, nodes)),
                fix=outcome.why.fix,
                where=places(cast, nodes),
                names=named_in_failure(ranks),
            )
            return
    if story.why_over not in ("", ENDED):
        yield from waiting(story, cast)


def in_own_network(ranks: Sequence[RankStory], cast: Cast) -> Iterator[Cause]:
    """The ranks that a container or the like keeps in a network that the other nodes do not know."""
    nodes = tuple(dict.fromkeys(rank.node for rank in ranks if rank.arrived.own_network))
    if not nodes or len({rank.node for rank in ranks} | {*cast.nodes}) < 2:
        return
    meets = next((rank.meets for rank in ranks if rank.arrived.own_network and rank.meets), None)
    why = said(": {why}", meets.error) if meets and meets.error else ""
    place = said(", where nobody reaches {place}", meets.place) if meets and not why and ranks[0].node in nodes else ""
    message = said(
        "the ranks on {nodes} are in a network of their own, as a container without the host's network has{place}{why}",
        fold(nodes),
        place,
        why,
    )
    where = places(cast, nodes)
    fix = "`docker run --network=host`; apptainer and enroot share the node's network unless they are told otherwise"
    message = f"{message}{_at(where)}"
    yield Cause(about="training", nodes=nodes, message=message, fix=fix, where=where, names=("--network",))


def no_way(ranks: Sequence[RankStory], cast: Cast) -> Iterator[Cause]:
    """The ranks from which no way leads to where all are to meet; rank 0 where that is no address of its node."""
    reasons: dict[str, list[RankStory]] = {}
    for rank in ranks:
        if rank.meets is not None and rank.meets.error:
            reasons.setdefault(rank.meets.error, []).append(rank)
    for why, those in reasons.items():
        nodes = tuple(dict.fromkeys(rank.node for rank in those))
        yield _of_place(nodes, said("on {nodes} {why}", fold(nodes), why), cast)
    first = ranks[0]
    is_elsewhere = first.rank == 0 and first.meets is not None and not first.meets.own
    if not reasons and is_elsewhere and first.meets is not None and first.stage == "rendezvous":
        held = ", ".join(first.meets.addresses)
        text = said(
            "rank 0 is on {node}, and {held} ({place}) is no address of that node", first.node, held, first.meets.place
        )
        yield _of_place((first.node,), text, cast)


def _of_place(nodes: tuple[str, ...], message: str, cast: Cast) -> Cause:
    where = lines_with(cast, "MASTER_ADDR") or places(cast, nodes)
    fix = "write an address of rank 0's node that every node reaches: MASTER_ADDR, --master_addr or --rdzv_endpoint"
    message = f"{message}{_at(where)}"
    return Cause(about="training", nodes=nodes, message=message, fix=fix, where=where, names=MEETING)


def named_in_failure(ranks: Sequence[RankStory]) -> tuple[str, ...]:
    """What the failures are about: a program that is not there, variables that are not set, or whose value is named."""
    found: list[str] = []
    for rank in ranks:
        if not rank.error:
            continue
        variables = rank.arrived.variables
        if rank.stage == "arrived":
            found += [program_of(rank), *(name for name in OF_A_JOB if name not in variables)]
        words = {*WORD.findall(rank.error)}
        found += [name for name, value in variables.items() if name.startswith(NAMED) and value in words]
    return tuple(dict.fromkeys(filter(None, found)))


def _at(where: Sequence[tuple[str, int]]) -> str:
    return f" ({where[0][0]}:{where[0][1]})" if where else ""


def outcome_of(ranks: Sequence[RankStory], seconds: float) -> Outcome:
    """What the ranks' own words say is the cause, as of any job of ours."""
    numbers = dict(enumerate(ranks))
    stories = {}
    for number, rank in numbers.items():
        place = Placement(rank.rank, rank.node, 0, 1)
        stage = "start" if rank.stage in EARLY else rank.stage
        exited = "1" if rank.error else "stopped"
        stories[number] = JobRank(place, stage=stage, error=rank.error, exit="0" if rank.stage == DONE else exited)
    placements = tuple(Placement(number, rank.node, 0, 1) for number, rank in numbers.items())
    job = Job(workload="train", settings={}, placements=placements, master_address="", environment=(), seconds=seconds)
    return conclude(job, stories, {}, seconds)


def calls(story: Story) -> Iterator[tuple[str, str]]:
    """What tries to connect, and has no answer: its node, and in words."""
    for name, node in story.nodes.items():
        for process in node.processes:
            peers = list(dict.fromkeys(s.peer for s in process.sockets if s.state == "connecting"))
            if peers:
                yield (
                    name,
                    said(
                        "{shown} on {name} calls {peers}, and nobody answers",
                        _shown(process),
                        name,
                        ", ".join(peers[:3]),
                    ),
                )


def waiting(story: Story, cast: Cast) -> Iterator[Cause]:
    """The launchers that started no rank: what they call without an answer, else what they said last."""
    calling = dict(calls(story))
    for name, text in calling.items():
        fix = (
            "look at the address and port of rank 0 in its script, at its route there, and at the firewall of that node"
        )
        yield Cause(
            about="training",
            nodes=(name,),
            message=text + _at(places(cast, (name,))),
            fix=fix,
            where=places(cast, (name,)),
        )
    nodes = [story.nodes[name] for name in cast.nodes]  # a script may start the launchers of other nodes
    waits = [node for node in nodes if node.launched and node.code is None and not node.ranks]
    others = [node.node for node in nodes if not node.launched and not node.ranks]
    if calling or not waits or story.why_over == FAILED:
        return
    names = [node.node for node in waits]
    guilty = tuple(others or names)
    for_whom = said(", for {others}", fold(others)) if others else ""
    words = says(others, story, cast)
    message = said(
        "the launcher on {names} waits{for_whom}, and started no rank in {seconds:.0f} s{words}",
        fold(names),
        for_whom,
        story.seconds,
        words,
    )
    where = places(cast, guilty)
    yield Cause(about="training", nodes=guilty, message=message + _at(where), where=where)


def places(cast: Cast, nodes: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """The lines that start the job in the scripts of these nodes."""
    files = {cast.scripts[name].name for name in nodes if name in cast.scripts} or {
        script.name for script in cast.scripts.values()
    }
    return tuple(dict.fromkeys((p.where.file, p.where.line) for p in cast.plans if p.where.file in files))


def _shown(process: Process) -> str:
    words = [word.rpartition("/")[2] if "/" in word else word for word in process.command.split()[:6]]
    return f"`{without_secrets(' '.join(words))[:120]}`"
