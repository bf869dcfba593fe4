"""Which variables of a job do nothing, cannot hold what they hold, were left over, or may not differ between nodes?

The rows of ``variable_names`` and of LEFTOVERS are judged in the same way by checks/test_environment.py.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from preflight.said import said
from preflight.tables.packages import is_within
from preflight.tables.variable_names import CUDA, NCCL, NCCL_SOURCE, ROWS, TORCH, TORCH_DIST

# Where every name is known, so that another one does not exist; elsewhere only a near miss is one.
CLOSED = ("NCCL_", "TORCH_NCCL_", "GLOO_")
# NCCL with a letter left out or written twice; another letter makes other libraries: RCCL, HCCL, MCCL, and CCL.
MISSPELT = re.compile(r"(NCC|NCL|NCCCL|NCCLL|NNCCL)_(?=[A-Z])")
NEAR_ONLY = ("TORCH_",)
# Those of plugins, test programs, builds and images; NCCL itself reads none of them.
STRANGERS = re.compile(
    r"NCCL_(TESTS_|GPUDIRECTTCPX|FASTRAK|UCX_|SHARP_|OFI_|SHIMNET_|INSPECTOR_|MSCCL|NET_PLUGIN_|TUNER_|PROFILER_|GIB_"
    r"|VERSION|HOME|ROOT|PATH|DIR|LIB|INCLUDE|INC|BUILD|DOCKER|PACKAGE|PLUGIN|COLLTRACE|CTRAN|SPCX|RCCL|EP_"
    r"|DYNAMIC_|FLAGCX_|TIMEOUT$|IBEXT_|CONTAINER|IMAGE|EXCLUDE_IB_HCA$|USE_SNAP$)"
)
# What writes a variable that sets a node apart, or that its own launcher sets for each node.
OF_A_NODE = re.compile(
    r"(SLURM|OMPI_COMM_WORLD|PMI|TORCHELASTIC|PET|ACCELERATE)_|(LOCAL_|NODE_|GROUP_)?RANK$|LOCAL_WORLD_SIZE$|MASTER_(ADDR|PORT)$"
    r"|(CUDA|HIP|ROCR|NVIDIA)_VISIBLE_DEVICES$|LD_LIBRARY_PATH$|PYTHONPATH$|UCX_NET_DEVICES$|CUDA_(HOME|PATH|ROOT)$"
)


STEERING = ("NCCL_", "GLOO_", "MASTER_", "FI_", "UCX_", "RDMAV_")

# Where a value that cannot be does not stop a job: logs and threads as by default, and of counts the adapter takes
# the lowest bits (13 retries are 5, a timeout of 60 is 28: the fields have three and five bits).
HARMLESS = frozenset(
    [
        "NCCL_DEBUG",
        "NCCL_DEBUG_SUBSYS",
        "NCCL_SOCKET_FAMILY",
        "NCCL_IB_RETRY_CNT",
        "NCCL_IB_TIMEOUT",
        "TORCH_CPP_LOG_LEVEL",
        "GLOO_LOG_LEVEL",
        "OMP_NUM_THREADS",
        "CUDA_LAUNCH_BLOCKING",
    ]
)
# What distinguishes a node or a rank from the others: the same value on two nodes makes one of them.
APART = ("NCCL_HOSTID", "NODE_RANK", "GROUP_RANK")
OFI = "https://github.com/aws/aws-ofi-nccl"
ROCM = "https://rocm.docs.amd.com/en/latest/reference/env-variables.html"
BUFFERS = "a tuning that is off by default, and has frozen small messages"
IDLE_NVLINK = "GPUs of a node no longer copy to each other: NVLink lies idle"
OVER_TCP = "RDMA is not used: all data goes over TCP"


@dataclass(frozen=True)
class Leftover:
    """A variable set for troubleshooting, the values at which it does something, and what it does to a job."""

    name: str
    values: str  # a regular expression for the whole value
    does: str
    source: str
    needs_rdma: bool = False  # without RDMA there is nothing that it could switch off
    but_for: str = ""  # a regular expression of the RDMA devices whose vendor asks for it


LEFTOVERS = (
    Leftover(
        "LD_LIBRARY_PATH",
        "(.*:)?[^:]*/stubs/*(:.*)?",
        "the stub of the driver, meant for linking only, is loaded in its place: CUDA finds no GPU",
        CUDA,
    ),
    Leftover(
        "CUDA_LAUNCH_BLOCKING",
        "1",
        "every kernel is waited for: slow, and over a network NCCL can wait for itself forever",
        CUDA,
    ),
    Leftover("CUDA_CACHE_DISABLE", "1", "every start compiles its kernels again", CUDA),
    Leftover("NCCL_DEBUG", "(?i)TRACE", "NCCL writes a line for every call", NCCL),
    Leftover("NCCL_DEBUG_SUBSYS", "(?i).*(ALL|COLL|CALL|PROXY).*", "NCCL writes a line for every collective", NCCL),
    Leftover("NCCL_P2P_DISABLE", "[1-9].*", IDLE_NVLINK, NCCL),
    Leftover("NCCL_P2P_LEVEL", "(?i)LOC|0", IDLE_NVLINK, NCCL),
    Leftover("NCCL_SHM_DISABLE", "[1-9].*", "ranks of a node talk over the network instead of memory", NCCL),
    Leftover("NCCL_IB_DISABLE", "[1-9].*", OVER_TCP, NCCL, needs_rdma=True),
    Leftover(
        "NCCL_NET_GDR_LEVEL", "(?i)LOC|0", "the network cards no longer read GPU memory directly", NCCL, needs_rdma=True
    ),
    Leftover("NCCL_NET_GDR_READ", "0", "what is sent is copied to the CPU's memory first", NCCL, needs_rdma=True),
    Leftover("NCCL_NET", "(?i)Socket", OVER_TCP, NCCL, needs_rdma=True),
    Leftover("NCCL_CHECK_POINTERS", "[1-9].*", "every call checks its pointers", NCCL),
    Leftover("NCCL_CHECK_MODE", "(?i)DEBUG_.*", "every call checks its arguments", NCCL),
    # torch makes a communicator for each group; NCCL then binds this address at the first rank of every one of them.
    Leftover(
        "NCCL_COMM_ID", ".+", "every communicator meets at this one address: a second one fails or hangs", NCCL_SOURCE
    ),
    Leftover("NCCL_LAUNCH_MODE", "(?i)GROUP", "deprecated since NCCL 2.9", NCCL),
    Leftover("NCCL_IGNORE_DISABLED_P2P", "[1-9].*", "a driver that has switched peer access off goes unnoticed", NCCL),
    Leftover("NCCL_IGNORE_NET_MISMATCH", "[1-9].*", "ranks with fewer network cards than others hang in silence", NCCL),
    Leftover("NCCL_IGNORE_COLLNET_MISMATCH", "[1-9].*", "ranks with fewer CollNet devices fail later on", NCCL),
    Leftover("NCCL_IB_USE_INLINE", "[1-9].*", BUFFERS, NCCL_SOURCE, but_for="ionic|bnxt_re"),
    Leftover("NCCL_IB_PREPOST_RECEIVE_WORK_REQUESTS", "[1-9].*", BUFFERS, NCCL_SOURCE),
    Leftover(
        "NCCL_IB_TIMEOUT", r"0*(\d|1[0-3])", "a short jam of the fabric ends the job (IBV_WC_RETRY_EXC_ERR)", NCCL, True
    ),
    Leftover(
        "NCCL_IB_RETRY_CNT", "0*[0-3]", "a short jam of the fabric ends the job (IBV_WC_RETRY_EXC_ERR)", NCCL, True
    ),
    # With Simple beside it, as clouds set it for their own networks, NCCL chooses by the size of a message.
    Leftover("NCCL_PROTO", "(?i)(?!.*SIMPLE)[^^]*LL128.*", "where LL128 is not supported, data is corrupted", NCCL),
    Leftover("NCCL_MAX_NCHANNELS", "0*[1-3]", "few channels: a fraction of the bandwidth", NCCL),
    Leftover("NCCL_MAX_CTAS", "0*[1-3]", "few channels: a fraction of the bandwidth", NCCL),
    Leftover("FI_PROVIDER", "(?i).*(tcp|sockets).*", OVER_TCP, OFI, needs_rdma=True),
    Leftover("HSA_OVERRIDE_GFX_VERSION", ".+", "kernels of another GPU are run: crashes, wrong results", ROCM),
    Leftover("HSA_ENABLE_SDMA", "0", "copies between GPUs take compute units", ROCM),
    Leftover(
        "TORCH_DISTRIBUTED_DEBUG", "(?i)DETAIL", "every collective is compared between all ranks first", TORCH_DIST
    ),
    Leftover("TORCH_NCCL_BLOCKING_WAIT", "(?i)1|y|yes|t|true", "every collective waits on the CPU", TORCH),
    Leftover("TORCH_NCCL_NAN_CHECK", "(?i)1|y|yes|t|true", "every collective looks for NaN first", TORCH),
    Leftover("TORCH_NCCL_DESYNC_DEBUG", "(?i)1|y|yes|t|true", "every collective is written to the store", TORCH),
    Leftover(
        "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", r"0*\d{1,2}", "a rank that saves a checkpoint is taken for hung", TORCH
    ),
    Leftover("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0", "a collective that fails hangs the job forever", TORCH),
    Leftover("TORCH_NCCL_ENABLE_MONITORING", "(?i)0|n|no|f|false", "a hung rank is never ended", TORCH),
    Leftover("TORCH_SHOW_DISPATCH_TRACE", "1", "every operation writes a line", TORCH_DIST),
    Leftover("PYTORCH_NO_CUDA_MEMORY_CACHING", "1", "every allocation asks the driver", TORCH_DIST),
    Leftover("PYTORCH_JIT", "0", "TorchScript runs as plain Python", TORCH_DIST),
)


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


def refused(name: str, value: str) -> str:
    """What to say of a value that the library will not take as it is written, "" where it does."""
    row = ROWS.get(name)
    wanted = row.kind.refuses(value) if row else ""
    return said("{name}={value!r}: wanted {wanted}", name, value, wanted) if wanted else ""


def unread(name: str, *, nccl: str, torch: str) -> str:
    """What to say of a variable that the installed version reads no longer, or not yet; "" where it does.

    A version that is not known ("" or "none") is taken for a new one.
    """
    row = ROWS.get(name)
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


def leftover(name: str, value: str, *, has_rdma: bool, devices: Iterable[str] = ()) -> str:
    """What a leftover debug variable does to a job on a node with these RDMA devices, "" where it is none."""
    for row in LEFTOVERS:
        if row.name == name and re.fullmatch(row.values, value.strip()) and (has_rdma or not row.needs_rdma):
            if row.but_for and any(re.match(row.but_for, device) for device in devices):
                continue
            return said("{name}={value}: {does}", name, value, row.does)
    return ""


def is_steering(name: str) -> bool:
    """Whether it decides which way the ranks find and talk to each other; logs do not."""
    return name.startswith(STEERING) and name not in HARMLESS


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
