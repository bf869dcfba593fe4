"""Which variables of a job do nothing, cannot hold what they hold, or may not differ between nodes?

The checks of a live run and the rules about launch files ask the same functions.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from functools import cache

from preflight.knowledge.variables.names import ROWS, TORCH, TORCH_DIST, Row
from preflight.knowledge.versions import is_within
from preflight.said import said

# Where every name is known, so that another one does not exist; elsewhere only a near miss is one.
CLOSED = ("NCCL_", "TORCH_NCCL_", "GLOO_")
# NCCL with a letter left out or written twice; another letter makes other libraries: RCCL, HCCL, MCCL, and CCL.
MISSPELT = re.compile(r"(NCC|NCL|NCCCL|NCCLL|NNCCL)_(?=[A-Z])")
NEAR_ONLY = ("TORCH_",)
# Those of plugins, test programs, builds and images; NCCL itself reads none of them.
STRANGERS = re.compile(
    r"NCCL_(TESTS_|GPUDIRECTTCPX|FASTRAK|UCX_|SHARP_|OFI_|SHIMNET_|INSPECTOR_|MSCCL|NET_PLUGIN_|TUNER_|PROFILER_|GIB_"
    r"|VERSION|HOME|ROOT|PATH|DIR|LIB|INCLUDE|INC|BUILD|DOCKER|PACKAGE|PLUGIN|COLLTRACE|CTRAN|SPCX|RCCL|EP_"
    r"|DYNAMIC_|FLAGCX_|TIMEOUT$|ISOLATION_TIMEOUT$|IBEXT_|CONTAINER|IMAGE|EXCLUDE_IB_HCA$|USE_SNAP$)"
)
# What writes a variable that sets a node apart, or that its own launcher sets for each node.
OF_A_NODE = re.compile(
    r"(SLURM|OMPI_COMM_WORLD|PMI|TORCHELASTIC|PET|ACCELERATE)_|(LOCAL_|NODE_|GROUP_)?RANK$|LOCAL_WORLD_SIZE$|MASTER_(ADDR|PORT)$"
    r"|(CUDA|HIP|ROCR|NVIDIA)_VISIBLE_DEVICES$|LD_LIBRARY_PATH$|PYTHONPATH$|UCX_NET_DEVICES$|CUDA_(HOME|PATH|ROOT)$"
)


STEERING = ("NCCL_", "GLOO_", "MASTER_", "FI_", "UCX_", "RDMAV_")

# What distinguishes a node or a rank from the others: the same value on two nodes makes one of them.
APART = ("NCCL_HOSTID", "NODE_RANK", "GROUP_RANK")


@cache
def is_asked(name: str) -> bool:
    """Whether it is known, or has a name by which it might be meant for one of these libraries."""
    return name in ROWS or name.startswith((*CLOSED, *NEAR_ONLY)) or MISSPELT.sub("NCCL_", name) != name


def unknown(name: str) -> str:
    """What to say of a name that no library reads, "" where one does or that is not known."""
    if name in ROWS or STRANGERS.match(name):
        return ""
    meant = MISSPELT.sub("NCCL_", name)
    if meant != name:
        return said("{name} is read by no library; did you mean {meant}?", name, meant) if meant in ROWS else ""
    is_closed = name.startswith(CLOSED)
    if not is_closed and not name.startswith(NEAR_ONLY):
        return ""
    near = nearest(name)
    if near:
        return said("{name} is read by no library; did you mean {near}?", name, near)
    return said("{name} is read by no library known here", name) if is_closed else ""


def nearest(name: str) -> str:
    """The real name that was meant, "" where none is near."""
    stripped = MISSPELT.sub("NCCL_", name.strip())
    if stripped in ROWS:
        return stripped
    words = set(stripped.split("_"))
    for candidate in ROWS:  # the right words in another order
        if words == set(candidate.split("_")):
            return candidate
    library = stripped.partition("_")[0] + "_"
    tails = {candidate.removeprefix(library): candidate for candidate in ROWS if candidate.startswith(library)}
    near = difflib.get_close_matches(stripped.removeprefix(library), tails, n=1, cutoff=0.8)
    if near:
        return tails[near[0]]
    wider = [candidate for candidate in ROWS if len(words) > 1 and words < set(candidate.split("_"))]
    if wider and not stripped.startswith(NEAR_ONLY):
        return wider[0]  # a word left out; the rows begin with what people set
    near = difflib.get_close_matches(stripped.removeprefix(library), tails, n=1, cutoff=0.7)
    return tails[near[0]] if near and not stripped.startswith(NEAR_ONLY) else ""


def is_misspelt(name: str, meant: str) -> bool:
    """Whether a name is the other with a slip in it: word for word alike, so that its value means the same there.

    NCCL_SOCKET_TIMEOUT is near NCCL_SOCKET_POLL_TIMEOUT_MSEC, and says something else, in another unit.
    """
    words, wanted = MISSPELT.sub("NCCL_", name.strip()).split("_"), meant.split("_")
    if sorted(words) == sorted(wanted):
        return True
    if len(words) == len(wanted):
        return all(difflib.SequenceMatcher(None, *pair).ratio() >= ALIKE for pair in zip(words, wanted, strict=True))
    return difflib.SequenceMatcher(None, "".join(words), "".join(wanted)).ratio() >= RUN_TOGETHER


ALIKE, RUN_TOGETHER = 0.6, 0.97  # of two words; of two names that differ in their underscores


def refused(name: str, value: str, rows: Mapping[str, Row] = ROWS) -> str:
    """What to say of a value that the library will not take as it is written, "" where it does."""
    row = rows.get(name)
    wanted = row.kind.refuses(value) if row else ""
    return said("{name}={value!r}: wanted {wanted}", name, value, wanted) if wanted else ""


def unread(name: str, *, nccl: str = "", torch: str = "", rows: Mapping[str, Row] = ROWS) -> str:
    """What to say of a variable that the installed version reads no longer, or not yet; "" where it does.

    A version that is not known ("" or "none") is taken for a new one.
    """
    row = rows.get(name)
    if row is None:
        return ""
    of_torch = row.source in (TORCH, TORCH_DIST)
    held = torch if of_torch else nccl
    end = row.until.removeprefix("torch ").partition(":")[0]
    if end and not is_within(held.removeprefix("none"), f"<{end}"):
        return said("{name} is no longer read since {until}", name, row.until)
    if row.since and is_within(held.removeprefix("none"), f"<{row.since}"):
        return said(
            "{name} is not read by {of_torch} {held}, but since {since}",
            name,
            "torch" if of_torch else "NCCL",
            held,
            row.since,
        )
    return ""


def is_harmless(name: str) -> bool:
    """Whether a job runs all the same where the variable holds a value that cannot be."""
    return name in ROWS and ROWS[name].is_harmless


def is_steering(name: str) -> bool:
    """Whether it decides which way the ranks find and talk to each other; logs do not."""
    return name.startswith(STEERING) and not is_harmless(name)


def is_of_a_job(name: str) -> bool:
    """Whether a variable says anything of a job that is judged here: of its libraries, its launcher or its ranks."""
    return name in ROWS or name.startswith((*CLOSED, *NEAR_ONLY, *STEERING)) or bool(OF_A_NODE.match(name))


def may_differ(name: str) -> bool:
    """Whether nodes may have another value each."""
    row = ROWS.get(name)
    if name.lower() == "no_proxy":  # of a node with a proxy; a check of its own reads it
        return True
    return (row is not None and row.may_differ) or bool(OF_A_NODE.match(name))


# With such a value a rank creates process groups that a rank without it does not create: each waits for the other.
OF_ALL_OR_NONE = {"TORCH_DISTRIBUTED_DEBUG": "(?i)DETAIL"}

# How many ranks each waits for, where a job is started without a launcher: a node that does not set it may get it yet.
OF_ALL_RANKS = ("WORLD_SIZE",)


def must_agree(name: str, values: Iterable[str] = ()) -> bool:
    """Whether ranks with different values, or with and without one of these, hang or stop."""
    if name in OF_ALL_RANKS and len(set(values)) > 1:
        return True
    row, wanted = ROWS.get(name), OF_ALL_OR_NONE.get(name)
    is_parting = wanted is not None and any(re.fullmatch(wanted, value.strip()) for value in values)
    return is_parting or (row is not None and row.must_agree)
