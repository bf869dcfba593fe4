"""Which GPUs does the job see on a node, by CUDA_VISIBLE_DEVICES and its counterparts?"""

from __future__ import annotations

from preflight.facts.node import NodeFacts
from preflight.facts.subjects.gpu import Gpu
from preflight.said import said
from preflight.said.errors import FactMissing

NAMES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
# The container runtime reads it, not CUDA: its numbers are those of the host, of which a container sees its own part.
OF_THE_RUNTIME = "NVIDIA_VISIBLE_DEVICES"
NONE = ("", "-1", "NoDevFiles", "void", "none")


def choice(node: NodeFacts) -> tuple[str, str]:
    """The variable that chooses among the GPUs, and its value; empty where none is set."""
    variables = node.environment.variables
    for name in NAMES:
        if name in variables and variables[name].value.strip() != "all":
            return name, variables[name].value
    return "", ""


def gpus(node: NodeFacts) -> tuple[Gpu, ...]:
    """The GPUs that the job sees: as CUDA reads it, the list ends before the first that is not there."""
    held = node.gpu.readable()
    name, value = choice(node)
    if not name or (name == OF_THE_RUNTIME and value not in NONE):
        return held
    found: list[Gpu] = []
    for word in map(str.strip, value.split(",")):
        chosen = next((gpu for gpu in held if _is(gpu, word)), None)
        if chosen is None or chosen in found:
            break
        found.append(chosen)
    return tuple(found)


def count(node: NodeFacts) -> int:
    """How many GPUs one process of the job sees; 0 where that cannot be read, and a check of its own says so.

    With MIG on, CUDA shows a process one slice, however many there are.
    """
    try:
        seen = gpus(node)
    except FactMissing:
        return 0
    return 1 if any(gpu.is_partitioned for gpu in seen) else len(seen)


def trouble(node: NodeFacts) -> str:
    """What the variable names that is not on the node, or that it hides every GPU; "" where it is right."""
    name, value = choice(node)
    held = node.gpu.readable()
    if not name or not held:
        return ""
    words = [word.strip() for word in value.split(",")]
    if all(word in NONE for word in words):
        return said("{name}={value!r} hides every GPU from the job", name, value)
    if name == OF_THE_RUNTIME:
        return ""
    lost = [word for word in words if word and not any(_is(gpu, word) for gpu in held)]
    return (
        said("{name}={value}: of {held} GPUs none is {lost}", name, value, len(held), ", ".join(lost)) if lost else ""
    )


def _is(gpu: Gpu, word: str) -> bool:
    """Whether an index, a UUID or its beginning, or a slice of MIG means this GPU."""
    if word.isdecimal():
        return int(word) == gpu.index
    return word.startswith("MIG-") or (len(word) > 4 and gpu.uuid.startswith(word))
