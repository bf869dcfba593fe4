"""What do `vllm serve` and SGLang's server ask for, over one node or several?"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from preflight.judge.ledger.findings import Finding
from preflight.launch.address import is_loopback
from preflight.launch.field import Field, Sourced, firm, value_of, words
from preflight.launch.launcher import Launcher
from preflight.launch.layout import Layout, address_of, exports, file_name, variables
from preflight.launch.plan import LaunchFiles, Plan, fail, warn
from preflight.launch.text.options import Reader, product
from preflight.launch.text.shell import Word
from preflight.launch.traits import FieldNames
from preflight.said import said

# Of the hundreds of options of these servers, those that shape the job; every letter and long form of them.
SHAPE = {
    **dict.fromkeys(words("--tensor-parallel-size -tp --tp-size --tp --tensor_parallel_size"), "tensor parallel"),
    **dict.fromkeys(words("--pipeline-parallel-size -pp --pp-size --pp --pipeline_parallel_size"), "pipeline parallel"),
    **dict.fromkeys(words("--data-parallel-size -dp --dp-size --dp"), "data parallel"),
    **dict.fromkeys(words("--data-parallel-address -dpa"), "data parallel address"),
    **dict.fromkeys(words("--data-parallel-rpc-port -dpp"), "data parallel port"),
    **dict.fromkeys(words("--distributed-executor-backend --distributed_executor_backend"), "executor"),
    **dict.fromkeys(words("--nnodes -n"), "nodes"),
    **dict.fromkeys(words("--node-rank -r"), "node rank"),
    "--master-addr": "master address",
    "--master-port": "master port",
    **dict.fromkeys(words("--dist-init-addr --nccl-init-addr"), "meeting point"),
}
MODULES = (
    "vllm.entrypoints.openai.api_server",
    "vllm.entrypoints.api_server",
    "sglang.launch_server",
)
MEETING_PORT = 29501  # vLLM's own default of --master-port


def shape(given: tuple[Word, ...]) -> dict[str, Word]:
    """The options that shape the job, by what they say; the last of each counts."""
    found: dict[str, Word] = {}
    for place, word in enumerate(given):
        option, equals, _ = word.plain.partition("=")
        name = SHAPE.get(option)
        if name is not None and equals:
            found[name] = Word(word.text.partition("=")[2], word.line)
        elif name is not None and place + 1 < len(given):
            found[name] = given[place + 1]
    return found


def read(reader: Reader, given: tuple[Word, ...], wrapper: tuple[str, ...]) -> Plan:
    """The plan of the words after ``vllm serve`` or the server's module."""
    found = shape(given)
    here = reader.where
    is_sglang = any("sglang" in word.plain for word in reader.command.words[: len(reader.command.words) - len(given)])

    def number(name: str) -> Field[int]:
        return reader.number_of(found.get(name), name)

    one = Sourced(1, here.file, here.line, "tool")
    nodes = number("nodes")
    world = product(number("tensor parallel") or one, number("pipeline parallel") or one)
    address, port = reader.text(found.get("master address")), number("master port")
    if "meeting point" in found:
        address, port = reader.address_and_port(found["meeting point"], "the port of --dist-init-addr")
    elif nodes is not None and not is_sglang:
        port = port or Sourced(MEETING_PORT, here.file, here.line, "tool")
    each: Field[int] = None
    if isinstance(world, Sourced) and isinstance(nodes, Sourced) and nodes.value and world.value % nodes.value == 0:
        each = Sourced(world.value // nodes.value, world.file, world.line, world.origin)
    environment = reader.environment()
    return Plan(
        launcher=SGLANG if is_sglang else VLLM,
        where=here,
        start="each node" if nodes is not None else "all nodes",
        nodes=nodes,
        node_rank=number("node rank"),
        processes_per_node=each,
        world_size=world,
        master_address=address,
        master_port=port,
        rendezvous=Sourced("static", here.file, here.line, "tool"),
        device_ids=environment.get("CUDA_VISIBLE_DEVICES"),
        program=reader.text(_model(given)),
        environment=environment,
        unexported=reader.unexported(),
        settings={name: reader.text(word) for name, word in found.items()},
        wrapper=wrapper,
        slurm=reader.slurm,
        is_opaque=any(_may_hold_options(given, place) for place in range(len(given))),
        is_conditional=reader.command.is_conditional,
        command=reader.spelled(),
    )


def _may_hold_options(given: tuple[Word, ...], place: int) -> bool:
    """Whether a word that is not known stands where options do: not behind one, and not in place of the model."""
    return place > 0 and given[place].plain[0:1] > "\uefff" and not given[place - 1].plain.startswith("-")


def _model(given: tuple[Word, ...]) -> Word | None:
    for place, word in enumerate(given):
        if word.plain in ("--model", "--model-path") and place + 1 < len(given):
            return given[place + 1]
    return given[0] if given and not given[0].plain.startswith("-") else None


def world_divides(plan: Plan) -> Iterable[Finding]:
    """Every node runs the same number of the processes."""
    world, nodes = plan.world_size, plan.nodes
    if isinstance(world, Sourced) and isinstance(nodes, Sourced) and nodes.value > 1 and world.value % nodes.value:
        message = said(
            "{value} processes (tensor x pipeline parallel) do not divide by --nnodes {value2}",
            world.value,
            nodes.value,
        )
        yield fail("processes_divide_by_nodes", message, world.where, nodes.where)


def ranks_are_given(plan: Plan) -> Iterable[Finding]:
    """Without --node-rank and an address every node takes itself for node 0."""
    if not plan.spans_nodes or plan.is_opaque or plan.is_conditional:
        return
    if plan.node_rank is None:
        message = said("--nnodes {firm} and no --node-rank: every node becomes node 0", firm(plan.nodes))
        yield fail(
            "static_rendezvous_has_node_ranks", message, plan.where, fix="--node-rank 0 (1, 2, ... on the others)"
        )
    if plan.master_address is None:
        name = plan.launcher.field_names.address
        message = said(
            "--nnodes {firm} and no {name}: every node waits for the others on itself", firm(plan.nodes), name
        )
        yield fail("master_address_is_given", message, plan.where, fix=said("{name} <address of node 0>", name))


def devices_are_enough(plan: Plan) -> Iterable[Finding]:
    """Without Ray and --nnodes all processes run on this node, each on a device of its own."""
    devices, world = plan.device_ids, plan.world_size
    alone = plan.nodes is None and value_of(plan.settings.get("executor")) == "mp"
    if not alone or not isinstance(devices, Sourced) or not isinstance(world, Sourced):
        return
    listed = [device for device in str(devices.value).split(",") if device.strip()]
    if listed and world.value > len(listed):
        message = said(
            "{value} processes (tensor x pipeline parallel) on this node, and {listed} device{s}",
            world.value,
            len(listed),
            "s" * (len(listed) != 1),
        )
        yield fail("processes_match_devices", message, world.where, devices.where)


def own_addresses_differ(files: LaunchFiles) -> Iterable[Finding]:
    """VLLM_HOST_IP is a node's own address: no loopback where there are several, and not the same on two."""
    plans = [plan for plan in files.plans if plan.launcher.name in ("vllm", "ray")]
    held: dict[str, list[tuple[str, Sourced[str]]]] = {}
    for plan in plans:
        own = plan.environment.get("VLLM_HOST_IP")
        if isinstance(own, Sourced) and own.origin == "written" and own.value:
            held.setdefault(own.value, []).append((plan.where.file, own))
    joins = any(plan.spans_nodes or ("address" in plan.settings and "head" not in plan.settings) for plan in plans)
    for value, places in held.items():
        where = [own.where for _, own in places]
        if is_loopback(value) and joins:
            message = said("VLLM_HOST_IP={value}: the other nodes are told to reach this one on themselves", value)
            yield fail("own_addresses_differ", message, *where, fix="VLLM_HOST_IP=<this node's address>")
        elif len({file for file, _ in places}) > 1:
            message = said(
                "VLLM_HOST_IP={value} in {file} files: it is each node's own address",
                value,
                len({file for file, _ in places}),
            )
            yield fail("own_addresses_differ", message, *where, fix="VLLM_HOST_IP=<this node's address>")


def tensors_stay_in_a_node(plan: Plan) -> Iterable[Finding]:
    """Tensor parallelism talks in every layer; over a network the pipeline is cut between nodes instead."""
    tensor, nodes = plan.settings.get("tensor parallel"), plan.nodes
    if not isinstance(tensor, Sourced) or not re.fullmatch(r"\d{1,4}", str(tensor.value)) or plan.launcher is not VLLM:
        return
    each = firm(plan.processes_per_node)
    if isinstance(nodes, Sourced) and nodes.value > 1 and each is not None and int(tensor.value) > each:
        message = said(
            "tensor parallel over {value} processes with {each} on a node: every layer waits for the network",
            tensor.value,
            each,
        )
        fix = f"--tensor-parallel-size {each} --pipeline-parallel-size {nodes.value}"
        yield warn("tensor_parallel_stays_in_a_node", message, tensor.where, nodes.where, fix=fix)


def write(layout: Layout) -> dict[str, str]:
    """A script for every node: tensor parallel within a node, the pipeline from node to node."""
    files = {}
    model, *rest = layout.program
    for index, node in enumerate(layout.nodes):
        command = ["vllm", "serve", model, f"--tensor-parallel-size={layout.processes[index]}"]
        if len(layout.nodes) > 1:
            command += [f"--pipeline-parallel-size={len(layout.nodes)}", f"--nnodes={len(layout.nodes)}"]
            command += [f"--node-rank={index}", f"--master-addr={layout.address}", f"--master-port={layout.port}"]
            command += ["--headless"] if index else []
        own = {**variables(node), "VLLM_HOST_IP": address_of(node)}
        files[f"{file_name(layout, index)}.sh"] = layout.head + exports(own) + f"exec {shlex.join([*command, *rest])}\n"
    return files


VLLM = Launcher(
    name="vllm",
    field_names=FieldNames(rank="--node-rank", address="--master-addr", port="--master-port", nodes="--nnodes"),
    has_agent=True,
    programs=("vllm serve",),
    modules=MODULES[:2],
    read=read,
    rules=(world_divides, ranks_are_given, devices_are_enough, tensors_stay_in_a_node),
    files_rules=(own_addresses_differ,),
    equal_ranks=True,
    write=write,
    refusal="a server is not a training job",
)
SGLANG = Launcher(
    name="sglang",
    field_names=FieldNames(rank="--node-rank", address="--dist-init-addr", port="--dist-init-addr", nodes="--nnodes"),
    has_agent=True,
    programs=("sglang serve",),
    modules=MODULES[2:],
    read=read,
    rules=(world_divides, ranks_are_given),
    refusal="a server is not a training job",
)
