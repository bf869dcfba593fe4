"""Do the numbers of processes, machines, devices and samples go together?"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable

from preflight.launch.address import hostfile_of, starts_by_itself
from preflight.launch.field import Sourced, firm, told
from preflight.launch.launchers.deepspeed import BATCH_KEYS, is_auto
from preflight.launch.plan import BatchConfig, LaunchFiles, Plan, fail, warn
from preflight.ledger.findings import Finding

SIZES = ("dp_replicate_size", "dp_shard_size", "tp_size", "cp_size", "sp_size")
CONFIG_OPTIONS = ("--deepspeed", "--deepspeed_config", "--ds_config", "--deepspeed-config")


def counts_are_positive(plan: Plan) -> Iterable[Finding]:
    """Zero nodes or processes start nothing."""
    names = (("nodes", plan.nodes), ("processes", plan.world_size), ("processes of a node", plan.processes_per_node))
    for name, value in names:
        if isinstance(value, Sourced) and value.value < 1 and value.origin != "tool":
            if name == "processes of a node" and isinstance(plan.world_size, Sourced) and plan.launcher == "accelerate":
                continue  # the division below tells it
            yield fail("counts_are_positive", f"{value.value} {name}; wanted 1 or more", value.where, fix="1")


def processes_divide(plan: Plan) -> Iterable[Finding]:
    """accelerate starts num_processes // num_machines processes on every machine and forgets the rest."""
    world, nodes = plan.world_size, plan.nodes
    if plan.launcher != "accelerate" or not isinstance(world, Sourced) or not isinstance(nodes, Sourced):
        return
    if (
        world.value > 0
        and nodes.value > 0
        and world.value % nodes.value
        and "environment" not in (world.origin, nodes.origin)
    ):
        each = world.value // nodes.value
        message = (
            f"num_processes {world.value} does not divide by num_machines {nodes.value}: accelerate starts"
            f" {each} on each machine, {each * nodes.value} in all, and the job waits for {world.value}"
        )
        yield fail(
            "num_processes_divides",
            message,
            world.where,
            nodes.where,
            fix=f"num_processes: {max(each, 1) * nodes.value}",
        )


def processes_fit_devices(plan: Plan) -> Iterable[Finding]:
    """As many processes on a node as devices are listed for it."""
    devices, processes = plan.device_ids, plan.processes_per_node
    if (
        not isinstance(devices, Sourced)
        or not isinstance(processes, Sourced)
        or "environment" in (devices.origin, processes.origin)
    ):
        return
    listed = [device for device in str(devices.value).split(",") if device.strip()]
    if str(devices.value).strip() in ("all", "") or not listed or processes.value < 1:
        return
    if len(set(listed)) < len(listed):
        yield fail("processes_match_devices", f"devices {devices.value}: one is listed twice", devices.where)
    if processes.value > len(listed):
        message = f"{processes.value} processes on each node, and {len(listed)} devices ({devices.value})"
        yield fail(
            "processes_match_devices",
            message,
            processes.where,
            devices.where,
            fix=f"{len(listed)} processes on each node, or {processes.value} devices",
        )
    elif processes.value < len(listed) and processes.origin != "tool":
        message = (
            f"{processes.value} processes on each node, and {len(listed)} devices ({devices.value}):"
            f" {len(listed) - processes.value} stay idle"
        )
        yield warn("processes_match_devices", message, processes.where, devices.where)


def machines_are_counted(plan: Plan) -> Iterable[Finding]:
    """A file meant for several machines without num_machines: accelerate takes 1, and every machine trains alone."""
    nodes = plan.nodes
    if plan.launcher != "accelerate" or not isinstance(nodes, Sourced) or nodes.origin != "tool" or plan.is_opaque:
        return
    signs = {
        "rdzv_backend": plan.setting("rdzv_backend") == "c10d",
        "deepspeed_config.deepspeed_multinode_launcher": plan.setting("deepspeed_config.deepspeed_multinode_launcher")
        is not None,
        "main_process_ip": plan.master_address is not None and not starts_by_itself(plan),
        "machine_rank": (firm(plan.node_rank) or 0) > 0,
    }
    shown = [(name, plan.settings.get(name)) for name, holds in signs.items() if holds]
    where = [held.where for _, held in shown if held is not None]
    if where:
        message = (
            f"num_machines is not set, so accelerate takes 1, and {', '.join(name for name, _ in shown)} is"
            " meant for several: every machine trains alone"
        )
        yield fail("num_machines_is_given", message, *where, fix="num_machines: <number of machines>")


def processes_are_given(plan: Plan) -> Iterable[Finding]:
    """accelerate refuses to start over a file without num_processes, unless the command line names them."""
    is_command = (
        plan.launcher == "accelerate" and plan.command and "config_file" in plan.settings and not plan.is_opaque
    )
    if is_command and plan.world_size is None and plan.setting("compute_environment") != "AMAZON_SAGEMAKER":
        message = "neither the configuration nor the command line has num_processes: accelerate refuses to start"
        yield fail("num_processes_is_given", message, plan.where, fix="--num_processes <all processes of all machines>")


def parallelism_fits(plan: Plan) -> Iterable[Finding]:
    """The sizes of a parallelism_config multiply to the number of processes."""
    known = [plan.settings.get(f"parallelism_config.parallelism_config_{name}") for name in SIZES]
    sizes = [held.value for held in known if isinstance(held, Sourced) and isinstance(held.value, int)]
    first = next((held for held in known if isinstance(held, Sourced)), None)
    world = plan.world_size
    if first is None or not isinstance(world, Sourced) or any(size < 1 for size in sizes):
        return
    if math.prod(sizes) != world.value:
        message = f"the sizes of parallelism_config multiply to {math.prod(sizes)}, and num_processes is {world.value}"
        yield fail(
            "parallelism_fits_num_processes",
            message,
            first.where,
            world.where,
            fix=f"num_processes: {math.prod(sizes)}",
        )


