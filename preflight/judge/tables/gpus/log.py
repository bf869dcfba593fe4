"""Which lines of the kernel's log are about broken or worn GPUs, and which of them came during the run?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from preflight.facts.node import NodeFacts
from preflight.facts.pci import without_domain_zeros
from preflight.facts.subjects.kernel import LogEvent
from preflight.facts.value import present
from preflight.judge.tables.faults import Fault
from preflight.judge.tables.gpus import drivers
from preflight.judge.tables.gpus.slowed import WATCH
from preflight.knowledge import xids
from preflight.said import joined
from preflight.said.errors import NotApplicable

LOOK_AT_AMD = (
    "`amd-smi metric --ecc` and `amd-smi bad-pages` on the nodes named; reboot, and replace the GPU if it comes back"
)
LOG_SECONDS = 24 * 3600.0
# A GPU that the driver could not take; where it lists that GPU now, it has taken it since.
TAKING = re.compile(r"RmInitAdapter failed|PCI I/O region|probe (?:of|with)")
LOST = re.compile(TAKING.pattern + r"|fallen off the bus|lost from bus|will not be initialized")


def _logged(node: NodeFacts) -> str:
    listed = {without_domain_zeros(gpu.bus_id) for gpu in node.gpu.readable()}
    others = [event for event in _own(node, node.kernel.events("driver", within_seconds=LOG_SECONDS))
              if without_domain_zeros(event.device) not in listed or not TAKING.search(event.text)]  # fmt: skip
    lines = [*_still_lost(node, listed), *map(xids.text, filter(xids.is_fatal, _reported(node)))]
    return joined(dict.fromkeys([*lines, *(event.text for event in others)]))


def _own(node: NodeFacts, events: Iterable[LogEvent]) -> list[LogEvent]:
    """Those about the GPUs of jobs: beside NVIDIA's, amdgpu drives what draws the screen."""
    is_amd = any(gpu.is_amd for gpu in node.gpu.readable())
    return [event for event in events if is_amd or "amdgpu" not in event.text]


def _still_lost(node: NodeFacts, listed: set[str]) -> Iterable[str]:
    """What was logged longer ago, of GPUs that the driver does not list since: nobody has brought them back."""
    if node.is_confined():  # others may have been given them
        return
    for event in _own(node, present(node.kernel.log, "kernel log")):
        place = without_domain_zeros(event.device)
        if event.age_seconds > LOG_SECONDS and place and not {place, f"{place}.0"} & listed:
            if event.kind == "xid" and event.code == xids.FALLEN_OFF:
                yield xids.text(event)
            elif event.kind == "driver" and LOST.search(event.text):
                yield event.text


def _worn(node: NodeFacts) -> str:
    return joined(dict.fromkeys(map(xids.text, filter(xids.is_wear, _reported(node)))))


def _wearing(node: NodeFacts) -> str:
    return joined(
        dict.fromkeys(event.text for event in _own(node, node.kernel.events("wear", within_seconds=LOG_SECONDS)))
    )


def _reported(node: NodeFacts) -> list[LogEvent]:
    """The Xids and SXids of the last day, since the driver was loaded."""
    if not node.gpu.readable():
        raise NotApplicable("no GPU")
    return [event for kind in ("xid", "sxid") for event in node.kernel.events(kind, within_seconds=LOG_SECONDS)]


def _new(node: NodeFacts, *kinds: str) -> list[LogEvent]:
    """The lines of the kernel's log that were not there when the run began."""
    if not node.gpu.readable():
        raise NotApplicable("no GPU")
    before, after = present(node.kernel.log, "kernel log"), present(node.ending.log, "kernel log at the end")
    known = Counter((event.kind, event.code, event.device, event.text) for event in before)
    found = []
    for event in _own(node, after):
        key = (event.kind, event.code, event.device, event.text)
        if known[key]:
            known[key] -= 1
        elif event.kind in kinds:
            found.append(event)
    return found


def _logged_since(node: NodeFacts) -> str:
    reported = map(xids.text, filter(xids.is_fatal, _new(node, "xid", "sxid")))
    return joined(dict.fromkeys([*reported, *(event.text for event in _new(node, "driver"))]))


def _worn_since(node: NodeFacts) -> str:
    return joined(dict.fromkeys(map(xids.text, filter(xids.is_wear, _new(node, "xid", "sxid")))))


def _wearing_since(node: NodeFacts) -> str:
    return joined(dict.fromkeys(event.text for event in _new(node, "wear")))


LOG = (
    Fault("kernel log", _logged, "", xids.SOURCE),
    Fault("module of CUDA", drivers.without_uvm, drivers.FIX, drivers.SOURCE),
    Fault("wear", _worn, WATCH, xids.SOURCE, is_advisory=True),
    Fault("wear of AMD's", _wearing, LOOK_AT_AMD, "kernel, drivers/gpu/drm/amd", is_advisory=True),
)
LOG_OF_RUN = (
    Fault("kernel log during the run", _logged_since, "", xids.SOURCE),
    Fault("wear during the run", _worn_since, WATCH, xids.SOURCE, is_advisory=True),
    Fault("wear of AMD's", _wearing_since, LOOK_AT_AMD, "kernel, drivers/gpu/drm/amd", is_advisory=True),
)
