"""Does a whole run go through a real Slurm: the allocation's nodes, steps of srun, the limits that slurmd sets?"""

from __future__ import annotations

import json
import sys

import pytest

from tests.lab import slurm
from tests.lab.fixtures import do_without
from tests.lab.lab import Lab


@pytest.fixture(scope="module")
def cluster(lab_is_possible):
    """Three nodes of a Slurm of their own; tests leave every node idle."""
    reason = slurm.why_not()
    if reason:
        do_without(reason, required=slurm.is_required())
    with Lab.create(3) as lab, slurm.SlurmLab(lab) as made:
        yield made


def preflight(verb, folder, *words):
    """The words of a run through Slurm that writes its report there."""
    return ["preflight", verb, "--hosts=slurm", f"--python={sys.executable}", f"--report-dir={folder}", *words]


def report_of(folder):
    """What the run reported."""
    return json.loads((folder / "report.json").read_text())


def test_facts_mesh_and_training_pass_through_an_allocation(cluster, tmp_path):
    """Nodes in Slurm's order, ranks started by one step of srun; nothing is left on a node, and exit 0 is salloc's."""
    before = cluster.lab.residue()
    words = preflight("train", tmp_path / "run", "--launcher=srun")
    done = cluster.run(["salloc", "--quiet", "--nodes=3", *words])
    assert done.returncode == 0, done.stdout + done.stderr
    report = report_of(tmp_path / "run")
    assert list(report["nodes"]) == ["node1", "node2", "node3"]
    assert (report["training"]["launcher"], report["training"]["world_size"]) == ("srun", 3)
    assert cluster.lab.left_since(before) == {}
