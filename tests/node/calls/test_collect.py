"""Tests of preflight.node.calls.collect."""

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec

from preflight.facts.subjects import SUBJECTS
from preflight.node.calls import collect

ROOT = Path(__file__).resolve().parents[3]
SLOW = {"collections", "enum", "functools", "json", "re", "subprocess", "threading", "typing"}  # 2 to 9 ms each


class Recorder:
    """A channel that keeps what is emitted."""

    scratch = "/dev/shm/preflight-test"

    def __init__(self, order):
        self.events = []
        self.order = order

    def receive(self, _timeout_s):
        """What the controller sends when all nodes have answered."""
        return self.order

    def emit(self, *events):
        """Keep what a real channel would send."""
        self.events += json.loads(json.dumps(events, allow_nan=False))


def run(order=None, **arguments):
    channel = Recorder(order or {"finish": True})
    collect.run({"environment": [], "sysfs": "/sys", "proc": "/proc", **arguments}, channel)
    assert {"collected": True} in channel.events
    return {event["subject"]: event for event in channel.events if "subject" in event}


def test_every_subject_of_this_machine_decodes():
    """Each collector gives facts of exactly the shape that the controller expects."""
    events = run()
    assert list(events) == list(collect.COLLECTORS)
    for subject, event in events.items():
        msgspec.convert(event["facts"], type=SUBJECTS[subject], strict=True)


def test_the_second_round_tells_of_the_peers():
    """Asked about its peers, the node answers in the same call with the routes to them."""
    peer = {"name": "a", "address": "127.0.0.1", "hostname": "localhost", "fqdn": "localhost"}
    events = run(order={"peers": {"peers": [peer], "master_address": "", "bind": None}})

    assert (
        msgspec.convert(events["peers"]["facts"], type=SUBJECTS["peers"], strict=True).routes[0].source == "127.0.0.1"
    )


def test_one_broken_subject_leaves_the_others(tmp_path):
    """A subject whose source is gone is emitted as missing with the reason, the others with their facts."""
    events = run(proc=os.fspath(tmp_path))
    assert events["ports"]["kind"] == "failed"
    assert events["ports"]["missing"].startswith("FileNotFoundError: ")
    assert "facts" not in events["ports"]
    assert "facts" in events["environment"]


def test_what_we_may_not_read_is_denied(tmp_path):
    """A refusal of the kernel is told as one, not as a failure."""

    class Closed(str):
        __slots__ = ()

        def __format__(self, specification):
            raise PermissionError(13, "Permission denied")

    assert run(proc=Closed(tmp_path))["ports"]["kind"] == "denied"


def test_any_text_can_be_sent():
    """Bytes that are no text and values without end arrive as bounded, valid text."""
    long, odd = "x" * 100_000, "caf\u00e9 \udcff"
    sent = collect.sendable({"a": [long, odd, 3, None, True]})
    assert len(sent["a"][0]) == collect.LONGEST_TEXT
    assert sent["a"][1:] == ["caf\u00e9 \\udcff", 3, None, True]


def test_who_a_node_is_comes_before_what_may_block():
    """A node whose driver or file system hangs is still asked for by its peers, under its name."""
    place = collect.COLLECTORS.index("identity")
    assert all(place < collect.COLLECTORS.index(name) for name in ("software", "rdma", "environment", "kernel"))


def test_collectors_load_nothing_slow():
    """A node without GPUs and RDMA devices pays for no module of the library that takes milliseconds to load."""
    program = (
        "import sys\n"
        "from preflight.node.calls import collect\n"
        "for name in collect.COLLECTORS: __import__(f'preflight.node.subjects.{name}')\n"
        f"print(*sorted({SLOW} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", program], cwd=ROOT, check=True, timeout=30, stdout=subprocess.PIPE
    )
    assert done.stdout.split() == []
