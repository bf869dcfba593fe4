"""Tests of preflight.node.calls.ending."""

import os

import msgspec

from preflight.facts.subjects.ending import Ending
from preflight.node.calls import ending


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
    ending.run({"sysfs": os.fspath(tmp_path), "proc": os.fspath(tmp_path)}, channel)
    facts = msgspec.convert(channel.events[0]["facts"], type=Ending, strict=True)
    assert facts.ports["mlx5_0:1"].state == "DOWN"
    assert facts.ports["mlx5_0:1"].counters == {"link_downed": 3, "out_of_buffer": 5}
    assert facts.oom_kills == 2


def test_a_node_without_rdma_has_nothing_to_look_at(tmp_path):
    """No port, and no kernel that counts what it killed."""
    facts = msgspec.convert(
        ending.collect({"sysfs": os.fspath(tmp_path), "proc": os.fspath(tmp_path)}), type=Ending, strict=True
    )
    assert facts.ports == {}
    assert facts.oom_kills.kind == "absent"
