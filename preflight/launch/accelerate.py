"""What does an accelerate YAML file, or an `accelerate launch` command over it, ask for?"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any

from preflight.findings import Finding, Where
from preflight.launch.located import Located
from preflight.launch.options import Reader, Spec, parse_options
from preflight.launch.plan import Field, Plan, Sourced, Unknown, fail, firm, told, warn, words
from preflight.launch.shell import Word
from preflight.launch.torchrun import arguments

SECTIONS = {
    "deepspeed_config": "deepspeed_ zero_ zero3_ offload_ gradient_",
    "fsdp_config": "fsdp_",
    "megatron_lm_config": "megatron_lm_",
    "parallelism_config": "parallelism_config_",
    "dynamo_config": "dynamo_",
    "mpirun_config": "mpirun_",
    "fp8_config": "fp8_ amax_",
    "ipex_config": "ipex",
}
NUMBERS = ("machine_rank", "num_machines", "num_processes", "main_process_port")
TEXTS = ("main_process_ip", "rdzv_backend", "gpu_ids", "distributed_type", "mixed_precision", "compute_environment")
KEYS = frozenset(
    words(
        """
    compute_environment distributed_type mixed_precision use_cpu debug num_processes
    machine_rank num_machines gpu_ids main_process_ip main_process_port rdzv_backend
    same_network main_training_function enable_cpu_affinity fp8_config deepspeed_config
    fsdp_config parallelism_config megatron_lm_config mpirun_config ipex_config downcast_bf16
    tpu_name tpu_zone tpu_use_cluster tpu_use_sudo command_file commands tpu_vm tpu_env
    dynamo_config dynamo_backend fp16 tpu_cluster
    """
    )
)
TYPES = frozenset(
    words(
        """
    NO MULTI_CPU MULTI_GPU MULTI_NPU MULTI_MLU MULTI_SDAA MULTI_MUSA MULTI_XPU MULTI_HPU
    MULTI_NEURON DEEPSPEED FSDP XLA TPU MEGATRON_LM
    """
    )
)
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


def read_config(document: Located, file: str) -> tuple[dict[str, Field[Any]], list[Finding]]:
    """The settings of a YAML file, sections flattened ("deepspeed_config.zero_stage"), and what is wrong with them."""
    problems = [*_duplicates(document, file)]
    settings: dict[str, Field[Any]] = {}
    for key, held in document.items():
        where = Where(file, held.line)
        if key not in KEYS:
            if str(document.mapping().get("compute_environment", held).value) != "AMAZON_SAGEMAKER":
                problems.append(_unknown_key(document, key, where))
        elif key in SECTIONS:
            for name, inner in held.items():
                settings[f"{key}.{name}"] = Sourced(inner.plain(), file, inner.line)
            problems.extend(_duplicates(held, file, within=f"{key}."))
        settings[key] = _typed(key, held, where, problems)
    return settings, problems


def _duplicates(mapping: Located, file: str, within: str = "") -> list[Finding]:
    """A key that stands there twice: PyYAML takes the last one without a word."""
    found = []
    for key, first, last in mapping.duplicates:
        message = f"{within}{key} stands in lines {first} and {last}; accelerate takes line {last} without a word"
        if key in NUMBERS or key in TEXTS:
            found.append(warn("keys_stand_once", message, Where(file, first), Where(file, last), fix="Delete one."))
    return found


def _unknown_key(document: Located, key: str, where: Where) -> Finding:
    for section, prefixes in SECTIONS.items():
        if key.startswith(tuple(prefixes.split())):
            message = f"{key} stands at the top level; accelerate refuses it there: it belongs into {section}"
            return fail("keys_are_known", message, where, fix=f"{section}:\n  {key}: {document.mapping()[key].text}")
    close = difflib.get_close_matches(key, KEYS, 1, 0.85)
    if close:
        message = f"{key} is no key of accelerate, which refuses the file; meant is {close[0]}"
        return fail("keys_are_known", message, where, fix=f"{close[0]}: {document.mapping()[key].text}")
    message = f"accelerate refuses a file with a key that its version does not know: {key}"
    return warn("keys_are_known", message, where, fix=f"Delete {key}, or install the accelerate that knows it.")


def _typed(key: str, held: Located, where: Where, problems: list[Finding]) -> Field[Any]:
    """The value as accelerate gets it; one that YAML turns into something else than it looks like is a problem."""
    value = held.plain()
    if key == "distributed_type" and isinstance(value, bool):
        word = "NO" if value is False else held.text
        message = f"distributed_type: {held.text} without quotes is {value} in YAML 1.1, not the word {word}"
        problems.append(fail("yaml_values_are_as_meant", message, where, fix=f"distributed_type: '{word}'"))
    elif key == "distributed_type" and isinstance(value, str) and value not in TYPES and "$" not in value:
        close = difflib.get_close_matches(value.upper(), TYPES, 1, 0.6)
        hint = f"distributed_type: {close[0]}" if close else f"One of {', '.join(sorted(TYPES))}."
        problems.append(
            fail(
                "yaml_values_are_as_meant", f"distributed_type {value!r} is none that accelerate knows", where, fix=hint
            )
        )
    elif (
        key == "mixed_precision"
        and value is not None
        and value is not False
        and str(value) not in ("no", "fp16", "bf16", "fp8")
    ):
        problems.append(
            fail("yaml_values_are_as_meant", f"mixed_precision {value!r}; wanted no, fp16, bf16 or fp8", where)
        )
    elif key in NUMBERS and value is not None:
        return _number(key, held, where, problems)
    elif key == "main_process_ip" and value is not None and not isinstance(value, str):
        problems.append(
            fail(
                "yaml_values_are_as_meant", f"main_process_ip: {held.text} is {value!r} in YAML, not an address", where
            )
        )
        return Unknown(held.text, where.file, where.line)
    elif key in TEXTS and value is not None and not isinstance(value, bool):
        return Sourced(str(value), where.file, where.line)
    return None if value is None else Sourced(value, where.file, where.line)


def _number(key: str, held: Located, where: Where, problems: list[Finding]) -> Field[int]:
    value = held.plain()
    looks = held.text.strip()
    if isinstance(value, int) and not isinstance(value, bool):
        if re.fullmatch(r"[+-]?(0|[1-9][0-9]*)", looks):
            return Sourced(value, where.file, where.line)
        message = f"{key}: {looks} is {value} in YAML 1.1"
        problems.append(fail("yaml_values_are_as_meant", message, where, fix=f"{key}: {_meant(looks)}"))
        return Sourced(value, where.file, where.line)
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value.strip()):
        if key in ("num_processes", "num_machines"):  # "8" // 2 and "2" > 1 raise TypeError
            message = f"{key}: '{value}' is a text; accelerate calculates with it and stops with a TypeError"
            problems.append(fail("numbers_are_numbers", message, where, fix=f"{key}: {value.strip()}"))
        return Sourced(int(value), where.file, where.line)
    problems.append(fail("numbers_are_numbers", f"{key} is {looks[:60]!r}; wanted a number", where))
    return Unknown(looks[:60], where.file, where.line)


def _meant(text: str) -> str:
    return text.lstrip("0") or "0" if text.isdigit() else text


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
