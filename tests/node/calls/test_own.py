"""Does the node agent collect the facts itself only where nothing can block, and stay within hearing meanwhile?"""

from __future__ import annotations

import os
import time

import pytest

from preflight.node.calls import own
from preflight.node.calls.collect import COLLECTED, COLLECTORS
from tests.node.wire import opened

PLAIN = """\
/dev/vda1 / ext4 rw,relatime 0 0
proc /proc proc rw 0 0
systemd-1 /proc/sys/fs/binfmt_misc autofs rw,fd=29 0 0
tmpfs /dev/shm tmpfs rw 0 0
"""
ARGUMENTS = {"environment": [], "proc": "/proc", "sysfs": "/sys", "subjects": False}
PEER = {"name": "a", "address": "127.0.0.1", "hostname": "localhost", "fqdn": "localhost"}


@pytest.mark.parametrize(
    ("row", "is_local"),
    [
        ("", True),
        ("none /sys/kernel/tracing tracefs rw 0 0\n", True),
        ("storage:/home /home nfs4 rw,hard,proto=tcp 0 0\n", False),
        ("10.0.0.1@o2ib:/fs /scratch lustre rw,flock 0 0\n", False),
        ("sshfs /mnt fuse.sshfs rw 0 0\n", False),
        ("auto.home /home autofs rw 0 0\n", False),
        ("new /mnt a_file_system_of_next_year rw 0 0\n", False),
    ],
)
def test_a_file_system_of_another_machine_may_block(tmp_path, row, is_local):
    """So may one that nobody here knows; what systemd mounts below /proc is of this machine."""
    (tmp_path / "mounts").write_text(PLAIN + row)
    assert own.has_local_files(os.fspath(tmp_path / "mounts")) == is_local


def test_a_table_of_mounts_that_cannot_be_read_proves_nothing(tmp_path):
    """Neither does an empty one."""
    assert not own.has_local_files(os.fspath(tmp_path / "none"))
    (tmp_path / "mounts").touch()
    assert not own.has_local_files(os.fspath(tmp_path / "mounts"))


@pytest.mark.parametrize("device", ["proc/driver/nvidia", "sys/class/infiniband", "sys/class/kfd", "dev/dxg"])
def test_a_device_may_block(tmp_path, device):
    """Of a driver, by its files, or by the program that asks it."""
    for folder in ("proc/self", "sys", "dev", "usr/bin"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "proc/self/mounts").write_text(PLAIN)
    roots = {"proc": f"{tmp_path}/proc", "sysfs": f"{tmp_path}/sys", "environment": []}
    assert not own.may_block(roots)
    (tmp_path / "usr/bin/nvidia-smi").touch(mode=0o755)
    assert own.may_block(roots)
    (tmp_path / "usr/bin/nvidia-smi").unlink()
    (tmp_path / device).mkdir(parents=True)
    assert own.may_block(roots)


def test_a_call_goes_on_when_the_controller_has_answered():
    """The first round ends with a wait; the order of the second leads to its events and the end of the call."""
    call = own.OwnCall(7, dict(ARGUMENTS))
    assert not call.is_waiting
    assert call.step() == [{"call": 7, "event": COLLECTED}]
    assert call.is_waiting
    call.take({"peers": {"peers": [PEER], "master_address": "", "bind": None}})
    assert not call.is_waiting
    peers, end = call.step()
    assert peers["event"]["facts"]["routes"][0]["source"] == "127.0.0.1"
    assert end == {"call": 7, "result": {}}


def test_an_order_to_finish_ends_the_call():
    """Without a second round."""
    call = own.OwnCall(7, dict(ARGUMENTS))
    call.step()
    call.take({"finish": True})
    assert call.step() == [{"call": 7, "result": {}}]


def test_an_error_of_our_code_ends_the_call_alone():
    """As in a process of its own: one line with its kind."""
    call = own.OwnCall(7, dict(ARGUMENTS))
    call.step()
    call.take({"peers": {}})
    assert call.step() == [{"call": 7, "error": "KeyError: 'peers'"}]


def facts(wire, number, order):
    """All events of the facts, and the end of the call."""
    wire.call(number, "facts", {**ARGUMENTS, "subjects": True})
    wire.send({"to": number, "send": order})
    return wire.outcome(number, seconds=20.0)


@pytest.mark.skipif(own.may_block(dict(ARGUMENTS)), reason="on this machine the facts have a process of their own")
def test_the_agent_answers_and_serves_the_next_call():
    """Every subject once, in no process of its own, and the agent hears what comes next."""
    with opened() as wire:
        events, end = facts(wire, 1, {"finish": True})
        assert [event["subject"] for event in events if "subject" in event] == list(COLLECTORS)
        assert end["result"] == {}
        wire.send({"ping": 3})
        assert wire.next("pong")["pong"] == 3
        events, end = facts(wire, 2, {"peers": {"peers": [PEER], "master_address": "", "bind": None}})
        assert events[-1]["subject"] == "peers"
        assert end["result"] == {}
        wire.call(3, "free_port", {"address": "127.0.0.1"})
        assert wire.outcome(3)[1]["result"]["port"]


@pytest.mark.skipif(own.may_block(dict(ARGUMENTS)), reason="on this machine the facts have a process of their own")
def test_facts_that_are_no_longer_wanted_are_not_collected():
    """A cancelled call says so, and its order comes too late to matter."""
    with opened() as wire:
        wire.call(1, "facts", {**ARGUMENTS, "subjects": True})
        wire.send({"cancel": 1})
        _, end = wire.outcome(1)
        assert end == {"call": 1, "error": "cancelled"}
        wire.send({"to": 1, "send": {"finish": True}})
        wire.send({"ping": 4})
        assert wire.next("pong")["pong"] == 4
        assert wire.waiting == []


@pytest.mark.skipif(own.may_block(dict(ARGUMENTS)), reason="on this machine the facts have a process of their own")
def test_a_call_that_is_cancelled_between_two_steps_does_not_end_the_agent():
    """Whenever the word comes, the agent lives and answers what follows."""
    with opened() as wire:
        for number in range(1, 21):
            wire.call(number, "facts", {**ARGUMENTS, "subjects": True})
            time.sleep(0.002 * number)
            wire.send({"cancel": number})
            wire.outcome(number)
            wire.send({"ping": number})
            assert wire.next("pong")["pong"] == number


def test_the_second_round_alone_has_a_process():
    """As a run in turns asks for it: without the places of /proc and /sys, which the first round needs."""
    with opened() as wire:
        wire.call(1, "facts", {"subjects": False})
        wire.send({"to": 1, "send": {"peers": {"peers": [PEER], "master_address": "", "bind": None}}})
        events, end = wire.outcome(1)
        assert [event.get("subject") for event in events] == [None, "peers"]
        assert end["result"] == {}