def cpu_is_no_world_of_one(plan: Plan) -> Iterable[Finding]:
    """`accelerate launch --cpu` and `use_cpu: true` start one plain process on a machine, which sees a world of one."""
    if plan.launcher != "accelerate" or starts_by_itself(plan):
        return
    flag = plan.settings.get("cpu") or (plan.settings.get("use_cpu") if plan.setting("use_cpu") is True else None)
    kind = plan.settings.get("distributed_type")
    if flag is None and told(kind) == "MULTI_CPU":
        flag = kind
    several = (firm(plan.nodes) or 1) > 1 or (firm(plan.world_size) or 1) > 1
    if flag is None or not several:
        return
    message = (
        f"on the CPU accelerate starts no launcher: {firm(plan.world_size) or 'all'} processes on"
        f" {firm(plan.nodes) or 1} machines"
        " become a world of one each, and every one trains alone"
    )
    fix = (
        "distributed_type: MULTI_GPU, use_cpu: false, and ACCELERATE_USE_CPU=true in the environment; or"
        " mpirun_config.mpirun_hostfile"
    )
    yield fail("cpu_ranks_form_one_world", message, flag.where, fix=fix)


def deepspeed_has_a_launcher(plan: Plan) -> Iterable[Finding]:
    """accelerate starts several machines with pdsh over a hostfile, unless the launcher is "standard"."""
    if plan.launcher != "accelerate" or plan.setting("distributed_type") != "DEEPSPEED" or not plan.spans_nodes:
        return
    name = (
        plan.setting("deepspeed_config.deepspeed_multinode_launcher")
        or plan.setting("deepspeed_multinode_launcher")
        or "pdsh"
    )
    if name not in ("standard", "nossh") and not hostfile_of(plan) and not plan.is_opaque:
        where = plan.settings.get("distributed_type")
        message = (
            f"deepspeed_multinode_launcher is {name} and there is no deepspeed_hostfile: DeepSpeed runs on one"
            " machine alone"
        )
        fix = "deepspeed_config:\n  deepspeed_multinode_launcher: standard"
        yield fail(
            "deepspeed_reaches_every_machine", message, where.where if where is not None else plan.where, fix=fix
        )


def batches(files: LaunchFiles) -> Iterable[Finding]:
    """train_batch_size is micro batch x accumulation x world size, or DeepSpeed stops."""
    for config in files.batches:
        worlds: dict[int, Plan] = {}
        for plan in files.plans:
            size = firm(plan.world_size)
            if size is not None and (_names(plan, config) or len(files.batches) == 1):
                worlds[size] = plan
        size, plan_of_size = next(iter(worlds.items())) if len(worlds) == 1 else (None, None)
        yield from _batch(config, size, plan_of_size)


def _names(plan: Plan, config: BatchConfig) -> bool:
    """Whether a plan names a DeepSpeed configuration."""
    words = [told(word) or "" for word in plan.arguments]
    named = [words[place + 1] for place, word in enumerate(words[:-1]) if word in CONFIG_OPTIONS]
    named += [word.partition("=")[2] for word in words if word.partition("=")[0] in CONFIG_OPTIONS]
    setting = plan.setting("deepspeed_config.deepspeed_config_file") or plan.setting("deepspeed_config_file")
    return os.path.basename(config.file) in {os.path.basename(str(name)) for name in (*named, setting) if name}


def _batch(config: BatchConfig, world: int | None, plan: Plan | None) -> Iterable[Finding]:
    held = [config.values.get(key) for key in BATCH_KEYS]
    numbers = [
        None if is_auto(value) or not isinstance(told(value), int) or isinstance(told(value), bool) else told(value)
        for value in held
    ]
    where = [value.where for value in held if value is not None]
    if any(number is not None and number < 1 for number in numbers):
        yield fail("batch_sizes_multiply", "a batch figure is below 1", *where)
        return
    total, micro, steps = numbers
    if total is None:
        return
    factors = {"micro batch": micro, "accumulation": steps, "world size": world}
    known = {name: factor for name, factor in factors.items() if factor is not None}
    divisor = math.prod(known.values())
    spelled = " x ".join(f"{factor} ({name})" for name, factor in known.items())
    places = [*where, *([plan.world_size.where] if plan is not None and isinstance(plan.world_size, Sourced) else [])]
    fix = f"train_batch_size: {max(1, round(total / divisor)) * divisor}" if divisor else ""
    if len(known) == 3 and total != divisor:
        yield fail(
            "batch_sizes_multiply",
            f"train_batch_size {total} is not {spelled} = {divisor}: DeepSpeed stops",
            *places,
            fix=f"train_batch_size: {divisor}",
        )
    elif len(known) < 3 and total % divisor:
        yield fail(
            "batch_sizes_multiply",
            f"train_batch_size {total} does not divide by {spelled} = {divisor}: DeepSpeed stops",
            *places,
            fix=fix,
        )


PLAN_RULES = (
    counts_are_positive,
    processes_divide,
    processes_fit_devices,
    machines_are_counted,
    processes_are_given,
    parallelism_fits,
    cpu_is_no_world_of_one,
    deepspeed_has_a_launcher,
)
FILES_RULES = (batches,)
