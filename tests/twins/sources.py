"""Which raw sources has a node, what can become of each, and is what was lost ever taken for well?

The sources are the files of its folder: each kind of them once (the state of any port stands for that of every port).
A source that is gone, empty, cut short or closed must not leave every verdict as it was, unless the facts are the same
without it (nobody reads it, or what was lost says nothing) or it is for information only: INFORMATION says why. What
no node has, as cpufreq in a guest, leaves a check of many facts its pass; its words must then say what was not told.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from preflight.facts.decode import Document
from preflight.judge.ledger.findings import Finding, Verdict
from preflight.judge.tables.rdma.counters import ERROR_COUNTERS

from . import node
from .faults import every, training
from .faults_gpu import over_pcie
from .folder import Folder
from .platform import Platform
from .twin import Twin

OTHER_USER = 1000
# What stands for system calls, for the interpreter and for programs' own work is no source of the node.
NO_SOURCE = re.compile(
    r"opt/twin/(kernel\.json|env/(bin|pyvenv|lib/[^/]+/site-packages/(twin|__pycache__)))|usr/local/bin/|etc/nsswitch"
)
# Measured anew at each look.
VOLATILE = (
    "clock",
    "age_seconds",
    "reverse_seconds",
    "accepted_seconds",
    "seconds",
    "ephemeral_in_use",
    "listeners",
    "leftovers",
)


PCI_KINDS = {"0x0302": "GPU", "0x0300": "GPU", "0x1200": "GPU", "0x0200": "network", "0x0207": "adapter"}
PCI_KINDS |= {"0x0604": "bridge", "0x0680": "switch"}
UNTOLD = "Not reported by any node: "
GRAVEST = (Verdict.ERROR, Verdict.FAIL, Verdict.WARN, Verdict.SKIP)


def has_infiniband(platform: Platform) -> bool:
    """Whether its adapters speak InfiniBand."""
    return any(hca.link_layer == "InfiniBand" for hca in platform.hcas)


# What of a source (by its kind) and of platforms may be lost without a word, and why.
INFORMATION: tuple[tuple[str, Callable[[Platform], bool], str], ...] = (
    (r"class/infiniband/NAME/hca_type", every, "the board tells kinds of adapters apart, and is asked first"),
    (r"ports/#/phys_state", every, "it stands in messages beside the state, which is what is judged"),
    (r"ports/#/(sm_)?lid", lambda p: not has_infiniband(p), "an Ethernet port has no LID"),
    (r"ports/#/gid", lambda p: not any(h.link_layer == "Ethernet" for h in p.hcas), "NCCL takes row 0 on InfiniBand"),
    (r"ports/#/pkeys/", lambda p: not has_infiniband(p), "an Ethernet port has no partitions"),
    (r"PCI GPU: (current|max)_link_speed", every, "the driver tells the generation of the GPU's link"),
    (r"PCI bridge: max_link_", every, "without it the device's own maximum is wanted, which is no less"),
    (r"PCI \w+: (class|vendor)", every, "the bus is asked for what no driver has listed, and this one is listed"),
    (r"PCI GPU: iommu_group", lambda p: not over_pcie(p), "the GPUs talk over NVLink, which no IOMMU translates"),
    (r"counters/OTHERS", every, "it counts traffic, or what is no error: no check asks"),
    (
        r"proc/driver/nvidia/version",
        lambda p: "nvidia_peermem" in p.modules,
        "adapters reach the GPUs by nvidia_peermem: whether dma-buf would do as well does not matter",
    ),
    (r"proc/sys/kernel/(pid_max|threads-max): removed", every, "a sandbox shows neither; the user's limit is judged"),
    (
        r"PCI (network|adapter): (iommu_group|numa_node)",
        every,
        "no check asks: nvidia-smi topo shows which adapter is near",
    ),
    (r"class/net/NAME/address", every, "only the training interface's own is compared: RDMA ports have GIDs"),
    (
        r"proc/net/vlan/",
        every,
        "the kernel shows it to root only; networks are compared by the addresses of their GIDs",
    ),
)


def information(platform: Platform, loss: str) -> str:
    """Why a loss ("proc/meminfo: removed") need not be told on a platform, "" where a check depends on the source."""
    found = (why for pattern, fits, why in INFORMATION if re.search(pattern, loss) and fits(platform))
    return next(found, "")


def removed(folder: Folder, name: str) -> None:
    """It is not there."""
    folder.remove(name)


def emptied(folder: Folder, name: str) -> None:
    """It is there, and says nothing."""
    folder.write(name, b"")


def truncated(folder: Folder, name: str) -> None:
    """It ends in the middle."""
    data = folder.path(name).read_bytes()
    folder.write(name, data[: len(data) // 2])


def denied(folder: Folder, name: str) -> None:
    """It is for root only, and we are another user."""
    folder.deny(name)


CHANGES: dict[str, Callable[[Folder, str], None]] = {
    "removed": removed,
    "empty": emptied,
    "truncated": truncated,
    "denied": denied,
}


def kind_of(name: str, training: str = "") -> str:
    """What a file is, whichever port, device or bus it is of; that of the training interface is one by itself."""
    if training:
        name = name.replace(f"class/net/{training}/", "class/net-of-the-job/X/")
    name = re.sub(r"[0-9a-f]{4}:[0-9a-f]{2}(:[0-9a-f]{2}\.[0-9a-f])?", "PCI", name)
    name = re.sub(r"(PCI/)+", "PCI/", re.sub(r"\d+", "#", name))
    name = re.sub(r"class/(infiniband|net)/[^/]+", r"class/\1/NAME", name)
    return re.sub(r"counters/([\w#]+)$", lambda found: f"counters/{counter_kind(found[1])}", name)


def function_kind(path: Path) -> str:
    """What a PCI function is that a file is of."""
    place = next((parent / "class" for parent in path.parents if (parent / "class").is_file()), None)
    return PCI_KINDS.get(place.read_text()[:6] if place else "", "other")


def counter_kind(name: str) -> str:
    """Whether a check asks for a counter."""
    name = name.replace("VL#", "VL15")
    return "ERRORS" if name in (*ERROR_COUNTERS, "link_downed") else "OTHERS"


def sources(folder: Folder, training: str) -> dict[str, str]:
    """Kind of source -> one file of it."""
    found: dict[str, str] = {}
    for path in sorted(folder.root.rglob("*")):
        name = str(path.relative_to(folder.root))
        if path.is_file() and not path.is_symlink() and path.stat().st_size and not NO_SOURCE.match(name):
            found.setdefault(
                kind_of(name, training).replace("sys/devices/pciPCI/", f"PCI {function_kind(path)}: "), name
            )
    return found


def cells(findings: Iterable[Finding]) -> dict[tuple[str, str], tuple[Verdict, str]]:
    """Check and node -> the worst verdict there, and its words."""
    found: dict[tuple[str, str], tuple[Verdict, str]] = {}
    for finding in findings:
        for name in finding.nodes:
            if (finding.check, name) not in found or finding.verdict is not Verdict.PASS:
                found[finding.check, name] = (finding.verdict, finding.message)
    return found


def steady(value: Any) -> Any:
    """Facts without what is another at each look."""
    if isinstance(value, dict):
        kept = {key: steady(inner) for key, inner in value.items() if key not in VOLATILE}
        return {key: inner.partition(":")[0] if key == "boot_id" else inner for key, inner in kept.items()}
    return [steady(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def facts_of(document: Document) -> str:
    """What a node said, as a text to compare."""
    missing = {name: reason.missing for name, reason in document.missing.items()}
    # The kernel makes link-local addresses of its own choice.
    return re.sub(r'"fe80::[^"]*"', '"fe80::"', json.dumps([steady(document.subjects), missing], sort_keys=True))


@dataclass(frozen=True)
class Lost:
    """What came of a source that was changed."""

    kind: str
    change: str
    where: str  # "node3" or "all"
    is_read: bool  # whether the facts are others without it
    # The gravest verdict that a cell has which passed: "error", "fail", "warn", "skip"; "untold" where it passes and
    # says what nobody could tell; "" where nothing is said.
    said: str
    why: str  # why nothing need be said, "" where something must be

    @property
    def is_silent(self) -> bool:
        """Whether it was taken for well, with no reason for that."""
        return self.is_read and not self.said and not self.why


def try_source(platform: Platform, twin: Twin, source: tuple[str, str], change: str, names: tuple[str, ...]) -> Lost:
    """Change a source (its kind, its file) on these nodes, judge, and put it back."""
    kind, name = source
    try:
        for each in names:
            if twin[each].path(name).exists():
                CHANGES[change](twin[each], name)
        documents = twin.documents(names)
    finally:
        for each in names:
            twin[each].restore()
    is_read = any(facts_of(documents[each]) != facts_of(twin.healthy[each]) for each in names)
    before, after = cells(twin.judge(twin.healthy)), cells(twin.judge(documents))
    passed = {cell for cell, (verdict, _) in before.items() if verdict is Verdict.PASS}
    verdicts = {after[cell][0] for cell in passed & after.keys()}
    has_told = any(UNTOLD in after[cell][1] and after[cell][1] != before[cell][1] for cell in passed & after.keys())
    said = next((verdict.value for verdict in GRAVEST if verdict in verdicts), "untold" if has_told else "")
    where = names[0] if len(names) == 1 else "all"
    return Lost(kind, change, where, is_read, said, "" if said else information(platform, f"{kind}: {change}"))


def try_all(
    platform: Platform, under: Path, *, only: Callable[[str], bool] = lambda _kind: True, user_id: int | None = None
) -> Iterator[Lost]:
    """Every source of a platform that is read, changed in every way, on one node and on all."""
    user = platform.user_id if user_id is None else user_id
    twin = Twin(node.make(replace(platform, user_id=user), 2, under))
    twin.healthy = twin.documents()
    for kind, name in sources(twin["node2"], training(platform).name.format(n=2)).items():
        if not only(kind):
            continue
        first = try_source(platform, twin, (kind, name), "removed", ("node2",))
        if not first.is_read:  # nobody asks for it
            continue
        if user == OTHER_USER:
            yield from (try_source(platform, twin, (kind, name), "denied", names) for names in (("node2",), twin.names))
            continue
        yield first
        yield try_source(platform, twin, (kind, name), "removed", twin.names)
        for change in ("empty", "truncated"):
            yield from (try_source(platform, twin, (kind, name), change, names) for names in (("node2",), twin.names))
