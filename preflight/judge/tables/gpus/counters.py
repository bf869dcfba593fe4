"""Which errors did the NVLinks and PCIe functions of the GPUs count during the run?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from preflight.facts.node import NodeFacts
from preflight.facts.subjects.gpu import Gpu, LinkErrors
from preflight.facts.value import Missing, present
from preflight.judge.tables.faults import Fault
from preflight.said import joined, said
from preflight.said.errors import FactMissing

# What NVLink corrects by sending again matters where there is much of it; NVIDIA's DCGM speaks of 100 a second.
CORRECTED = ("CRC Errors", "Effective Errors", "Symbol Errors")
FEW_CORRECTED = 100


@dataclass(frozen=True)
class WatchedLinks:
    """What the NVLinks of a GPU had counted at the start of the run, and at its end."""

    gpu: Gpu
    before: LinkErrors
    after: LinkErrors | Missing

    def grown(self) -> dict[str, int]:
        """Counter -> by how much it grew; FactMissing where the second look did not show all of the first."""
        after = present(self.after, "NVLink errors at the end")
        if (after.links, after.counters) != (self.before.links, self.before.counters):
            words = said(
                "nvidia-smi nvlink -e lists {counters} counters, and {counters2} at the start",
                after.counters,
                self.before.counters,
            )
            raise FactMissing("NVLink errors at the end", words)
        grown = {name: count - self.before.counted.get(name, 0) for name, count in after.counted.items()}
        return {name: more for name, more in grown.items() if more > 0}


def watched_links(node: NodeFacts) -> Iterable[tuple[str, WatchedLinks]]:
    """The GPUs of a node whose NVLinks count errors."""
    found = []
    for gpu in node.gpu.readable():
        before = gpu.link_errors
        if isinstance(before, Missing) and before.kind == "absent":
            continue
        start = present(before, "NVLink errors")
        if not isinstance(gpu.links, Missing) and start.links < gpu.links.active:
            words = said(
                "nvidia-smi nvlink -e lists {links} links of GPU {index}, {active} are active",
                start.links,
                gpu.index,
                gpu.links.active,
            )
            raise FactMissing("NVLink errors", words)
        now = node.ending.nvlink_errors
        after: LinkErrors | Missing = Missing(
            said("nvidia-smi nvlink -e does not list GPU {index} any more", gpu.index)
        )
        if isinstance(now, Missing):
            after = now
        else:
            after = next((end.errors for end in now if end.gpu in (gpu.uuid, str(gpu.index))), after)
        if isinstance(after, Missing):
            after = Missing(after.missing)  # failed, whatever the reason: it could be read at the start
        found.append((str(gpu.index), WatchedLinks(gpu, start, after)))
    return found


def _of_links(links: WatchedLinks) -> str:
    reported = {
        name: more for name, more in links.grown().items() if more >= FEW_CORRECTED or not name.endswith(CORRECTED)
    }
    return joined([said("{name} grew by {more}", name, more) for name, more in reported.items()])


@dataclass(frozen=True)
class WatchedErrors:
    """What a GPU on the bus had counted at the start of the run, and at its end."""

    before: tuple[tuple[str, int], ...] | Missing
    after: tuple[tuple[str, int], ...] | Missing

    def grown(self) -> dict[str, int]:
        """Counter -> by how much it grew; FactMissing where one of the two looks failed."""
        before = dict(present(self.before, "errors of PCIe"))
        if isinstance(self.after, Missing):  # whatever the reason: it could be read at the start
            raise FactMissing("errors of PCIe at the end", self.after.missing)
        after = dict(self.after)
        if before.keys() - after.keys():
            raise FactMissing(
                "errors of PCIe at the end", said("it no longer reports {before}", ", ".join(sorted(before)))
            )
        return {name: after[name] - count for name, count in before.items() if after[name] > count}


def watched_errors(node: NodeFacts) -> Iterable[tuple[str, WatchedErrors]]:
    """The GPUs on the bus of a node, by their addresses."""
    now = node.ending.gpus_counted
    if isinstance(now, Missing) and node.gpu.counted:
        raise FactMissing("errors of PCIe at the end", now.missing)
    after = {} if isinstance(now, Missing) else {one.address: one.errors for one in now}
    gone = Missing("the GPU is not on the bus any more")
    return [(one.address, WatchedErrors(one.errors, after.get(one.address, gone))) for one in node.gpu.counted]


def _broken_pcie(watched: WatchedErrors) -> str:
    reported = {name: more for name, more in watched.grown().items() if not name.endswith("corrected") or "un" in name}
    return joined([said("{name} grew by {more}", name, more) for name, more in reported.items()])


def _corrected_pcie(watched: WatchedErrors) -> str:
    more = watched.grown().get("PCIe errors, corrected", 0)
    return said("PCIe errors, corrected grew by {more}", more) if more >= FEW_CORRECTED else ""


NVLINK_ERRORS = (
    Fault("NVLink errors during the run", _of_links, "", "NVIDIA DCGM, health watches of NVLink; nvidia-smi nvlink -e"),
)
AER = "Linux: Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats"
PCIE_ERRORS = (
    Fault("PCIe errors during the run", _broken_pcie, "", AER),
    Fault(
        "corrected PCIe errors during the run",
        _corrected_pcie,
        "reseat the GPU or its riser and cables on the nodes named; each error is sent again, and costs bandwidth",
        AER,
        is_advisory=True,
    ),
)
