"""What do mpirun and mpiexec start, of Open MPI or Hydra (MPICH, Intel MPI), and how is the reference job started?"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping

from preflight.launch.field import Field, Sourced, Unknown, firm, whole, words
from preflight.launch.job import ALL_RANKS, Job, Process, shared_variables
from preflight.launch.launcher import Launcher
from preflight.launch.launchers.mpirun.options import COUNT, EACH, HOSTFILES, PROGRAMS, Given, counts, parse
from preflight.launch.launchers.torchrun import arguments
from preflight.launch.layout import Layout, exports, shared_launch
from preflight.launch.plan import Plan
from preflight.launch.text.options import Reader
from preflight.launch.text.shell import SHELLS, Word
from preflight.launch.traits import AgentOutput, Counts, FieldNames

AGENTS = frozenset(
    words(
        """
    torchrun accelerate deepspeed torch.distributed.run torch.distributed.launch llamafactory-cli srun
    accelerate.commands.launch
    """
    )
)


def reads_alone(plans: Iterable[Plan], file: str) -> bool:
    """Whether a hostfile is named by mpirun, and by nothing else that has a stricter reading of it."""
    namers = [
        plan
        for plan in plans
        if any(os.path.basename(str(plan.setting(name))) == os.path.basename(file) for name in HOSTFILES)
    ]
    return bool(namers) and all(plan.launcher.name == "mpirun" or "mpirun" in plan.wraps for plan in namers)


def is_a_list(plans: Iterable[Plan]) -> bool:
    """Whether a file of hosts is a list for loops of a script: nothing that the files start reads hostfiles."""
    held = list(plans)
    readers = {"deepspeed", "accelerate", "llamafactory", "mpirun"}
    by_others = all(plan.launcher.name not in readers and not plan.wraps & set(PROGRAMS) for plan in held)
    named = any(plan.setting(name) for plan in held for name in HOSTFILES)
    return bool(held) and by_others and not named and not any(plan.is_opaque for plan in held)


def given_of(plan_words: tuple[str, ...]) -> tuple[str, ...]:
    """The words after mpirun among those around another command."""
    names = [word.rpartition("/")[2] for word in plan_words]
    place = next((place for place, name in enumerate(names) if name in PROGRAMS), None)
    return plan_words[place + 1 :] if place is not None else ()


def around(reader: Reader, wrapper: tuple[str, ...]) -> Counts:
    """The same for a command inside: ``mpirun -np 16 bash -c 'RANK=$OMPI_COMM_WORLD_RANK python train.py'``."""
    if "jsrun" in {word.rpartition("/")[2] for word in wrapper}:
        return _resource_sets(reader, wrapper)
    return counts(reader, parse(tuple(Word(word, reader.command.line) for word in given_of(wrapper))))


SETS = {"n": "n", "nrs": "n", "a": "a", "tasks_per_rs": "a", "r": "r", "rs_per_host": "r"}


def _resource_sets(reader: Reader, wrapper: tuple[str, ...]) -> Counts:
    """What jsrun starts: -n resource sets of -a tasks each, -r of them on a host."""
    names = [word.rpartition("/")[2] for word in wrapper]
    given = wrapper[names.index("jsrun") + 1 :]
    found: dict[str, int] = {}
    for place, word in enumerate(given):
        name, equals, value = word.lstrip("-").partition("=")
        glued = re.fullmatch(r"-([nar])(\d{1,6})", word)
        if glued:
            name, value = glued[1], glued[2]
        elif not equals and place + 1 < len(given):
            value = given[place + 1]
        if word.startswith("-") and name in SETS and re.fullmatch(r"[0-9]{1,6}", value):
            found.setdefault(SETS[name], int(value))
    where = reader.where

    def number(value: int | None) -> Field[int]:
        return Sourced(value, where.file, where.line) if value else None

    sets, tasks, each = found.get("n"), found.get("a", 1), found.get("r")
    nodes = sets // each if sets and each and sets % each == 0 else None
    return Counts(number(nodes), number(each * tasks if each else None), number(sets * tasks if sets else None))


def read(reader: Reader, given_words: tuple[Word, ...], wrapper: tuple[str, ...]) -> Plan | None:
    """The plan of the words after ``mpirun``; None where a launcher or a shell's script behind it is read by itself."""
    given = parse(given_words)
    if not given.rest:
        return None
    names = [word.plain.rpartition("/")[2] for word in given.rest]
    if AGENTS & set(names) or (names[0] in SHELLS and len(names) > 1 and re.fullmatch(r"-\w*c", names[1])):
        return None
    found = counts(reader, given)
    environment = {**reader.environment(), **_handed_on(reader, given)}
    program = next((word for word in given.rest if not word.plain.startswith("-")), given.rest[0])
    is_interpreter = names[0].startswith("python") or names[0] in SHELLS
    tail = given.rest[1:] if is_interpreter else given.rest
    tail = tail[next((place for place, word in enumerate(tail) if not word.plain.startswith("-")), 0) :]
    return Plan(
        launcher=MPIRUN,
        where=reader.where,
        start="all nodes",
        nodes=found.nodes,
        processes_per_node=found.processes_per_node,
        world_size=found.world_size,
        rank=_number(environment, "RANK"),
        local_rank=_number(environment, "LOCAL_RANK"),
        master_address=environment.get("MASTER_ADDR"),
        master_port=reader.number(environment.get("MASTER_PORT"), "MASTER_PORT"),
        program=reader.text(tail[0] if tail else program),
        arguments=arguments(reader, tail[1:]),
        environment=environment,
        unexported=reader.unexported(),
        settings=_settings(reader, given),
        wrapper=("mpirun", *wrapper),
        slurm=reader.slurm,
        is_conditional=reader.command.is_conditional,
        command=reader.spelled(),
    )


