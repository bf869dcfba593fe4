"""Which CUDA has code for which GPU, and which GPUs do PyTorch's own wheels leave out?

Code of a major compute capability runs on its later minor ones: only what begins or ends with a CUDA stands here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from preflight.knowledge.versions import is_within

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
    gpu: str  # the name of such a GPU
    example: str  # a CUDA without code for it
    neighbour: str  # one with code for it
    named: str = ""  # the CUDA that first has code of its own for them, where that of their family runs before


MODELS = (
    Model(r"\bGB10\b", "12.1", ">=12.8", HIGHER, "NVIDIA GB10", "12.6", "12.8", named=">=12.9"),
    Model(r"\bG?B300\b", "10.3", ">=12.8", HIGHER, "NVIDIA B300 SXM6 AC", "12.6", "12.8", named=">=12.9"),
    Model(r"\bG?B[12]00\b", "10.0", ">=12.8", HIGHER, "NVIDIA B200", "12.6", "12.8"),
    Model(r"RTX 50\d0|Blackwell", "12.0", ">=12.8", HIGHER, "NVIDIA GeForce RTX 5090", "12.6", "12.8"),
    Model(r"\bG?H(100|200|800|20)\b", "9.0", ">=11.8", HIGHER, "NVIDIA H100 80GB HBM3", "11.7", "11.8"),
    Model(
        r"\bA(100|800|30|10|40|16|2)\b|RTX 30\d0|RTX A\d000",
        "8.0",
        ">=11.0",
        HIGHER,
        "NVIDIA A100-SXM4-80GB",
        "10.2",
        "11.0",
    ),
    Model(r"V100|TITAN V\b", "7.0", "<13", LOWER, "Tesla V100-SXM2-32GB", "13.0", "12.9"),
    Model(r"\bP(100|40|4|6)\b|GTX 10\d0|TITAN X", "6.0", "<13", LOWER, "Tesla P100-PCIE-16GB", "13.0", "12.9"),
    Model(r"\bM(60|40|10|4)\b|GTX 9\d0", "5.0", "<13", LOWER, "Tesla M60", "13.0", "12.9"),
    Model(r"\bK(80|40|20)", "3.0", "<12", LOWER, "Tesla K80", "12.0", "11.8"),
)


@dataclass(frozen=True)
class Wheel:
    """What PyTorch's own wheels of some versions leave out that their CUDA knows."""

    torch: str  # ">=2.7,<2.8"
    cuda: str  # "==12.8.*"
    least: str  # the least compute capability that they have code for
    example: tuple[str, str]  # torch and its CUDA
    neighbour: tuple[str, str]


LEFT_OUT = (
    Wheel(">=2.7,<2.8", "==12.8.*", "7.5", ("2.7.1", "12.8"), ("2.7.1", "12.6")),
    Wheel(">=2.8,<2.11", ">=12.8,<13", "7.0", ("2.10.0", "12.9"), ("2.10.0", "12.6")),
    Wheel(">=2.11", ">=12.8,<13", "7.5", ("2.11.0", "12.8"), ("2.11.0", "13.0")),
)


def model(name: str, rows: Iterable[Model] = MODELS) -> Model | None:
    """The row of a GPU by its name; None where it stands in none."""
    return next((row for row in rows if re.search(row.pattern, name)), None)


def wheel(torch: str, cuda: str, rows: Iterable[Wheel] = LEFT_OUT) -> Wheel | None:
    """The row of a torch and its CUDA; None where PyTorch's wheels have code for all GPUs that the CUDA knows."""
    return next((row for row in rows if is_within(torch, row.torch) and is_within(cuda, row.cuda)), None)
