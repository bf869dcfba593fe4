"""What does accelerate start otherwise than its file seems to say, and what does it refuse?"""

from __future__ import annotations

import os
from collections.abc import Iterable

from preflight.judge.ledger.findings import Finding, Where
from preflight.launch.field import Sourced, firm, value_of
from preflight.launch.launchers.accelerate.file import SAGEMAKER
from preflight.launch.plan import LaunchFiles, Plan, fail, warn
from preflight.said import joined, said


def hostfile_of(plan: Plan) -> str:
    """The hostfile that accelerate gives to DeepSpeed or mpirun."""
    names = (
        "deepspeed_config.deepspeed_hostfile",
        "deepspeed_hostfile",
        "mpirun_config.mpirun_hostfile",
        "mpirun_hostfile",
    )
    return next((str(plan.setting(name)) for name in names if plan.setting(name)), "")


def finds_nodes(plan: Plan) -> bool:
    """Whether accelerate hands the start to pdsh or mpirun, which find the nodes in a hostfile."""
    return bool(hostfile_of(plan)) or plan.setting("mpirun_hostfile") is not None


def processes_divide(plan: Plan) -> Iterable[Finding]:
    """accelerate starts num_processes // num_machines processes on every machine and forgets the rest."""
    world, nodes = plan.world_size, plan.nodes
    if not isinstance(world, Sourced) or not isinstance(nodes, Sourced):
        return
    if (
        world.value > 0
        and nodes.value > 0
        and world.value % nodes.value
        and "environment" not in (world.origin, nodes.origin)
    ):
        each = world.value // nodes.value
        message = said(
            "num_processes {value} does not divide by num_machines {value2}: accelerate starts {each} on "
            "each machine, {each2} in all, and the job waits for {value}",
            world.value,
            nodes.value,
            each,
            each * nodes.value,
        )
        yield fail(
            "num_processes_divides",
            message,
            world.where,
            nodes.where,
            fix=f"num_processes: {max(each, 1) * nodes.value}",
        )


def every_machine_has_a_process(plan: Plan) -> Iterable[Finding]:
    """num_processes counts those of all machines; where the file with num_machines is not there, srun tells of them."""
    world, nodes = plan.world_size, plan.slurm.number("nodes") if plan.slurm is not None else None
    is_started_on_all = "srun" in plan.wraps and not plan.is_one_step and plan.node_rank is not None
    if not is_started_on_all or isinstance(plan.nodes, Sourced) or not isinstance(world, Sourced):
        return
    if isinstance(nodes, Sourced) and world.value < nodes.value:
        message = said(
            "num_processes {value} counts the processes of all machines, and srun starts accelerate on {nodes}: "
            "fewer than one for each",
            world.value,
            nodes.value,
        )
        yield fail("num_processes_divides", message, plan.where, world.where, nodes.where)


def machines_are_counted(plan: Plan) -> Iterable[Finding]:
    """A file meant for several machines without num_machines: accelerate takes 1, and every machine trains alone."""
    nodes = plan.nodes
    if not isinstance(nodes, Sourced) or nodes.origin != "tool" or plan.is_opaque:
        return
    signs = {
        "rdzv_backend": plan.setting("rdzv_backend") == "c10d",
        "deepspeed_config.deepspeed_multinode_launcher": plan.setting("deepspeed_config.deepspeed_multinode_launcher")
        is not None,
        "main_process_ip": plan.master_address is not None and not finds_nodes(plan),
        "machine_rank": (firm(plan.node_rank) or 0) > 0,
    }
    shown = [(name, plan.settings.get(name)) for name, holds in signs.items() if holds]
    where = [held.where for _, held in shown if held is not None]
    if where:
        message = said(
            "num_machines is not set, so accelerate takes 1, and {name} is meant for several: every "
            "machine trains alone",
            ", ".join((name for name, _ in shown)),
        )
        yield fail("num_machines_is_given", message, *where, fix="num_machines: <number of machines>")


def processes_are_given(plan: Plan) -> Iterable[Finding]:
    """accelerate refuses to start over a file without num_processes, unless the command line names them."""
    is_command = plan.command and "config_file" in plan.settings and not plan.is_opaque
    if is_command and plan.world_size is None and plan.setting("compute_environment") != SAGEMAKER:
        message = "neither the configuration nor the command line has num_processes: accelerate refuses to start"
        yield fail("num_processes_is_given", message, plan.where, fix="--num_processes <all processes of all machines>")


