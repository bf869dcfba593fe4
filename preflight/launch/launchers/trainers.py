"""What do `composer`, of MosaicML's Composer, `fabric run`, of Lightning, and `colossalai run` ask for?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from preflight.judge.ledger.findings import Finding
from preflight.launch.field import Field, Sourced, Unknown, firm, whole, words
from preflight.launch.launcher import Launcher
from preflight.launch.launchers.torchrun import arguments
from preflight.launch.plan import Plan, fail
from preflight.launch.text.options import Parsed, Reader, Spec, parse_options, product
from preflight.launch.text.shell import Word
from preflight.launch.traits import FieldNames
from preflight.said import said

OF_COMPOSER = Spec(
    valued=words("nproc world_size base_rank node_rank master_addr master_port stdout stderr"),
    flags=words("verbose module_mode command_mode help"),
    short={"-n": "nproc", "-v": "verbose", "-m": "module_mode", "-c": "command_mode", "-h": "help"},
)
OF_FABRIC = Spec(
    valued=words("accelerator strategy devices num_nodes node_rank main_address main_port precision"),
    flags=words("help"),
    abbreviates=False,
)
OF_COLOSSALAI = Spec(
    valued=words(
        "host hostfile include exclude num_nodes nproc_per_node master_addr master_port ssh_port extra_launch_args"
    ),
    flags=words("m help"),
    short={"-H": "host", "-m": "m"},
)
FABRIC_PORT = 29400


def read_composer(reader: Reader, given: tuple[Word, ...], wrapper: tuple[str, ...]) -> Plan:
    """The plan of the words after ``composer``: options, then variables of the same names."""
    parsed = parse_options(given, OF_COMPOSER, reader.marks)

    def number(option: str, variable: str) -> Field[int]:
        found = reader.number_of(parsed.options.get(option), f"--{option}")
        return found if found is not None else reader.number(reader.variable(variable), variable)

    processes, world = number("nproc", "LOCAL_WORLD_SIZE"), number("world_size", "WORLD_SIZE")
    rank, base = number("node_rank", "NODE_RANK"), number("base_rank", "BASE_RANK")
    counts = (world, processes, base)
    nodes = _quotient(world, processes) if world is not None else _one(reader, parsed)
    if rank is None and isinstance(base, Sourced):
        rank = _quotient(base, processes)
    elif rank is None and base is not None:
        rank = base
    return replace(
        _base(reader, parsed, wrapper),
        nodes=nodes,
        node_rank=rank,
        processes_per_node=processes,
        world_size=world,
        master_address=reader.text(parsed.options.get("master_addr")) or reader.variable("MASTER_ADDR"),
        master_port=number("master_port", "MASTER_PORT"),
        is_opaque=parsed.is_opaque or (world is not None and any(isinstance(held, Unknown) for held in counts)),
    )


def read_fabric(reader: Reader, given: tuple[Word, ...], wrapper: tuple[str, ...]) -> Plan:
    """The plan of the words after ``fabric run``, which hands them to torchrun."""
    if given and given[0].plain == "model":  # lightning run model
        given = given[1:]
    parsed = parse_options(given, OF_FABRIC, reader.marks)

    def number(option: str) -> Field[int]:
        return reader.number_of(parsed.options.get(option), f"--{option}")

    devices = parsed.options.get("devices")
    processes: Field[int] = None
    if devices is not None and whole(devices.plain) is not None:
        processes = number("devices")
    elif devices is not None:  # "auto", or a list of them
        processes = Unknown(reader.marks.spelled(devices.text), reader.where.file, devices.line)
    port = number("main_port")
    if port is None and not parsed.is_opaque:
        port = Sourced(FABRIC_PORT, reader.where.file, reader.where.line, "tool")
    nodes = number("num_nodes") or _one(reader, parsed)
    return replace(
        _base(reader, parsed, wrapper),
        launcher=FABRIC,
        nodes=nodes,
        node_rank=number("node_rank"),
        processes_per_node=processes,
        world_size=product(nodes, processes),
        master_address=reader.text(parsed.options.get("main_address")),
        master_port=port,
    )


def read_colossalai(reader: Reader, given: tuple[Word, ...], wrapper: tuple[str, ...]) -> Plan:
    """The plan of the words after ``colossalai run``, which logs in to every host, its own among them."""
    parsed = parse_options(given, OF_COLOSSALAI, reader.marks)

    def number(option: str) -> Field[int]:
        return reader.number_of(parsed.options.get(option), f"--{option}")

    hosts, nodes = reader.text(parsed.options.get("host")), number("num_nodes")
    if nodes is None and isinstance(hosts, Sourced):
        nodes = Sourced(len([one for one in hosts.value.split(",") if one]), hosts.file, hosts.line)
    elif nodes is None and "hostfile" not in parsed.options:
        nodes = _one(reader, parsed)
    processes = number("nproc_per_node")
    return replace(
        _base(reader, parsed, wrapper),
        launcher=COLOSSALAI,
        start="all nodes",
        nodes=nodes,
        processes_per_node=processes,
        world_size=product(nodes, processes),
        master_address=reader.text(parsed.options.get("master_addr")),
        master_port=number("master_port"),
    )


def _one(reader: Reader, parsed: Parsed) -> Field[int]:
    return None if parsed.is_opaque else Sourced(1, reader.where.file, reader.where.line, "tool")


def _quotient(total: Field[int], each: Field[int]) -> Field[int]:
    if isinstance(total, Sourced) and isinstance(each, Sourced) and each.value > 0 and total.value % each.value == 0:
        return Sourced(total.value // each.value, total.file, total.line, total.origin)
    return total if isinstance(total, Unknown) else None


def _base(reader: Reader, parsed: Parsed, wrapper: tuple[str, ...]) -> Plan:
    """What both say in the same way: the program and what stands around the command."""
    return Plan(
        launcher=COMPOSER,
        where=reader.where,
        rendezvous=Sourced("static", reader.where.file, reader.where.line, "tool"),
        device_ids=reader.variable("CUDA_VISIBLE_DEVICES"),
        program=reader.text(parsed.rest[0]) if parsed.rest else None,
        arguments=arguments(reader, parsed.rest[1:]),
        settings={name: reader.text(word) for name, word in parsed.options.items()},
        environment=reader.environment(),
        unexported=reader.unexported(),
        wrapper=wrapper,
        slurm=reader.slurm,
        is_opaque=parsed.is_opaque,
        is_conditional=reader.command.is_conditional,
        command=reader.spelled(),
    )


def node_rank_is_given(plan: Plan) -> Iterable[Finding]:
    """composer refuses to start a node without a number; `fabric run` makes each of them node 0."""
    if plan.spans_nodes and plan.node_rank is None and not plan.is_opaque and not plan.is_of_a_manifest:
        option = plan.launcher.field_names.rank
        message = said("{firm} nodes and no {option}: every node becomes node 0", firm(plan.nodes), option)
        if plan.launcher is COMPOSER:
            message = said("{firm} nodes and no --node_rank (or NODE_RANK): composer stops", firm(plan.nodes))
        yield fail(
            "static_rendezvous_has_node_ranks",
            message,
            plan.where,
            fix=said("{option}=0 (1, 2, ... on the others)", option),
        )


def port_is_given(plan: Plan) -> Iterable[Finding]:
    """Over several nodes composer takes no port by itself."""
    if not plan.spans_nodes or plan.master_port is not None or plan.is_opaque or plan.is_of_a_manifest:
        return
    message = said("{firm} nodes and no --master_port (or MASTER_PORT): composer stops", firm(plan.nodes))
    yield fail("master_port_is_the_same_everywhere", message, plan.where, fix="--master_port=29500")


COMPOSER = Launcher(
    name="composer",
    field_names=FieldNames(rank="--node_rank", address="--master_addr", port="--master_port", nodes="--world_size"),
    has_agent=True,
    programs=("composer",),
    modules=("composer.cli.launcher",),
    read=read_composer,
    rules=(node_rank_is_given, port_is_given),
    started_as="torchrun",
)
FABRIC = Launcher(
    name="fabric",
    field_names=FieldNames(rank="--node-rank", address="--main-address", port="--main-port", nodes="--num-nodes"),
    has_agent=True,
    programs=("fabric run", "lightning run"),
    read=read_fabric,
    rules=(node_rank_is_given,),
    started_as="torchrun",
)
COLOSSALAI = Launcher(
    name="colossalai",
    field_names=FieldNames(address="--master_addr", port="--master_port", nodes="--num_nodes"),
    starts_all_nodes=True,
    has_agent=True,
    programs=("colossalai run",),
    read=read_colossalai,
    logs_in=lambda plan: (firm(plan.nodes) or 1) > 1 or "hostfile" in plan.settings,
    needs="colossalai",
    started_as="torchrun",
)
