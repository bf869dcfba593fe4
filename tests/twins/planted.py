"""Which faults fit a platform, and was each of them named, and nobody else?"""

from __future__ import annotations

from dataclasses import dataclass

from preflight.judge.ledger.findings import Finding

from . import faults_field, faults_gpu, faults_log, faults_node, faults_rails, faults_rdma, faults_system
from .faults import Fault
from .platform import Platform
from .twin import Twin, notable

ALL = (
    *faults_node.FAULTS,
    *faults_gpu.FAULTS,
    *faults_rdma.FAULTS,
    *faults_rails.FAULTS,
    *faults_field.FAULTS,
    *faults_log.FAULTS,
    *faults_system.FAULTS,
)


def fitting(platform: Platform) -> list[Fault]:
    """The faults that a platform can have."""
    return [fault for fault in ALL if fault.fits(platform)]


@dataclass(frozen=True)
class Outcome:
    """What came of one fault."""

    fault: str
    is_named: bool
    others: tuple[Finding, ...]  # what was said of nodes that are well
    said: tuple[Finding, ...]


def try_fault(twin: Twin, platform: Platform, fault: Fault) -> Outcome:
    """Plant it, judge, and put everything back."""
    folder = twin["node3"]
    try:
        if fault.during:
            documents = twin.documents(["node3"], between=lambda: fault.plant(folder, platform))
        else:
            fault.plant(folder, platform)
            documents = twin.documents(["node3"])
    finally:
        folder.restore()
    said = tuple(notable(twin.judge(documents)))
    check = fault.check_of(platform)
    named = any(one.check == check and one.nodes == fault.nodes and fault.words in one.message for one in said)
    others = tuple(one for one in said if set(one.nodes) - set(fault.nodes) and not one.blocked_by)
    return Outcome(fault.name, named, others, said)
