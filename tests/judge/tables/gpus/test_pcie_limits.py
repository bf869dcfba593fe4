"""Whom do the kernel's lines "limited by ... PCIe" blame, and which of them say nothing?"""

from __future__ import annotations

import msgspec
import pytest

from preflight.facts.pci import PciFunction
from preflight.facts.subjects.gpu import Gpus
from preflight.facts.subjects.kernel import LogEvent
from preflight.facts.subjects.rdma import Rdma
from preflight.facts.value import Missing
from preflight.judge.ledger.findings import Verdict
from preflight.node.sources.kernel import events
from preflight.testing import roce
from tests.checks.samples import judge

CHECK = "kernel.log_tells_of_nothing_broken"
NODES = ("node1", "node2", "node3")
UNKNOWN = Missing("not reported", "absent")
BELOW = "pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:00.0/0000:13:00.{}"
LINE = "pci {}: {} Gb/s available PCIe bandwidth, limited by {} link at {} (capable of 504.112 Gb/s with 32.0 GT/s x16)"
HALF = LINE.format("0000:13:00.0", "126.028", "16.0 GT/s PCIe x8", "0000:10:01.0")
SLOT = LINE.format("0000:13:00.0", "126.028", "16.0 GT/s PCIe x8", "0000:12:00.0")
DISK = LINE.format("0000:e3:00.0", "15.752", "8.0 GT/s PCIe x2", "0000:e0:01.0")
GUEST = LINE.format("0000:13:00.0", "0.000", "Unknown x0", "0000:10:01.0")
OLD = "pci 0000:13:00.0: 126.028 Gb/s available PCIe bandwidth, limited by 16 GT/s x8 link at 0000:10:01.0 (capable of)"
WHOLE = "nvidia 0000:13:00.0: 504.112 Gb/s available PCIe bandwidth (32.0 GT/s PCIe x16 link)"


def nodes(lines, *, names=NODES, gpus=8):
    """A cluster of GPUs below a switch, with these lines in each node's log from its start ten days ago."""
    run = roce(len(names))
    for name in run.names:
        found = events.parse([f"6,1,5000000,-;{line}" for line in lines.get(name, ())], now_s=864000.0)
        run = run.broken(name, "kernel", log=tuple(LogEvent(**each) for each in found))
        for index in range(gpus):
            place = PciFunction(BELOW.format(index), 0, 16, 16, 32.0, 32.0, UNKNOWN, UNKNOWN)
            run = run.broken_gpu(name, index, pci=place)
        run = run.broken(name, "gpu", devices=run.facts(name, "gpu", Gpus).devices[:gpus])
    return run


def said(run):
    """What is warned of, by nodes."""
    return {finding.nodes: finding.message for finding in judge(CHECK, run) if finding.verdict is Verdict.WARN}


@pytest.mark.parametrize("line", [HALF, OLD])
def test_a_link_above_the_slot_that_is_slow_on_one_node_is_named(line):
    """The boards of the others have it at full speed."""
    ((names, message),) = said(nodes({"node2": [line]})).items()
    assert names == ("node2",)
    assert "GPU 0000:13:00.0: 126.028 Gbit/s of PCIe, limited by the 16" in message
    assert "x8 link at 0000:10:01.0, above its slot" in message


@pytest.mark.parametrize(
    "lines",
    [
        {name: [HALF] for name in NODES},  # the board is built so
        {"node2": [SLOT]},  # what sysfs says of the slot now is another check's
        {"node2": [DISK]},
        {"node2": [GUEST]},
        {"node2": [HALF, WHOLE]},  # the driver found it better
        {"node1": [HALF], "node3": [HALF]},  # one better node
    ],
)
def test_lines_that_healthy_machines_have_are_no_fault(lines):
    """Nor what most of the nodes have."""
    assert said(nodes(lines)) == {}


def test_of_two_nodes_the_one_that_is_limited_is_named():
    """A tie goes to the better."""
    assert list(said(nodes({"node2": [HALF]}, names=NODES[:2]))) == [("node2",)]
    slower = LINE.format("0000:13:00.0", "63.014", "8.0 GT/s PCIe x8", "0000:10:01.0")
    assert list(said(nodes({"node1": [HALF], "node2": [slower]}, names=NODES[:2]))) == [("node2",)]


WEAK = "mlx5_core {}: mlx5_pcie_event:299:(pid 7): Detected insufficient power on the PCIe slot (27W)."


def with_adapters(lines, *, name="NVIDIA H100 80GB HBM3"):
    """The same nodes, each adapter in a slot of its own."""
    run = nodes(lines)
    for node in run.names:
        rdma = run.facts(node, "rdma", Rdma)
        places = (f"pci0000:20/0000:20:01.0/0000:{0x21 + i:02x}:00.0" for i in range(len(rdma.devices)))
        devices = tuple(
            msgspec.structs.replace(device, pci=PciFunction(place, 0, 16, 16, 32.0, 32.0, UNKNOWN, UNKNOWN))
            for device, place in zip(rdma.devices, places, strict=True)
        )
        run = run.broken(node, "rdma", devices=devices)
        gpus = tuple(msgspec.structs.replace(gpu, name=name) for gpu in run.facts(node, "gpu", Gpus).devices)
        run = run.broken(node, "gpu", devices=gpus)
    return run


def test_an_adapter_that_lacks_power_on_one_node_is_named():
    """With what its slot gives it."""
    ((names, message),) = said(with_adapters({"node2": [WEAK.format("0000:21:00.0")]})).items()
    assert names == ("node2",)
    assert message == "adapter 0000:21:00.0 (27W): its slot gives it less power than it may take"


def test_slots_that_give_no_adapter_more_are_no_fault():
    """Nor is the line on DGX Spark, where the adapter sits on the board."""
    line = WEAK.format("0000:21:00.0")
    assert said(with_adapters({name: [line] for name in NODES})) == {}
    assert said(with_adapters({"node2": [line]}, name="NVIDIA GB10")) == {}


@pytest.mark.parametrize(("gpus", "is_told"), [(8, True), (2, False)])
def test_a_node_alone_is_compared_with_itself(gpus, is_told):
    """Most of its GPUs must be better."""
    assert bool(said(nodes({"node1": [HALF]}, names=NODES[:1], gpus=gpus))) is is_told
