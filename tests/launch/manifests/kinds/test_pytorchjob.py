"""PyTorchJob."""

from __future__ import annotations

import pytest

from tests.launch.samples import PYTORCHJOB, failed, rules


def test_a_right_one_is_silent():
    """A master and a worker."""
    assert rules({"job.yaml": PYTORCHJOB}) == []


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("minAvailable: 2", "minAvailable: 3", "gang_is_the_whole_job"),
        ("--nnodes=2", "--nnodes=3", "nodes_are_counted_right"),
        ("--nproc_per_node=8", "--nproc_per_node=16", "processes_match_devices"),
        ("requests:\n                nvidia.com/gpu: 8", "requests:\n                nvidia.com/gpu: 4",
         "gpu_requests_equal_limits"),
        ("        spec:\n", "        spec:\n          hostNetwork: true\n", "host_network_resolves_names"),
        ("Master:\n      replicas: 1", "Master:\n      replicas: 2", "master_is_one_pod"),
    ],
)  # fmt: skip
def test_one_thing_broken_fails(old, new, rule):
    """Each with its rule."""
    assert old in PYTORCHJOB
    assert rule in failed({"job.yaml": PYTORCHJOB.replace(old, new, 1)})


def test_a_pytorchjob_of_workers_alone_tells_no_rank():
    """Without a Master the operator gives neither address nor rank, unless the job is elastic."""
    workers = PYTORCHJOB.replace("    Master:\n      replicas: 1", "    Worker:\n      replicas: 2", 1).partition(
        "    Worker:"
    )
    text = workers[0] + "    Worker:" + workers[2].partition("\n    Worker:")[0]
    assert "pods_know_their_rank" in failed({"job.yaml": text})
    assert "pods_know_their_rank" not in failed({"job.yaml": text.replace("replicas: 2", "replicas: 1")})
    elastic = text.replace("spec:\n", "spec:\n  elasticPolicy: {rdzvBackend: c10d}\n", 1)
    assert "pods_know_their_rank" not in failed({"job.yaml": elastic})


@pytest.mark.parametrize(
    ("policy", "rule"),
    [
        ("{minReplicas: 1, maxReplicas: 2, rdzvBackend: c10d}", ""),
        ("{minReplicas: 1, maxReplicas: 2, rdzvBackend: etcd, rdzvHost: etcd}", ""),
        ("{minReplicas: 1, maxReplicas: 1, rdzvBackend: c10d}", "gang_is_the_whole_job"),
        ("{minReplicas: 1, maxReplicas: 2, rdzvBackend: etcd}", "rendezvous_is_reached"),
    ],
)
def test_an_elastic_job_lets_its_pods_in(policy, rule):
    """No more pods than may take part, and an etcd that is somewhere."""
    text = f"""apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {{name: train}}
spec:
  elasticPolicy: {policy}
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          containers:
          - {{name: pytorch, image: a, command: [torchrun, train.py]}}
"""
    assert rules({"job.yaml": text}) == ([rule] if rule else [])
