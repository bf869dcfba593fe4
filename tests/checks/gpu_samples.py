"""Clusters in which a GPU of the second node is other than its equals."""

from __future__ import annotations

import msgspec

from preflight.facts.pci import PciFunction
from preflight.facts.subjects.ending import Ending, LinksEnd
from preflight.facts.subjects.gpu import Gpus, LinkErrors
from preflight.facts.subjects.kernel import LogEvent
from preflight.facts.value import Missing
from preflight.testing import infiniband, roce
from preflight.testing.hardware import gpus

FUNCTION = PciFunction("pci0000:00/0000:00:01.0/0000:07:00.0", 0, 16, 16, 32.0, 32.0, "identity", ())


def second(**fields):
    """Four nodes; GPU 0 of the second has other values in its status."""
    first, *rest = gpus(8)
    return with_gpus(msgspec.structs.replace(first, status=msgspec.structs.replace(first.status, **fields)), *rest)


def with_gpus(*devices, **fields):
    """Four nodes, the second with these GPUs."""
    return roce().broken("node2", "gpu", devices=tuple(devices), **fields)


def over_pcie(**fields):
    """Four nodes; the second's GPUs have no NVLink, and these values in their PCI facts."""
    function = FUNCTION._replace(**fields)
    return with_gpus(*gpus(8, pci=function, name="NVIDIA L40S"), topology=Missing("none", "absent"))


def xid(code):
    """Four nodes; the second's log has this Xid, an hour ago."""
    return logged("xid", code, f"NVRM: Xid (PCI:0000:07:00): {code}, ...")


def logged(kind, code, text):
    """Four nodes; the second's log has this line, an hour ago."""
    return roce().broken("node2", "kernel", log=(LogEvent(kind, code, "0000:07:00", 3600.0, text),))


def ended(*, links=18, **counted):
    """Four nodes; the links of the first GPU of the second have counted this at the end of the run."""
    first = LinksEnd("GPU-0", LinkErrors(links, 3 * links, counted))
    _, *rest = roce().subjects["node2"]["ending"].nvlink_errors
    return roce().broken("node2", "ending", nvlink_errors=(first, *rest))


def ended_with(kind, code, text):
    """Four nodes; the second's log has this line at the end of the run, and had it not at the start."""
    return roce().broken("node2", "ending", log=(LogEvent(kind, code, "0000:07:00", 3.0, text),))


def imex(**fields):
    """A rack in which one node's IMEX is otherwise."""
    run = infiniband()
    held = run.facts("node2", "gpu", Gpus).imex
    return run.broken("node2", "gpu", imex=held._replace(**fields))


def counted_at_the_end(kind, count):
    """Four nodes; a GPU of the second has counted so many errors of PCIe at the end."""
    run = roce()
    first, *rest = run.facts("node2", "ending", Ending).gpus_counted
    errors = tuple((name, count if name.endswith(f" {kind}") else number) for name, number in first.errors)
    return run.broken("node2", "ending", gpus_counted=(first._replace(errors=errors), *rest))


def refused(status, *, topology_of=None, **fields):
    """Four nodes; GPU 0 of the second cannot reach GPU 1."""
    first, *rest = gpus(8, **fields)
    first = msgspec.structs.replace(first, peer_access=("X", status, *["OK"] * 6))
    return with_gpus(first, *rest, **({} if topology_of is None else {"topology": topology_of}))
