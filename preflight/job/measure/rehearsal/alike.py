"""Was every rank given the same: variables, interpreter, torch, limits?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from preflight.facts.results.rehearsal import Cause
from preflight.job.measure.rehearsal.rounds import rounds
from preflight.job.start.rehearsal.story import RankStory, Story
from preflight.launch.cast import Cast
from preflight.reach.hosts import fold
from preflight.said import joined, said

SHARED = (
    "NCCL_",
    "GLOO_",
    "UCX_",
    "FI_",
    "HF_",
    "TRITON_",
    "TORCH_",
    "TRANSFORMERS_",
    "FSDP_",
    "ACCELERATE_",
    "MASTER_",
)
# Of those, what is a node's own.
OWN = ("NCCL_TOPO_FILE", "NCCL_HOSTID", "NCCL_DEBUG_FILE", "TORCH_EXTENSIONS_DIR", "NCCL_SOCKET_IFNAME_LOCAL")
STOPS = ("NCCL_", "GLOO_", "UCX_", "FI_", "MASTER_")  # without which a job may not start; the others make it differ
Key = Callable[[RankStory], str]


def judged(story: Story, cast: Cast) -> Iterator[Cause]:
    """What one node has otherwise than the others, or the same node among its own ranks."""
    for ranks in rounds(story):
        if len({rank.node for rank in ranks}) < 2:
            continue
        found = [*_variables(ranks, cast), *_programs(ranks)]
        yield from found
        if found:
            return


def _programs(ranks: Sequence[RankStory]) -> Iterator[Cause]:
    fix = "activate the same environment in the script on every node, by its full path"
    loaded = [rank for rank in ranks if rank.loaded is not None]
    torches = _odd(loaded, lambda rank: rank.loaded.torch if rank.loaded else "")
    if torches:
        yield _of_kind("torch", torches, loaded, lambda rank: rank.loaded.torch if rank.loaded else "", fix=fix)
    pythons = _odd(ranks, lambda rank: rank.arrived.interpreter)
    if pythons and not torches:
        versions = {rank.arrived.python for rank in ranks}

        def shown(rank: RankStory) -> str:
            return said("{interpreter} ({python})", rank.arrived.interpreter, rank.arrived.python)

        yield _of_kind("interpreter of the ranks", pythons, ranks, shown, fix=fix, is_advisory=len(versions) == 1)


def _of_kind(
    what: str, odd: Sequence[str], ranks: Sequence[RankStory], key: Key, *, fix: str, is_advisory: bool = False
) -> Cause:
    return Cause(
        about="alike", nodes=tuple(odd), message=f"{what}: {_listed(ranks, key)}", fix=fix, is_advisory=is_advisory
    )


def _listed(ranks: Sequence[RankStory], key: Key) -> str:
    by_value: dict[str, list[str]] = {}
    for rank in ranks:
        nodes = by_value.setdefault(key(rank) or "not set", [])
        if rank.node not in nodes:
            nodes.append(rank.node)
    return joined([said("{value} on {nodes}", value, fold(nodes)) for value, nodes in by_value.items()], ", ")


def _odd(ranks: Sequence[RankStory], key: Key) -> list[str]:
    """The nodes that are not as most are; all of them on a tie; [] where all are the same."""
    values: dict[str, str] = {}
    for rank in ranks:
        values.setdefault(rank.node, key(rank))
    counts = Counter(values.values())
    if len(counts) < 2:
        return []
    (first, most), (_, second), *_ = counts.most_common()
    return [name for name, value in values.items() if value != first or most == second]


def _variables(ranks: Sequence[RankStory], cast: Cast) -> Iterator[Cause]:
    names = sorted(
        {name for rank in ranks for name in rank.arrived.variables if name.startswith(SHARED) and name not in OWN}
    )
    for name in names:

        def value(rank: RankStory, name: str = name) -> str:
            return rank.arrived.variables.get(name, "")

        lost = list(dict.fromkeys(rank.node for rank in ranks if name not in rank.arrived.variables))
        held = {rank.node for rank in ranks if name in rank.arrived.variables}
        if lost and held - {*lost}:
            text = said(
                "{name} is set on {n} and not on {lost}, in the ranks",
                name,
                fold([n for n in cast.nodes if n in held]),
                fold(lost),
            )
            yield Cause(
                about="alike",
                nodes=tuple(lost),
                message=f"{text}: {_listed(ranks, value)}",
                fix=said("`export {name}=...` in the script of every node; mpirun hands it on with `-x {name}`", name),
                where=lines_with(cast, name),
                names=(name,),
                is_advisory=not name.startswith(STOPS),
            )
        elif name != "MASTER_ADDR" and (odd := _odd(ranks, value)):  # rank 0 may call itself localhost
            text = said("{name} in the ranks: {listed}", name, _listed(ranks, value))
            where, is_advisory = lines_with(cast, name), name != "MASTER_PORT"
            yield Cause(
                about="alike", nodes=tuple(odd), message=text, where=where, names=(name,), is_advisory=is_advisory
            )


def lines_with(cast: Cast, word: str) -> tuple[tuple[str, int], ...]:
    """The lines of the scripts that name a word."""
    texts: Mapping[str, str] = {script.name: script.text for script in cast.scripts.values()}
    return tuple(
        (name, number)
        for name, text in texts.items()
        for number, line in enumerate(text.splitlines(), 1)
        if word in line and not line.lstrip().startswith("#")
    )
