"""What does a script ask for that sets RANK and MASTER_ADDR by hand, and how are ranks started without a launcher?"""

from __future__ import annotations

import shlex

from preflight.launch.field import Field, Sourced
from preflight.launch.job import Job, Placement, Process, on_each_node, rank_variables, shared_variables
from preflight.launch.launcher import Launcher
from preflight.launch.launchers.torchrun import arguments
from preflight.launch.layout import Layout, exports, file_name, variables
from preflight.launch.plan import Plan
from preflight.launch.text.options import Reader
from preflight.launch.text.shell import Word
from preflight.launch.traits import PYTHON, Counts
from preflight.said import joined, said

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
    settings = set(reader.command.prefix) | set(reader.command.variables)
    outer = reader.outer_launcher(wrapper)
    if not settings & set(RANKS) and (outer is None or (reader.slurm is None and not outer.traits.programs)):
        return None
    around = outer.counts(reader, wrapper) if outer else Counts()

    def number(name: str) -> Field[int]:
        return reader.number(reader.variable(name), name)

    environment, names = reader.environment(), {word.rpartition("/")[2] for word in wrapper}
    return Plan(
        launcher=outer.traits if outer else ENV,
        where=reader.where,
        start="all nodes" if outer else "each node",
        rank=number("RANK"),
        world_size=number("WORLD_SIZE") if around.world_size is None else around.world_size,
        processes_per_node=around.processes_per_node,
        local_rank=number("LOCAL_RANK"),
        node_rank=number("NODE_RANK"),
        nodes=around.nodes,
        master_address=reader.variable("MASTER_ADDR"),
        master_port=number("MASTER_PORT"),
        rendezvous=Sourced("env", reader.where.file, reader.where.line, "tool"),
        device_ids=None if "jsrun" in names else reader.variable("CUDA_VISIBLE_DEVICES"),  # jsrun sets it for each
        program=reader.text(program[0]),
        arguments=arguments(reader, tuple(program[1:])),
        environment=environment,
        unexported=reader.unexported(),
        wrapper=wrapper,
        slurm=reader.slurm,
        is_conditional=reader.command.is_conditional,
        command=reader.spelled(),
    )


def write(layout: Layout) -> dict[str, str]:
    """A script for every node, which exports what torch reads and starts each rank."""
    files = {}
    for index, node in enumerate(layout.nodes):
        values = {
            **variables(node),
            "MASTER_ADDR": layout.address,
            "MASTER_PORT": str(layout.port),
            "WORLD_SIZE": str(layout.world),
        }
        command = shlex.join([*layout.command("python"), *layout.program])
        count, first = layout.processes[index], layout.first_rank(index)
        if count == 1:
            body = exports({"RANK": str(first), "LOCAL_RANK": "0"}) + f"exec {command}\n"
        else:
            locals_ = " ".join(map(str, range(count)))
            body = (
                f"status=0\nranks=\nfor local in {locals_}; do\n  RANK=$(({first} + local)) LOCAL_RANK=$local {command}"
                # by their pids: `jobs` no longer lists a rank that has failed by then
                ' &\n  ranks="$ranks $!"\ndone\n'
                'for rank in $ranks; do\n  wait "$rank" || status=$?\ndone\nexit "$status"\n'
            )
        files[f"{file_name(layout, index)}.sh"] = layout.head + exports(values) + body
    return files


def start_node(job: Job, placements: list[Placement], master_port: int) -> list[Process]:
    """One shell a rank: the exports that a person types on each machine, then the program."""
    processes = []
    for placement in placements:
        variables = rank_variables(job, placement, master_port)
        exports = joined([said("export {name}={quote}", name, shlex.quote(value)) for name, value in variables.items()])
        argv = ["sh", "-c", said('{exports}; exec "$@"', exports), "sh", "{python}", "{script}"]
        environment = shared_variables(job, placement.node)
        processes.append({"name": f"rank{placement.rank}", "argv": argv, "environment": environment})
    return processes


def start_directly(job: Job, placements: list[Placement], master_port: int) -> list[Process]:
    """One process a rank, with the variables that torch's env:// rendezvous reads."""
    return [
        {
            "name": f"rank{placement.rank}",
            "argv": ["{python}", "{script}"],
            "environment": {**rank_variables(job, placement, master_port), **shared_variables(job, placement.node)},
        }
        for placement in placements
    ]


DIRECT = Launcher(name="direct", numbers_processes=True, start=on_each_node(start_directly))
ENV = Launcher(
    name="env",
    description="exports in a shell",
    numbers_processes=True,
    states_world_size=True,
    programs=(PYTHON,),
    read=read,
    write=write,
    start=on_each_node(start_node),
)
