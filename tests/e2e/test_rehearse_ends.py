"""A rehearsal ends at any moment, in any way: is no process, port, file or job step left on any host?"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.test_rehearse import TORCHRUN, write
from tests.lab import faults
from tests.lab.lab import Lab

STUBBORN = """#!/bin/bash
trap '' TERM INT HUP
cd {folder}
setsid bash -c 'trap "" TERM; while :; do sleep 1; done' &
nohup python3 -c 'import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)' &
while :; do sleep 1; done
"""
NEARLY = 0.9  # of the time that a rehearsal takes: it is nearly over


@pytest.fixture(scope="module")
def lab(lab_is_possible):
    """Two hosts."""
    with Lab.create(2) as made:
        yield made


@pytest.fixture
def folder(lab, request):
    """A shared folder."""
    made = lab.shared / f"ends-{abs(hash(request.node.name))}"
    made.mkdir()
    (made / "train.py").write_text("")
    return made


def started(lab, folder, text):
    """A rehearsal that goes on."""
    script = str(folder / write(folder, text))
    argv = [sys.executable, "-m", "preflight", "rehearse", "--hosts=node[1-2]", f"--python={sys.executable}"]
    argv += [f"--report-dir={folder}/report", script]
    root = str(Path(__file__).parents[2])
    return lab.start(argv, env={"PYTHONPATH": root}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def ends(lab, folder, text, *, moment, number):
    """The signal at this moment leaves nothing after 5 s -> the exit code, and the seconds until nothing was left."""
    before = lab.residue()
    controller = started(lab, folder, text)
    time.sleep(moment)
    controller.send_signal(number)
    code = controller.wait(30)
    ended = time.monotonic()
    assert lab.left_since(before, patience_s=5) == {}
    return code, time.monotonic() - ended


@pytest.mark.parametrize("moment", [1.0, 3.0, 6.0, 12.0])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_rehearsal_that_is_ended_leaves_nothing(lab, folder, moment, number):
    """Killed, or stopped by its user, before and after the ranks have come."""
    code, _ = ends(lab, folder, TORCHRUN, moment=moment, number=number)
    assert code in (-signal.SIGKILL, -signal.SIGINT, 130, 0)  # before its own handler is there, INT ends it too


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_script_that_ignores_signals_is_ended_too(lab, folder, number):
    """It has daemons in sessions of their own, and none of them listens to TERM."""
    ends(lab, folder, STUBBORN, moment=5.0, number=number)


def test_a_cut_link_leaves_nothing(lab, folder):
    """A host whose cable is pulled ends what was started there by its own lease."""
    before = lab.residue()
    controller = started(lab, folder, STUBBORN)
    time.sleep(6.0)
    with faults.link_down(lab["node2"]):
        left = lab.left_since({"node2": before["node2"], "node1": before["node1"]}, patience_s=20).get("node2", [])
        assert [line for line in left if "sshd" not in line] == []
        controller.send_signal(signal.SIGINT)
        controller.wait(60)


@pytest.mark.long
@pytest.mark.parametrize(("text", "longest"), [(TORCHRUN, 0.0), (STUBBORN, 8.0)], ids=["torchrun", "stubborn"])
def test_at_forty_moments_nothing_is_left(lab, folder, text, longest):
    """Any moment may be the last one, for a script that ignores TERM too, which has no end of its own."""
    rng = random.Random(7)
    if not longest:
        began = time.monotonic()
        assert started(lab, folder, text).wait(120) == 0
        longest = NEARLY * (time.monotonic() - began)
    found = [ends(lab, folder, text, moment=rng.uniform(0.5, longest), number=signal.SIGKILL) for _ in range(40)]
    killed = sum(code == -signal.SIGKILL for code, _ in found)
    print(f"{killed} killed, nothing left after {max(s for _, s in found):.1f} s at most", file=sys.stderr)
    assert killed > 30  # the others had come to their end before
