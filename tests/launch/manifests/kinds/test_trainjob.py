"""TrainJob."""

from __future__ import annotations

import pytest

from tests.launch.samples import failed, rules

TRAINJOB = """apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: train
spec:
  trainer:
    numNodes: 2
    numProcPerNode: 8
    command: [torchrun, train.py]
    resourcesPerNode:
      limits:
        nvidia.com/gpu: 8
"""


def test_a_right_one_is_silent():
    """The controller gives nodes and ranks."""
    assert rules({"job.yaml": TRAINJOB}) == []


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("numProcPerNode: 8", "numProcPerNode: 16", "processes_match_devices"),
    ],
)
def test_one_thing_broken_fails(old, new, rule):
    """Each with its rule."""
    assert old in TRAINJOB
    assert rule in failed({"job.yaml": TRAINJOB.replace(old, new, 1)})


RUNTIME = """apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: torch-gpu}
spec:
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          spec:
            template:
              spec:
                containers:
                - name: node
                  volumeMounts: [{name: shm, mountPath: /dev/shm}]
                volumes:
                - {name: shm, emptyDir: {medium: Memory}}
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: train}
spec:
  runtimeRef: {name: torch-gpu}
  trainer:
    numNodes: 2
    numProcPerNode: 8
    command: [torchrun, train.py]
    env: []
    resourcesPerNode: {limits: {nvidia.com/gpu: 8}}
"""


def test_a_train_job_has_the_pod_of_its_runtime():
    """Where the runtime stands in the file, its volumes are known."""
    assert rules({"job.yaml": RUNTIME}) == []
    bare = RUNTIME.replace("volumeMounts: [{name: shm, mountPath: /dev/shm}]", "volumeMounts: []")
    assert rules({"job.yaml": bare}) == ["pods_have_shared_memory"]
    assert rules({"job.yaml": bare.replace("{name: torch-gpu}\n  trainer", "{name: other}\n  trainer")}) == []


def test_what_the_controller_sets_is_not_the_users():
    """PET_NNODES and its like."""
    text = RUNTIME.replace("env: []", 'env: [{name: PET_NNODES, value: "2"}]')
    assert rules({"job.yaml": text}) == ["manifest_is_accepted"]
