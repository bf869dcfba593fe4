"""Do the numbers of processes, machines, devices and samples go together?"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable

from preflight.judge.ledger.findings import Finding
from preflight.launch.field import Field, Sourced, firm, value_of
from preflight.launch.launchers.deepspeed.config import is_auto
from preflight.launch.plan import BATCH_KEYS, BatchConfig, LaunchFiles, Plan, fail, warn
from preflight.launch.text.programs import argument_number
from preflight.said import knowing, said

SIZES = ("dp_replicate_size", "dp_shard_size", "tp_size", "cp_size", "sp_size")
CONFIG_OPTIONS = ("--deepspeed", "--deepspeed_config", "--ds_config", "--deepspeed-config")


def counts_are_positive(plan: Plan) -> Iterable[Finding]:
    """Zero nodes or processes start nothing."""
    names = (("nodes", plan.nodes), ("processes", plan.world_size), ("processes of a node", plan.processes_per_node))
    for name, value in names:
        if isinstance(value, Sourced) and value.value < 1 and value.origin != "tool":
            if name == "processes of a node" and plan.launcher.states_world_size and plan.world_size is not None:
                continue  # it was worked out from the number of all processes, which is judged
            yield fail(
                "counts_are_positive", said("{value} {name}; wanted 1 or more", value.value, name), value.where, fix="1"
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
        yield fail(
            "processes_match_devices", said("devices {value}: one is listed twice", devices.value), devices.where
        )
    if processes.value > len(listed):
        message = said(
            "{value} process{s} on each node, and {listed} device{s2} ({value2})",
            processes.value,
            "es" * (processes.value != 1),
            len(listed),
            "s" * (len(listed) != 1),
            devices.value,
        )
        yield fail(
            "processes_match_devices",
            message,
            processes.where,
            devices.where,
            fix=said(
                "{listed} process{s} on each node, or {value} device{s2}",
                len(listed),
                "es" * (len(listed) != 1),
                processes.value,
                "s" * (processes.value != 1),
            ),
        )
    elif processes.value < len(listed) and processes.origin != "tool" and plan.setting("by") not in SPREADS:
        message = said(
            "{value} process{s} on each node, and {listed} device{s2} ({value2}); idle: {value3}",
            processes.value,
            "es" * (processes.value != 1),
            len(listed),
            "s" * (len(listed) != 1),
            devices.value,
            len(listed) - processes.value,
        )
        yield warn("processes_match_devices", message, processes.where, devices.where)


# Programs whose processes share out the devices that are more than they: a model's layers lie on several.
SPREADS = ("sft", "pt", "rlhf", "infer")


def parallelism_fits(plan: Plan) -> Iterable[Finding]:
    """The sizes of a parallelism_config multiply to the number of processes."""
    known = [plan.settings.get(f"parallelism_config.parallelism_config_{name}") for name in SIZES]
    sizes = [held.value for held in known if isinstance(held, Sourced) and isinstance(held.value, int)]
    first = next((held for held in known if isinstance(held, Sourced)), None)
    world = plan.world_size
    if first is None or not isinstance(world, Sourced) or any(size < 1 for size in sizes):
        return
    if math.prod(sizes) != world.value:
        message = said(
            "the sizes of parallelism_config multiply to {prod}, and num_processes is {value}",
            math.prod(sizes),
            world.value,
        )
        yield fail(
            "parallelism_fits_num_processes",
            message,
            first.where,
            world.where,
            fix=f"num_processes: {math.prod(sizes)}",
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
    words = [value_of(word) or "" for word in plan.arguments]
    named = [words[place + 1] for place, word in enumerate(words[:-1]) if word in CONFIG_OPTIONS]
    named += [word.partition("=")[2] for word in words if word.partition("=")[0] in CONFIG_OPTIONS]
    setting = plan.setting("deepspeed_config.deepspeed_config_file") or plan.setting("deepspeed_config_file")
    return os.path.basename(config.file) in {os.path.basename(str(name)) for name in (*named, setting) if name}


def _batch(config: BatchConfig, world: int | None, plan: Plan | None) -> Iterable[Finding]:
    held = [config.values.get(key) for key in BATCH_KEYS]
    numbers = [
        None
        if is_auto(value) or not isinstance(value_of(value), int) or isinstance(value_of(value), bool)
        else value_of(value)
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
            knowing(
                said("train_batch_size {total} is not {spelled} = {divisor}: DeepSpeed stops", total, spelled, divisor),
                product=divisor,
            ),
            *places,
            fix=f"train_batch_size: {divisor}",
        )
    elif len(known) < 3 and total % divisor:
        yield fail(
            "batch_sizes_multiply",
            said(
                "train_batch_size {total} does not divide by {spelled} = {divisor}: DeepSpeed stops",
                total,
                spelled,
                divisor,
            ),
            *places,
            fix=fix,
        )


# Options of transformers' Trainer, and the figures of the DeepSpeed configuration that they must repeat.
OF_TRAINER = {
    "per_device_train_batch_size": "train_micro_batch_size_per_gpu",
    "gradient_accumulation_steps": "gradient_accumulation_steps",
}


def trainer_agrees(files: LaunchFiles) -> Iterable[Finding]:
    """transformers' Trainer stops where its own options and the DeepSpeed configuration say different figures."""
    for config in files.batches:
        for plan in files.plans:
            if not _names(plan, config):
                continue
            words = [value_of(word) or "" for word in plan.arguments]
            for option, key in OF_TRAINER.items():
                given, held = argument_number(words, option), config.values.get(key)
                if given is None or not isinstance(held, Sourced) or isinstance(held.value, bool):
                    continue
                if isinstance(held.value, int) and held.value != given:
                    message = said(
                        "--{option} {given}, and {key} is {value} in {file}: transformers stops",
                        option,
                        given,
                        key,
                        held.value,
                        config.file,
                    )
                    yield fail(
                        "batch_sizes_multiply",
                        message,
                        held.where,
                        plan.where,
                        fix=said('"{key}": {given}', key, given),
                    )


