"""Do the processes that mpirun starts have slots, a number each, the variables of the job and the address of rank 0?"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterable, Mapping

from preflight.judge.ledger.findings import Finding
from preflight.launch.field import Field, Sourced, Unknown, firm, value_of
from preflight.launch.launchers.deepspeed.hostfile import address_is_of_the_first
from preflight.launch.launchers.mpirun import command as mpirun
from preflight.launch.launchers.mpirun.options import EACH, HOSTFILES, HOSTS, parse
from preflight.launch.plan import LaunchFiles, Plan, fail, warn
from preflight.launch.text.expansion import Assigned
from preflight.launch.text.marks import is_firm
from preflight.launch.text.shell import Word
from preflight.said import said

# What each rank learns from mpirun: of Open MPI, of Hydra.
OF_A_RANK = re.compile(r"\$\{?(OMPI_COMM_WORLD_\w+|PMIX?_(RANK|SIZE)|PMI_\w+|MPI_LOCAL\w+|MV2_COMM_WORLD_\w+)")
# What a job reads on every node, and mpirun leaves behind on the first unless it is handed on.
STEERING = re.compile(r"(NCCL_|GLOO_|TORCH_NCCL_|CUDA_|MASTER_ADDR$|MASTER_PORT$|LD_LIBRARY_PATH$|UCX_|FI_|HF_HOME$)")


def ranks_are_not_fixed(plan: Plan) -> Iterable[Finding]:
    """mpirun numbers its processes; a number that the command line holds is the same for all of them."""
    starter = "jsrun" if "jsrun" in plan.wraps else "mpirun"
    is_inside = "hands on" not in plan.settings  # a shell behind mpirun works it out for each of them
    for name, held, right in (
        ("RANK", plan.environment.get("RANK"), "OMPI_COMM_WORLD_RANK"),
        ("LOCAL_RANK", plan.environment.get("LOCAL_RANK"), "OMPI_COMM_WORLD_LOCAL_RANK"),
    ):
        several = (firm(plan.world_size) or 1) > 1
        fix = f"mpirun ... bash -c 'export {name}=${right}; exec python ...'"
        if is_inside and (not isinstance(held, Unknown) or held.per_node):
            continue
        if isinstance(held, Unknown) and OF_A_RANK.search(held.expression):
            message = said(
                "{name}={expression} is worked out where {starter} is called, and is empty there for every rank",
                name,
                held.expression,
                starter,
            )
            yield fail("local_rank_is_not_fixed", message, held.where, fix=fix)
        elif isinstance(held, Sourced) and held.origin == "written" and several and held.value.strip().isdigit():
            message = said(
                "{name}={value} is the same in all {firm} processes that {starter} starts",
                name,
                held.value,
                firm(plan.world_size),
                starter,
            )
            yield fail("local_rank_is_not_fixed", message, held.where, fix=fix)


def slots_are_enough(plan: Plan) -> Iterable[Finding]:
    """Open MPI starts no more processes than there are slots, and fills the first hosts first."""
    world, nodes, each = plan.world_size, firm(plan.nodes), firm(plan.processes_per_node)
    behind = mpirun.given_of(plan.wrapper[1:] if plan.settings else plan.wrapper)
    around = parse(tuple(Word(word, plan.where.line) for word in behind))
    given = {*plan.settings, *around.one, *around.flags}
    is_hydra = plan.setting("is hydra") or around.is_hydra
    if not isinstance(world, Sourced) or nodes is None or each is None or not given.intersection((*HOSTS, *HOSTFILES)):
        return
    if is_hydra:
        return
    is_of_each = bool(given.intersection(EACH))  # -N, or ppr:N:node: no more on a host, whatever its slots are
    free = bool(given & {"oversubscribe", "map-by"}) or is_of_each
    mapped = str(plan.setting("map-by") or (around.one["map-by"].plain if "map-by" in around.one else "")).lower()
    shares = "oversubscribe" in given or "oversubscribe" in mapped or (not mapped and "map-by" in given)
    slots = nodes * each
    if world.value > slots and (not shares or is_of_each):
        message = said(
            "-np {value} on {nodes} host{s} with {slots} slot{s2}: Open MPI refuses to start",
            world.value,
            nodes,
            "s" * (nodes != 1),
            slots,
            "s" * (slots != 1),
        )
        yield fail("mpi_slots_are_enough", message, world.where, fix=f"-np {slots}")
    elif nodes > 1 and world.value <= slots - each and not free:
        message = said(
            "-np {value} of {slots} slots: Open MPI fills the first hosts; of {nodes} hosts without a "
            "process: {nodes2}",
            world.value,
            slots,
            nodes,
            nodes - -(-world.value // each),
        )
        yield warn("mpi_slots_are_enough", message, world.where, fix=said("-np {slots}, or --map-by ppr:N:node", slots))


def variables_are_handed_on(plan: Plan) -> Iterable[Finding]:
    """Open MPI gives the other nodes what -x names; the rest of the shell's variables stay on the first."""
    has_hosts = any(name in plan.settings for name in (*HOSTS, *HOSTFILES))
    if plan.setting("is hydra") or plan.slurm is not None or not has_hosts or (firm(plan.nodes) or 1) < 2:
        return
    yield from _left(plan, plan.environment, set(str(plan.setting("hands on") or "").split()))


