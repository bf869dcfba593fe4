"""The controller dies in every stage, and no host keeps a process, a port, a file or shared memory."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest

from tests import patience
from tests.lab import faults

# Seconds into the run: login, facts, mesh, raw streams, import of torch, all-reduce, training, the end.
MOMENTS = (0.5, 0.8, 1.1, 1.5, 2.2, 3.5, 5.0, 7.0, 9.0, 12.0)


def start(lab, folder, *words, verb="run"):
    argv = [sys.executable, "-m", "preflight", verb, "--hosts=node[1-3]", f"--python={sys.executable}", *words]
    return lab.start([*argv, f"--report-dir={folder}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_controller_leaves_nothing(lab3, tmp_path, moment):
    """SIGKILL at any moment: within 15 s every host is as it was before."""
    before = lab3.residue()
    controller = start(lab3, tmp_path / "report")
    time.sleep(moment)

    controller.send_signal(signal.SIGKILL)
    controller.wait()

    assert lab3.left_since(before, patience_s=15) == {}
    report = tmp_path / "report" / "report.json"
    if report.exists():
        document = json.loads(report.read_text())
        assert document["finished"] is False
        assert document["verdict"] == "error"


def test_a_cut_link_leaves_nothing(lab3, tmp_path):
    """A host whose cable is pulled in mid-run cleans up by its own lease, and the run ends with what it knows."""
    before = lab3.residue()
    controller = start(lab3, tmp_path / "report", "--deadline=30")
    time.sleep(6.0)

    with faults.link_down(lab3["node3"]):
        # sshd's own end of the lost connection stays until TCP gives up; nothing of ours may.
        left = lab3.left_since(before, patience_s=20).get("node3", [])
        assert [line for line in left if "sshd: " not in line] == []
        code = controller.wait(timeout=60)

    assert code in {1, 3}
    left = lab3.left_since(before, patience_s=15)
    assert [line for lines in left.values() for line in lines if "sshd: " not in line] == []


def test_a_controller_that_stands_still_leaves_nothing_and_is_not_green(lab3, tmp_path):
    """Stopped in mid-job for longer than the lease: the hosts clean up, and when it goes on it is not green."""
    before = lab3.residue()
    controller = start(lab3, tmp_path / "report", "--deadline=90")
    time.sleep(7.0)

    controller.send_signal(signal.SIGSTOP)
    left = lab3.left_since(before, patience_s=18)
    controller.send_signal(signal.SIGCONT)

    assert [line for lines in left.values() for line in lines if "sshd: " not in line] == []
    assert controller.wait(timeout=95) in {1, 3}
    assert json.loads((tmp_path / "report" / "report.json").read_text())["verdict"] != "pass"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_stopped_run_cleans_up_before_it_ends(lab3, tmp_path, number, code):
    """TERM and INT in mid-job: the partial report is written, and when the command has ended the hosts are clean."""
    before = lab3.residue()
    controller = start(lab3, tmp_path / "report")
    time.sleep(7.0)

    controller.send_signal(number)

    assert controller.wait(timeout=20) == code
    assert lab3.left_since(before, patience_s=3) == {}
    document = json.loads((tmp_path / "report" / "report.json").read_text())
    assert document["finished"] is True
    assert document["exit_code"] == code


def test_a_second_run_is_told_that_the_nodes_are_busy(lab3, tmp_path):
    """Two runs on the same hosts: the second waits, says which run holds them, and disturbs nothing."""
    first = start(lab3, tmp_path / "first", "-b", "1M", verb="bench")
    deadline = time.monotonic() + 10
    while not (tmp_path / "first" / "report.json").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(2.0)
    words = [sys.executable, "-m", "preflight", "facts", "--hosts=node1", f"--python={sys.executable}"]
    second = lab3.run([*words, f"--deadline={round(6 * patience.of_this_machine())}"])
    run_id = json.loads((tmp_path / "first" / "report.json").read_text())["run"]["id"]

    assert second.returncode == 3
    assert f"busy: run {run_id}" in second.stderr
    assert first.wait(timeout=90) == 0


def test_a_stopped_sshd_costs_its_host_alone(lab3, tmp_path):
    """A host that accepts and never answers is an error within the connect time; the others are judged."""
    with faults.stop_sshd(lab3["node2"]):
        controller = start(lab3, tmp_path / "report", "--profile=quick")
        code = controller.wait(timeout=60)
    document = json.loads((tmp_path / "report" / "report.json").read_text())

    assert code == 3
    assert document["nodes"]["node2"]["reached"] is False
    broken = [f for f in document["findings"] if f["nodes"] == ["node1", "node3"] and f["verdict"] in {"fail", "error"}]
    assert broken == []
