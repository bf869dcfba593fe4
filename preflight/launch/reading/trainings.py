"""What does LLaMA-Factory's own YAML hand to the program? Every key is an option of its own, or of transformers."""

from __future__ import annotations

from preflight.launch.field import Sourced
from preflight.launch.text.located import Located

OF_A_TRAINING = frozenset({"model_name_or_path", "stage", "finetuning_type", "do_train"})


def is_training(document: Located) -> bool:
    """Whether a YAML document is a configuration of `llamafactory-cli train`."""
    return "model_name_or_path" in document.mapping() and len(OF_A_TRAINING & set(document.mapping())) > 1


def arguments(document: Located, file: str) -> tuple[Sourced[str], ...]:
    """Its keys and values as the options that they are on a command line."""
    words: list[Sourced[str]] = []
    for key, held in document.items():
        if not isinstance(held.value, (dict, list)):
            words += [Sourced(f"--{key}", file, held.line), Sourced(held.text, file, held.line)]
    return tuple(words)


def deepspeed_file(document: Located) -> str:
    """The DeepSpeed configuration that it names, "" where it names none."""
    held = document.get("deepspeed")
    return held.value if held is not None and isinstance(held.value, str) else ""
