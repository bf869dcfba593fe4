"""Which CUDA has code for which GPU, and does torch bring it?

Code of a major compute capability runs on its later minor ones: only what begins or ends with a CUDA stands here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from preflight.errors import FactMissing
from preflight.facts.node import NodeFacts
from preflight.tables.faults import Fault
from preflight.tables.packages import is_within

RELEASE_NOTES = "https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/index.html"
HIGHER = "torch for a newer CUDA (`--index-url https://download.pytorch.org/whl/cuXYZ`) on the nodes named"
LOWER = "torch for an older CUDA (`--index-url https://download.pytorch.org/whl/cuXYZ`), or leave the nodes named out"


@dataclass(frozen=True)
class Model:
    """GPUs by a regular expression for their names, and the CUDA versions that have code for them."""

    pattern: str
    compute_capability: str
    cuda: str  # ">=12.8"
    fix: str


MODELS = (
    Model(r"\bGB10\b", "12.1", ">=12.9", HIGHER),
    Model(r"\bG?B300\b", "10.3", ">=12.9", HIGHER),
    Model(r"\bG?B[12]00\b", "10.0", ">=12.8", HIGHER),
    Model(r"RTX 50\d0|Blackwell", "12.0", ">=12.8", HIGHER),
    Model(r"\bG?H(100|200|800|20)\b", "9.0", ">=11.8", HIGHER),
    Model(r"\bA(100|800|30|10|40|16|2)\b|RTX 30\d0|RTX A\d000", "8.0", ">=11.0", HIGHER),
    Model(r"V100|TITAN V\b", "7.0", "<13", LOWER),
    Model(r"\bP(100|40|4|6)\b|GTX 10\d0|TITAN X", "6.0", "<13", LOWER),
    Model(r"\bM(60|40|10|4)\b|GTX 9\d0", "5.0", "<13", LOWER),
    Model(r"\bK(80|40|20)", "3.0", "<12", LOWER),
)


def _strangers(node: NodeFacts, fix: str) -> str:
    """The GPUs that the CUDA of torch has no code for, of the rows with this way out."""
    if not node.gpu.readable():
        raise FactMissing("code for the GPUs", "no GPU", "absent")
    cuda = node.software.library_of_torch("torch_cuda")
    if cuda == "none":
        raise FactMissing("code for the GPUs", "torch is not built for CUDA", "absent")
    messages = []
    for name in sorted({gpu.name for gpu in node.gpu.readable()}):
        model = next((model for model in MODELS if re.search(model.pattern, name)), None)
        if model is not None and model.fix == fix and not is_within(cuda, model.cuda):
            messages.append(f"torch is built for CUDA {cuda}; {name} needs CUDA {model.cuda}")
    return "; ".join(messages)


CODE: tuple[Fault[NodeFacts], ...] = (
    Fault("CUDA too old for the GPU", lambda node: _strangers(node, HIGHER), HIGHER, RELEASE_NOTES),
    Fault("CUDA too new for the GPU", lambda node: _strangers(node, LOWER), LOWER, RELEASE_NOTES),
)
