"""Which versions of packages are known to break together?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from preflight.knowledge.versions import is_within

Environment = Mapping[str, str]  # package -> the version that is installed


@dataclass(frozen=True)
class BadPair:
    """Versions that break together: a package and what of it, another and what of it ("" for no other).

    ``example`` is an environment that has both, ``neighbour`` one beyond it.
    """

    package: str
    versions: str  # ">=2.4,<2.5"
    other: str
    other_versions: str
    what: str
    fix: str
    source: str
    example: Environment
    neighbour: Environment


BAD_PAIRS = (
    BadPair(
        "torch",
        ">=2.7,<2.7.1",
        "",
        "",
        "collectives hang now and then where the program gives `device_id` to init_process_group",
        "torch 2.7.1, or TORCH_NCCL_USE_COMM_NONBLOCKING=0",
        "https://github.com/pytorch/pytorch/issues/153960",
        {"torch": "2.7.0"},
        {"torch": "2.7.1"},
    ),
    BadPair(
        "deepspeed",
        "<0.14.3",
        "torch",
        ">=2.4",
        "`import deepspeed` ends with ImportError: torch.distributed.elastic has lost what it imports",
        "`pip install 'deepspeed>=0.14.3'`",
        "https://github.com/deepspeedai/DeepSpeed/issues/5337, https://github.com/deepspeedai/DeepSpeed/issues/5603",
        {"deepspeed": "0.14.2", "torch": "2.4.0"},
        {"deepspeed": "0.14.3", "torch": "2.4.0"},
    ),
    BadPair(
        "torch",
        "<2.3",
        "numpy",
        ">=2",
        "this torch was compiled for NumPy 1: `tensor.numpy()` fails or crashes",
        "`pip install 'numpy<2'`, or a newer torch",
        "https://github.com/pytorch/pytorch/issues/135013",
        {"torch": "2.2.2", "numpy": "2.0.1"},
        {"torch": "2.3.0", "numpy": "2.0.1"},
    ),
    BadPair(
        "megatron-core",
        ">=0.11,<0.12",
        "torch",
        "<2.5",
        "jobs of more than two nodes hang when they broadcast parameters",
        "a newer torch",
        "https://github.com/verl-project/verl/issues/701",
        {"megatron-core": "0.11.0", "torch": "2.4.1"},
        {"megatron-core": "0.11.0", "torch": "2.5.0"},
    ),
    BadPair(
        "nccl",
        ">=2.26.3,<2.27.3",
        "",
        "",
        'jobs of several nodes may end with "Could not find NET with id 0"',
        "NCCL 2.27.3 or newer",
        "https://github.com/NVIDIA-NeMo/Speech/issues/13996",
        {"nccl": "2.27.2"},
        {"nccl": "2.27.3"},
    ),
    BadPair(
        "transformer-engine",
        ">=1.0,<1.1",
        "flash-attn",
        ">=2.0.5",
        "this transformer-engine requires flash-attn up to 2.0.4",
        "a newer transformer-engine",
        "https://github.com/Dao-AILab/flash-attention/issues/813",
        {"transformer-engine": "1.0", "flash-attn": "2.0.5"},
        {"transformer-engine": "1.0", "flash-attn": "2.0.4"},
    ),
)


def together(held: Environment, rows: Iterable[BadPair] = BAD_PAIRS) -> list[BadPair]:
    """The rows that hold in an environment."""
    return [
        pair
        for pair in rows
        if is_within(held.get(pair.package, ""), pair.versions)
        and (not pair.other or is_within(held.get(pair.other, ""), pair.other_versions))
    ]
