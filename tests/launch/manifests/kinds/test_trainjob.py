"""TrainJob."""

from __future__ import annotations

import pytest

from tests.launch.samples import failed, judged, rules

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
    assert rules({"job.yaml": bare.replace("{name: torch-gpu}\n  trainer", "{name: other}\n  trainer")}) == [
        "runtime_is_there"
    ]


def test_what_the_controller_sets_is_not_the_users():
    """PET_NNODES and its like."""
    text = RUNTIME.replace("env: []", 'env: [{name: PET_NNODES, value: "2"}]')
    assert rules({"job.yaml": text}) == ["manifest_is_accepted"]


def test_a_runtime_of_the_file_is_referred_to_by_name_and_kind():
    """A file without any may count on the cluster's."""
    asked = "runtimeRef: {name: torch-gpu}"
    assert asked in RUNTIME
    other = RUNTIME.replace(asked, "runtimeRef: {name: torch-gpu, kind: TrainingRuntime}")
    (found,) = judged({"job.yaml": other})
    assert found.check == "launch.runtime_is_there"
    assert (
        found.message
        == "runtimeRef asks for TrainingRuntime torch-gpu, and the file has ClusterTrainingRuntime torch-gpu"
    )
    assert found.fix == "runtimeRef: {kind: ClusterTrainingRuntime, name: torch-gpu}"
    assert rules({"job.yaml": RUNTIME.partition("---\n")[2]}) == []


def test_plain_python_is_told_nothing_by_the_runtime_of_torch():
    """Its controller speaks to torchrun; one node needs nobody."""
    text = TRAINJOB.replace("[torchrun, train.py]", "[python3, train.py]").replace(
        "  trainer:", "  runtimeRef: {name: torch-distributed}\n  trainer:"
    )
    assert rules({"job.yaml": text}) == ["pods_know_their_rank"]
    assert rules({"job.yaml": text.replace("numNodes: 2", "numNodes: 1")}) == []
    assert rules({"job.yaml": text.replace("torch-distributed", "own-runtime")}) == []


def test_mpirun_under_a_runtime_of_mpi_fills_its_slots():
    """numProcPerNode of the runtime, or of the trainer."""
    text = RUNTIME.replace("spec:\n  template:", "spec:\n  mlPolicy: {mpi: {numProcPerNode: 8}}\n  template:", 1)
    text = text.replace("    numProcPerNode: 8\n", "").replace("torchrun,", "mpirun, -np, '32', python,")
    assert rules({"job.yaml": text}) == ["mpi_slots_are_enough"]
    assert rules({"job.yaml": text.replace("'32'", "'16'")}) == []
