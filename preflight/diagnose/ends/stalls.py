"""Where a log just stops: what do jobs wait for after the last line of a rank, and what is looked at first?"""

from __future__ import annotations

import re
from collections.abc import Iterable

from preflight.diagnose.ends.stages import Reached

# The last milestone of a rank, in lower case, and where to look when nothing comes after it.
STALLS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), advice)
    for pattern, advice in (
        (
            r"as pytorch extensions root",
            (
                "a lock that a dead process left stops the building of extensions: where nothing builds, remove the "
                "file lock below TORCH_EXTENSIONS_DIR (~/.cache/torch_extensions/*/*/lock) on that node"
            ),
        ),
        (
            r"init torch distributed begin",
            (
                "every rank prints this line: one that did not was not started, counts another world size or rank, or "
                "cannot reach MASTER_ADDR:MASTER_PORT"
            ),
        ),
        (
            r"starting elastic_operator|rendezvous'ing worker group|waiting for \d+ (?:workers|clients|nodes|ranks)",
            (
                "the launcher waits for other nodes: start it on all of them with one --rdzv-endpoint (or "
                "--master-addr), one --rdzv-id and the same --nnodes; that port must be open"
            ),
        ),
        (
            r"nccl info bootstrap ?: using|comm \S+ rank \d+ nranks \d+ .*init start|is using nccl==",
            (
                "NCCL waits for the other ranks: they must reach the address in this line on random ports (firewall, "
                "NCCL_SOCKET_IFNAME), and NCCL_DEBUG=INFO says which of them did not come"
            ),
        ),
        (
            r"init complete|connected all rings|init torch distributed ends",
            (
                "the communicators stand and no data comes through: try NCCL_P2P_DISABLE=1 on one node (ACS, IOMMU), "
                "NCCL_IB_DISABLE=1 between nodes"
            ),
        ),
        (
            r"loading (?:safetensors )?checkpoint shards|saving (?:model |the )?(?:checkpoint|weights)",
            "storage may hang: `df -h PATH` on that node, its kernel log (nfs, lustre), and processes in state D",
        ),
    )
)


def advice(ranks: Iterable[Reached]) -> tuple[str, ...]:
    """Where to look first, for the last milestones of these ranks."""
    last = {one.text.lower() for one in ranks if one.step < 0}
    return tuple(words for pattern, words in STALLS if any(pattern.search(text) for text in last))
