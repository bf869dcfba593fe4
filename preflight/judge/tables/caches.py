"""Which caches does the job use, and do they hold what makes it wait or fail?"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

from preflight.facts.node import NodeFacts
from preflight.facts.subjects.files import Cache
from preflight.facts.value import present
from preflight.said import said
from preflight.said.errors import NotApplicable

EXTENSIONS = "torch extensions"
# What is cached -> the packages whose jobs use it, by the beginning of their names. Of what they hold machine code is
# compiled; the Hugging Face cache is downloaded.
PACKAGES = {
    "Triton": ("triton", "pytorch-triton"),
    "torch.compile": ("torch",),
    EXTENSIONS: ("deepspeed", "ninja"),
    "FlashInfer": ("flashinfer",),
    "DeepGEMM": ("deep-gemm",),
    "vLLM": ("vllm",),
    "Hugging Face": ("transformers", "huggingface-hub", "datasets"),
}
DOWNLOADED = ("Hugging Face",)
OF_THE_MACHINE = ("9p", "virtiofs")  # a hypervisor's, which no other node shares
# A file that a compiler works on is written within minutes, but for the largest kernels.
QUIET_SECONDS = 1800
TAG = re.compile(r"py\d+\w*_(?:cu|rocm|xpu|cpu)\w*")  # py311_cu128: torch keeps each Python and CUDA apart


def used(node: NodeFacts) -> list[Cache]:
    """The caches that what is installed on a node uses."""
    names = node.software.packages
    return [
        cache
        for cache in present(node.files.caches, "caches of compiled code")
        if any(f"{name}-".startswith(f"{package}-") for name in names for package in PACKAGES.get(cache.what, ()))
    ]


def needed(node: NodeFacts) -> list[Cache]:
    """The same; NotApplicable where there is none."""
    found = used(node)
    if not found:
        raise NotApplicable("nothing is installed that compiles code or downloads models for itself")
    return found


def is_shared(cache: Cache) -> bool:
    """Whether other nodes may write into a cache of machine code."""
    return cache.is_of_network and cache.kind not in OF_THE_MACHINE and cache.what not in DOWNLOADED


def on_network(used_by: Mapping[str, Iterable[Cache]]) -> dict[str, list[tuple[str, Cache]]]:
    """File system and folder -> the nodes that compile into it, where several do."""
    found: defaultdict[str, list[tuple[str, Cache]]] = defaultdict(list)
    for name, held in used_by.items():
        for cache in held:
            if is_shared(cache):
                found[f"{cache.source} {cache.path}"].append((name, cache))
    return {place: held for place, held in found.items() if len(held) > 1}


def locks(cache: Cache, python: str) -> list[tuple[str, str, bool]]:
    """Locks that no build holds any longer: path, how long nothing was written, whether this job would wait."""
    return [
        (path, age_text(seconds), is_of(path, cache.path, python))
        for path, seconds in cache.locks
        if seconds >= QUIET_SECONDS
    ]


def age_text(seconds: int) -> str:
    """How long ago, in the largest unit that says it."""
    for unit, length in (("days", 86400), ("hours", 3600)):
        if seconds >= 2 * length:
            return said("{count} {unit}", seconds // length, unit)
    return said("{count} minutes", seconds // 60)


def is_of(path: str, cache: str, python: str) -> bool:
    """Whether a folder of extensions is of this Python ("3.11"), or of any."""
    tag = path[len(cache) :].strip("/").partition("/")[0]
    return not TAG.fullmatch(tag) or re.match(rf"py{python.replace('.', '')}(?!\d)", tag) is not None


def held_back(cache: Cache, *, user_id: int, min_bytes: int, is_known: bool) -> str:
    """Why nothing new gets into a cache, "" where it does.

    `is_known`: another check looks at the same file system, and tells when it is full.
    """
    if cache.trouble:
        return cache.trouble
    if not cache.is_writable:
        if cache.owner != user_id:
            words = said("{below} belongs to user {owner}", cache.below, cache.owner)
            return said("{words}, and user {user_id} may not write there", words, user_id)
        return said("{below} cannot be written to", cache.below)
    if not cache.may_run and cache.what not in DOWNLOADED:
        return said("no program may be run from {below} (noexec)", cache.below)
    if cache.free_bytes < min_bytes and not is_known:
        free, wanted = cache.free_bytes >> 20, min_bytes >> 20
        return said("{free} MiB free in {below}; wanted at least {wanted}", free, cache.below, wanted)
    return ""


def local(caches: Iterable[Cache]) -> str:
    """The command that moves these caches to a disk of the node, for one user."""
    moved = dict.fromkeys(cache.variable for cache in caches)
    words = " ".join(f"{name}=/tmp/{name.partition('_')[0].lower()}-$(id -u)" for name in moved)
    return said("`export {words}` in the line that starts the job", words)
