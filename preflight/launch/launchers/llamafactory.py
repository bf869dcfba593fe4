"""What does a `llamafactory-cli train` command ask for?"""

from __future__ import annotations

from collections.abc import Iterable

from preflight.launch.field import Field, Sourced, value_of, written
from preflight.launch.launcher import Launcher, Spelling
from preflight.launch.launchers.torchrun import arguments
from preflight.launch.plan import Plan, fail
from preflight.launch.text.options import Reader
from preflight.launch.text.shell import Word
from preflight.ledger.findings import Finding


def read(reader: Reader, words: tuple[Word, ...], wrapper: tuple[str, ...]) -> Plan | None:
    """The plan of ``llamafactory-cli train``, which starts torchrun from NNODES, NODE_RANK and NPROC_PER_NODE."""
    if not words or words[0].plain != "train":
        return None
    where = reader.where

    def number(name: str) -> Field[int]:
        return reader.number(reader.variable(name), name)

    def default(value: int) -> Field[int]:
        return Sourced(value, where.file, where.line, "tool")

    return Plan(
        launcher=LLAMAFACTORY,
        where=where,
        nodes=number("NNODES") or default(1),
        node_rank=number("NODE_RANK") or default(0),
        processes_per_node=number("NPROC_PER_NODE"),
        rank=number("RANK"),
        master_address=reader.variable("MASTER_ADDR"),
        master_port=number("MASTER_PORT"),
        rendezvous=Sourced("static", where.file, where.line, "tool"),
        device_ids=reader.variable("CUDA_VISIBLE_DEVICES"),
        program=reader.text(words[0]),
        arguments=arguments(reader, words[1:]),
        environment=reader.environment(),
        unexported=reader.unexported(),
        wrapper=wrapper,
        slurm=reader.slurm,
        is_conditional=reader.command.is_conditional,
        command=reader.spelled(),
    )


def node_rank_is_read(plan: Plan) -> Iterable[Finding]:
    """llamafactory-cli starts torchrun with NODE_RANK; RANK is not read."""
    if written(plan.rank) and not written(plan.node_rank) and plan.may_span_nodes:
        where = plan.rank.where if plan.rank is not None else plan.where
        message = "RANK is set, and llamafactory-cli reads NODE_RANK: every node becomes node 0"
        yield fail("rank_is_read_where_it_is_set", message, where, fix=f"NODE_RANK={value_of(plan.rank)}")


LLAMAFACTORY = Launcher(
    name="llamafactory",
    spelling=Spelling(rank="NODE_RANK", nodes="NNODES"),
    has_agent=True,
    programs=("llamafactory-cli", "lmf"),
    read=read,
    rules=(node_rank_is_read,),
    started_as="torchrun",
)
