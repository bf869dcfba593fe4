"""What does an accelerate YAML file say, and what of it will accelerate refuse or take for something else?"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any

from preflight.judge.ledger.findings import Edit, Finding, Where
from preflight.launch.field import Field, Sourced, Unknown, words
from preflight.launch.plan import fail, warn
from preflight.said import said

if TYPE_CHECKING:
    from preflight.launch.text.located import Located

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

SAGEMAKER = "AMAZON_SAGEMAKER"
KINDS = TYPES | {"DATA_PARALLEL", "MODEL_PARALLEL"}  # the last two are SageMaker's


def read_config(document: Located, file: str) -> tuple[dict[str, Field[Any]], list[Finding]]:
    """The settings of a YAML file, sections flattened ("deepspeed_config.zero_stage"), and what is wrong with them."""
    problems = [*_duplicates(document, file)]
    settings: dict[str, Field[Any]] = {}
    flat = _flattened(document)
    for section, lost in flat.items():
        problems.append(_lost_indentation(section, lost, file))
        settings |= {f"{section}.{key}": Sourced(held.plain(), file, held.line) for key, held in lost}
    moved = {key for lost in flat.values() for key, _ in lost}
    for key, held in document.items():
        where = Where(file, held.line)
        if key in moved:
            continue
        if key not in KEYS:
            if str(document.mapping().get("compute_environment", held).value) != SAGEMAKER:
                problems.append(_unknown_key(document, key, where))
        elif key in SECTIONS:
            for name, inner in held.items():
                settings[f"{key}.{name}"] = Sourced(inner.plain(), file, inner.line)
            problems.extend(_duplicates(held, file, within=f"{key}."))
        settings[key] = _typed(key, held, where, problems)
    return settings, problems


def _flattened(document: Located) -> dict[str, list[tuple[str, Located]]]:
    """The sections that hold nothing, and the keys right below them that belong in there: what a web page leaves."""
    found: dict[str, list[tuple[str, Located]]] = {}
    section = ""
    for key, held in document.items():
        if key in SECTIONS and held.value is None:
            section = key
        elif section and key.startswith(tuple(SECTIONS[section].split())):
            found.setdefault(section, []).append((key, held))
        else:
            section = ""
    return {section: inner for section, inner in found.items() if len(inner) > 1}


def _lost_indentation(section: str, inner: list[tuple[str, Located]], file: str) -> Finding:
    first, last = inner[0][1].line, inner[-1][1].line
    lines = said("lines {first} to {last}", first, last)
    message = said(
        "{section} is empty, and {lines} below it have lost their indentation: accelerate refuses the file",
        section,
        lines,
    )
    edits = tuple(Edit(file, held.line, held.line, (f"  {key}: {held.text}",)) for key, held in inner)
    where = (Where(file, first), Where(file, last))
    is_scalar = all(held.text and "\n" not in held.text for _, held in inner)
    return fail(
        "keys_are_indented",
        message,
        *where,
        fix=said("Indent {lines} by two blanks.", lines),
        edits=edits if is_scalar else (),
    )


def _duplicates(mapping: Located, file: str, within: str = "") -> list[Finding]:
    """A key that is given twice: PyYAML silently takes the last one."""
    found = []
    for key, first, last in mapping.duplicates:
        message = said(
            "{within}{key} is given in lines {first} and {last}; accelerate silently takes line {last}",
            within,
            key,
            first,
            last,
        )
        if key in NUMBERS or key in TEXTS:
            found.append(warn("keys_stand_once", message, Where(file, first), Where(file, last), fix="Delete one."))
    return found


def _unknown_key(document: Located, key: str, where: Where) -> Finding:
    for section, prefixes in SECTIONS.items():
        if key.startswith(tuple(prefixes.split())):
            message = said(
                "{key} is at the top level; accelerate refuses it there: it belongs in {section}", key, section
            )
            return fail("keys_are_known", message, where, fix=f"{section}: {{{key}: {document.mapping()[key].text}}}")
    close = difflib.get_close_matches(key, KEYS, 1, 0.85)
    if close:
        message = said("{key} is not a key of accelerate, which refuses the file; did you mean {close}", key, close[0])
        return fail("keys_are_known", message, where, fix=f"{close[0]}: {document.mapping()[key].text}")
    message = said("accelerate refuses a file with a key that its version does not know: {key}", key)
    return warn(
        "keys_are_known", message, where, fix=said("Delete {key}, or install the accelerate that knows it.", key)
    )


def _typed(key: str, held: Located, where: Where, problems: list[Finding]) -> Field[Any]:
    """The value as accelerate gets it; one that YAML turns into something else than it looks like is a problem."""
    value = held.plain()
    if key == "distributed_type" and isinstance(value, bool):
        word = "NO" if value is False else held.text
        message = said(
            "distributed_type: {text} without quotes is {value} in YAML 1.1, not the word {word}",
            held.text,
            value,
            word,
        )
        problems.append(fail("yaml_values_are_as_meant", message, where, fix=f"distributed_type: '{word}'"))
    elif key == "distributed_type" and isinstance(value, str) and value not in KINDS and "$" not in value:
        close = difflib.get_close_matches(value.upper(), TYPES, 1, 0.6)
        hint = f"distributed_type: {close[0]}" if close else said("One of {TYPES}.", ", ".join(sorted(TYPES)))
        problems.append(
            fail(
                "yaml_values_are_as_meant",
                said("distributed_type {value!r} is none that accelerate knows", value),
                where,
                fix=hint,
            )
        )
    elif (
        key == "mixed_precision"
        and value is not None
        and value is not False
        and str(value) not in ("no", "fp16", "bf16", "fp8")
    ):
        problems.append(
            fail(
                "yaml_values_are_as_meant",
                said("mixed_precision {value!r}; wanted no, fp16, bf16 or fp8", value),
                where,
            )
        )
    elif key in NUMBERS and value is not None:
        return _number(key, held, where, problems)
    elif key == "main_process_ip" and value is not None and not isinstance(value, str):
        problems.append(
            fail(
                "yaml_values_are_as_meant",
                said("main_process_ip: {text} is {value!r} in YAML, not an address", held.text, value),
                where,
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
        message = said("{key}: {looks} is {value} in YAML 1.1", key, looks, value)
        problems.append(fail("yaml_values_are_as_meant", message, where, fix=f"{key}: {_meant(looks)}"))
        return Sourced(value, where.file, where.line)
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value.strip()):
        if key in ("num_processes", "num_machines"):  # "8" // 2 and "2" > 1 raise TypeError
            message = said(
                "{key}: '{value}' is a text; accelerate calculates with it and stops with a TypeError", key, value
            )
            problems.append(fail("numbers_are_numbers", message, where, fix=f"{key}: {value.strip()}"))
        return Sourced(int(value), where.file, where.line)
    problems.append(fail("numbers_are_numbers", said("{key} is {looks!r}; wanted a number", key, looks[:60]), where))
    return Unknown(looks[:60], where.file, where.line)


def _meant(text: str) -> str:
    return text.lstrip("0") or "0" if text.isdigit() else text
