"""LeaderWorkerSet and StatefulSet."""

from __future__ import annotations

import pytest

from tests.launch.manifests.kinds.pods import AGENT, pod
from tests.launch.samples import failed, judged, rules

LWS = f"""apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {{name: serve}}
spec:
  replicas: 2
  leaderWorkerTemplate:
    size: 2
    leaderTemplate:
      spec: {pod("[vllm, serve, m, --tensor-parallel-size, '8', --pipeline-parallel-size, '2']")}
    workerTemplate:
      spec: {pod("[ray, start, --block, --address=$(LWS_LEADER_ADDRESS):6379]")}
"""


BY_INDEX = AGENT.format(nodes=4, rank="$(LWS_WORKER_INDEX)", address="$(LWS_LEADER_ADDRESS)")
BY_NAME = AGENT.format(nodes=2, rank="${HOSTNAME##*-}", address="train-0.train").replace(", ", " ")
TORCH_LWS = f"""apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
spec:
  leaderWorkerTemplate:
    size: 4
    workerTemplate:
      spec: {pod(f"[{BY_INDEX}]")}
"""
STATEFUL = f"""apiVersion: v1
kind: Service
metadata: {{name: train}}
spec: {{clusterIP: None}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {{name: train}}
spec:
  serviceName: train
  replicas: 2
  template:
    metadata: {{annotations: {{sidecar.istio.io/inject: "false"}}}}
    spec: {pod(f"[bash, -c, '{BY_NAME}']")}
"""


@pytest.mark.parametrize("text", [LWS, TORCH_LWS, STATEFUL])
def test_a_right_one_is_silent(text):
    """A server, a job by the index, and one by the ordinal."""
    assert rules({"job.yaml": text}) == []


@pytest.mark.parametrize(
    ("text", "old", "new", "rule"),
    [
        (LWS, "size: 2", "size: 1", "processes_match_devices"),
        (LWS, "gpu: 8", "gpu: 4", "processes_match_devices"),
        (TORCH_LWS, "size: 4", "size: 2", "nodes_are_counted_right"),
        (TORCH_LWS, "--node_rank=$(LWS_WORKER_INDEX), ", "", "static_rendezvous_has_node_ranks"),
        (TORCH_LWS, "$(LWS_WORKER_INDEX)", "0", "static_rendezvous_has_node_ranks"),
        (STATEFUL, "  serviceName: train\n", "", "headless_service_is_there"),
        (STATEFUL, "clusterIP: None", "type: ClusterIP", "headless_service_is_there"),
        (STATEFUL, "--node_rank=${HOSTNAME##*-} ", "", "static_rendezvous_has_node_ranks"),
    ],
)
def test_one_thing_broken_fails(text, old, new, rule):
    """Each with its rule."""
    assert old in text
    assert rule in failed({"job.yaml": text.replace(old, new)})


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ('inject: "false"', 'inject: "true"', "no_proxy_between_the_pods"),
        ("limits: {", "limits: {rdma/hca: 1, ", "containers_lock_memory"),
    ],
)
def test_what_is_fragile_is_a_warning(old, new, rule):
    """A sidecar between the pods, RDMA without the right to lock memory."""
    assert old in STATEFUL
    found = judged({"job.yaml": STATEFUL.replace(old, new)})
    assert [(finding.check, str(finding.verdict)) for finding in found] == [(f"launch.{rule}", "warn")]


ORDERED = """apiVersion: apps/v1
kind: StatefulSet
metadata: {name: train}
spec:
  replicas: 2
  serviceName: train
  template:
    spec:
      containers:
      - name: t
        readinessProbe: {tcpSocket: {port: 8000}}
        command: [torchrun, --nnodes=2, --rdzv_backend=c10d, --rdzv_endpoint=10.0.0.1:29500, t.py]
"""


def test_pods_that_wait_for_each_other_start_at_once():
    """A StatefulSet starts one after the other as they become ready, unless it is told otherwise."""
    assert rules({"set.yaml": ORDERED}) == ["gang_is_the_whole_job"]
    assert rules({"set.yaml": ORDERED.replace("serviceName", "podManagementPolicy: Parallel\n  serviceName")}) == []
