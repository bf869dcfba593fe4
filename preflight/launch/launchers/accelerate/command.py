"""What does an accelerate YAML file, or an `accelerate launch` command over it, ask for?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from preflight.judge.ledger.findings import Where
from preflight.launch.address import address_of
from preflight.launch.field import Field, Sourced, firm, value_of, words
from preflight.launch.job import on_each_node
from preflight.launch.launcher import Launcher
from preflight.launch.launchers.accelerate import schema
from preflight.launch.launchers.accelerate.file import NUMBERS, SAGEMAKER
from preflight.launch.launchers.accelerate.rules import (
    RULES,
    configs_are_there,
    finds_nodes,
    hostfile_fits,
    hostfile_of,
)
from preflight.launch.launchers.accelerate.start import refuses, start_node, write
from preflight.launch.launchers.torchrun import AGENT, arguments
from preflight.launch.plan import Plan
from preflight.launch.text.options import Reader, Spec, parse_options
from preflight.launch.text.shell import Word
from preflight.launch.traits import FieldNames
from preflight.said import said

SPEC = Spec(
    valued=words(
        """
    config_file mixed_precision num_processes num_machines num_cpu_threads_per_process
    dynamo_backend dynamo_mode gpu_ids machine_rank main_process_ip main_process_port tee
    log_dir role rdzv_backend rdzv_conf max_restarts monitor_interval vm env
    main_training_function deepspeed_config_file zero_stage offload_optimizer_device
    offload_param_device offload_optimizer_nvme_path offload_param_nvme_path
    gradient_accumulation_steps gradient_clipping zero3_init_flag zero3_save_16bit_model
    deepspeed_hostfile deepspeed_exclusion_filter deepspeed_inclusion_filter
    deepspeed_multinode_launcher deepspeed_moe_layer_cls_names fsdp_version fsdp_offload_params
    fsdp_min_num_params fsdp_sharding_strategy fsdp_reshard_after_forward fsdp_auto_wrap_policy
    fsdp_transformer_layer_cls_to_wrap fsdp_backward_prefetch fsdp_state_dict_type
    fsdp_forward_prefetch fsdp_use_orig_params fsdp_cpu_ram_efficient_loading
    fsdp_sync_module_states fsdp_activation_checkpointing mpirun_hostfile fp8_backend fp8_format
    aws_access_key_id aws_secret_access_key
    """
    ),
    flags=words(
        """
    quiet cpu multi_gpu tpu enable_cpu_affinity dynamo_use_fullgraph dynamo_use_dynamic
    dynamo_use_regional_compilation use_deepspeed use_fsdp use_parallelism_config
    use_megatron_lm same_network module no_python tpu_cluster no_tpu_cluster tpu_use_sudo
    downcast_bf16 debug help
    """
    ),
    short={"-q": "quiet", "-m": "module", "-t": "tee", "-h": "help"},
    abbreviates=False,
)


def config_plan(settings: Mapping[str, Field[Any]], where: Where) -> Plan:
    """The plan of a YAML file by itself, with accelerate's own defaults."""
    return _plan(settings, {}, where)


# Options of torchrun and others that people give to accelerate.
FAMILIES = ("fsdp_", "fp8_", "megatron_lm_", "parallelism_config_", "deepspeed_", "dynamo_", "tpu_", "ipex", "use_")
OF_OTHERS = {
    "nnodes": "--num_machines",
    "num_nodes": "--num_machines",
    "nproc_per_node": "--num_processes, of all machines together",
    "num_gpus": "--num_processes, of all machines together",
    "node_rank": "--machine_rank",
    "master_addr": "--main_process_ip",
    "master_port": "--main_process_port",
    "rdzv_endpoint": "--main_process_ip and --main_process_port",
    "rdzv_id": '--rdzv_conf "..."',
    "standalone": "--num_machines 1",
}


def read(reader: Reader, words: tuple[Word, ...], wrapper: tuple[str, ...]) -> Plan:
    """The plan of the words after ``accelerate launch`` over the YAML file that they name."""
    parsed = parse_options(words, SPEC, reader.marks)
    reader.refuse(parsed, "accelerate launch", OF_OTHERS, (*SPEC.valued, *SPEC.flags), FAMILIES)
    given: dict[str, Field[Any]] = {}
    for name, word in parsed.options.items():
        given[name] = reader.number(word, f"--{name}") if name in NUMBERS else reader.text(word)
    config = value_of(given.get("config_file"))
    found = reader.configs.get(config) if config is not None else None
    is_opaque = parsed.is_opaque or (written_config(given) and found is None)
    environment = reader.environment()
    plan = _plan(
        found or {}, given, reader.where, is_opaque=is_opaque, is_torn=parsed.is_opaque, has_config=found is not None
    )
    return Plan(
        **{
            **{name: getattr(plan, name) for name in COPIED},
            "program": reader.text(parsed.rest[0]) if parsed.rest else None,
            "arguments": arguments(reader, parsed.rest[1:]),
            "device_ids": environment.get("CUDA_VISIBLE_DEVICES")
            if value_of(plan.device_ids) in (None, "all")
            else plan.device_ids,
            "environment": environment,
            "unexported": reader.unexported(),
            "wrapper": wrapper,
            "slurm": reader.slurm,
            "is_conditional": reader.command.is_conditional,
            "command": reader.spelled(),
        }
    )


