"""Do the ways in which people start jobs on Ray hold a check: a submitted job, verl's start script?"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.lab import ray
from tests.lab.fixtures import needs_lab
from tests.lab.lab import Lab

# A busy machine makes slow paths, and Ray's workers start Python on every node within the time of a stage.
pytestmark = pytest.mark.exclusive
EXAMPLES = Path(__file__).parents[2] / "examples"
SUBMIT = ["ray", "job", "submit", "--address=http://127.0.0.1:8265", f"--working-dir={EXAMPLES}"]
SUBMITTED = ["--", "env", "PROFILE=quick", "python", "ray_job.py"]
# What stands for verl: a trainer that starts a task on every node of the cluster.
TRAINER = """
import sys
import ray
ray.init(log_to_driver=False)
nodes = int(dict(word.split("=") for word in sys.argv[1:])["trainer.nnodes"])
@ray.remote(num_cpus=1, scheduling_strategy="SPREAD")
def rollout(rank):
    return f"rollout {rank} of {nodes}"
print(*ray.get([rollout.remote(rank) for rank in range(nodes)], timeout=60), sys.argv[-1], sep="\\n")
"""


@pytest.fixture
def lab(lab_is_possible):
    """Three hosts on which somebody starts Ray."""
    needs_lab(ray.why_not_submitted())
    with Lab.create(3) as made:
        yield made


@pytest.fixture(scope="module")
def cluster(lab_is_possible):
    """Three hosts of one Ray cluster that takes jobs."""
    needs_lab(ray.why_not_submitted())
    with Lab.create(3) as made, ray.RayLab(made, takes_jobs=True) as running:
        yield running


def test_a_submitted_job_trains_behind_go(cluster):
    """The line of the docs: the check's verdict and the job's own output stand in one log, and the job succeeded."""
    done = cluster.run([*SUBMIT, *SUBMITTED])
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.index("GO  3 nodes") < done.stdout.index("rank 2 trained on")
    assert "succeeded" in done.stdout


def test_a_submitted_job_is_judged_by_the_variables_of_its_runtime_env(cluster):
    """They reach every node's task; the job failed with the reason in its log, and no actor was started."""
    variables = '--runtime-env-json={"env_vars": {"NCCL_SOCKET_IFNAME": "ib0"}}'
    done = cluster.run([*SUBMIT, variables, *SUBMITTED])
    assert done.returncode == 1, done.stdout + done.stderr
    assert "NO-GO  3 nodes" in done.stdout
    assert "NCCL_SOCKET_IFNAME" in done.stdout
    assert "trained on" not in done.stdout


def test_the_start_script_of_verl_submits_its_trainer_behind_go(lab):
    """The same script on three hosts: one cluster, a check of it, the trainer with the words that were given."""
    package = lab.shared / "site" / "verl" / "trainer"
    package.mkdir(parents=True)
    (package / "main_ppo.py").write_text(TRAINER)
    words = ["bash", str(EXAMPLES / "verl.sh"), "trainer.total_epochs=1"]
    given = {"PATH": ray.PATH, "PYTHONPATH": str(package.parents[1]), "NNODES": "3", "PROFILE": "quick"}
    given |= {"HEAD_ADDR": lab.hosts[0].address, "GPUS_PER_NODE": "1", "RAY_USAGE_STATS_ENABLED": "0"}
    before = lab.residue()
    try:
        others = [
            subprocess.Popen(
                [*host.space.enter(), *words],
                env={**given, "NODE_RANK": str(rank)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for rank, host in enumerate(lab.hosts)
            if rank
        ]
        assigned = [f"{name}={value}" for name, value in {**given, "NODE_RANK": "0"}.items()]
        done = lab.hosts[0].run(["env", "-C", str(lab.shared), *assigned, *words], timeout_s=200)
        assert done.returncode == 0, done.stdout + done.stderr
        assert re.search(r"^GO\b.*\b3 .*^rollout 2 of 3$", done.stdout, re.DOTALL | re.MULTILINE), done.stdout
        assert "trainer.total_epochs=1" in done.stdout
    finally:
        for host in lab.hosts:
            ray.stop(host)
    for each in others:
        each.wait(30)
    assert ray.left_since(lab, before) == []
