"""PyTorchJob of SageMaker HyperPod."""

from __future__ import annotations

from tests.launch.manifests.kinds.pods import AGENT, pod
from tests.launch.samples import failed, rules

HYPERPOD = f"""apiVersion: sagemaker.amazonaws.com/v1
kind: HyperPodPyTorchJob
metadata: {{name: train}}
spec:
  nprocPerNode: "8"
  replicaSpecs:
  - name: pods
    replicas: 2
    template:
      spec: {pod("[" + AGENT.format(nodes=2, rank="$(RANK)", address="$(MASTER_ADDR)") + "]")}
"""


def test_a_right_one_is_silent():
    """Its operator gives the pods rank and address."""
    assert rules({"job.yaml": HYPERPOD}) == []


def test_more_nodes_than_pods_fail():
    """The replicas are the nodes."""
    assert "nodes_are_counted_right" in failed({"job.yaml": HYPERPOD.replace("replicas: 2", "replicas: 1")})