def stays_behind(plan: Plan, variables: Mapping[str, Assigned]) -> Iterable[Finding]:
    """The same for a command in a shell behind mpirun: what the shell that calls mpirun exports, and -x leaves out."""
    given = parse(tuple(Word(word, plan.where.line) for word in mpirun.given_of(plan.wrapper)))
    several = given.first((*HOSTS, *HOSTFILES)) is not None and (firm(plan.nodes) or 1) > 1
    is_read = plan.launcher.name == "mpirun" and plan.settings  # by the rule above
    if is_read or not several or given.is_hydra or plan.slurm is not None:
        return
    outside = {name for name, held in variables.items() if held.is_from_afar}
    yield from _left(plan, {name: held for name, held in plan.environment.items() if name in outside}, given.forwards)


def _left(plan: Plan, exported: Mapping[str, Field[str]], handed: Container[str]) -> Iterable[Finding]:
    known = {name: held for name, held in exported.items() if held is not None}
    left = [name for name in known if STEERING.match(name) and name not in handed]
    if left:
        places = [known[name].where for name in left]
        message = said(
            "{left}: exported here, and Open MPI hands on what -x names; the other nodes do not see it", ", ".join(left)
        )
        yield warn("mpi_hands_variables_on", message, plan.where, *places, fix=" ".join(f"-x {name}" for name in left))


def rank_0_is_on_the_first_host(files: LaunchFiles) -> Iterable[Finding]:
    """mpirun starts rank 0 on the first of its hosts: under the address of another one nobody listens."""
    for plan in files.plans:
        words = tuple(Word(word, plan.where.line) for word in mpirun.given_of(plan.wrapper))
        given = {**parse(words).one, **plan.settings}
        if plan.launcher is not mpirun.MPIRUN or plan.slurm is not None or given.keys() & {"rf", "rankfile"}:
            continue
        for name in (*HOSTS, *HOSTFILES):
            held = given.get(name)
            value = held.plain if isinstance(held, Word) else value_of(held) or ""
            base = os.path.basename(value)
            hostfile = next((one for one in files.hostfiles if os.path.basename(one.file) == base), None)
            if name in HOSTS and is_firm(value):
                hosts = [piece.partition(":")[0] for piece in value.split(",") if piece]
                yield from address_is_of_the_first(plan, hosts, f"-{name}", plan.where)
            elif name in HOSTFILES and hostfile is not None:
                hosts = [host.name for host in hostfile.hosts]
                yield from address_is_of_the_first(plan, hosts, hostfile.file, hostfile.where)


def processes_are_started(plan: Plan) -> Iterable[Finding]:
    """What is wrong with a start of mpirun by itself."""
    if plan.launcher is mpirun.MPIRUN:
        yield from ranks_are_not_fixed(plan)
        yield from slots_are_enough(plan)
        yield from variables_are_handed_on(plan)


PLAN_RULES = (processes_are_started,)
NAMING_HOSTS = ("-H", "--hosts", "-hostfile", "--hostfile")


def horovodruns(files: LaunchFiles) -> list[tuple[str, ...]]:
    """The words of each `horovodrun` that starts other hosts: it logs in to them, and looks for an interface of all."""
    commands = [command for script in files.scripts for command in script.commands]
    found = [tuple(word.plain for word in command.words) for command in commands]
    return [
        words
        for words in found
        if words[0].rpartition("/")[2] == "horovodrun" and any(word.partition("=")[0] in NAMING_HOSTS for word in words)
    ]


FILES_RULES = (rank_0_is_on_the_first_host,)