# Of Megatron-LM, NeMo and those that take their options over.
MODEL_SIZES = {
    "tensor": ("tensor-model-parallel-size", "tensor_model_parallel_size"),
    "pipeline": ("pipeline-model-parallel-size", "pipeline_model_parallel_size"),
    "context": ("context-parallel-size", "context_parallel_size"),
    "sequence": ("ds-sequence-parallel-size",),
}


SIZES_ELSEWHERE = frozenset({"--use-checkpoint-args", "--yaml-cfg"})


def model_is_shared_out(plan: Plan) -> Iterable[Finding]:
    """Megatron's world is tensor x pipeline x context x data parallel, and a batch is shared out over the last."""
    words = [value_of(word) or "" for word in plan.arguments]
    sizes = {name: argument_number(words, *options) for name, options in MODEL_SIZES.items()}
    world = firm(plan.world_size)
    # Megatron's own spelling, where all sizes may be left at 1; others have a global batch and count otherwise
    by_name = {"--global-batch-size", "--micro-batch-size"} <= set(words) and SIZES_ELSEWHERE.isdisjoint(words)
    is_given = sizes["tensor"] is not None or sizes["pipeline"] is not None or by_name
    is_by_hand = plan.launcher.numbers_processes and plan.launcher.name != "mpirun"
    if plan.is_conditional or is_by_hand or not world or world < 1 or not is_given:
        return
    each = math.prod(size for size in sizes.values() if size)
    spelled = " x ".join(f"{size} ({name})" for name, size in sizes.items() if size)
    where = plan.world_size.where if isinstance(plan.world_size, Sourced) else plan.where
    if each and world % each:
        message = said(
            "{world} processes do not divide by {spelled} parallel = {each}: Megatron stops", world, spelled, each
        )
        yield fail("model_parallelism_fits", message, where, plan.where)
        return
    whole = argument_number(words, "global-batch-size", "global_batch_size")
    micro = argument_number(words, "micro-batch-size", "micro_batch_size")
    is_known = all(isinstance(word, Sourced) for word in plan.arguments)  # else a size may hide behind a variable
    if each and whole and micro and is_known and whole % (micro * (world // each)):
        message = said(
            "global batch {whole} does not divide by {micro} (micro batch) x {world} (data parallel)",
            whole,
            micro,
            world // each,
        )
        fix = f"--global-batch-size {max(1, whole // (micro * (world // each))) * micro * (world // each)}"
        yield fail("batch_sizes_multiply", message, plan.where, where, fix=fix)


# What programs call the number of nodes; --num_nodes alone may be a graph's.
NODES = ("n_nodes", "nnodes")


def program_counts_alike(plan: Plan) -> Iterable[Finding]:
    """A program that is told how many nodes or processes there are is told what the launch starts."""
    words = [value_of(word) or "" for word in plan.arguments]
    if plan.is_conditional or plan.is_opaque or (firm(plan.nodes) or firm(plan.world_size) or 1) < 2:
        return
    # under Slurm the trainer's own count is judged against the allocation
    of_lightning = argument_number([word for word in words if "trainer." in word and not plan.slurm], "num_nodes")
    told: tuple[tuple[str, int | None, Field[int]], ...] = (
        ("processes", argument_number(words, "world_size", "world-size"), plan.world_size),
        ("nodes", argument_number(words, *NODES) or of_lightning, plan.nodes),
    )
    for what, count, started in told:
        wanted = firm(started)
        if count is not None and wanted is not None and isinstance(started, Sourced) and count != wanted:
            message = said("the program is told of {count} {what}, and {wanted} are started", count, what, wanted)
            yield warn("program_counts_what_is_started", message, plan.where, started.where, fix=f"{wanted}")


PLAN_RULES = (
    program_counts_alike,
    counts_are_positive,
    processes_fit_devices,
    parallelism_fits,
    model_is_shared_out,
)
FILES_RULES = (batches, trainer_agrees)