def _number(environment: Mapping[str, Field[str]], name: str) -> Field[int]:
    held = environment.get(name)
    if isinstance(held, Sourced) and re.fullmatch(r"\d{1,9}", held.value.strip()):
        return Sourced(int(held.value), held.file, held.line, held.origin)
    return held if isinstance(held, Unknown) else None


def _handed_on(reader: Reader, given: Given) -> dict[str, Field[str]]:
    return {name: reader.text(word) for name, word in given.forwards.items() if word is not None}


def _settings(reader: Reader, given: Given) -> dict[str, Field[str]]:
    here = reader.where
    held: dict[str, Field[str]] = {name: reader.text(word) for name, word in given.one.items()}
    held |= {name: Sourced("true", here.file, here.line) for name in given.flags}
    held["hands on"] = Sourced(" ".join(given.forwards), here.file, here.line, "tool")
    held["is hydra"] = Sourced("yes" if given.is_hydra else "", here.file, here.line, "tool")
    return held


def handed_to(wrapper: tuple[str, ...]) -> dict[str, str]:
    """The variables that mpirun gives a shell behind it: ``mpirun -x MASTER_ADDR=node1 bash -c '...'``."""
    if "jsrun" in {word.rpartition("/")[2] for word in wrapper}:
        return {}
    given = parse(tuple(Word(word, 0) for word in given_of(wrapper)))
    return {name: word.text for name, word in given.forwards.items() if word is not None}


def tasks_of_node(plan: Plan) -> Field[int]:
    """How many times mpirun starts another launcher's command on a node."""
    given = given_of(plan.wrapper)
    if not given or plan.launcher.name == "mpirun":
        return None
    where = plan.where
    found = parse(tuple(Word(word, where.line) for word in given))
    each, whole, nodes = _count(found.first(EACH)), _count(found.first(COUNT)), firm(plan.nodes)
    if each is None and "pernode" not in found.flags and whole and nodes and whole % nodes == 0:
        each = whole // nodes  # shared out over the nodes that the launcher waits for
    return Sourced(each, where.file, where.line) if each is not None else None


def _count(word: Word | None) -> int | None:
    return whole(word.plain) if word is not None else None


