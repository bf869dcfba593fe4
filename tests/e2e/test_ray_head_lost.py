"""On a real Ray cluster that loses its head while preflight runs on another of its nodes: what is told, and when?"""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest

from tests.lab import ray
from tests.lab.fixtures import needs_lab
from tests.lab.lab import Lab

# A busy machine makes slow paths, and Ray's workers start Python on every node within the time of a stage.
pytestmark = [pytest.mark.exclusive, pytest.mark.long]
FROM = "node2"
DEADLINE = 150
SAID = "the head does not answer (Ray: nothing answers at {address}:6379: "
# What ranks measure; streams between the nodes, of which there may be some by then, are none of theirs.
MEASURED = ("bench.all_reduce_is_correct", "bench.all_reduce_reaches_the_expected_bandwidth", "training.the_loss_falls")
# What stands on the first node once its facts are collected, and once its ranks run.
STAGES = {"facts": "PREFLIGHT_TASK", "ranks": "listening on unix @preflight-"}


@pytest.fixture
def cluster(lab_is_possible):
    """Three hosts of a Ray cluster, for one test: what lost its head is no cluster any more."""
    needs_lab(ray.why_not())
    with Lab.create(3) as lab, ray.RayLab(lab) as made:
        yield made


def begun(cluster, folder):
    """A run that is under way on a node that is not the head."""
    words = ["preflight", "run", "--hosts=ray", f"--report-dir={folder}", f"--deadline={DEADLINE}"]
    argv = [*cluster.lab[FROM].space.enter(), "env", "-C", "/tmp", f"PATH={ray.PATH}", *words]
    return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def kill_gcs(cluster):
    """The process of the head that all nodes ask, alone; what is left of Ray there ends by itself."""
    for pid in cluster.head.space.members():
        if Path(f"/proc/{pid}/comm").read_text().strip() == "gcs_server":
            cluster.head.signal(pid, 9)


def end_head(cluster):
    """All of Ray on the head, as with a lost machine."""
    cluster.end(cluster.head.name)


@pytest.mark.parametrize(("lose", "stage"), [(kill_gcs, "ranks"), (end_head, "facts"), (end_head, "ranks")])
def test_a_head_that_is_lost_on_the_way_ends_the_run_with_one_line(cluster, lose, stage):
    """While facts are collected, and while ranks run: never go, in time, in words of ours, and nothing is left."""
    lab, folder = cluster.lab, cluster.lab.shared / "lost"
    before, first = lab.residue(), cluster.head
    begin = time.monotonic()
    with begun(cluster, folder) as job:
        while not any(STAGES[stage] in line for line in first.residue().since(before[first.name])):
            assert job.poll() is None, job.stdout.read()
            time.sleep(0.2)
        lose(cluster)
        printed = job.communicate(timeout=2 * DEADLINE)[0]
    assert time.monotonic() - begin < DEADLINE + 10, printed
    assert job.returncode == 3, printed
    assert "Traceback" not in printed
    report = json.loads((folder / "report.json").read_text())
    lost = [one for one in report["findings"] if one["verdict"] in ("fail", "error") and "node1" in one["nodes"]]
    said = [SAID.format(address=first.address), *["Ray has lost the node (Ray: "] * (lose is end_head)]
    assert lost, printed
    assert all(any(words in one["message"] for words in said) or one["blocked_by"] for one in lost), printed
    print(printed)
    assert not [one for one in report["findings"] if one["check"] in MEASURED and one["verdict"] == "pass"], printed
    assert ray.left_since(lab, before) == []


def test_a_head_that_is_gone_before_the_run_is_said_in_one_line(cluster):
    """The run that names no address too, in the time that its driver has."""
    end_head(cluster)
    for hosts in ("ray", f"ray:{cluster.head.address}:{ray.PORT}"):
        done = cluster.lab[FROM].run(["env", "-C", "/tmp", f"PATH={ray.PATH}", "preflight", "run", f"--hosts={hosts}"])
        assert done.returncode == 3, done.stdout + done.stderr
        assert len(done.stderr.strip().splitlines()) == 1, done.stderr
        assert "Traceback" not in done.stderr
