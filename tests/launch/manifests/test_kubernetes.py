"""Job manifests."""

from __future__ import annotations

import pytest

from tests.launch.samples import INDEXED, PYTORCHJOB, failed, judged, rules

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


@pytest.mark.parametrize(
    "text", [PYTORCHJOB, INDEXED, JOBSET, TRAINJOB], ids=["PyTorchJob", "Job", "JobSet", "TrainJob"]
)
def test_right_manifests_are_silent(text):
    """Every kind that is read."""
    assert rules({"job.yaml": text}) == []


@pytest.mark.parametrize(
    ("text", "old", "new", "rule"),
    [
        (PYTORCHJOB, "minAvailable: 2", "minAvailable: 3", "gang_is_the_whole_job"),
        (PYTORCHJOB, "--nnodes=2", "--nnodes=3", "nodes_are_counted_right"),
        (PYTORCHJOB, "--nproc_per_node=8", "--nproc_per_node=16", "processes_match_devices"),
        (PYTORCHJOB, "requests:\n                nvidia.com/gpu: 8", "requests:\n                nvidia.com/gpu: 4",
         "gpu_requests_equal_limits"),
        (PYTORCHJOB, "        spec:\n", "        spec:\n          hostNetwork: true\n", "host_network_resolves_names"),
        (PYTORCHJOB, "Master:\n      replicas: 1", "Master:\n      replicas: 2", "master_is_one_pod"),
        (INDEXED, "parallelism: 2", "parallelism: 1", "gang_is_the_whole_job"),
        (INDEXED, "  completionMode: Indexed\n", "", "pods_know_their_rank"),
        (INDEXED, "      subdomain: train\n", "", "headless_service_is_there"),
        (INDEXED, "clusterIP: None", "type: ClusterIP", "headless_service_is_there"),
        (INDEXED, "value: train-0.train", "value: localhost", "master_address_leads_to_rank_0"),
        (INDEXED, "--nnodes=2 ", "", "nodes_are_counted_right"),
        (JOBSET, "value: train-workers-0-0.train", "value: train-worker-0-0.train", "headless_service_is_there"),
        (JOBSET, "  replicatedJobs:", "  network:\n    enableDNSHostnames: false\n  replicatedJobs:",
         "headless_service_is_there"),
        (TRAINJOB, "numProcPerNode: 8", "numProcPerNode: 16", "processes_match_devices"),
    ],
)  # fmt: skip
def test_one_thing_broken_fails(text, old, new, rule):
    """Each with its rule."""
    assert old in text
    assert rule in failed({"job.yaml": text.replace(old, new, 1)})


def test_other_kinds_and_templates_are_one_skip():
    """A kind that is not read, a Helm chart, and envsubst's $NAME in a field of the manifest."""
    for text, reason in (
        ("apiVersion: v1\nkind: ConfigMap\n", "kind ConfigMap"),
        ("apiVersion: v1\nkind: MPIJob\n", "kind MPIJob: no command of a known launcher"),
        (PYTORCHJOB.replace("replicas: 1", "replicas: {{ .Values.workers }}", 1), "unrendered template"),
        (PYTORCHJOB.replace("replicas: 1", "replicas: $NUM_NODES", 1), "$NUM_NODES is not filled in"),
    ):
        (found,) = judged({"job.yaml": text})
        assert str(found.verdict) == "skip"
        assert reason in found.message


def test_a_pytorchjob_of_workers_alone_tells_no_rank():
    """Without a Master the operator gives neither address nor rank, unless the job is elastic."""
    workers = PYTORCHJOB.replace("    Master:\n      replicas: 1", "    Worker:\n      replicas: 2", 1).partition(
        "    Worker:"
    )
    text = workers[0] + "    Worker:" + workers[2].partition("\n    Worker:")[0]
    assert "pods_know_their_rank" in failed({"job.yaml": text})
    elastic = text.replace("spec:\n", "spec:\n  elasticPolicy: {rdzvBackend: c10d}\n", 1)
    assert "pods_know_their_rank" not in failed({"job.yaml": elastic})


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


def test_an_indexed_job_has_completions():
    """As many pods run at once as it has completions."""
    none = INDEXED.replace("  completions: 2\n", "")
    assert rules({"job.yaml": none}) == ["manifest_is_accepted"]
    fewer = INDEXED.replace("completions: 2", "completions: 1")
    assert "nodes_are_counted_right" in rules({"job.yaml": fewer})
