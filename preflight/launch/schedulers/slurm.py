"""Are the nodes, tasks, GPUs and CPUs that a script asks Slurm for those that the job in it counts on?"""

from __future__ import annotations

import math
from collections.abc import Iterable

from preflight.judge.ledger.findings import Finding, Where
from preflight.launch.field import Sourced, firm, value_of
from preflight.launch.launchers.mpirun import command as mpirun
from preflight.launch.launchers.slurm import SRUN, gpus_of_node, listed_nodes, tasks_of_node
from preflight.launch.plan import Plan, Slurm, fail, warn
from preflight.launch.text.programs import argument_number
from preflight.said import joined, said


def tasks_are_counted_once(plan: Plan) -> Iterable[Finding]:
    """srun starts the launcher once for each task, and the launcher starts a process for each GPU."""
    by_srun = "srun" in plan.wraps
    tasks = tasks_of_node(plan) if by_srun else mpirun.tasks_of_node(plan)
    if not plan.launcher.has_agent or not isinstance(tasks, Sourced) or tasks.value < 2:
        return
    each = plan.processes_per_node
    each_text = said("{firm} processes", firm(each)) if firm(each) else "its processes"
    if value_of(each) == 1 and not plan.launcher.states_world_size:
        return
    message = said(
        "{value} tasks on each node, and {name} starts {each_text} in every one of them",
        tasks.value,
        plan.launcher.name,
        each_text,
    )
    rule = "slurm_tasks_are_counted_once" if by_srun else "tasks_are_counted_once"
    yield fail(rule, message, tasks.where, plan.where, fix=_one_task_each(plan, tasks) if by_srun else "mpirun -N 1")


def _one_task_each(plan: Plan, tasks: Sourced[int]) -> str:
    """The number of tasks that was given, of each node or of all, as it has to be for one on each node."""
    slurm = plan.slurm
    total, nodes = (slurm.number("ntasks"), firm(slurm.number("nodes"))) if slurm is not None else (None, None)
    option = f"--ntasks={nodes}" if isinstance(total, Sourced) and nodes is not None else "--ntasks-per-node=1"
    held = slurm.number("ntasks_per_node") if slurm is not None else None
    if held is not None and total is not None:
        option = said("--ntasks={nodes} and --ntasks-per-node=1", nodes)
    in_step = tasks.where == plan.where and "srun" in plan.wraps
    return option if in_step else " and ".join(f"#SBATCH {piece}" for piece in option.split(" and "))


def tasks_see_their_gpus(plan: Plan) -> Iterable[Finding]:
    """--gpus-per-task shows a task its own GPU only, as device 0."""
    if plan.slurm is None:
        return
    bound = value_of(plan.slurm.options.get("gpu_bind")) or ""
    is_single = bound.removeprefix("verbose,").startswith(("single", "per_task"))
    value = plan.slurm.options.get("gpus_per_task") or (plan.slurm.options.get("gpu_bind") if is_single else None)
    gpus = plan.slurm.number("gpus_per_task")
    shared = "allow-task-sharing" in (value_of(plan.slurm.options.get("gres_flags")) or "")
    if value is None or shared or (bound and not is_single):  # with these a task sees all GPUs of the step on its node
        return
    each = firm(plan.processes_per_node)
    if plan.launcher.has_agent:
        if gpus is not None and each is not None and isinstance(gpus, Sourced) and gpus.value < each:
            message = said(
                "a task sees {value} GPU{s} (--gpus-per-task), and {name} starts {each} processes in it",
                gpus.value,
                "s" * (gpus.value != 1),
                plan.launcher.name,
                each,
            )
            yield fail(
                "slurm_tasks_see_their_gpus", message, value.where, plan.where, fix=f"#SBATCH --gpus-per-node={each}"
            )
        return
    tasks = tasks_of_node(plan)
    if plan.launcher is SRUN and (firm(tasks) or 1) > 1:
        message = (
            "every task sees its own GPU only, as device 0: a program that takes its local rank as the device"
            " stops with invalid device ordinal"
        )
        words = [value_of(argument) or "" for argument in plan.arguments]
        named = argument_number(words, "devices", "gpus")
        is_sure = named is not None and named > (firm(gpus) or 1)
        yield (fail if is_sure else warn)(
            "slurm_tasks_see_their_gpus",
            message,
            value.where,
            plan.where,
            fix="#SBATCH --gpus-per-node=N instead of --gpus-per-task; or --gpu-bind=none",
        )


FIRST_NODE = '$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)'


