"""JobSet."""

from __future__ import annotations

import pytest

from tests.launch.samples import failed, judged, rules

JOBSET = """apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: train
spec:
  replicatedJobs:
  - name: workers
    template:
      spec:
        parallelism: 2
        completions: 2
        template:
          spec:
            containers:
            - name: train
              env:
              - name: MASTER_ADDR
                value: train-workers-0-0.train
              command: [bash, -c]
              args: ['torchrun --nnodes=2 --node_rank=$JOB_COMPLETION_INDEX --master_addr=$MASTER_ADDR t.py']
"""


def test_a_right_one_is_silent():
    """A name of its service, and a rank by the index."""
    assert rules({"job.yaml": JOBSET}) == []


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("value: train-workers-0-0.train", "value: train-worker-0-0.train", "headless_service_is_there"),
        ("  replicatedJobs:", "  network:\n    enableDNSHostnames: false\n  replicatedJobs:",
         "headless_service_is_there"),
    ],
)  # fmt: skip
def test_one_thing_broken_fails(old, new, rule):
    """Each with its rule."""
    assert old in JOBSET
    assert rule in failed({"job.yaml": JOBSET.replace(old, new, 1)})


def test_a_jobset_gives_no_node_rank_by_itself():
    """PET_NODE_RANK is not set: without --node_rank every pod is node 0."""
    for old, new in (("--node_rank=$JOB_COMPLETION_INDEX ", ""), ("$JOB_COMPLETION_INDEX", "0")):
        assert failed({"job.yaml": JOBSET.replace(old, new)}) == ["static_rendezvous_has_node_ranks"]


def test_accelerate_in_a_template_is_machine_0_everywhere():
    """It reads no variable for its rank."""
    words = "accelerate launch --num_machines 2 --num_processes 16 --main_process_ip $MASTER_ADDR {}t.py"
    text = JOBSET[: JOBSET.index("args:")] + "args: ['" + words + "']\n"
    (found,) = judged({"job.yaml": text.replace("{}", "")})
    assert (found.check, found.fix) == (
        "launch.static_rendezvous_has_node_ranks",
        "--machine_rank=$JOB_COMPLETION_INDEX",
    )
    assert rules({"job.yaml": text.replace("{}", "--machine_rank $JOB_COMPLETION_INDEX ")}) == []
