"""What does a torchrun, torch.distributed.run or torch.distributed.launch command line ask for?"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable

from preflight.judge.ledger.findings import Finding
from preflight.knowledge.variables.names import LEVELS
from preflight.launch.field import Field, Sourced, Unknown, words
from preflight.launch.job import Job, Placement, Process, on_each_node, shared_variables
from preflight.launch.launcher import Launcher
from preflight.launch.layout import Layout, exports, file_name, variables
from preflight.launch.plan import Plan, fail, warn
from preflight.launch.text.options import Reader, Spec, parse_options, product
from preflight.launch.text.shell import Word
from preflight.launch.traits import AgentOutput, FieldNames
from preflight.said import said

SPEC = Spec(
    valued=words(
        """
    nnodes nproc_per_node rdzv_backend rdzv_endpoint rdzv_id rdzv_conf max_restarts
    monitor_interval start_method event_log_handler role log_dir redirects tee
    local_ranks_filter duplicate_stdout_filters duplicate_stderr_filters node_rank master_addr
    master_port local_addr logs_specs numa_binding signals_to_handle shutdown_timeout
    """
    ),
    flags=words("standalone module no_python run_path virtual_local_rank use_env help"),
    short={"-m": "module", "-r": "redirects", "-t": "tee", "-h": "help"},
)
COUNTED_ON_THE_NODE = ("auto", "gpu", "cpu", "xpu")
DEFAULT_PORT = 29500
DEFAULT_C10D_PORT = 29400
# Options of accelerate and DeepSpeed that people give to torchrun.
OF_OTHERS = {
    "num_machines": "--nnodes",
    "num_nodes": "--nnodes",
    "num_processes": "--nproc_per_node, of one node",
    "num_gpus": "--nproc_per_node",
    "machine_rank": "--node_rank",
    "main_process_ip": "--master_addr",
    "main_process_port": "--master_port",
    "hostfile": "torchrun on every node",
}


def read(reader: Reader, words: tuple[Word, ...], wrapper: tuple[str, ...]) -> Plan:
    """The plan of the words after ``torchrun``: options, then PET_ variables, then torchrun's own defaults."""
    parsed = parse_options(words, SPEC, reader.marks)
    reader.refuse(parsed, "torchrun", OF_OTHERS, (*SPEC.valued, *SPEC.flags))

    def given(name: str) -> Word | None:
        if name in parsed.options:
            return parsed.options[name]
        held = reader.command.prefix.get(f"PET_{name.upper()}") or reader.command.variables.get(f"PET_{name.upper()}")
        return Word(held.text, held.line) if held is not None and held.exported else None

    where = reader.where
    fewest, nodes = _nodes(reader, given("nnodes"), is_opaque=parsed.is_opaque)
    backend = reader.text(given("rdzv_backend"))
    if backend is None and not parsed.is_opaque:
        backend = Sourced("static", where.file, where.line, "tool")
    address, port = _endpoint(reader, given, backend, is_opaque=parsed.is_opaque)
    node_rank = given("node_rank")
    processes = _processes(reader, given("nproc_per_node"), is_opaque=parsed.is_opaque)
    environment = reader.environment()
    return Plan(
        launcher=TORCHRUN,
        where=where,
        nodes=nodes,
        fewest_nodes=fewest,
        node_rank=reader.number(node_rank, "--node_rank") if node_rank is not None else None,
        processes_per_node=processes,
        world_size=product(nodes, processes),
        master_address=address,
        master_port=port,
        rendezvous=backend,
        rendezvous_id=reader.text(given("rdzv_id")),
        device_ids=environment.get("CUDA_VISIBLE_DEVICES"),
        program=reader.text(parsed.rest[0]) if parsed.rest else None,
        arguments=arguments(reader, parsed.rest[1:]),
        environment=environment,
        unexported=reader.unexported(),
        settings={name: reader.text(word) for name, word in parsed.options.items()},
        wrapper=wrapper,
        slurm=reader.slurm,
        is_opaque=parsed.is_opaque,
        is_conditional=reader.command.is_conditional,
        is_standalone="standalone" in parsed.options,
        command=reader.spelled(),
    )