def slurm_nodes_fit(plan: Plan) -> Iterable[Finding]:
    """What the script asks Slurm for is what the launcher counts on."""
    if plan.slurm is None:
        return
    asked, allocated = plan.slurm.number("nodes"), plan.slurm.allocated
    if isinstance(asked, Sourced) and isinstance(allocated, Sourced) and asked.value > allocated.value:
        message = f"srun asks for {asked.value} nodes, and the script has {allocated.value}: Slurm refuses the step"
        yield fail(
            "slurm_nodes_fit_the_job", message, asked.where, allocated.where, fix=f"#SBATCH --nodes={asked.value}"
        )
    words = [value_of(argument) or "" for argument in plan.arguments]
    named, devices = argument_number(words, "num_nodes", "num-nodes"), argument_number(words, "devices", "gpus")
    yield from _nodes_fit(plan, plan.slurm, named)
    yield from _tasks_fit(plan, plan.slurm, named, devices)
    yield from _gpus_fit(plan, plan.slurm)
    yield from _list_fits(plan.slurm)


def _list_fits(slurm: Slurm) -> Iterable[Finding]:
    """Slurm gives a job no more nodes than it asks for, whatever --nodelist names."""
    named, asked = slurm.options.get("nodelist"), slurm.allocated or slurm.number("nodes")
    listed = listed_nodes(named)
    if slurm.some_nodes or named is None or listed is None or not isinstance(asked, Sourced) or listed <= asked.value:
        return
    message = said(
        "--nodelist names {listed} nodes, and {value} are asked for: Slurm drops the others", listed, asked.value
    )
    yield warn("slurm_nodes_fit_the_job", message, named.where, asked.where, fix=f"#SBATCH --nodes={listed}")


def _nodes_fit(plan: Plan, slurm: Slurm, named: int | None) -> Iterable[Finding]:
    """As many nodes as the job counts on; `named` are those that the program's arguments name."""
    asked = slurm.number("nodes")
    wanted = plan.nodes if not plan.launcher.numbers_processes else None
    where = asked.where if asked is not None else plan.where
    count = firm(wanted) if isinstance(wanted, Sourced) and wanted.origin == "written" else named
    have = firm(asked) if asked is not None else 1
    has_tasks = slurm.options.get("ntasks") is not None or slurm.options.get("nodelist") is not None
    by_default = isinstance(plan.nodes, Sourced) and plan.nodes.origin == "tool" and "srun" in plan.wraps
    if by_default and firm(slurm.number("ntasks")) == 1:
        also = said(" and {counting}", _counting(plan, have))
        yield from _every_node_has_a_task(plan, have, also=also)  # srun lets go of the nodes that have no task
    elif by_default and (have or 1) > 1:
        message = (
            f"srun starts {plan.launcher.name} on {have} nodes, and it counts on 1: every node becomes a world of its"
            " own"
        )
        yield fail("slurm_nodes_fit_the_job", message, plan.where, where, fix=_counting(plan, have))
    left_to_tasks = asked is None and ((has_tasks and named is None) or not slurm.has_directives)
    is_within = firm(plan.fewest_nodes) is not None and (firm(plan.fewest_nodes) or 0) <= (have or 0) <= (count or 0)
    is_whole = not (plan.is_one_step and (have or 0) < (count or 0))
    if count is not None and have is not None and not is_within and count != have and not left_to_tasks and is_whole:
        asks = have if asked is not None else "none, which means 1"
        message = said(
            "the job needs {count} node{s}, and the script asks Slurm for {asks}", count, "s" * (count != 1), asks
        )
        fix = f"#SBATCH --nodes={count}"
        if asked is not None and firm(slurm.allocated) == count:  # the step asks for less than the script
            message = said("the job needs {count} node{s}, and srun takes {have}", count, "s" * (count != 1), have)
            fix = f"srun --nodes={count} --ntasks={count}"
        elif have is not None and firm(slurm.number("ntasks")) == have and plan.launcher.has_agent:
            fix = joined([fix, f"#SBATCH --ntasks={count}"], " and ")
        yield fail("slurm_nodes_fit_the_job", message, plan.where, where, fix=fix)
    if count == have:
        yield from _every_node_has_a_task(plan, count)


def _tasks_fit(plan: Plan, slurm: Slurm, named: int | None, devices: int | None) -> Iterable[Finding]:
    """As many tasks on each node as the program's arguments name devices."""
    asked, tasks = slurm.number("nodes"), slurm.number("ntasks_per_node")
    started = _tasks_there(plan, named or (firm(asked) if asked is not None else 1))
    if plan.launcher is not SRUN or named is None or devices is None or started in (None, devices):
        return
    if _is_interactive(slurm, plan):
        return
    message = said(
        "{devices} device{s} on each node, and Slurm starts {started} task{s2} there",
        devices,
        "s" * (devices != 1),
        started,
        "s" * (started != 1),
    )
    where = next((held.where for held in (tasks, asked) if held is not None), plan.where)
    fix = f"#SBATCH --ntasks-per-node={devices}"
    if not slurm.has_directives:
        fix = "--job-name=interactive" if slurm.options.get("pty") else f"--ntasks-per-node={devices}"
    yield fail("slurm_tasks_fit_the_job", message, plan.where, *_told(plan), where, fix=fix)