def cpu_is_no_world_of_one(plan: Plan) -> Iterable[Finding]:
    """`accelerate launch --cpu` and `use_cpu: true` start one plain process on a machine, which sees a world of one."""
    if finds_nodes(plan):
        return
    flag = plan.settings.get("cpu") or (plan.settings.get("use_cpu") if plan.setting("use_cpu") is True else None)
    kind = plan.settings.get("distributed_type")
    if flag is None and value_of(kind) == "MULTI_CPU":
        flag = kind
    several = (firm(plan.nodes) or 1) > 1 or (firm(plan.world_size) or 1) > 1
    if flag is None or not several:
        return
    message = said(
        "on the CPU accelerate starts no launcher: {firm} processes on {firm2} machines become a "
        "world of one each, and every one trains alone",
        firm(plan.world_size) or "all",
        firm(plan.nodes) or 1,
    )
    fix = (
        "distributed_type: MULTI_GPU, use_cpu: false, and ACCELERATE_USE_CPU=true in the environment; or"
        " mpirun_config.mpirun_hostfile"
    )
    yield fail("cpu_ranks_form_one_world", message, flag.where, fix=fix)


def several_processes_have_a_launcher(plan: Plan) -> Iterable[Finding]:
    """With `distributed_type: 'NO'` accelerate starts the program once, whatever num_processes is."""
    kind = plan.settings.get("distributed_type")
    on_the_line = [
        name
        for name in ("multi_gpu", "use_deepspeed", "use_fsdp", "use_megatron_lm", "tpu", "cpu")
        if plan.setting(name)
    ]
    world = plan.world_size
    if str(value_of(kind)) != "NO" or on_the_line or not isinstance(world, Sourced) or world.value < 2:
        return
    if plan.spans_nodes:
        machines = firm(plan.nodes)
        message = said(
            "distributed_type NO starts one plain process on each of {machines} machines: every one trains alone",
            machines,
        )
        yield fail("num_processes_are_started", message, world.where, fix="distributed_type: MULTI_GPU")
        return
    message = said(
        "distributed_type NO starts one process, and num_processes {value} is not used: one GPU trains", world.value
    )
    yield warn(
        "num_processes_are_started", message, world.where, fix="distributed_type: MULTI_GPU, or num_processes: 1"
    )


def deepspeed_has_a_launcher(plan: Plan) -> Iterable[Finding]:
    """accelerate starts several machines with pdsh over a hostfile, unless the launcher is "standard"."""
    if plan.setting("distributed_type") != "DEEPSPEED" or not plan.spans_nodes:
        return
    name = (
        plan.setting("deepspeed_config.deepspeed_multinode_launcher")
        or plan.setting("deepspeed_multinode_launcher")
        or "pdsh"
    )
    if name not in ("standard", "nossh") and not hostfile_of(plan) and not plan.is_opaque:
        where = plan.settings.get("distributed_type")
        message = said(
            "deepspeed_multinode_launcher is {name} and there is no deepspeed_hostfile: DeepSpeed runs "
            "on one machine alone",
            name,
        )
        fix = "deepspeed_config: {deepspeed_multinode_launcher: standard}"
        yield fail(
            "deepspeed_reaches_every_machine", message, where.where if where is not None else plan.where, fix=fix
        )


# What DeepSpeed does at ZeRO stage 3 alone, and the value that asks for nothing.
OF_STAGE_3 = {"offload_param_device": "none", "zero3_init_flag": "false"}


def settings_fit_the_zero_stage(plan: Plan) -> Iterable[Finding]:
    """offload_param_device and zero3_init_flag do nothing below ZeRO stage 3, which is what divides the parameters."""
    stage = plan.setting("deepspeed_config.zero_stage") or plan.setting("zero_stage")
    if plan.setting("distributed_type") != "DEEPSPEED" or str(stage) not in ("1", "2"):
        return
    for name, idle in OF_STAGE_3.items():
        held = plan.settings.get(f"deepspeed_config.{name}", plan.settings.get(name))
        if isinstance(held, Sourced) and str(held.value).lower() not in (idle, "none", ""):
            message = said(
                "{name}: {value} does nothing at zero_stage {stage}; parameters are divided at stage 3 alone",
                name,
                held.value,
                stage,
            )
            fix = said("zero_stage: 3 in every file, or {name}: {idle}", name, idle)
            yield warn("settings_fit_the_zero_stage", message, held.where, fix=fix)


def same_network_has_an_endpoint(plan: Plan) -> Iterable[Finding]:
    """accelerate --same_network gives torchrun --master_addr, which a c10d rendezvous does not read."""
    if plan.spans_nodes and value_of(plan.rendezvous) == "c10d" and "same_network" in plan.settings:
        flag = plan.settings["same_network"]
        if isinstance(flag, Sourced) and flag.value == "true":
            message = (
                "--same_network with --rdzv_backend c10d leaves torchrun without an endpoint: every machine waits"
                " on its own localhost"
            )
            yield fail(
                "same_network_fits_the_rendezvous",
                message,
                flag.where,
                fix="Leave --same_network out, or --rdzv_backend static.",
            )