def _endpoint(
    reader: Reader, given: Callable[[str], Word | None], backend: Sourced[str] | Unknown | None, *, is_opaque: bool
) -> tuple[Sourced[str] | Unknown | None, Sourced[int] | Unknown | None]:
    """Address and port where the nodes meet: --rdzv_endpoint, else --master_addr and --master_port, else defaults."""
    is_static = isinstance(backend, Sourced) and backend.value == "static"
    address, port = reader.address_and_port(given("rdzv_endpoint"), "the port of --rdzv_endpoint")
    if address is None and (is_static or not isinstance(backend, Sourced)):
        address = reader.text(given("master_addr"))
    if port is None and given("rdzv_endpoint") is None:
        word = given("master_port")
        port = reader.number(word, "--master_port") if word is not None else None
    if port is None and not is_opaque:
        default = DEFAULT_PORT if is_static else DEFAULT_C10D_PORT
        port = Sourced(default, reader.where.file, reader.where.line, "tool")
    return address, port


def arguments(reader: Reader, words: tuple[Word, ...]) -> tuple[Sourced[str] | Unknown, ...]:
    """The arguments of the program as fields."""
    fields = (reader.text(word) for word in words)
    return tuple(found for found in fields if found is not None)


# What torchrun is told of the job, and hardly any program has an option of its own for.
OF_THE_JOB = words("nnodes nproc_per_node node_rank rdzv_id rdzv_backend rdzv_endpoint")


def options_stand_before_the_program(plan: Plan) -> Iterable[Finding]:
    """Words after the program are the program's own: torchrun learns nothing of it, and every node trains alone."""
    names = {
        argument: argument.value.partition("=")[0].lstrip("-").replace("-", "_")
        for argument in plan.arguments
        if isinstance(argument, Sourced) and argument.value.startswith("--")
    }
    behind = [argument for argument, name in names.items() if name in OF_THE_JOB]
    if len(behind) < 2 or plan.is_opaque or any(name in plan.settings for name in OF_THE_JOB):
        return
    listed = ", ".join(argument.value.partition("=")[0] for argument in behind)
    program = plan.program.value if isinstance(plan.program, Sourced) else "the program"
    message = said(
        "{listed} after {program} are the program's own: torchrun starts one process, on one node", listed, program
    )
    yield fail(
        "options_stand_before_the_program",
        message,
        behind[0].where,
        fix=said("Options of torchrun before {program}.", program),
    )


def ports_are_read(plan: Plan) -> Iterable[Finding]:
    """Beside an endpoint --master_port is not read: without a port of its own the endpoint has the one by default."""
    port, endpoint = plan.settings.get("master_port"), plan.settings.get("rdzv_endpoint")
    by_default = isinstance(plan.master_port, Sourced) and plan.master_port.origin == "tool"
    if isinstance(port, Sourced) and isinstance(endpoint, Sourced) and by_default and not plan.is_opaque:
        default = str(plan.master_port.value) if isinstance(plan.master_port, Sourced) else ""
        if port.value != default:
            message = said(
                "--master_port {port} is not read beside --rdzv_endpoint: the store listens at {default}",
                port.value,
                default,
            )
            yield warn(
                "settings_have_an_effect", message, port.where, fix=f"--rdzv_endpoint={endpoint.value}:{port.value}"
            )


def log_level_is_one(plan: Plan) -> Iterable[Finding]:
    """torch's agent hands LOGLEVEL to Python's logging as it stands, which knows its levels in capitals alone."""
    level = plan.environment.get("LOGLEVEL")
    if isinstance(level, Sourced) and level.value.strip() not in LEVELS:
        message = said("LOGLEVEL={level!r} is no level of Python's logging: torchrun stops", level.value)
        right = level.value.strip().upper()
        fix = f"LOGLEVEL={right if right in LEVELS else 'INFO'}"
        yield fail("variables_have_values_that_count", message, level.where, fix=fix)


def _nodes(reader: Reader, word: Word | None, *, is_opaque: bool) -> tuple[Field[int], Field[int]]:
    """``N`` or ``MIN:MAX`` -> both ends; torchrun's default is one node."""
    if word is None:
        one: Field[int] = None if is_opaque else Sourced(1, reader.where.file, reader.where.line, "tool")
        return one, one
    fewest, colon, most = word.text.partition(":")
    first = reader.number(Word(fewest, word.line), "--nnodes")
    return first, reader.number(Word(most, word.line), "--nnodes") if colon else first


def _processes(reader: Reader, word: Word | None, *, is_opaque: bool) -> Field[int]:
    if word is None:
        return None if is_opaque else Sourced(1, reader.where.file, reader.where.line, "tool")
    if word.plain in COUNTED_ON_THE_NODE:
        return Unknown(word.plain, reader.marks.file, word.line)
    return reader.number(word, "--nproc_per_node")