def _told(plan: Plan) -> list[Where]:
    """The lines of the program itself that count devices and nodes."""
    words = [word for word in plan.arguments if isinstance(word, Sourced)]
    return [word.where for word in words if word.value.startswith("--trainer.") and word.file != plan.where.file]


def _is_interactive(slurm: Slurm, plan: Plan) -> bool:
    """Whether Lightning sees a session in which Slurm starts no ranks, by the name of the job.

    Outside a batch script srun calls the job after the program that it starts.
    """
    named = value_of(slurm.options.get("job_name"))
    if named is None and not slurm.has_directives:
        named = next((word for word in plan.wrapper if word.rpartition("/")[2] == "bash"), "").rpartition("/")[2]
    return named in ("bash", "interactive")


def _gpus_fit(plan: Plan, slurm: Slurm) -> Iterable[Finding]:
    """No more processes on each node than Slurm gives it GPUs."""
    gpus, each = gpus_of_node(slurm), plan.processes_per_node
    if (
        isinstance(gpus, Sourced)
        and isinstance(each, Sourced)
        and plan.launcher.has_agent
        and each.origin == "written"
        and each.value > gpus.value
    ):
        message = said(
            "{value} process{s} on each node, and Slurm gives it {value2} GPU{s2}",
            each.value,
            "es" * (each.value != 1),
            gpus.value,
            "s" * (gpus.value != 1),
        )
        yield fail(
            "processes_match_devices", message, each.where, gpus.where, fix=f"#SBATCH --gpus-per-node={each.value}"
        )
    elif isinstance(gpus, Sourced) and not plan.in_background and not plan.is_one_step:
        yield from _gpus_are_shared_out(plan, gpus)


def _gpus_are_shared_out(plan: Plan, gpus: Sourced[int]) -> Iterable[Finding]:
    """A process for every GPU: with fewer some stay idle, with more tasks of srun than GPUs two share one."""
    each = plan.processes_per_node if plan.launcher.has_agent else tasks_of_node(plan)
    if not isinstance(each, Sourced) or each.origin != "written" or plan.device_ids is not None:
        return
    by_slurm = plan.launcher is SRUN and plan.spans_nodes
    if plan.launcher.has_agent and 1 < each.value < gpus.value:
        message = said(
            "{value} processes on each node, and Slurm gives it {value2} GPUs: {value3} idle",
            each.value,
            gpus.value,
            gpus.value - each.value,
        )
        yield warn(
            "processes_match_devices",
            message,
            each.where,
            gpus.where,
            fix=said("{value} processes on each node", gpus.value),
        )
    elif by_slurm and each.value > gpus.value > 0 and "gpus_per_task" not in (plan.slurm.options if plan.slurm else {}):
        message = said(
            "{value} tasks on each node, and Slurm gives it {value2} GPU{s}: NCCL refuses two ranks on one",
            each.value,
            gpus.value,
            "s" * (gpus.value != 1),
        )
        yield warn(
            "processes_match_devices", message, each.where, gpus.where, fix=f"#SBATCH --gpus-per-node={each.value}"
        )


def _counting(plan: Plan, nodes: int | None) -> str:
    """The options by which the launcher counts on so many nodes; torchrun without any needs a place to meet too."""
    options = f"{plan.launcher.field_names.nodes}={nodes}"
    if plan.master_address is None and plan.launcher.rendezvous_gives_ranks and plan.rendezvous_id is None:
        options += f" --rdzv_backend=c10d --rdzv_id=$SLURM_JOB_ID --rdzv_endpoint={FIRST_NODE}:29500"
    return options


def _every_node_has_a_task(plan: Plan, count: int | None, *, also: str = "") -> Iterable[Finding]:
    """Fewer tasks than nodes: Slurm starts the launcher on the first nodes only."""
    total = plan.slurm.number("ntasks") if plan.slurm is not None else None
    if not plan.launcher.has_agent or plan.is_one_step or count is None or not isinstance(total, Sourced):
        return
    if "srun" in plan.wraps and 0 < total.value < count:
        message = said(
            "--ntasks={value} for {count} nodes: Slurm starts {name} on {value} of them only",
            total.value,
            count,
            plan.launcher.name,
        )
        in_step = total.where == plan.where
        fix = f"--ntasks={count}" if in_step else f"#SBATCH --ntasks={count}"
        yield fail("slurm_tasks_fit_the_job", message, total.where, plan.where, fix=fix + also)


