"""What does a torchrun, torch.distributed.run or torch.distributed.launch command line ask for?"""

from __future__ import annotations

from preflight.launch.options import Reader, Spec, parse_options, product
from preflight.launch.plan import Field, Plan, Sourced, Unknown, words
from preflight.launch.shell import Word

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


def read(reader: Reader, words: tuple[Word, ...], wrapper: tuple[str, ...]) -> Plan:
    """The plan of the words after ``torchrun``: options, then PET_ variables, then torchrun's own defaults."""
    parsed = parse_options(words, SPEC, reader.marks)

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
    address, port = reader.address_and_port(given("rdzv_endpoint"), "the port of --rdzv_endpoint")
    if address is None and not (isinstance(backend, Sourced) and backend.value != "static"):
        address = reader.text(given("master_addr"))
    if port is None and given("rdzv_endpoint") is None:
        word = given("master_port")
        port = reader.number(word, "--master_port") if word is not None else None
    if port is None and not parsed.is_opaque:
        is_static = isinstance(backend, Sourced) and backend.value == "static"
        port = Sourced(DEFAULT_PORT if is_static else DEFAULT_C10D_PORT, where.file, where.line, "tool")
    node_rank = given("node_rank")
    processes = _processes(reader, given("nproc_per_node"), is_opaque=parsed.is_opaque)
    environment = reader.environment()
    return Plan(
        launcher="torchrun",
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


def arguments(reader: Reader, words: tuple[Word, ...]) -> tuple[Sourced[str] | Unknown, ...]:
    """The arguments of the program as fields."""
    fields = (reader.text(word) for word in words)
    return tuple(found for found in fields if found is not None)


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
