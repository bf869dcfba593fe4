"""What does a script ask for that sets RANK and MASTER_ADDR by hand and starts python?"""

from __future__ import annotations

from preflight.launch.options import Reader
from preflight.launch.plan import Field, Plan, Sourced
from preflight.launch.shell import Word
from preflight.launch.torchrun import arguments

RANKS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT")
FLAGS = frozenset({"-u", "-O", "-OO", "-B", "-E", "-I", "-s", "-S", "-v", "-q"})
VALUED = frozenset({"-W", "-X"})
QUICK = frozenset({"-c", "-V", "--version", "-"})


def read(reader: Reader, words: tuple[Word, ...], wrapper: tuple[str, ...]) -> Plan | None:
    """The plan of the words after ``python``; None where nothing says that several processes belong together."""
    rest = list(words)
    while rest and (rest[0].plain in FLAGS | VALUED):
        rest = rest[2:] if rest[0].plain in VALUED else rest[1:]
    if not rest or rest[0].plain in QUICK:
        return None
    program = rest[1:] if rest[0].plain == "-m" else rest
    if not program or program[0].plain in ("pip", "venv", "http.server", "json.tool"):
        return None
    names = {word.rpartition("/")[2] for word in wrapper}
    settings = set(reader.command.prefix) | set(reader.command.variables)
    by_scheduler = "srun" in names or "mpirun" in names or "mpiexec" in names
    if not settings & set(RANKS) and not (by_scheduler and reader.slurm is not None):
        return None

    def number(name: str) -> Field[int]:
        return reader.number(reader.variable(name), name)

    environment = reader.environment()
    return Plan(
        launcher="srun" if "srun" in names else "mpirun" if by_scheduler else "env",
        where=reader.where,
        start="all nodes" if by_scheduler else "each node",
        rank=number("RANK"),
        world_size=number("WORLD_SIZE"),
        local_rank=number("LOCAL_RANK"),
        node_rank=number("NODE_RANK"),
        nodes=reader.slurm.number("nodes") if by_scheduler and reader.slurm else None,
        master_address=reader.variable("MASTER_ADDR"),
        master_port=number("MASTER_PORT"),
        rendezvous=Sourced("env", reader.where.file, reader.where.line, "tool"),
        device_ids=reader.variable("CUDA_VISIBLE_DEVICES"),
        program=reader.text(program[0]),
        arguments=arguments(reader, tuple(program[1:])),
        environment=environment,
        unexported=reader.unexported(),
        wrapper=wrapper,
        slurm=reader.slurm,
        is_conditional=reader.command.is_conditional,
        command=reader.spelled(),
    )


def read_llamafactory(reader: Reader, words: tuple[Word, ...], wrapper: tuple[str, ...]) -> Plan | None:
    """The plan of ``llamafactory-cli train``, which starts torchrun from NNODES, NODE_RANK and NPROC_PER_NODE."""
    if not words or words[0].plain != "train":
        return None
    where = reader.where

    def number(name: str) -> Field[int]:
        return reader.number(reader.variable(name), name)

    def default(value: int) -> Field[int]:
        return Sourced(value, where.file, where.line, "tool")

    return Plan(
        launcher="llamafactory",
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
