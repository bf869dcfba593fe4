"""What does an accelerate YAML file, or an `accelerate launch` command over it, ask for?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from preflight.findings import Where
from preflight.launch.accelerate_file import NUMBERS
from preflight.launch.options import Reader, Spec, parse_options
from preflight.launch.plan import Field, Plan, Sourced, firm, told, words
from preflight.launch.shell import Word
from preflight.launch.torchrun import arguments

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


def read(
    reader: Reader, words: tuple[Word, ...], wrapper: tuple[str, ...], configs: Mapping[str, Mapping[str, Field[Any]]]
) -> Plan:
    """The plan of the words after ``accelerate launch`` over the YAML file that they name."""
    parsed = parse_options(words, SPEC, reader.marks)
    given: dict[str, Field[Any]] = {}
    for name, word in parsed.options.items():
        given[name] = reader.number(word, f"--{name}") if name in NUMBERS else reader.text(word)
    config = told(given.get("config_file"))
    found = configs.get(config) if config is not None else None
    is_opaque = parsed.is_opaque or (written_config(given) and found is None)
    environment = reader.environment()
    plan = _plan(found or {}, given, reader.where, is_opaque=is_opaque, has_config=found is not None)
    return Plan(
        **{
            **{name: getattr(plan, name) for name in COPIED},
            "program": reader.text(parsed.rest[0]) if parsed.rest else None,
            "arguments": arguments(reader, parsed.rest[1:]),
            "device_ids": plan.device_ids or environment.get("CUDA_VISIBLE_DEVICES"),
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
    has_config: bool = True,
) -> Plan:
    def setting(name: str, default: Any = None) -> Field[Any]:
        found = given.get(name)
        if found is None and name not in ("rdzv_backend", "same_network"):
            # accelerate's own parser has defaults for these two, which win over the file
            found = settings.get(name)
        if found is None and default is not None and not is_opaque:
            return Sourced(default, where.file, where.line, "tool")
        return found

    kind = firm(settings.get("distributed_type"))
    nodes = setting("num_machines", 1)
    world = setting("num_processes", 1 if kind == "NO" and has_config else None)
    every = {**settings, **given}
    precision = setting("mixed_precision")
    return Plan(
        launcher="accelerate",
        where=where,
        nodes=nodes,
        node_rank=setting("machine_rank", 0),
        processes_per_node=_floor(world, nodes),
        world_size=world,
        master_address=setting("main_process_ip"),
        master_port=setting("main_process_port", 29500),
        rendezvous=setting("rdzv_backend", "static"),
        device_ids=setting("gpu_ids"),
        mixed_precision=Sourced("no", precision.file, precision.line) if told(precision) is False else precision,  # type: ignore[union-attr]
        settings=every,
        is_opaque=is_opaque,
    )


def _floor(world: Field[int], nodes: Field[int]) -> Field[int]:
    """num_processes // num_machines, as accelerate divides."""
    if isinstance(world, Sourced) and isinstance(nodes, Sourced) and nodes.value > 0:
        origin = "environment" if "environment" in (world.origin, nodes.origin) else world.origin
        return Sourced(world.value // nodes.value, world.file, world.line, origin)
    return None
