"""A real Ray cluster of lab hosts: do its nodes come by its own tasks, unharmed, and is nothing of us left behind?

That faults are told as over ssh is in test_four_ways.py.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.lab import ray
from tests.lab.fixtures import needs_lab
from tests.lab.lab import Lab

# A busy machine makes slow paths, and Ray's workers start Python on every node within the time of a stage.
pytestmark = pytest.mark.exclusive
GIVEN = "5,7"  # the devices that `ray start` was told on node2
ACTORS = """
import os, ray, sys, threading, time
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
ray.init(address="auto", log_to_driver=False)
@ray.remote(num_cpus=1)
class Counter:
    count = 0
    def up(self):
        self.count += 1
        return self.count
counters = [Counter.options(scheduling_strategy="SPREAD").remote() for _ in range(3)]
for turn in range(1, 3000):
    assert ray.get([each.up.remote() for each in counters], timeout=20) == [turn] * 3
    print(turn, flush=True)
    time.sleep(0.1)
"""


@pytest.fixture(scope="module")
def cluster(lab_is_possible):
    """Three hosts of one Ray cluster."""
    needs_lab(ray.why_not())
    with Lab.create(3) as lab, ray.RayLab(lab, {"node2": {"CUDA_VISIBLE_DEVICES": GIVEN}}) as made:
        yield made


def run(cluster, *words):
    """A run on the head -> its exit code, its report, and what it printed."""
    folder = cluster.lab.shared / f"run-{time.monotonic_ns()}"
    done = cluster.run(["preflight", "run", "--hosts=ray", f"--report-dir={folder}", *words])
    report = folder / "report.json"
    return done.returncode, json.loads(report.read_text()) if report.is_file() else {}, done.stdout + done.stderr


def bad(report):
    return [
        (one["check"], one["verdict"], *one["nodes"])
        for one in report["findings"]
        if one["verdict"] in ("fail", "error")
    ]


def test_a_healthy_cluster_is_go_and_its_jobs_go_on(cluster):
    """Checks, bench and training beside actors of another job on every node, which hold all CPUs that Ray counts."""
    before = cluster.lab.residue()
    argv = cluster.command([sys.executable, "-c", ACTORS])
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as job:
        try:
            assert job.stdout.readline() == "1\n"
            code, report, printed = run(cluster)
            assert (code, bad(report)) == (0, []), printed
            assert list(report["nodes"]) == ["node1", "node2", "node3"]
            assert report["training"], printed
            assert job.poll() is None
        finally:
            job.stdin.close()
        assert len(job.stdout.read().splitlines()) > 20
    assert ray.left_since(cluster.lab, before) == []


def test_one_node_is_reached_as_reports_write_it(cluster):
    """Its task hands on what the session says; a task without GPUs sees the devices that Ray was given."""
    place = f"{cluster.head.address}:{ray.PORT}/{cluster.lab['node2'].address}"
    done = cluster.run(["preflight", "facts", f"--hosts=ray:{place}", "--json"])
    assert done.returncode == 0, done.stderr
    assert GIVEN in done.stdout
    assert list(json.loads(done.stdout)) == ["node2"]


@pytest.mark.parametrize(
    ("hosts", "code", "words"),
    [
        ("ray://{head}:10001", 4, "cannot connect back"),
        ("ray:{head}:1", 3, "the head does not answer"),
        ("ray:{head}:6379/10.77.0.99", 3, "is no node of the Ray cluster any more"),
    ],
)
def test_what_cannot_be_reached_is_said_in_one_line(cluster, hosts, code, words):
    """The client, a head that does not listen, a node that is not there."""
    done = cluster.run(["preflight", "run", f"--hosts={hosts.format(head=cluster.head.address)}"])
    assert done.returncode == code, done.stdout + done.stderr
    assert words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("moment", [3.0, 6.0])
def test_a_killed_controller_leaves_nothing(cluster, moment):
    """Its driver ends with it, and its tasks with their connections."""
    before = cluster.lab.residue()
    controller = subprocess.Popen(cluster.command(["preflight", "run", "--hosts=ray", "--report-dir=/tmp/killed"]))
    time.sleep(moment)
    for pid in cluster.head.space.members():
        with contextlib.suppress(OSError):
            if b"preflight\0run\0" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)
    controller.wait(10)
    cluster.head.run(["rm", "-rf", "/tmp/killed"])
    assert ray.left_since(cluster.lab, before) == []


@pytest.mark.parametrize("is_whole", [True, False])
def test_the_example_trains_behind_go_and_never_behind_no_go(cluster, is_whole):
    """Its exit code is preflight's, and no actor was started."""
    example = Path(__file__).parents[2] / "examples" / "ray_job.py"
    words = ["env", "PROFILE=quick", sys.executable, str(example)]
    with contextlib.nullcontext() if is_whole else cluster.lab["node2"].hostname_resolves_to("127.0.1.1"):
        done = cluster.run(words)
    assert done.returncode == (0 if is_whole else 1), done.stdout + done.stderr
    assert ("rank 2 trained on" in done.stdout) is is_whole
    assert "NO-GO" in done.stdout or is_whole


def test_a_node_that_ray_lost_is_not_green(cluster):
    """Its processes are gone; the run says so, or does not count it among the cluster's nodes any more."""
    cluster.end("node3")
    try:
        code, report, printed = run(cluster, "--profile=quick")
        assert (code != 0 and "node3" in printed) or "node3" not in report["nodes"], printed
    finally:
        cluster.start("node3")  # `ray start --address=HOST:PORT`, as the message says
        cluster.await_nodes(3)
    code, report, printed = run(cluster, "--profile=quick", "--need=3")
    assert (code, list(report["nodes"])) == (0, ["node1", "node2", "node3"]), printed
