"""What do pods differ in that ssh's hosts do not: their images, and where a pod of the same name runs?"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time

import pytest

from tests.lab import faults, residue
from tests.lab import kubernetes as pods_lab
from tests.lab.fixtures import needs_lab
from tests.lab.kubernetes import PodsLab
from tests.lab.lab import Lab
from tests.lab.reports import reach, report_of
from tests.lab.spaces import LabError

PYTHON = f"--python={sys.executable}"
OLD = """
import sys
if "-c" in sys.orig_argv:  # the loader's Python; others of the host are this machine's
    sys.version_info, sys.version = (3, 8, 20, "final", 0), "3.8.20 (default, Sep  6 2024, 19:03:47) [GCC 13.2.0]"
"""
END_SECONDS = 90


@pytest.fixture(scope="module")
def cluster(lab_is_possible):
    """Three hosts that are also three pods; tests leave the pods as they were."""
    needs_lab(pods_lab.why_not())
    with Lab.create(3) as lab, PodsLab(lab) as made:
        yield made


def words_of(folder, *words, hosts=PodsLab.hosts):
    """A short run over the pods that writes its report there."""
    return ["preflight", "run", f"--hosts={hosts}", PYTHON, "--profile=quick", f"--report-dir={folder}", *words]


# What else runs on this machine decides these.
SPEED = {"training.no_rank_straggles", "training.no_rank_halves_the_speed"}


def test_a_pod_with_an_old_python_is_told_with_its_version(cluster, tmp_path):
    """Its loader says so and ends by itself, which kubectl hands on; the others are judged."""
    before = cluster.lab.residue()
    with contextlib.ExitStack() as planted:
        for host in cluster.lab.hosts[:3]:
            planted.enter_context(faults.python_with_site(host))
        planted.enter_context(faults.python_site(cluster.lab["node2"], OLD))
        done = cluster.run(words_of(tmp_path / "run", f"--python={faults.WITH_SITE}"))
    assert done.returncode == 3, done.stdout + done.stderr
    found = reach(tmp_path / "run")
    assert [found[node][0] for node in ("node1", "node2", "node3")] == ["pass", "error", "pass"]
    assert "Python 3.8.20 is too old; wanted 3.9 or newer: give --python PATH" in found["node2"][1]
    assert cluster.lab.left_since(before) == {}


def test_an_image_without_bash_and_tar_is_enough(cluster, tmp_path):
    """Nothing is copied into a pod, and neither our facts nor our ranks need a shell of their own."""
    with contextlib.ExitStack() as planted:
        for host in cluster.lab.hosts[:2]:
            for program in ("/usr/bin/bash", "/usr/bin/tar"):
                planted.enter_context(host.write_file(program, ""))
            assert host.run(["/usr/bin/bash", "-c", "true"]).returncode == 126
        argv = ["preflight", "train", f"--hosts={PodsLab.hosts}", PYTHON, f"--report-dir={tmp_path / 'run'}"]
        done = cluster.run([*argv, "--backend=gloo"])
    report = report_of(tmp_path / "run")
    failed = {one["check"] for one in report["findings"] if one["verdict"] in ("fail", "error")}
    assert failed <= SPEED, done.stdout + done.stderr
    assert report["training"]["world_size"] == 3


def made_anew(cluster):
    """The second pod under its old name, on another node, as a StatefulSet makes it."""
    spec = {**cluster.pod("node2")["object"]["spec"], "nodeName": "machine-9"}
    metadata = {**cluster.pod("node2")["object"]["metadata"], "uid": "uid-of-its-successor"}
    return cluster.changed(cluster.pod("node2", spec=spec, metadata=metadata))


def test_a_pod_that_runs_elsewhere_under_its_old_name_is_not_taken_for_the_one_that_was_good(cluster, tmp_path):
    """nodes-good.txt names its node: it is an error there, and no note lays the new pod to the old node."""
    assert cluster.run(words_of(tmp_path / "first")).returncode == 0
    good = f"@{tmp_path}/first/nodes-good.txt"
    with made_anew(cluster):
        done = cluster.run(words_of(tmp_path / "again", hosts=good))
    assert done.returncode == 3, done.stdout + done.stderr
    found = reach(tmp_path / "again")
    assert [found[node][0] for node in ("node1", "node2", "node3")] == ["pass", "error", "pass"]
    assert "the pod was made anew and runs on machine-9, not on machine-1 as --hosts says" in found["node2"][1]
    assert found["node2"][2].startswith("select the pods by their labels, or take the @")
    assert "machine-1" not in " ".join(report_of(tmp_path / "again")["notes"])
    assert "node2" not in (tmp_path / "again" / "nodes-good.txt").read_text()
    assert cluster.run(words_of(tmp_path / "unmoved", hosts=good)).returncode == 0


def test_a_pod_whose_node_nobody_can_confirm_is_not_judged(cluster, tmp_path):
    """Its verdicts might be of another node than the one that is named."""
    with cluster.changed(forbidden=["pods"]):
        done = cluster.run(words_of(tmp_path / "run", hosts="k8s:train/pod/node2:trainer@machine-1"))
    assert done.returncode == 3
    verdict, message, fix = reach(tmp_path / "run")["node2"]
    assert verdict == "error"
    assert "--hosts says could not be asked: this user may not read the pods" in message
    assert fix == "give it the Role of examples/kubernetes.yaml, then run again"


def test_a_pod_that_moves_in_mid_run_is_lost_and_not_met_again(cluster, tmp_path):
    """Its successor has its name: it is not asked for what the run lacks, and stands in no list of good nodes."""
    argv = ["preflight", "run", f"--hosts={PodsLab.hosts}", PYTHON, f"--report-dir={tmp_path / 'run'}"]
    run = cluster.lab.start(argv, env=cluster.variables(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    host = cluster.lab["node2"]
    end = time.monotonic() + END_SECONDS
    while not any(is_rank for _, is_rank in processes(host)):
        assert time.monotonic() < end, "no rank was started"
        assert run.poll() is None, run.stdout.read()
        time.sleep(0.05)
    with made_anew(cluster):
        for pid, _ in processes(host):
            with contextlib.suppress(ProcessLookupError, LabError):  # it has ended meanwhile
                host.signal(pid, signal.SIGKILL)
        said, _ = run.communicate(timeout=END_SECONDS)
    assert run.returncode == 3, said
    errors = [
        found["message"]
        for found in report_of(tmp_path / "run")["findings"]
        if found["verdict"] == "error" and "mid-run" in found["message"]
    ]
    assert any("its container was killed: restarted, evicted or out of memory" in message for message in errors), said
    assert "node2" not in (tmp_path / "run" / "nodes-good.txt").read_text()


def processes(host):
    """Of what runs in the pod: its id, and whether it is a rank of a job."""
    found = []
    for pid in set(host.space.members()) - {host.space.pid, residue.listener_pid(host.space)}:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
            found.append((pid, b"MASTER_ADDR=" in file.read()))
    return found
