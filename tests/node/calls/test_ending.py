"""Tests of preflight.node.calls.ending."""

import os
import socket

import msgspec

from preflight.facts.subjects.ending import Ending, LinksEnd
from preflight.facts.subjects.gpu import LinkErrors
from preflight.node.calls import ending
from preflight.node.subjects import network


def arguments(folder):
    """A node of which nothing is there but this folder."""
    place = os.fspath(folder)
    layers = [["--env", {"PATH": place}]]
    return {"environment": layers, "sysfs": place, "proc": place, "kmsg": f"{place}/kmsg"}


class Recorder:
    """A channel that keeps what is emitted."""

    def __init__(self):
        self.events = []

    def emit(self, event):
        """Keep what a real channel would send."""
        self.events.append(event)


def test_ports_and_counters_are_looked_at_once_more(tmp_path):
    """State and counters by the port's name, and what the kernel killed."""
    port = tmp_path / "class/infiniband/mlx5_0/ports/1"
    (port / "counters").mkdir(parents=True)
    (port / "hw_counters").mkdir()
    (port / "state").write_text("1: DOWN\n")
    (port / "counters/link_downed").write_text("3\n")
    (port / "hw_counters/out_of_buffer").write_text("5\n")
    (tmp_path / "vmstat").write_text("oom_kill 2\n")
    channel = Recorder()
    ending.run(arguments(tmp_path), channel)
    facts = msgspec.convert(channel.events[0]["facts"], type=Ending, strict=True)
    assert facts.ports["mlx5_0:1"].state == "DOWN"
    assert facts.ports["mlx5_0:1"].counters == {"link_downed": 3, "out_of_buffer": 5}
    assert facts.oom_kills == 2


def test_links_are_counted_once_more(tmp_path):
    """Those of this network namespace of which the kernel counts it: sysfs may be that of another."""
    for name, index, changes in (("lo", socket.if_nametoindex("lo"), "6"), ("eth999", 7, "8")):
        folder = tmp_path / "class/net" / name
        folder.mkdir(parents=True)
        (folder / "ifindex").write_text(f"{index}\n")
        (folder / "carrier_changes").write_text(f"{changes}\n")
    assert network.carriers({"proc": "/proc", "sysfs": os.fspath(tmp_path)}) == {"lo": 6}
    (tmp_path / "class/net/lo/carrier_changes").unlink()
    assert network.carriers({"proc": "/proc", "sysfs": os.fspath(tmp_path)}) == {}
    assert ending.collect(arguments(tmp_path))["carrier_changes"] == {"eth999": 8}  # of a tree, its own


def test_a_node_without_rdma_has_nothing_to_look_at(tmp_path):
    """No port, and no kernel that counts what it killed."""
    facts = msgspec.convert(ending.collect(arguments(tmp_path)), type=Ending, strict=True)
    assert facts.ports == {}
    assert facts.oom_kills.kind == "absent"


def test_nvlinks_and_the_kernels_log_are_looked_at_once_more(tmp_path):
    """The program on the job's PATH is asked for the errors of the links, and the log read for what is new."""
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\nprintf 'GPU 0: H100 (UUID: GPU-7)\\n\\t Link 0: CRC Errors: 4\\n'\n")
    smi.chmod(0o755)
    (tmp_path / "kmsg").write_text("3,1,1000,-;NVRM: Xid (PCI:0000:13:00): 79, GPU has fallen off the bus.\n")
    facts = msgspec.convert(ending.collect(arguments(tmp_path)), type=Ending, strict=True)
    assert facts.nvlink_errors == (LinksEnd("GPU-7", LinkErrors(1, 1, {"link 0: CRC Errors": 4})),)
    assert [(event.kind, event.code) for event in facts.log] == [("xid", 79)]
    smi.unlink()
    (tmp_path / "kmsg").unlink()
    facts = msgspec.convert(ending.collect(arguments(tmp_path)), type=Ending, strict=True)
    assert (facts.nvlink_errors.kind, facts.log.kind) == ("absent", "denied")
