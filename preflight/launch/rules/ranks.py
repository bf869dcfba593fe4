"""Are the ranks of a job exactly 0 to N-1, and is every node's file there?"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from preflight.judge.ledger.findings import Finding, Where
from preflight.launch.field import Sourced, Unknown, firm, value_of
from preflight.launch.launchers.slurm import SRUN, tasks_of_node
from preflight.launch.plan import LaunchFiles, Plan, fail, warn
from preflight.launch.rules.groups import Group
from preflight.launch.text.marks import is_known
from preflight.launch.text.options import product
from preflight.said import joined, knowing, said

RANKS_LIMIT = 100_000
OF_A_TASK = re.compile(r"\$\{?SLURM_(NODEID|PROCID|LOCALID)\b")
TO_ALL = frozenset({"mpirun", "pdsh", "clush", "mpiexec", "jsrun", "blaunch", "pbsdsh", "pssh", "parallel-ssh"})
# For every host of a list that they read, one login each.
FOR_EACH = frozenset({"xargs", "parallel"})


def option_of(group: Group) -> str:
    """What the rank is called in the files of the group."""
    return group.plans[0].launcher.field_names.rank


def ranks_are_distinct(group: Group) -> Iterable[Finding]:
    """Two nodes with one rank: both wait for the rank that is missing, or one of them is refused."""
    places: dict[int, list[Where]] = {}
    programs: dict[int, set[str]] = {}
    sharing: dict[tuple[int, Where], set[str]] = {}  # the scripts that take a rank from one and the same line
    for plan in group.plans:
        rank = group.rank(plan)
        if isinstance(rank, Sourced) and rank.origin != "environment" and not plan.is_conditional:
            places.setdefault(rank.value, []).append(rank.where)
            programs.setdefault(rank.value, set()).add(value_of(plan.program) or "")
            if rank.where.file != plan.where.file:
                sharing.setdefault((rank.value, rank.where), set()).add(plan.where.file)
    if len(group.plans) < 2:
        return
    size = group.size
    free = [rank for rank in range(min(size or 0, RANKS_LIMIT)) if rank not in places]
    # services that share what an anchor holds stand in lines of their own
    shared = all("compose" in plan.wraps for plan in group.plans) and len({plan.where for plan in group.plans}) > 1
    remote = all(plan.is_logged_in and plan.spans_nodes for plan in group.plans)
    open_ranks = iter(free)
    for (taken, place), scripts in sharing.items():
        if len(scripts) > 1:
            name, listed = option_of(group), ", ".join(sorted(scripts)[:6])
            message = said(
                "{listed} name one file, {file}: each of them is {name} {taken}", listed, place.file, name, taken
            )
            fix = said(
                "A copy of {file} for each script, with {name} 0 to {scripts}.", place.file, name, len(scripts) - 1
            )
            unnamed = [plan.where.file for plan in group.plans if not plan.command and plan.where.file not in scripts]
            spare = [file for file in unnamed if file != place.file]
            if len(spare) == len(scripts) - 1:  # the file of every other node is there, and no script names it
                pairs = zip(sorted(scripts)[1:], spare, strict=True)
                written = os.path.dirname(str(group.plans[0].setting("config_file") or ""))
                fix = joined(
                    [
                        knowing(
                            said("--config_file {written} in {script}", path, script), words=f"--config_file {path}"
                        )
                        for script, path in (
                            (script, os.path.join(written, os.path.basename(config))) for script, config in pairs
                        )
                    ]
                )
            yield fail("ranks_are_distinct", message, place, fix=fix)
            places.pop(taken, None)
    for taken, where in places.items():
        in_turn = len(group.files) == 1 and len(programs[taken]) == len(where)  # training, then what judges it
        if len(where) > 1 and not in_turn and (len(set(where)) > 1 or remote or shared):
            name = option_of(group)
            message = said(
                "{name} {taken} is given {where} times: {w}",
                name,
                taken,
                len(where),
                ", ".join(list(dict.fromkeys(f"{w.file}:{w.line}" for w in where))[:6]),
            )
            own = next(open_ranks, None)
            fix = said("{name}: {own}", name, own) if own is not None else said("give each file its own {name}", name)
            if len(set(where)) == 1 and not shared:  # a loop, or a function that is called for every node
                fix = f"a {name} of its own in every turn: {name}=$i, with i=$((i + 1)) behind it"
            yield fail("ranks_are_distinct", message, *where, fix=fix)


def every_rank_is_there(group: Group) -> Iterable[Finding]:
    """A rank that no file takes is waited for until the rendezvous times out."""
    ranks = {value_of(group.rank(plan)) for plan in group.plans}
    size = group.size
    sure = all(firm(group.rank(plan)) is not None and not plan.is_conditional for plan in group.plans)
    if not group.is_set or size is None or not sure or size > RANKS_LIMIT:
        return
    where = [plan.where for plan in group.plans]
    missing = [rank for rank in range(size) if rank not in ranks]
    name = option_of(group)
    if len(group.files) > size and not group.reads_rank:
        message = said("{files} files, and the job has {size} node{s}", len(group.files), size, "s" * (size != 1))
        yield fail(
            "every_node_has_its_file",
            message,
            *where,
            fix=said("A set of {size} file{s}, {name} 0 to {size2}.", size, "s" * (size != 1), name, size - 1),
        )
    elif missing and len(ranks) == len(group.plans):
        listed = ", ".join(map(str, missing[:8])) + (", ..." if len(missing) > 8 else "")
        message = said("{name} {listed} of 0 to {size} is in no file", name, listed, size - 1)
        yield fail(
            "every_node_has_its_file",
            message,
            *where,
            fix=said(
                "Give the files of all {size} {reads_rank}; where there are only these {plans}, they wait "
                "for the others forever: write {plans} for {size}.",
                size,
                "processes" if group.reads_rank else "nodes",
                len(group.plans),
            ),
        )


def rank_is_in_range(plan: Plan) -> Iterable[Finding]:
    """A rank beyond the number of nodes is refused, or waits forever."""
    pairs = [(plan.node_rank, plan.nodes, "node rank", "nodes"), (plan.rank, plan.world_size, "RANK", "processes")]
    for rank, size, name, what in pairs:
        if not isinstance(rank, Sourced) or rank.origin == "tool":
            continue
        if rank.value < 0:
            yield fail(
                "rank_is_in_range", said("{name} {value}; ranks begin at 0", name, rank.value), rank.where, fix="0"
            )
        elif isinstance(size, Sourced) and size.origin != "environment" and rank.value >= size.value > 0:
            if size.origin == "tool" and plan.launcher.default_nodes_count and rank.value > 0:
                continue  # num_machines_is_given tells it
            message = said(
                "{name} {value} with {value2} {what}; ranks are 0 to {value3}",
                name,
                rank.value,
                size.value,
                what,
                size.value - 1,
            )
            fix = (
                said("0 to {value}", size.value - 1)
                if size.value > 1
                else said("{value} {what} or more, in every file", rank.value + 1, what)
            )
            yield fail("rank_is_in_range", message, rank.where, size.where, fix=fix)


def static_rendezvous_has_ranks(plan: Plan) -> Iterable[Finding]:
    """Without --node_rank every node of a static rendezvous takes itself for node 0."""
    has_default = plan.launcher.default_nodes_count  # accelerate's machine_rank is 0 where none is given
    static = plan.launcher.rendezvous_gives_ranks and not has_default and value_of(plan.rendezvous) == "static"
    if not static or not plan.spans_nodes or plan.is_opaque or plan.is_standalone or plan.is_of_a_manifest:
        return
    nodes = plan.nodes.where if isinstance(plan.nodes, Sourced) else plan.where
    if plan.node_rank is not None:
        return
    misled = [name for name in ("NODE_RANK", "RANK") if name in plan.environment]
    if misled:
        field = plan.environment[misled[0]]
        place = field.where if field is not None else plan.where
        message = said(
            "{misled} is set, and {name} reads --node_rank (or PET_NODE_RANK): every node becomes node 0",
            misled[0],
            plan.launcher.name,
        )
        yield fail("rank_is_read_where_it_is_set", message, plan.where, place, fix=f"--node_rank=${misled[0]}")
        return
    message = said(
        "{firm} nodes with a static rendezvous and no --node_rank: every node becomes node 0", firm(plan.nodes)
    )
    yield fail(
        "static_rendezvous_has_node_ranks",
        message,
        plan.where,
        nodes,
        fix="--node_rank=0 (1, 2, ... on the others), or --rdzv_backend=c10d",
    )


def tasks_are_numbered_apart(plan: Plan) -> Iterable[Finding]:
    """A rank in a command that starts all nodes, or worked out before it, is the same on each of them."""
    rank, option = plan.node_rank, plan.launcher.field_names.rank_option
    is_static = value_of(plan.rendezvous) == "static" or not plan.launcher.rendezvous_gives_ranks
    by_slurm = "srun" in plan.wraps and not plan.is_one_step
    # what a file that is not given says, the allocation says too: srun starts the command on each of its nodes
    asked = firm(plan.slurm.number("nodes")) if by_slurm and plan.is_opaque and plan.slurm is not None else None
    several = plan.spans_nodes or ((asked or 1) > 1 and plan.launcher.has_agent)
    if plan.launcher.numbers_processes or not is_static or not several or plan.is_of_a_manifest:
        return
    last = (firm(plan.nodes) or 1) - 1
    is_listed = plan.is_logged_in and bool(plan.wraps & FOR_EACH)
    is_for_all = (plan.wraps & TO_ALL and not plan.loop and not plan.in_background) or is_listed
    if by_slurm and isinstance(rank, Unknown) and not rank.per_node and OF_A_TASK.search(rank.expression):
        message = said(
            "{option} {expression} is worked out in the batch script, where it is 0: every node becomes node 0",
            option,
            rank.expression,
        )
        fix = f"srun bash -c '{plan.launcher.name} ... {option} {rank.expression} ...', in single quotes"
        yield fail("static_rendezvous_has_node_ranks", message, rank.where, fix=fix)
    elif isinstance(rank, Unknown) and WITHIN_A_NODE.fullmatch(rank.expression) and (by_slurm or is_for_all):
        message = said(
            "{option} {expression} counts within a node, from 0 on each: every node becomes node 0",
            option,
            rank.expression,
        )
        fix = f"{option}=$SLURM_NODEID" if by_slurm else f"{option}=$OMPI_COMM_WORLD_RANK"
        yield fail("static_rendezvous_has_node_ranks", message, rank.where, fix=fix)
    elif isinstance(rank, Sourced) and rank.origin == "tool" and (by_slurm or is_for_all) and not plan.is_opaque:
        # a default_config.yaml of each node may say another
        tell = fail if by_slurm or plan.setting("config_file") else warn
        message = said(
            "no {option}, and one command starts all {firm} nodes: {name} takes {value} on each of them",
            option,
            firm(plan.nodes),
            plan.launcher.name,
            rank.value,
        )
        number = "$SLURM_NODEID" if by_slurm else "$OMPI_COMM_WORLD_RANK"
        fix = said(
            "{name} ... --rdzv_backend c10d, or {option} {number} inside `bash -c '...'`",
            plan.launcher.name,
            option,
            number,
        )
        yield tell("static_rendezvous_has_node_ranks", message, plan.where, fix=fix)
    elif isinstance(rank, Sourced) and rank.origin == "written" and (by_slurm or is_for_all):
        message = said(
            "{option} {value} on every node: one command starts all {firm} of them",
            option,
            rank.value,
            firm(plan.nodes),
        )
        own = "$SLURM_NODEID" if by_slurm else "$PBS_NODENUM" if "pbsdsh" in plan.wraps else "$OMPI_COMM_WORLD_RANK"
        fix = said("{option}={own} inside `bash -c '...'`", option, own)
        if is_listed:
            fix = said(
                "{option} 0 to {last}, each in the line of its host: `nl -v0 HOSTS | xargs -L1 ...`", option, last
            )
        yield fail("static_rendezvous_has_node_ranks", message, rank.where, fix=fix)


def loops_count_their_nodes(files: LaunchFiles) -> Iterable[Finding]:
    """A loop over hosts that are not known here gives each of them the rank that stands in the command."""
    for plan in files.plans:
        rank, option = plan.node_rank, plan.launcher.field_names.rank_option
        is_static = value_of(plan.rendezvous) == "static" or not plan.launcher.rendezvous_gives_ranks
        host_varies = any("$" in word or not is_known(word) for word in plan.wrapper)
        if not plan.loop or not plan.is_logged_in or not host_varies or not is_static or plan.is_conditional:
            continue
        few = firm(plan.nodes) is not None and (firm(plan.nodes) or 0) < 3  # the loop may have one worker
        if not isinstance(rank, Sourced) or rank.origin != "written" or few or plan.is_by_hand:
            continue
        lines = files.texts.get(rank.file, "").split("\n")
        line = lines[rank.line - 1] if rank.line <= len(lines) else ""
        if re.search(rf"{re.escape(option)}[= ]+[\"']?{rank.value}\b", line):
            message = said(
                "{option} {value} for every host of the loop: all of them are node {value}", option, rank.value
            )
            yield fail("ranks_are_distinct", message, rank.where, fix=f"{option}=$i, with i=$((i + 1)) in the loop")


def local_rank_is_free(group: Group) -> Iterable[Finding]:
    """Several processes of a node with one LOCAL_RANK all take one GPU."""
    if not group.reads_rank:
        return
    by_file: dict[str, list[Plan]] = {}
    for plan in group.plans:
        by_file.setdefault(plan.where.file, []).append(plan)
    for plans in by_file.values():
        fixed = [
            plan.local_rank
            for plan in plans
            if isinstance(plan.local_rank, Sourced) and plan.local_rank.origin == "written"
        ]
        if (
            len(plans) > 1
            and len(fixed) == len(plans)
            and len({rank.value for rank in fixed}) == 1
            and not plans[0].is_logged_in
            and len({value_of(plan.rank) for plan in plans}) == len(plans)
        ):
            message = said(
                "LOCAL_RANK {value} for {plans} processes of one node: all of them take one GPU",
                fixed[0].value,
                len(plans),
            )
            fix = "LOCAL_RANK=$i, counted on each node from 0"
            yield fail("local_rank_is_not_fixed", message, fixed[0].where, fix=fix)


def slurm_local_rank(plan: Plan) -> Iterable[Finding]:
    """A fixed LOCAL_RANK or RANK under srun is the same in every task."""
    if plan.launcher is not SRUN or plan.slurm is None:
        return
    tasks = firm(plan.slurm.number("ntasks_per_node", "ntasks"))
    for name, value, right in (("LOCAL_RANK", plan.local_rank, "SLURM_LOCALID"), ("RANK", plan.rank, "SLURM_PROCID")):
        if isinstance(value, Unknown) and not value.per_node and OF_A_TASK.search(value.expression):
            message = said(
                "{name}={expression} is worked out in the batch script, where it is 0, for every task",
                name,
                value.expression,
            )
            fix = f"srun bash -c '{name}=${right} python ...', in single quotes"
            yield fail("local_rank_is_not_fixed", message, value.where, fix=fix)
        if isinstance(value, Sourced) and value.origin == "written" and (tasks or 1) > 1:
            message = said("{name}={value} is the same in all {tasks} tasks of srun", name, value.value, tasks)
            yield fail("local_rank_is_not_fixed", message, value.where, fix=f"{name}=${right} inside the task")


# What the processes of one node have in common, and what processes of different nodes have in common.
OF_A_NODE = re.compile(r"[\"']?\$\{?(SLURM_NODEID|OMPI_COMM_WORLD_NODE_RANK)\}?[\"']?")
WITHIN_A_NODE = re.compile(
    r"[\"']?\$\{?(SLURM_LOCALID|OMPI_COMM_WORLD_LOCAL_RANK|MPI_LOCALRANKID|PMI_LOCAL_RANK|PALS_LOCAL_RANKID)\}?[\"']?"
)

SIZE_OF_A_NODE = re.compile(r"[\"']?\$\{?(OMPI_COMM_WORLD_LOCAL_SIZE|MPI_LOCALNRANKS|PMI_LOCAL_SIZE)\}?[\"']?")


def rank_is_of_a_process(plan: Plan) -> Iterable[Finding]:
    """RANK counts all processes of the job: the number of the node, or the number within it, is given out again."""
    rank, size = plan.rank, plan.environment.get("WORLD_SIZE")
    if not plan.launcher.numbers_processes or not plan.launcher.starts_all_nodes:
        return
    if isinstance(size, Unknown) and SIZE_OF_A_NODE.fullmatch(size.expression) and plan.spans_nodes:
        message = said(
            "WORLD_SIZE={expression} counts the processes of one node, and there are {firm}",
            size.expression,
            firm(plan.nodes),
        )
        yield fail("world_size_counts_processes", message, size.where, fix="WORLD_SIZE=$OMPI_COMM_WORLD_SIZE")
    if not isinstance(rank, Unknown):
        return
    each = firm(tasks_of_node(plan)) if plan.slurm is not None else firm(plan.processes_per_node)
    right = plan.launcher.field_names.rank
    if OF_A_NODE.fullmatch(rank.expression) and (each or 1) > 1:
        message = said("RANK={expression} is the same in all {each} processes of a node", rank.expression, each)
    elif WITHIN_A_NODE.fullmatch(rank.expression) and plan.spans_nodes:
        message = said("RANK={expression} begins at 0 on each of {firm} nodes", rank.expression, firm(plan.nodes))
    else:
        return
    yield fail("ranks_are_distinct", message, rank.where, fix=f"RANK=${right}")


def slurm_world_size(plan: Plan) -> Iterable[Finding]:
    """WORLD_SIZE is the number of all tasks; with another, ranks wait for some that nobody starts, or are refused."""
    size, slurm = plan.world_size, plan.slurm
    if plan.launcher is not SRUN or slurm is None or not isinstance(size, Sourced) or plan.master_address is None:
        return
    tasks = slurm.number("ntasks") or product(slurm.number("nodes"), slurm.number("ntasks_per_node"))
    if not isinstance(tasks, Sourced) or tasks.value == size.value or size.origin != "written":
        return
    message = said("WORLD_SIZE={value}, and srun starts {value2} tasks", size.value, tasks.value)
    tell = fail if plan.rank is not None else warn  # a program may count the ranks by Slurm's own variables
    yield tell("world_size_counts_processes", message, size.where, tasks.where, fix="WORLD_SIZE=$SLURM_NTASKS")


def world_size_counts_processes(group: Group) -> Iterable[Finding]:
    """WORLD_SIZE is the number of processes: with one process a node, the other GPUs of the nodes stay idle."""
    if not group.reads_rank or not all(plan.is_by_hand for plan in group.plans):
        return
    by_file: dict[str, list[Plan]] = {}
    for plan in group.plans:
        by_file.setdefault(plan.where.file, []).append(plan)
    single = [plans[0] for plans in by_file.values() if len(plans) == 1]
    if len(single) != len(by_file):
        return
    for plan in single[:1]:
        size = plan.world_size
        if (
            isinstance(size, Sourced)
            and size.value > 1
            and value_of(plan.local_rank) == 0
            and value_of(plan.rank) is not None
        ):
            if value_of(plan.master_address) in ("localhost", "127.0.0.1") or "ssh" in plan.wraps:
                continue
            message = said(
                "WORLD_SIZE={value} counts processes, and each node starts one (LOCAL_RANK=0): where nodes "
                "have several GPUs all but one stay idle",
                size.value,
            )
            fix = "torchrun --nnodes=N --nproc_per_node=GPUS, or one process for each GPU with WORLD_SIZE=N*GPUS"
            yield warn("world_size_counts_processes", message, size.where, fix=fix)


PLAN_RULES = (
    rank_is_in_range,
    static_rendezvous_has_ranks,
    tasks_are_numbered_apart,
    slurm_local_rank,
    rank_is_of_a_process,
    slurm_world_size,
)


def ranks_go_on_from_node_to_node(group: Group) -> Iterable[Finding]:
    """A loop that numbers a node's processes from 0 gives every node the same ranks, short of the whole world."""
    plans, sizes = group.plans, {firm(plan.world_size) for plan in group.plans}
    is_whole = len(group.files) == 1 and len(sizes) == 1 and all(plan.is_by_hand for plan in plans)
    is_whole = is_whole and (all(plan.loop for plan in plans) or len({plan.where for plan in plans}) == 1)
    size = next(iter(sizes), None)
    own = [firm(plan.local_rank) for plan in plans]
    if not is_whole or not size or not 1 < len(plans) < size or any(plan.is_logged_in for plan in plans):
        return
    if own != list(range(len(plans))) or own != [firm(plan.rank) for plan in plans]:
        return
    rank, world = plans[0].rank, plans[0].world_size
    message = said(
        "RANK is 0 to {last} on every node that runs this loop, and WORLD_SIZE is {size}", len(plans) - 1, size
    )
    places = [held.where for held in (rank, world) if isinstance(held, Sourced)]
    fix = f"RANK=$((NODE_RANK * {len(plans)} + LOCAL_RANK))"
    yield warn("world_size_counts_processes", message, *places, fix=fix)


GROUP_RULES = (ranks_go_on_from_node_to_node, ranks_are_distinct, every_rank_is_there, local_rank_is_free)
FILES_RULES = (loops_count_their_nodes,)