COPIED = words(
    """
    launcher where nodes node_rank processes_per_node world_size master_address master_port
    rendezvous device_ids mixed_precision settings is_opaque
    """
)


def written_config(given: Mapping[str, Field[Any]]) -> bool:
    """Whether a configuration file is named at all."""
    return given.get("config_file") is not None


def _plan(
    settings: Mapping[str, Field[Any]],
    given: Mapping[str, Field[Any]],
    where: Where,
    *,
    is_opaque: bool = False,
    is_torn: bool = False,
    has_config: bool = True,
) -> Plan:
    # is_opaque: options are missing here, because a file is not given; is_torn: because the command is not known
    def setting(name: str, default: Any = None) -> Field[Any]:
        found = given.get(name)
        if found is None and name not in ("rdzv_backend", "same_network"):
            # accelerate's own parser has defaults for these two, which win over the file
            found = settings.get(name)
        is_of_the_parser = name in ("rdzv_backend", "same_network") and not is_torn
        if found is None and default is not None and (not is_opaque or is_of_the_parser):
            return Sourced(default, where.file, where.line, "tool")
        return found

    kind = firm(settings.get("distributed_type"))
    nodes = setting("num_machines", 1)
    world = setting("num_processes", 1 if kind == "NO" and has_config else None)
    if firm(settings.get("compute_environment")) == SAGEMAKER:
        nodes = world = None  # which SageMaker starts by itself: accelerate hands it the program
    every = {**settings, **given}
    precision = setting("mixed_precision")
    return Plan(
        launcher=ACCELERATE,
        where=where,
        nodes=nodes,
        node_rank=setting("machine_rank", 0),
        processes_per_node=_floor(world, nodes),
        world_size=world,
        master_address=setting("main_process_ip"),
        master_port=setting("main_process_port", 29500),
        rendezvous=setting("rdzv_backend", "static"),
        device_ids=setting("gpu_ids"),
        mixed_precision=Sourced("no", precision.file, precision.line) if value_of(precision) is False else precision,  # type: ignore[union-attr]
        settings=every,
        is_opaque=is_opaque,
    )


def _floor(world: Field[int], nodes: Field[int]) -> Field[int]:
    """num_processes // num_machines, as accelerate divides."""
    if isinstance(world, Sourced) and isinstance(nodes, Sourced) and nodes.value > 0:
        origin = "environment" if "environment" in (world.origin, nodes.origin) else world.origin
        return Sourced(world.value // nodes.value, world.file, world.line, origin)
    return None


OURS = words(
    """
    config_file main_process_port monitor_interval tee log_dir quiet module no_python help max_restarts
    main_training_function
    """
)


def kept_options(plan: Plan) -> Iterable[str]:
    """What the command gives beside its file; the file goes to accelerate as it is."""
    for name, value in plan.settings.items():
        is_of_command = isinstance(value, Sourced) and bool(plan.command) and value.file == plan.where.file
        if not is_of_command or name in OURS or (name == "main_process_ip" and not address_of(plan)):
            continue
        yield f"--{name}" if name in SPEC.flags else f"--{name}={value_of(value)}"


# Kinds of accelerate that are torchrun's agent inside.
BY_AGENT = words("MULTI_GPU FSDP DEEPSPEED MEGATRON_LM")


def cannot_start(plan: Plan) -> str:
    """Why the reference job is not started the way a plan starts the user's."""
    kind = plan.setting("distributed_type")
    if plan.setting("use_cpu") is True or plan.setting("cpu") is not None or kind in ("NO", False, "MULTI_CPU"):
        return "accelerate starts one plain process for it, which is a world of one"
    if kind is not None and kind not in BY_AGENT:
        return said("distributed_type {kind} is not started here", kind)
    return (
        said("accelerate hands the start to pdsh or mpirun over {hostfile_of}", hostfile_of(plan))
        if hostfile_of(plan)
        else ""
    )


ACCELERATE = Launcher(
    name="accelerate",
    description="a YAML for each machine",
    field_names=FieldNames(
        rank="machine_rank", address="main_process_ip", port="main_process_port", nodes="--num_machines"
    ),
    has_agent=True,
    runs_program=True,
    equal_ranks=True,
    states_world_size=True,
    default_nodes_count=True,
    rendezvous_gives_ranks=True,
    programs=("accelerate launch", "accelerate-launch"),
    modules=("accelerate.commands.launch",),
    read=read,
    rules=(*RULES, *schema.RULES),
    files_rules=(configs_are_there, hostfile_fits),
    finds_nodes=finds_nodes,
    logs_in=lambda plan: bool(hostfile_of(plan)),
    write=write,
    takes_like=True,
    start=on_each_node(start_node),
    needs="accelerate",
    refuses=refuses,
    blames=AGENT,
    cannot_start=cannot_start,
    kept_options=kept_options,
)
