"""What does `llamafactory-cli train`, or ms-swift's `swift sft`, ask for?"""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from preflight.judge.ledger.findings import Finding
from preflight.launch.field import Field, Sourced, firm, value_of, written
from preflight.launch.launcher import Launcher
from preflight.launch.launchers.torchrun import arguments
from preflight.launch.layout import Layout, exports, file_name, variables
from preflight.launch.plan import Plan, fail, warn
from preflight.launch.text.options import Reader
from preflight.launch.text.shell import Word
from preflight.launch.traits import FieldNames
from preflight.said import said

BY_ITSELF = ("llamafactory-cli", "lmf")
# Any of them makes llamafactory-cli start torchrun; with USE_RAY Ray starts the workers.
FORCING = ("FORCE_TORCHRUN", "USE_MCA", "USE_MEGATRON_BRIDGE", "USE_RAY")
SWIFT = ("sft", "pt", "rlhf", "infer")


def read(reader: Reader, words: tuple[Word, ...], wrapper: tuple[str, ...]) -> Plan | None:
    """The plan of ``llamafactory-cli train`` or ``swift sft``, which start torchrun from NNODES and others."""
    before = [word.plain.rpartition("/")[2] for word in reader.command.words[: len(reader.command.words) - len(words)]]
    by_swift = before[-1] not in BY_ITSELF
    if not by_swift and (not words or words[0].plain != "train"):
        return None
    where = reader.where

    def number(name: str) -> Field[int]:
        return reader.number(reader.variable(name), name)

    def default(value: int) -> Field[int]:
        return Sourced(value, where.file, where.line, "tool")

    meets = not by_swift and "RDZV_ID" in {*reader.command.variables, *reader.command.prefix}
    least, most = (number("MIN_NNODES"), number("MAX_NNODES")) if meets else (None, None)
    return Plan(
        launcher=LLAMAFACTORY,
        where=where,
        nodes=(most if least is not None else None) or number("NNODES") or default(1),
        fewest_nodes=least if most is not None else None,
        node_rank=number("NODE_RANK"),
        processes_per_node=number("NPROC_PER_NODE"),
        rank=number("RANK"),
        master_address=reader.variable("MASTER_ADDR"),
        master_port=number("MASTER_PORT"),
        rendezvous=Sourced("c10d" if meets else "static", where.file, where.line, "tool"),
        rendezvous_id=reader.variable("RDZV_ID") if meets else None,
        device_ids=reader.variable("CUDA_VISIBLE_DEVICES"),
        program=reader.text(words[0]) if words else None,
        arguments=arguments(reader, words[1:]),
        settings={"by": Sourced(before[-1], where.file, where.line, "tool")},
        environment=reader.environment(),
        unexported=reader.unexported(),
        wrapper=wrapper,
        slurm=reader.slurm,
        is_conditional=reader.command.is_conditional,
        command=reader.spelled(),
    )


def node_rank_is_read(plan: Plan) -> Iterable[Finding]:
    """llamafactory-cli starts torchrun with NODE_RANK, and RDZV_ID makes it do without; RANK is not read."""
    if value_of(plan.rendezvous) == "c10d":
        return
    if not plan.spans_nodes and not written(plan.rank):
        return
    if written(plan.rank) and not written(plan.node_rank) and plan.may_span_nodes:
        where = plan.rank.where if plan.rank is not None else plan.where
        message = "RANK is set, and llamafactory-cli reads NODE_RANK: every node becomes node 0"
        yield fail("rank_is_read_where_it_is_set", message, where, fix=f"NODE_RANK={value_of(plan.rank)}")
    elif plan.node_rank is None and not plan.is_conditional and not plan.is_of_a_manifest:
        message = said("NNODES={firm} and no NODE_RANK: every node becomes node 0", firm(plan.nodes))
        yield fail("static_rendezvous_has_node_ranks", message, plan.where, fix="NODE_RANK=0 (1, 2, ... on the others)")


def address_is_given(plan: Plan) -> Iterable[Finding]:
    """Without MASTER_ADDR every node waits for the others on its own 127.0.0.1."""
    if plan.spans_nodes and plan.master_address is None and not plan.is_of_a_manifest:
        message = said(
            "NNODES={firm} and no MASTER_ADDR: every node waits for the others on 127.0.0.1", firm(plan.nodes)
        )
        yield fail("master_address_is_given", message, plan.where, fix="MASTER_ADDR=<address of rank 0's node>")


def port_is_given(plan: Plan) -> Iterable[Finding]:
    """Without MASTER_PORT llamafactory-cli takes a free port, on every node another; ms-swift leaves torchrun's."""
    if plan.setting("by") not in BY_ITSELF or not plan.spans_nodes or plan.master_port is not None:
        return
    if not plan.is_of_a_manifest and not plan.is_conditional:
        message = said("NNODES={firm} and no MASTER_PORT: every node takes a free port of its own", firm(plan.nodes))
        yield fail("master_port_is_the_same_everywhere", message, plan.where, fix="MASTER_PORT=29500")


def torchrun_is_forced(plan: Plan) -> Iterable[Finding]:
    """On nodes with one GPU llamafactory-cli starts no torchrun by itself, and every node trains alone."""
    given = [plan.environment[name] for name in FORCING if name in plan.environment]
    may_be_forced = any(value_of(held) not in ("", "0", "false") for held in given)  # or is not known
    if plan.spans_nodes and not may_be_forced and plan.setting("by") in BY_ITSELF:
        message = said(
            "NNODES={firm} without FORCE_TORCHRUN: on a node with one GPU no torchrun is started", firm(plan.nodes)
        )
        yield warn("torchrun_is_forced", message, plan.where, fix="FORCE_TORCHRUN=1")


def write(layout: Layout) -> dict[str, str]:
    """A script for every node, which runs the configuration that stands for the program."""
    files = {}
    for index, node in enumerate(layout.nodes):
        own = {
            **variables(node),
            "FORCE_TORCHRUN": "1",
            "NNODES": str(len(layout.nodes)),
            "NODE_RANK": str(index),
            "NPROC_PER_NODE": str(layout.processes[index]),
            "MASTER_ADDR": layout.address,
            "MASTER_PORT": str(layout.port),
        }
        command = shlex.join(["llamafactory-cli", "train", *layout.program])
        files[f"{file_name(layout, index)}.sh"] = layout.head + exports(own) + f"exec {command}\n"
    return files


LLAMAFACTORY = Launcher(
    name="llamafactory",
    field_names=FieldNames(rank="NODE_RANK", nodes="NNODES"),
    has_agent=True,
    programs=(
        "llamafactory-cli",
        "lmf",
        *(said("swift {word}", word) for word in SWIFT),
        *(said("megatron {word}", word) for word in SWIFT),
    ),
    read=read,
    rules=(node_rank_is_read, address_is_given, port_is_given, torchrun_is_forced),
    write=write,
    started_as="torchrun",
)