# Options that start the agents differently, not the program; where they meet and how they log is ours.
KEPT = words("start_method role local_addr rdzv_conf numa_binding virtual_local_rank shutdown_timeout")


def kept_options(plan: Plan) -> Iterable[str]:
    """The words of the user's own command that the reference job is started with too."""
    for name in KEPT:
        value = plan.settings.get(name)
        if isinstance(value, Sourced):
            yield f"--{name.replace('_', '-')}={value.value}"


def write(layout: Layout) -> dict[str, str]:
    """A script for every node."""
    files = {}
    for index, node in enumerate(layout.nodes):
        command = [
            *layout.command("torchrun", "torch.distributed.run"),
            f"--nnodes={len(layout.nodes)}",
            f"--node_rank={index}",
            f"--nproc_per_node={layout.processes[index]}",
            f"--master_addr={layout.address}",
            f"--master_port={layout.port}",
            *layout.program,
        ]
        files[f"{file_name(layout, index)}.sh"] = (
            layout.head + exports(variables(node)) + f"exec {shlex.join(command)}\n"
        )
    return files


AGENT_JOIN_SECONDS = 30  # how long an agent waits for the agents of the other nodes


def start_agent(job: Job, placements: list[Placement], master_port: int) -> list[Process]:
    """One agent a node, that meets the others at rank 0's address and starts the ranks of its node."""
    node = placements[0].node
    start = job.start_of(node)
    elastic = job.restarts > 0 or start.rendezvous == "c10d"
    argv = [
        "{python}",
        "-m",
        "torch.distributed.run",
        f"--nnodes={len(job.nodes)}",
        f"--node-rank={job.nodes.index(node)}",
        f"--nproc-per-node={len(placements)}",
        f"--max-restarts={job.restarts}",
        "--monitor-interval=0.2",
        "--tee=3",
        *(_meeting_again(job, node, master_port) if elastic else _meeting_once(job, node, master_port)),
        *start.options,
        "{script}",
    ]
    # Each life of the ranks gets a store of its own: in a shared one they find what the life before left there.
    fresh = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"} if job.restarts else {}
    return [{"name": node, "argv": argv, "environment": {**shared_variables(job, node), **fresh}}]


def _meeting_once(job: Job, node: str, port: int) -> list[str]:
    """The static rendezvous: ranks are numbered as written; it cannot bring agents together a second time."""
    return [
        "--rdzv-backend=static",
        f"--rdzv-conf=timeout={AGENT_JOIN_SECONDS}",
        f"--master-addr={job.address_for(node)}",
        f"--master-port={port}",
    ]


def _meeting_again(job: Job, node: str, port: int) -> list[str]:
    """The elastic rendezvous: agents agree each time who is there, and number the ranks as they like."""
    bare, start = job.address_for(node), job.start_of(node)
    address = f"[{bare}]" if ":" in bare else bare
    # By an address of the user's own each node must recognise itself, as it will have to in the job.
    host = "" if start.address else f",is_host={int(node == job.nodes[0])}"
    return [
        "--rdzv-backend=c10d",
        f"--rdzv-id={start.rendezvous_id}",
        f"--rdzv-endpoint={address}:{port}",
        f"--rdzv-conf=join_timeout={AGENT_JOIN_SECONDS}{host}",
    ]


AGENT = AgentOutput(
    failed=re.compile(r"failed \(exitcode: (?P<exit>-?\d+)\) local_rank: (?P<local_rank>\d+)"),
    line=re.compile(r"\[default(?P<local_rank>\d+)\]:"),
)
TORCHRUN = Launcher(
    name="torchrun",
    field_names=FieldNames(
        rank="--node_rank",
        address="--master_addr",
        port="--master_port",
        nodes="--nnodes",
        rendezvous_id="--rdzv_id",
    ),
    has_agent=True,
    runs_program=True,
    rendezvous_gives_ranks=True,
    programs=("torchrun", "torchrun_jsc", "tune run"),
    modules=("torch.distributed.run", "torch.distributed.launch", "torch.distributed.elastic.run"),
    read=read,
    write=write,
    start=on_each_node(start_agent),
    blames=AGENT,
    kept_options=kept_options,
    rules=(options_stand_before_the_program, ports_are_read, log_level_is_one),
)
