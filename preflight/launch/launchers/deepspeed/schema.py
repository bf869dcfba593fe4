"""Which values and combinations in its configuration does DeepSpeed refuse, and which keys does it not know?

The rows are those of DeepSpeed 0.14 to 0.18: runtime/config.py, runtime/zero/config.py and offload_config.py.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterable, Mapping
from typing import Any

from preflight.judge.ledger.findings import Finding
from preflight.launch.field import Sourced, value_of, words
from preflight.launch.plan import BATCH_KEYS, BatchConfig, LaunchFiles, fail, warn
from preflight.said import said

KEYS = frozenset(
    words(
        """
    train_batch_size train_micro_batch_size_per_gpu gradient_accumulation_steps optimizer scheduler fp16 bf16 bfloat16
    amp gradient_clipping zero_optimization zero_allow_untested_optimizer zero_force_ds_cpu_optimizer steps_per_print
    wall_clock_breakdown dump_state activation_checkpointing sparse_attention communication_data_type
    prescale_gradients gradient_predivide_factor sparse_gradients flops_profiler aio autotuning tensorboard wandb
    csv_monitor comet monitor_config comms_logger elasticity compression_training data_efficiency curriculum_learning
    checkpoint data_types pipeline pipeline_parallel nebula memory_breakdown disable_allgather seq_parallel_size
    zero_allow_untested_optimizer torch_autocast tensor_parallel hybrid_engine compile progressive_layer_drop eigenvalue
    quantize_training checkpoint_tag_validation load_universal_checkpoint use_data_before_expert_parallelism
    timers dataloader_drop_last graph_harvesting weight_quantization use_node_local_storage fp32_allreduce
    """
    )
)
ZERO_KEYS = frozenset(
    words(
        """
    stage contiguous_gradients reduce_scatter reduce_bucket_size use_multi_rank_bucket_allreduce allgather_partitions
    allgather_bucket_size overlap_comm load_from_fp32_weights elastic_checkpoint offload_param offload_optimizer
    sub_group_size cpu_offload cpu_offload_param cpu_offload_use_pin_memory prefetch_bucket_size
    stage3_prefetch_bucket_size param_persistence_threshold stage3_param_persistence_threshold
    model_persistence_threshold stage3_model_persistence_threshold max_live_parameters stage3_max_live_parameters
    max_reuse_distance stage3_max_reuse_distance gather_16bit_weights_on_model_save
    stage3_gather_16bit_weights_on_model_save stage3_gather_fp16_weights_on_model_save module_granularity_threshold
    stage3_module_granularity_threshold use_all_reduce_for_fetch_params stage3_use_all_reduce_for_fetch_params
    ignore_unused_parameters legacy_stage1 round_robin_gradients zero_hpz_partition_size zero_quantized_weights
    zero_quantized_nontrainable_weights zero_quantized_gradients zeropp_loco_param mics_shard_size
    mics_hierarchical_params_gather memory_efficient_linear pipeline_loading_checkpoint override_module_apply
    log_trace_cache_warnings allgather_sequential zenflow enable_sanity_checks
    """
    )
)
OF_A_TRAINER = re.compile(r"--(per_device_train_batch_size|output_dir|learning_rate|model_name_or_path)\b")
DEVICES = ("none", "cpu", "nvme")


def values_are_allowed(files: LaunchFiles) -> Iterable[Finding]:
    """DeepSpeed stops at a stage, device or combination that it does not have."""
    for config in files.batches:
        yield from _zero(config)
        yield from _precisions(config)
        yield from _keys(config)


def _zero(config: BatchConfig) -> Iterable[Finding]:
    stage = config.values.get("zero_optimization.stage")
    if (isinstance(stage, Sourced) and stage.value not in (0, 1, 2, 3, "auto")) or _is_switch(stage):
        shown = stage.value if isinstance(stage, Sourced) else ""
        message = said("zero_optimization.stage {shown}; wanted 0, 1, 2 or 3", shown)
        yield fail("values_are_allowed", message, _at(stage), fix='"stage": 3')
    for name in ("offload_optimizer", "offload_param"):
        held = config.values.get(f"zero_optimization.{name}")
        device = held.value.get("device") if isinstance(held, Sourced) and isinstance(held.value, dict) else None
        if device is not None and device not in (*DEVICES, "auto"):
            message = said("{name}.device {device}; wanted none, cpu or nvme", name, device)
            yield fail("values_are_allowed", message, _at(held), fix='"device": "none"')
        if isinstance(held, Sourced) and device == "nvme" and not held.value.get("nvme_path"):
            message = said("{name}.device nvme without nvme_path: DeepSpeed has no folder to write to and stops", name)
            yield fail("values_are_allowed", message, _at(held), fix='"nvme_path": "/local_nvme"')


def _precisions(config: BatchConfig) -> Iterable[Finding]:
    """Both at once is an assertion that fails."""
    half, brain = config.values.get("fp16"), config.values.get("bf16") or config.values.get("bfloat16")
    if _is_on(half) and _is_on(brain):
        message = said("fp16 and bf16 are both enabled: DeepSpeed stops")
        yield fail("values_are_allowed", message, _at(half), _at(brain), fix='"fp16": {"enabled": false}')


def _keys(config: BatchConfig) -> Iterable[Finding]:
    """A key that is one letter off: refused within zero_optimization, and silently left out at the top."""
    zero = config.values.get("zero_optimization")
    inner: Mapping[str, Any] = zero.value if isinstance(zero, Sourced) and isinstance(zero.value, dict) else {}
    tops = [name for name in config.values if "." not in name]
    for name, known, tell, does in (
        *((name, KEYS, warn, "leaves it out") for name in tops),
        *((name, ZERO_KEYS, fail, "refuses it") for name in inner),
    ):
        close = difflib.get_close_matches(name, known, 1, 0.85) if name not in known else []
        if close:
            message = said("DeepSpeed has no key {name} and {does}; did you mean {close}", name, does, close[0])
            where = config.values.get(f"zero_optimization.{name}") or (zero if tell is fail else config.values[name])
            yield tell("keys_are_known", message, _at(where), fix=f'"{close[0]}"')


def _is_on(held: Any) -> bool:
    return isinstance(held, Sourced) and isinstance(held.value, dict) and held.value.get("enabled") is True


def _is_switch(held: Any) -> bool:
    return isinstance(held, Sourced) and isinstance(held.value, bool)


def _at(held: Any) -> Any:
    return held.where


def auto_is_filled_in(files: LaunchFiles) -> Iterable[Finding]:
    """A value of "auto" is for transformers' Trainer or accelerate to fill in: DeepSpeed reckons with the word."""
    for config in files.batches:
        name = config.file.rpartition("/")[2]
        left = [key for key in BATCH_KEYS if (held := config.values.get(key)) is not None and value_of(held) == "auto"]
        for plan in files.plans if left else ():
            words = [value_of(word) or "" for word in plan.arguments]
            pairs = [*itertools.pairwise(words), *(tuple(word.split("=", 1)) for word in words if "=" in word)]
            is_own = any(one[0] == "--deepspeed_config" and one[1].rpartition("/")[2] == name for one in pairs)
            if is_own and plan.launcher.name != "accelerate" and not any(map(OF_A_TRAINER.match, words)):
                message = said(
                    '"auto" for {keys} is filled in by transformers; by --deepspeed_config DeepSpeed gets the word',
                    ", ".join(left),
                )
                where = config.values[left[0]]
                yield warn("values_are_allowed", message, _at(where), plan.where, fix=f'"{left[0]}": 8')


FILES_RULES = (values_are_allowed, auto_is_filled_in)
