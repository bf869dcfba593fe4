"""Which packages differ between environments that should be one, and which are known to go badly together?"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from preflight.facts.cluster import Cluster
from preflight.facts.subjects.software import Software
from preflight.facts.value import Missing
from preflight.knowledge.packages import BadPair, together
from preflight.knowledge.versions import is_within
from preflight.reach.hosts import fold
from preflight.said import said
from preflight.said.errors import Blame

# Tools that install packages: no job imports them.
TOOLS = frozenset({"pip", "setuptools", "wheel", "virtualenv", "uv", "distribute", "conda", "mamba"})
MOST_SHOWN = 8


def bad_pairs(software: Software) -> list[BadPair]:
    """The rows that hold on a node."""
    return together(installed(software))


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
