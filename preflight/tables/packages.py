"""Which packages differ between environments that should be one, and which are known to go badly together?"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from preflight.errors import Blame
from preflight.facts.cluster import Cluster
from preflight.facts.subjects.software import Software
from preflight.facts.value import Missing
from preflight.hosts import fold
from preflight.knowledge.versions import is_within
from preflight.said import said

# Tools that install packages: no job imports them.
TOOLS = frozenset({"pip", "setuptools", "wheel", "virtualenv", "uv", "distribute", "conda", "mamba"})
MOST_SHOWN = 8


@dataclass(frozen=True)
class BadPair:
    """Versions that break together: a package and what of it, another and what of it ("" for no other)."""

    package: str
    versions: str  # ">=2.4,<2.5"
    other: str
    other_versions: str
    what: str
    fix: str
    source: str


BAD_PAIRS = (
    BadPair(
        "deepspeed",
        "<0.14.3",
        "torch",
        ">=2.4",
        "`import deepspeed` ends with ImportError: torch.distributed.elastic has lost what it imports",
        "`pip install 'deepspeed>=0.14.3'`",
        "https://github.com/deepspeedai/DeepSpeed/issues/5337, https://github.com/deepspeedai/DeepSpeed/issues/5603",
    ),
    BadPair(
        "torch",
        "<2.3",
        "numpy",
        ">=2",
        "this torch was compiled for NumPy 1: `tensor.numpy()` fails or crashes",
        "`pip install 'numpy<2'`, or a newer torch",
        "https://github.com/pytorch/pytorch/issues/135013",
    ),
    BadPair(
        "megatron-core",
        ">=0.11,<0.12",
        "torch",
        "<2.5",
        "jobs of more than two nodes hang when they broadcast parameters",
        "a newer torch",
        "https://github.com/verl-project/verl/issues/701",
    ),
    BadPair(
        "nccl",
        ">=2.26.3,<2.27.3",
        "",
        "",
        'jobs of several nodes may end with "Could not find NET with id 0"',
        "NCCL 2.27.3 or newer",
        "https://github.com/NVIDIA-NeMo/Speech/issues/13996",
    ),
    BadPair(
        "transformer-engine",
        ">=1.0,<1.1",
        "flash-attn",
        ">=2.0.5",
        "this transformer-engine requires flash-attn up to 2.0.4",
        "a newer transformer-engine",
        "https://github.com/Dao-AILab/flash-attention/issues/813",
    ),
)


def bad_pairs(software: Software) -> list[BadPair]:
    """The rows that hold on a node."""
    held = installed(software)
    return [
        pair
        for pair in BAD_PAIRS
        if is_within(held.get(pair.package, ""), pair.versions)
        and (not pair.other or is_within(held.get(pair.other, ""), pair.other_versions))
    ]


def installed(software: Software) -> dict[str, str]:
    """The packages of a node, with torch and NCCL as they are and not as they were packaged."""
    versions = (("torch", software.torch), ("nccl", software.nccl))
    return {**software.packages, **{name: value for name, value in versions if not isinstance(value, Missing)}}


def unmet(software: Software) -> list[str]:
    """What packages require of others that are installed in another version."""
    held = installed(software)
    return [
        said(
            "{package} {held} requires {name}{versions}, installed is {held2}",
            package,
            held[package],
            name,
            versions,
            held[name],
        )
        for package, wanted in software.requirements.items()
        for name, versions in wanted.items()
        if package in held and held.get(name) and not is_within(held[name], versions)
    ]


NCCL_WHEEL = re.compile(r"nvidia-nccl-cu\d+")


def nccl_wheels(software: Software) -> dict[str, str]:
    """NVIDIA's wheels of NCCL, one for each CUDA: all of them install the one file nvidia/nccl/lib/libnccl.so.2."""
    return {name: version for name, version in software.packages.items() if NCCL_WHEEL.fullmatch(name)}


def differing(cluster: Cluster, judged_elsewhere: Collection[str]) -> list[Blame]:
    """A Blame for each group of nodes whose packages are not those of the most; on a tie, one for all of them."""
    skipped = TOOLS.union(judged_elsewhere)
    torches = {software.torch for software in cluster.gather(lambda node: node.software).values()}
    groups: dict[frozenset[tuple[str, str]], tuple[str, ...]] = cluster.group_by(
        lambda node: frozenset(
            (name, version)
            for name, version in node.software.packages.items()
            # Another torch brings other libraries: a consequence, reported with torch.
            if name not in skipped and not (len(torches) > 1 and name.startswith("nvidia-"))
        )
    )
    if len(groups) < 2:
        return []
    (most, nodes), *others = groups.items()
    if len(nodes) == len(others[0][1]):
        names = tuple(name for group in groups.values() for name in group)
        return [Blame(_difference(dict(others[0][0]), dict(most), fold(others[0][1]), fold(nodes)), nodes=names)]
    return [Blame(_difference(dict(held), dict(most), fold(group), fold(nodes)), nodes=group) for held, group in others]


def _difference(held: Mapping[str, str], wanted: Mapping[str, str], here: str, there: str) -> str:
    names = sorted(name for name in held.keys() | wanted.keys() if held.get(name) != wanted.get(name))
    parts = [
        said("{name} {get} (there {get2})", name, held.get(name, "none"), wanted.get(name, "none"))
        for name in names[:MOST_SHOWN]
    ]
    more = said(" and {MOST_SHOWN} more", len(names) - MOST_SHOWN) if names[MOST_SHOWN:] else ""
    return said(
        "{names} packages on {here} differ from {there}: {parts}{more}", len(names), here, there, ", ".join(parts), more
    )