def address_is_given(plan: Plan) -> Iterable[Finding]:
    """Without main_process_ip accelerate stops, or falls back to the machine itself."""
    if plan.master_address is not None or not plan.spans_nodes or plan.is_opaque or finds_nodes(plan):
        return
    nodes = plan.nodes.where if isinstance(plan.nodes, Sourced) else plan.where
    message = said(
        "{firm} machines and no main_process_ip: accelerate stops, or every machine waits for itself", firm(plan.nodes)
    )
    yield fail("master_address_is_given", message, nodes, fix="main_process_ip: <address of rank 0's node>")


def configs_are_there(files: LaunchFiles) -> Iterable[Finding]:
    """A script whose YAML is nowhere, while the one of its sibling is there: a slip in its name."""
    plans = [plan for plan in files.plans if plan.launcher.name == "accelerate" and plan.command]
    there = [plan for plan in plans if plan.config]
    for plan in plans:
        named = plan.settings.get("config_file")
        if not there or plan.config or not plan.is_opaque or not isinstance(named, Sourced):
            continue
        other = there[0].settings["config_file"]
        message = said(
            "{value} is not there: accelerate stops on this node and the others wait for it ({file} "
            "names {value_of}, which is there)",
            named.value,
            there[0].where.file,
            value_of(other),
        )
        yield fail(
            "config_files_are_there", message, named.where, fix=said("Write {value}, or correct its name.", named.value)
        )


FILTERS = tuple(
    f"{at}deepspeed_{name}_filter" for at in ("", "deepspeed_config.") for name in ("inclusion", "exclusion")
)


def hostfile_fits(files: LaunchFiles) -> Iterable[Finding]:
    """DeepSpeed starts on all hosts of the file that accelerate hands on, num_processes // num_machines on each."""
    for plan in files.plans:
        named, nodes, world = os.path.basename(hostfile_of(plan)), plan.nodes, plan.world_size
        held = next((one for one in files.hostfiles if named and os.path.basename(one.file) == named), None)
        is_deepspeed = value_of(plan.settings.get("distributed_type")) == "DEEPSPEED" or plan.setting("use_deepspeed")
        if held is None or not is_deepspeed or any(plan.setting(name) for name in FILTERS):
            continue
        if isinstance(nodes, Sourced) and nodes.origin == "written" and nodes.value != len(held.hosts):
            count = len(held.hosts)
            message = said(
                "num_machines {value}, and {file} has {count}: DeepSpeed starts on all that are there",
                nodes.value,
                held.file,
                count,
            )
            fix, places = f"num_machines: {count}", [nodes.where, Where(held.file, 1)]
            if isinstance(world, Sourced) and nodes.value > 0 and world.value % nodes.value == 0:
                fix = joined([fix, f"num_processes: {world.value // nodes.value * count}"], " and ")
                places.append(world.where)
            yield warn("hostfile_and_filters_agree", message, *places, fix=fix)
        elif isinstance(nodes, Sourced) and isinstance(world, Sourced) and nodes.value > 0:
            each = world.value // nodes.value
            for host in held.hosts:
                if isinstance(host.slots, Sourced) and 0 < host.slots.value < each:
                    message = said(
                        "{each} processes on each machine, and {name} has slots={value}",
                        each,
                        host.name,
                        host.slots.value,
                    )
                    yield warn("hostfile_and_filters_agree", message, world.where, host.where)


# The first version of accelerate whose command takes an option: src/accelerate/commands/launch.py, change by change.
OPTION_SINCE = {
    "rdzv_conf": "0.13",
    "max_restarts": "0.13",
    "monitor_interval": "0.13",
    "gpu_ids": "0.13",
    "same_network": "0.14",
    "quiet": "0.15",
    "tee": "0.17",
    "role": "0.17",
    "rdzv_backend": "0.20",
    "mpirun_hostfile": "0.28",
    "enable_cpu_affinity": "0.29",
    "log_dir": "0.31",
    "fp8_backend": "0.34",
    "fsdp_version": "1.6",
    "fsdp_reshard_after_forward": "1.6",
    "use_parallelism_config": "1.10",
}
RULES = (
    address_is_given,
    processes_divide,
    every_machine_has_a_process,
    machines_are_counted,
    processes_are_given,
    cpu_is_no_world_of_one,
    several_processes_have_a_launcher,
    deepspeed_has_a_launcher,
    settings_fit_the_zero_stage,
    same_network_has_an_endpoint,
)
