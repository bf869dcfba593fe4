"""Which CUDA has code for which GPU, and does torch bring it?

Code of a major compute capability runs on its later minor ones: only what begins or ends with a CUDA stands here.
PyTorch's own wheels leave out GPUs that their CUDA knows: what each of them leaves out stands below.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from preflight.errors import FactMissing
from preflight.facts.node import NodeFacts
from preflight.said import joined, knowing, said
from preflight.tables.faults import Fault
from preflight.tables.packages import is_within

RELEASE_NOTES = "https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/index.html"
HIGHER = "torch for a newer CUDA (`--index-url https://download.pytorch.org/whl/cuXYZ`) on the nodes named"
COMPATIBLE = "https://docs.nvidia.com/cuda/blackwell-compatibility-guide/"
# And https://github.com/pytorch/pytorch/issues/172352 (Volta), .../issues/157517 (Maxwell and Pascal).
WHEELS = "https://github.com/pytorch/pytorch/blob/main/RELEASE.md"
LOWER = "torch for an older CUDA (`--index-url https://download.pytorch.org/whl/cuXYZ`), or leave the nodes named out"


@dataclass(frozen=True)
class Model:
    """GPUs by a regular expression for their names, and the CUDA versions that have code for them."""

    pattern: str
    compute_capability: str
    cuda: str  # ">=12.8"
    fix: str
    named: str = ""  # the CUDA that first has code of its own for them, where that of their family runs before


MODELS = (
    Model(r"\bGB10\b", "12.1", ">=12.8", HIGHER, ">=12.9"),
    Model(r"\bG?B300\b", "10.3", ">=12.8", HIGHER, ">=12.9"),
    Model(r"\bG?B[12]00\b", "10.0", ">=12.8", HIGHER),
    Model(r"RTX 50\d0|Blackwell", "12.0", ">=12.8", HIGHER),
    Model(r"\bG?H(100|200|800|20)\b", "9.0", ">=11.8", HIGHER),
    Model(r"\bA(100|800|30|10|40|16|2)\b|RTX 30\d0|RTX A\d000", "8.0", ">=11.0", HIGHER),
    Model(r"V100|TITAN V\b", "7.0", "<13", LOWER),
    Model(r"\bP(100|40|4|6)\b|GTX 10\d0|TITAN X", "6.0", "<13", LOWER),
    Model(r"\bM(60|40|10|4)\b|GTX 9\d0", "5.0", "<13", LOWER),
    Model(r"\bK(80|40|20)", "3.0", "<12", LOWER),
)


@dataclass(frozen=True)
class Wheel:
    """What PyTorch's own wheels of some versions leave out that their CUDA knows."""

    torch: str  # ">=2.7,<2.8"
    cuda: str  # "==12.8.*"
    least: str  # the least compute capability that they have code for


LEFT_OUT = (
    Wheel(">=2.7,<2.8", "==12.8.*", "7.5"),
    Wheel(">=2.8,<2.11", ">=12.8,<13", "7.0"),
    Wheel(">=2.11", ">=12.8,<13", "7.5"),
)
OF_PYTORCH = re.compile(r"\+cu\d+$")  # "2.9.1+cu128": builds of others have another list of GPUs
WITH_ALL = (
    "`pip install torch --index-url https://download.pytorch.org/whl/cu126` on the nodes named (it has code for "
    "Maxwell, Pascal and Volta), or leave them out"
)


def _strangers(node: NodeFacts, fix: str) -> str:
    """The GPUs that the CUDA of torch has no code for, of the rows with this way out."""
    cuda = _cuda(node)
    return joined(
        [
            knowing(
                said("torch is built for CUDA {cuda}; {name} needs CUDA {cuda2}", cuda, name, model.cuda),
                wanted=model.cuda,
            )
            for name, model in _known(node)
            if model.fix == fix and not is_within(cuda, model.cuda)
        ]
    )


def _relatives(node: NodeFacts) -> str:
    """The GPUs that run the code of their family only."""
    cuda = _cuda(node)
    return joined(
        [
            said(
                "torch is built for CUDA {cuda}, and {name} has code of its own from CUDA {named}: what was "
                "made for a sibling alone (sm_100a, sm_120a) does not run",
                cuda,
                name,
                model.named,
            )
            for name, model in _known(node)
            if model.named and is_within(cuda, model.cuda) and not is_within(cuda, model.named)
        ]
    )


def _left_out(node: NodeFacts) -> str:
    """The GPUs that this wheel of PyTorch's has no code for, though its CUDA knows them."""
    cuda, version = _cuda(node), node.software.torch_version
    wheel = next((row for row in LEFT_OUT if is_within(version, row.torch) and is_within(cuda, row.cuda)), None)
    if wheel is None or not OF_PYTORCH.search(version):
        return ""
    return joined(
        [
            said(
                "torch {version} has code from compute capability {least} on; {name} has {compute_capability}",
                version,
                wheel.least,
                name,
                model.compute_capability,
            )
            for name, model in _known(node)
            if float(model.compute_capability) < float(wheel.least)
        ]
    )


def _cuda(node: NodeFacts) -> str:
    """The CUDA of torch; FactMissing where there is no GPU, or none for torch."""
    if not node.gpu.readable():
        raise FactMissing("code for the GPUs", "no GPU", "absent")
    cuda = node.software.library_of_torch("torch_cuda")
    if cuda == "none":
        raise FactMissing("code for the GPUs", "torch is not built for CUDA", "absent")
    return cuda


def _known(node: NodeFacts) -> list[tuple[str, Model]]:
    """The models of a node that stand in the table, by their names."""
    names = sorted({gpu.name for gpu in node.gpu.readable()})
    rows = ((name, next((model for model in MODELS if re.search(model.pattern, name)), None)) for name in names)
    return [(name, model) for name, model in rows if model is not None]


CODE: tuple[Fault[NodeFacts], ...] = (
    Fault("oldest CUDA with code for the GPU", lambda node: _strangers(node, HIGHER), HIGHER, RELEASE_NOTES),
    Fault("newest CUDA with code for the GPU", lambda node: _strangers(node, LOWER), LOWER, RELEASE_NOTES),
    Fault("GPUs of PyTorch's wheel", _left_out, WITH_ALL, WHEELS),
    Fault("CUDA with code for this very GPU", _relatives, HIGHER, COMPATIBLE, is_advisory=True),
)
