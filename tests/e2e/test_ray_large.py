"""Six hosts of one real Ray cluster: is it go, and is a node named that Ray loses while preflight runs on it?"""

from __future__ import annotations

import json
import subprocess
import time

import pytest

from tests.lab import ray
from tests.lab.fixtures import needs_lab
from tests.lab.lab import Lab

pytestmark = pytest.mark.exclusive  # Ray's workers start Python on six nodes within the time of a stage
LOST = "node5"


@pytest.fixture(scope="module")
def cluster(lab_is_possible):
    """Six hosts of one Ray cluster."""
    needs_lab(ray.why_not())
    with Lab.create(6) as lab, ray.RayLab(lab) as made:
        yield made


def test_six_nodes_are_go_and_left_as_they_were(cluster):
    """Checks, bench and training on all of them."""
    before, folder = cluster.lab.residue(), cluster.lab.shared / "healthy"
    done = cluster.run(["preflight", "run", "--hosts=ray", f"--report-dir={folder}"])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "GO  6 nodes" in done.stdout
    assert json.loads((folder / "report.json").read_text())["bench"]["nodes"] == 6
    assert ray.left_since(cluster.lab, before) == []


# What stands on a node once its facts are collected, and once its ranks run.
STAGES = {"facts": "PREFLIGHT_TASK", "ranks": "listening on unix @preflight-"}


@pytest.mark.parametrize("stage", STAGES)
def test_a_node_that_ray_loses_on_the_way_is_named(cluster, stage):
    """While its facts are collected, and while its ranks run: never go, and nothing is left on the others."""
    before, folder = cluster.lab.residue(), cluster.lab.shared / f"lost-{stage}"
    argv = cluster.command(["preflight", "run", "--hosts=ray", f"--report-dir={folder}"])
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as job:
        while not any(STAGES[stage] in line for line in cluster.lab[LOST].residue().since(before[LOST])):
            assert job.poll() is None, job.stdout.read()
            time.sleep(0.2)
        cluster.end(LOST)
        printed = job.communicate(timeout=240)[0]
    try:
        report = json.loads((folder / "report.json").read_text())
        bad = [one for one in report["findings"] if one["verdict"] in ("fail", "error") and LOST in one["nodes"]]
        assert (job.returncode in (1, 3), bool(bad)) == (True, True), printed
        del before[LOST]
        assert ray.left_since(cluster.lab, {**before, LOST: cluster.lab[LOST].residue()}) == []
    finally:
        cluster.start(LOST)
        cluster.await_nodes(6)
