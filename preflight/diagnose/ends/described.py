"""What to look at where somebody only tells of a failure: a title or a sentence, and no line that a program printed?"""

from __future__ import annotations

import re
from collections.abc import Iterable

SHORT = 20  # lines: what is longer is the output of something
HANG = re.compile(
    r"(?<![a-z])(?:hangs?|hung|hanging|stuck|freez\w*|froze|deadlocks?\w*|never (?:sees|starts|returns|joins)|timed out"
    r"|(?:socket)?time-?outs?)(?![a-z])|卡住|卡死|挂起|超时",
    re.IGNORECASE,
)
MEMORY = re.compile(r"(?<![a-z])(?:out of memory|oom|killed)(?![a-z])|显存不足|内存不足", re.IGNORECASE)
SLOW = re.compile(r"(?<![a-z])(?:slow\w*|bandwidth|throughput)(?![a-z])|很慢", re.IGNORECASE)
# What people say of a job, and what most often is behind it.
TOLD: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        HANG,
        "a hang: most often ranks were not started, or nodes count them differently (nnodes, NODE_RANK)",
    ),
    (
        HANG,
        "a hang: or a node takes an interface or address that its peers cannot reach (NCCL_SOCKET_IFNAME, MASTER_ADDR)",
    ),
    (HANG, "a hang: or GPUs of a node do not reach each other (ACS, IOMMU): does NCCL_P2P_DISABLE=1 change it?"),
    (
        HANG,
        "a hang: or ranks call differently: batches that do not come out even, `if rank == 0`, other options on a node",
    ),
    (
        MEMORY,
        "memory: of a GPU, what else is on it (`nvidia-smi`)? of a node, see `dmesg -T | grep -i oom`",
    ),
    (
        SLOW,
        "slowness: most often the traffic goes over Ethernet: NCCL_DEBUG=INFO shows NET/Socket or no GDRDMA",
    ),
    (SLOW, "slowness: or one node or link is slower than the others: `preflight run` measures each pair"),
)
ALSO = "this answers a sentence, not a log: give what the ranks printed, or test the nodes with `preflight run`"


def told_of(lines: Iterable[str]) -> tuple[str, ...]:
    """What to look at, by the words of a short text that no program printed; nothing where it tells of no failure."""
    text = "\n".join(lines)
    if text.count("\n") >= SHORT:
        return ()
    found = tuple(advice for words, advice in TOLD if words.search(text))
    return (*found, ALSO) if found else ()