def _tasks_there(plan: Plan, nodes: int | None) -> int | None:
    """The tasks on a node by ntasks-per-node, or ntasks shared out over the nodes; Slurm's own default is one."""
    slurm = plan.slurm
    each = tasks_of_node(plan)
    if each is not None:
        return firm(each)
    total = slurm.number("ntasks") if slurm is not None else None
    if total is None:
        return 1
    known = firm(total)
    return known // nodes if known is not None and nodes and known % nodes == 0 else None


def slurm_numbers_multiply(plan: Plan) -> Iterable[Finding]:
    """--ntasks is nodes x ntasks-per-node, and --gpus-per-task x tasks is what --gres gives a node."""
    slurm = plan.slurm
    if slurm is None:
        return
    nodes, total, each = slurm.number("nodes"), slurm.number("ntasks"), slurm.number("ntasks_per_node")
    if isinstance(nodes, Sourced) and isinstance(total, Sourced) and isinstance(each, Sourced) and not plan.is_one_step:
        have = nodes.value * each.value
        message = said(
            "--ntasks={value}, and {value2} nodes x {value3} tasks are {have}",
            total.value,
            nodes.value,
            each.value,
            have,
        )
        if total.value > have:
            words, fix = said("{message}: Slurm refuses", message), f"#SBATCH --ntasks={have}"
            yield fail("slurm_numbers_multiply", words, total.where, each.where, nodes.where, fix=fix)
        elif total.value < have:
            words, fix = said("{message}: some nodes get fewer tasks", message), f"#SBATCH --ntasks={have}"
            yield warn("slurm_numbers_multiply", words, total.where, each.where, nodes.where, fix=fix)
    per_task, gpus, tasks = slurm.number("gpus_per_task"), gpus_of_node(slurm), tasks_of_node(plan)
    if not isinstance(per_task, Sourced) or not isinstance(gpus, Sourced) or not isinstance(tasks, Sourced):
        return
    wanted = per_task.value * tasks.value
    if wanted > gpus.value:
        message = said(
            "{value} tasks x {value2} GPUs a task, and the node is given {value3}",
            tasks.value,
            per_task.value,
            gpus.value,
        )
        fix = f"#SBATCH --gpus-per-node={wanted}"
        yield fail("slurm_numbers_multiply", message, per_task.where, gpus.where, tasks.where, fix=fix)


def tasks_have_cpus(plan: Plan) -> Iterable[Finding]:
    """The launcher and all its processes share the CPUs of one task."""
    if plan.slurm is None or not plan.launcher.has_agent or "srun" not in plan.wraps:
        return
    cpus, each = plan.slurm.number("cpus_per_task"), firm(plan.processes_per_node)
    if isinstance(cpus, Sourced) and each is not None and cpus.value < each:
        message = said(
            "--cpus-per-task={value} for {each} processes: they and their data loaders share {value} CPU{s}",
            cpus.value,
            each,
            "s" * (cpus.value != 1),
        )
        yield warn("slurm_tasks_have_cpus", message, cpus.where, plan.where, fix=f"#SBATCH --cpus-per-task={8 * each}")


def servers_fit(plan: Plan) -> Iterable[Finding]:
    """A server's tensor x pipeline parallel processes have a GPU each among all that Slurm gives the job."""
    slurm = plan.slurm
    if slurm is None or plan.is_conditional or plan.launcher.name not in ("vllm", "sglang", "ray"):
        return
    words = [value_of(word) or "" for word in plan.arguments]
    sizes = [argument_number(words, f"{kind}-parallel-size") or 1 for kind in ("tensor", "pipeline")]
    world = firm(plan.world_size) or math.prod(sizes)
    nodes, gpus = slurm.allocated or slurm.number("nodes"), gpus_of_node(slurm)
    executor = plan.settings.get("executor")
    if isinstance(executor, Sourced) and executor.value == "mp" and plan.nodes is None and isinstance(gpus, Sourced):
        if world > gpus.value:
            message = said(
                "{world} processes on one node of {gpus} GPUs: `mp` starts none elsewhere", world, gpus.value
            )
            fix = "--distributed-executor-backend ray"
            yield fail("processes_match_devices", message, executor.where, gpus.where, fix=fix)
        return
    if not isinstance(nodes, Sourced) or not isinstance(gpus, Sourced) or world <= nodes.value * gpus.value:
        return
    have = nodes.value * gpus.value
    message = said("{world} processes (tensor x pipeline parallel), and Slurm gives the job {have} GPUs", world, have)
    yield fail("processes_match_devices", message, plan.where, nodes.where, gpus.where)


PLAN_RULES = (
    tasks_are_counted_once,
    tasks_see_their_gpus,
    slurm_nodes_fit,
    slurm_numbers_multiply,
    tasks_have_cpus,
    servers_fit,
)
