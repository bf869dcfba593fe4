"""Which values and combinations in the sections of an accelerate file does accelerate refuse, or leave unread?

The rows are those of accelerate 1.x: utils/constants.py, utils/dataclasses.py (FullyShardedDataParallelPlugin).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from preflight.judge.ledger.findings import Finding
from preflight.launch.field import Sourced, words
from preflight.launch.plan import Plan, fail, warn
from preflight.said import said

ALLOWED: Mapping[str, tuple[str, ...]] = {
    "fsdp_config.fsdp_version": ("1", "2"),
    "fsdp_config.fsdp_auto_wrap_policy": words("TRANSFORMER_BASED_WRAP SIZE_BASED_WRAP NO_WRAP"),
    "fsdp_config.fsdp_state_dict_type": words("FULL_STATE_DICT SHARDED_STATE_DICT LOCAL_STATE_DICT 1 2 3"),
    "fsdp_config.fsdp_backward_prefetch": words("BACKWARD_PRE BACKWARD_POST NO_PREFETCH None 1 2"),
    "fsdp_config.fsdp_sharding_strategy": words(
        "FULL_SHARD SHARD_GRAD_OP NO_SHARD HYBRID_SHARD HYBRID_SHARD_ZERO2 1 2 3 4 5"
    ),
    "deepspeed_config.zero_stage": words("0 1 2 3"),
    "deepspeed_config.offload_optimizer_device": words("none cpu nvme"),
    "deepspeed_config.offload_param_device": words("none cpu nvme"),
    "deepspeed_config.deepspeed_multinode_launcher": words("pdsh standard openmpi mvapich mpich nossh slurm impi"),
}
# What has another meaning, or none, in the second version of FSDP.
OF_VERSION_2: Mapping[str, tuple[str, ...]] = {
    "fsdp_config.fsdp_reshard_after_forward": words("true false yes no 1 0 on off t f y n"),
    "fsdp_config.fsdp_state_dict_type": words("FULL_STATE_DICT SHARDED_STATE_DICT"),
}
ONLY_VERSION_1 = words(
    "fsdp_sharding_strategy fsdp_backward_prefetch fsdp_use_orig_params fsdp_sync_module_states fsdp_forward_prefetch"
)
# Options of `accelerate launch`, and a name of the first releases, which is no slip.
KEYS_OF_FSDP = words(
    """
    fsdp_activation_checkpointing fsdp_activation_checkpointing_offload fsdp_auto_wrap_policy fsdp_backward_prefetch
    fsdp_backward_prefetch_policy fsdp_cpu_ram_efficient_loading fsdp_forward_prefetch fsdp_min_num_params
    fsdp_offload_params fsdp_reshard_after_forward fsdp_sharding_strategy fsdp_state_dict_type fsdp_sync_module_states
    fsdp_transformer_layer_cls_to_wrap fsdp_use_orig_params fsdp_version
    """
)
SECTION_OF = {"fsdp_config": "FSDP", "deepspeed_config": "DEEPSPEED", "megatron_lm_config": "MEGATRON_LM"}


def values_are_allowed(plan: Plan) -> Iterable[Finding]:
    """A value that accelerate or its back end does not know stops every process, in the first lines of the program."""
    held = _sections(plan)
    is_second = str(_value(held.get("fsdp_config.fsdp_version"))) == "2"
    for name, allowed in {**ALLOWED, **(OF_VERSION_2 if is_second else {})}.items():
        given = held.get(name)
        text = str(_value(given))
        if given is None or text.lower() in ("none", "") or text.lower() in map(str.lower, allowed) or "$" in text:
            continue
        key, listed = name.rpartition(".")[2], ", ".join(dict.fromkeys(allowed))
        version = said(" with fsdp_version 2") if name in OF_VERSION_2 and is_second else ""
        message = said("{key} {text}{version}; wanted {listed}", key, text, version, listed)
        close = difflib.get_close_matches(text.upper(), allowed, 1, 0.6)
        right = (
            close[0] if close else "true" if "reshard" in name else allowed[-1] if key == "zero_stage" else allowed[0]
        )
        yield fail("values_are_allowed", message, given.where, fix=f"{key}: {right}")


def sections_have_an_effect(plan: Plan) -> Iterable[Finding]:
    """A section of another back end than distributed_type names is not read, nor are keys of the other FSDP version."""
    held, kind = _sections(plan), plan.settings.get("distributed_type")
    if isinstance(kind, Sourced) and kind.value in ("MULTI_GPU", *SECTION_OF.values()):
        for section, wanted in SECTION_OF.items():
            first = next(
                (given for name, given in held.items() if name.startswith(f"{section}.") and name in plan.settings),
                None,
            )
            is_used = kind.value == wanted or plan.setting(f"use_{wanted.lower()}")
            if first is not None and not is_used:
                message = said("{section} is not read: distributed_type is {kind}", section, kind.value)
                fix = f"distributed_type: {wanted}"
                yield warn("settings_have_an_effect", message, first.where, kind.where, fix=fix)
    version = held.get("fsdp_config.fsdp_version")
    if version is None or str(version.value) != "2":
        return
    late = {name: held[f"fsdp_config.{name}"] for name in ONLY_VERSION_1 if f"fsdp_config.{name}" in held}
    if late:
        message = said("{names} of fsdp_version 1 is not read with fsdp_version 2", ", ".join(late))
        where = [given.where for given in late.values()]
        fix = said("Delete {names}; fsdp_reshard_after_forward: true is FULL_SHARD.", ", ".join(late))
        yield warn("settings_have_an_effect", message, *where, version.where, fix=fix)


def keys_are_read(plan: Plan) -> Iterable[Finding]:
    """Of fsdp_config accelerate reads the keys that it knows, and says nothing of any other."""
    for name, held in plan.settings.items():
        section, _, key = name.partition(".")
        full = key if key.startswith("fsdp") else f"fsdp_{key}"
        if section != "fsdp_config" or not key or full in KEYS_OF_FSDP or not isinstance(held, Sourced):
            continue
        close = difflib.get_close_matches(full, KEYS_OF_FSDP, 1, 0.85)
        message = said("fsdp_config has no key {key}: accelerate reads on without a word, and it has no effect", key)
        yield warn("keys_are_known", message, held.where, fix=f"{close[0]}: {held.value}" if close else "")


def _sections(plan: Plan) -> dict[str, Sourced[object]]:
    """The known settings, by section and full name: accelerate adds the prefix of a key that has none."""
    found: dict[str, Sourced[object]] = {}
    for name, held in plan.settings.items():
        section, dot, key = name.partition(".")
        if section == "fsdp_config" and dot and not key.startswith("fsdp"):
            key = f"fsdp_{key}"
        if not dot:
            section = "fsdp_config" if name.startswith("fsdp_") else "deepspeed_config" if name == "zero_stage" else ""
            key = name if section and name not in SECTION_OF else ""
        if key and isinstance(held, Sourced):
            found[f"{section}.{key}"] = held
    return found


def _value(held: Sourced[object] | None) -> object:
    return held.value if held is not None else None


RULES = (values_are_allowed, sections_have_an_effect, keys_are_read)
