"""Are MPIJob, LeaderWorkerSet, StatefulSet, Volcano's Job, Ray's and plain Pods read and judged?"""

from __future__ import annotations

import pytest

from tests.launch.plans import launches, values
from tests.launch.samples import failed, judged, rules

SHM = """{indent}volumeMounts:
{indent}- {{name: shm, mountPath: /dev/shm}}
"""


def pod(command: str, *, gpus: int = 8, more: str = "") -> str:
    """A pod of one container, as a flow mapping of one line."""
    container = f"name: a, command: {command}, resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}"
    container += ", volumeMounts: [{name: shm, mountPath: /dev/shm}]"
    return f"{{containers: [{{{container}}}], volumes: [{{name: shm, emptyDir: {{medium: Memory}}}}]{more}}}"


MPIJOB = f"""apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {{name: train}}
spec:
  slotsPerWorker: 8
  mpiReplicaSpecs:
    Launcher:
      replicas: 1
      template:
        spec: {{containers: [{{name: l, command: [mpirun, -np, "16", -x, NCCL_DEBUG=INFO, python, t.py]}}]}}
    Worker:
      replicas: 2
      template:
        spec: {pod("[/usr/sbin/sshd, -De]")}
"""
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
AGENT = "torchrun, --nnodes={nodes}, --nproc_per_node=8, --node_rank={rank}, --master_addr={address}, t.py"
BY_INDEX = AGENT.format(nodes=4, rank="$(LWS_WORKER_INDEX)", address="$(LWS_LEADER_ADDRESS)")
BY_PLUGIN = AGENT.format(nodes=2, rank="$(RANK)", address="$(MASTER_ADDR)")
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
VOLCANO = f"""apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: train}}
spec:
  minAvailable: 2
  plugins: {{pytorch: ["--master=master", "--worker=worker"], svc: []}}
  tasks:
  - {{replicas: 1, name: master, template: {{spec: {pod(f"[{BY_PLUGIN}]")}}}}}
  - {{replicas: 1, name: worker, template: {{spec: {pod(f"[{BY_PLUGIN}]")}}}}}
"""
PODS = "---\n".join(
    f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p{rank}}}\nspec: "
    + pod(f"[torchrun, --nnodes=2, --nproc_per_node=8, --node_rank={rank}, --master_addr=p0, t.py]")
    + "\n"
    for rank in (0, 1)
)
ALL = {
    "MPIJob": MPIJOB,
    "LeaderWorkerSet": LWS,
    "torchrun in it": TORCH_LWS,
    "StatefulSet": STATEFUL,
    "Volcano": VOLCANO,
}
ALL["Pods"] = PODS


@pytest.mark.parametrize("text", ALL.values(), ids=ALL)
def test_right_manifests_are_silent(text):
    """Every kind that is read."""
    assert rules({"job.yaml": text}) == []


def test_workers_and_slots_are_the_shape_of_an_mpijob():
    """mpirun's own options need not repeat them."""
    (found,) = launches({"job.yaml": MPIJOB})
    assert [values(found)[name] for name in ("nodes", "processes_per_node", "world_size")] == [2, 8, 16]


@pytest.mark.parametrize(
    ("text", "old", "new", "rule"),
    [
        (MPIJOB, '"16"', '"32"', "mpi_slots_are_enough"),
        (MPIJOB, "gpu: 8", "gpu: 4", "processes_match_devices"),
        (LWS, "size: 2", "size: 1", "processes_match_devices"),
        (LWS, "gpu: 8", "gpu: 4", "processes_match_devices"),
        (TORCH_LWS, "size: 4", "size: 2", "nodes_are_counted_right"),
        (TORCH_LWS, "--node_rank=$(LWS_WORKER_INDEX), ", "", "static_rendezvous_has_node_ranks"),
        (TORCH_LWS, "$(LWS_WORKER_INDEX)", "0", "static_rendezvous_has_node_ranks"),
        (STATEFUL, "  serviceName: train\n", "", "headless_service_is_there"),
        (STATEFUL, "clusterIP: None", "type: ClusterIP", "headless_service_is_there"),
        (STATEFUL, "--node_rank=${HOSTNAME##*-} ", "", "static_rendezvous_has_node_ranks"),
        (VOLCANO, "minAvailable: 2", "minAvailable: 3", "gang_is_the_whole_job"),
        (PODS, "--node_rank=1", "--node_rank=0", "ranks_are_distinct"),
    ],
)
def test_one_thing_broken_fails(text, old, new, rule):
    """Each with its rule."""
    assert old in text
    assert rule in failed({"job.yaml": text.replace(old, new)})


@pytest.mark.parametrize(
    ("text", "old", "new", "rule"),
    [
        (MPIJOB, '"16"', '"8"', "mpi_slots_are_enough"),
        (STATEFUL, 'inject: "false"', 'inject: "true"', "no_proxy_between_the_pods"),
        (STATEFUL, "limits: {", "limits: {rdma/hca: 1, ", "containers_lock_memory"),
    ],
)
def test_what_is_fragile_is_a_warning(text, old, new, rule):
    """Workers without a process, a sidecar between the pods, RDMA without the right to lock memory."""
    assert old in text
    found = judged({"job.yaml": text.replace(old, new)})
    assert [(finding.check, str(finding.verdict)) for finding in found] == [(f"launch.{rule}", "warn")]


def test_a_cluster_of_rays_is_read_for_its_pods():
    """The operator starts Ray, and gives each pod a volume at /dev/shm; the rest of a pod is judged."""
    text = "apiVersion: ray.io/v1\nkind: RayCluster\nspec:\n  headGroupSpec:\n    template:\n      spec: {pod}\n"
    right = text.replace("{pod}", pod("[sleep, inf]"))
    assert rules({"ray.yaml": right}) == []
    assert rules({"ray.yaml": right.replace("/dev/shm", "/tmp/x")}) == []
    assert rules({"ray.yaml": right.replace("limits: {", "limits: {rdma/hca: 1, ")}) == ["containers_lock_memory"]


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
