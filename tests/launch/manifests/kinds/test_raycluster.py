"""RayCluster."""

from __future__ import annotations

from tests.launch.manifests.kinds.pods import pod
from tests.launch.samples import rules


def test_a_cluster_of_rays_is_read_for_its_pods():
    """The operator starts Ray, and gives each pod a volume at /dev/shm; the rest of a pod is judged."""
    text = "apiVersion: ray.io/v1\nkind: RayCluster\nspec:\n  headGroupSpec:\n    template:\n      spec: {pod}\n"
    right = text.replace("{pod}", pod("[sleep, inf]"))
    assert rules({"ray.yaml": right}) == []
    assert rules({"ray.yaml": right.replace("/dev/shm", "/tmp/x")}) == []
    assert rules({"ray.yaml": right.replace("limits: {", "limits: {rdma/hca: 1, ")}) == ["containers_lock_memory"]


RAY = """apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: ray}
spec:
  headGroupSpec:
    rayStartParams: {num-gpus: "8"}
    template:
      spec:
        containers:
        - {name: head, image: ray, resources: {limits: {nvidia.com/gpu: 8}}}
"""


def test_ray_hands_out_the_gpus_that_a_pod_has():
    """No more than its limit; fewer may be meant."""
    assert "processes_match_devices" in rules({"ray.yaml": RAY.replace('num-gpus: "8"', 'num-gpus: "16"')})
    for told in ("8", "0"):
        found = rules({"ray.yaml": RAY.replace('num-gpus: "8"', f'num-gpus: "{told}"')})
        assert "processes_match_devices" not in found