def write(layout: Layout) -> dict[str, str]:
    """A hostfile and one command, run on the first node; each rank takes its number from Open MPI or Hydra."""
    hosts = "".join(f"{node.name} slots={count}\n" for node, count in zip(layout.nodes, layout.processes, strict=True))
    shared = {**shared_launch(layout), "MASTER_ADDR": layout.address, "MASTER_PORT": str(layout.port)}
    inner = f"{RANK_LINES}exec {shlex.join([*layout.command('python'), *layout.program])}"
    command = [
        *("mpirun", "-np", str(layout.world), "--hostfile", layout.path("hostfile"), "--bind-to", "none"),
        *(word for name in shared for word in ("-x", name)),
        *("bash", "-c", inner),
    ]
    return {"hostfile": hosts, "start.sh": layout.head + exports(shared) + f"exec {shlex.join(command)}\n"}


RANK_LINES = (
    "export RANK=${OMPI_COMM_WORLD_RANK:-$PMI_RANK} WORLD_SIZE=${OMPI_COMM_WORLD_SIZE:-$PMI_SIZE}"
    " LOCAL_RANK=${OMPI_COMM_WORLD_LOCAL_RANK:-$MPI_LOCALRANKID}; "
)
# Which of the two is installed as mpirun; Hydra knows the slots behind a host's name, too.
WHICH = (
    'case "$(mpirun --version 2>&1)" in\n'
    '*HYDRA*|*Intel*) exec mpirun -prepend-rank -n "$RANKS" -hosts "$HOSTS" "$@";;\n'
    '*) exec mpirun --tag-output --bind-to none --map-by slot -np "$RANKS" -H "$HOSTS" "$@";;\nesac'
)


def start_all(job: Job, master_port: int) -> dict[str, list[Process]]:
    """mpirun on the first node, over the user's own logins; the other nodes hold what their ranks need to begin."""
    rank = (
        "#!/bin/sh\n{exports}" + RANK_LINES.replace("; ", "\n") + "export LOCAL_WORLD_SIZE="
        "${OMPI_COMM_WORLD_LOCAL_SIZE:-$MPI_LOCALNRANKS}\nexec {python} {script}\n"
    )
    started: dict[str, list[Process]] = {}
    hosts = ",".join(f"{node}:{len(job.placements_on(node))}" for node in job.nodes)
    for node in job.nodes:
        variables = {"MASTER_ADDR": job.address_for(node), "MASTER_PORT": str(master_port)}
        own = {**shared_variables(job, node), **variables}
        process: Process = {"name": node, "argv": [], "environment": own, "shared": {"rank.sh": rank}}
        if node == job.nodes[0]:
            more = {"RANKS": str(job.world_size), "HOSTS": hosts}
            root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
            argv = ["sh", "-c", WHICH, "mpirun", "sh", "{shared:rank.sh}"]
            process |= {"name": ALL_RANKS, "argv": argv, "environment": {**own, **more, **root}}
        started[node] = [process]
    return started


def refuses(job: Job) -> str:
    """Ranks are numbered in the order of the hosts."""
    in_order = [place.rank for node in job.nodes for place in job.placements_on(node)]
    return "" if in_order == sorted(in_order) else "mpirun numbers the ranks host by host"


MPIRUN = Launcher(
    name="mpirun",
    description="Open MPI or Hydra, which log in to the other nodes",
    field_names=FieldNames(rank="OMPI_COMM_WORLD_RANK", nodes="-H"),
    starts_all_nodes=True,
    numbers_processes=True,
    programs=PROGRAMS,
    wrappers=(*PROGRAMS, "jsrun"),
    read=read,
    around=around,
    claims=lambda plan: bool(plan.wraps & set(PROGRAMS)) and plan.launcher.name != "mpirun",
    refusal_around="mpirun starts it",
    logs_in=lambda plan: (firm(plan.nodes) or 1) > 1 and plan.slurm is None,
    write=write,
    start=start_all,
    refuses=refuses,
    blames=AgentOutput(
        failed=re.compile(
            r"(?:Process name: \[\[\d+,\d+\],(?P<rank>\d+)\]\s+Exit code:\s+)(?P<exit>-?\d+)",
        ),
        line=re.compile(r"\[(?:\d+,)?(?P<rank>\d+)\](?:<std(?:out|err)>:)?\s?"),
    ),
    needs_logins=True,
)
