"""Are pods whose command is not known a job of their own, and are manifests written right, with no more than needed?"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from msgspec import structs

from preflight.launch.field import value_of
from preflight.launch.read import read_texts
from preflight.launch.rules.check import check_texts
from preflight.launch.start import starting_of
from preflight.launch.write import write_files
from preflight.said.errors import UsageError
from tests.launch.nodes import cluster, cluster_of
from tests.launch.plans import launch, values

GPUS = {"limits": {"nvidia.com/gpu": 1}}
POD = {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b", "resources": GPUS}]}}
JOB = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": {"parallelism": 3, "template": POD}}


def test_its_pods_are_counted():
    """What the image starts in them is not known."""
    found = launch(yaml.safe_dump(JOB), name="job.yaml")
    assert (found["launcher"], values(found)) == ("kubernetes", {"nodes": 3})


def test_it_is_not_started_here():
    """With the place of the manifest."""
    found = starting_of(read_texts({"job.yaml": yaml.safe_dump(JOB)}))
    assert found.refusal == "job.yaml:1: a Kubernetes manifest is started by the cluster's controller"


def test_pods_without_gpus_are_no_job_of_ours():
    """Nothing is known of what they run, and nothing speaks for training."""
    text = yaml.safe_dump(JOB).replace("nvidia.com/gpu", "cpu")
    (skip,) = read_texts({"job.yaml": text}).skips
    assert skip.reason == "kind Job: no command of a known launcher"


def validate(text):
    """Each document against the schema that Kubernetes publishes for its kind, unknown keys refused."""
    if os.environ.get("PREFLIGHT_LAB") != "required":
        pytest.importorskip("kubernetes_validate")
    import kubernetes_validate

    documents = list(yaml.safe_load_all(text))
    if documents[0]["kind"] == "JobSet":  # a custom resource, whose pods are those of a Job
        inner = documents[0]["spec"]["replicatedJobs"][0]["template"]
        documents = [{"apiVersion": "batch/v1", "kind": "Job", "metadata": documents[0]["metadata"], **inner}]
    for document in documents:
        for version in ("1.29", "1.37"):
            kubernetes_validate.validate(document, version, strict=True)
    return documents


LIKE = """
apiVersion: batch/v1
kind: Job
metadata: {name: mine, namespace: ml, labels: {kueue.x-k8s.io/queue-name: gpus}}
spec:
  template:
    spec:
      nodeSelector: {pool: h100}
      tolerations: [{key: gpu, operator: Exists}]
      containers:
        - name: main
          image: registry.example/llm:7
          env: [{name: HF_HOME, value: /data/hf}]
          resources: {limits: {nvidia.com/gpu: 1, rdma/hca: 1, memory: 64Gi}}
          volumeMounts: [{name: data, mountPath: /data}, {name: dshm, mountPath: /dev/shm}]
      volumes:
        - {name: data, persistentVolumeClaim: {claimName: data}}
        - {name: dshm, emptyDir: {medium: Memory}}
"""
LIKE_SET = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: mine, namespace: ml, labels: {kueue.x-k8s.io/queue-name: gpus}}
spec:
  replicatedJobs:
    - name: node
      template:
        spec:
          template:
            spec:
              containers:
                - {name: istio-proxy, image: proxy:1}
                - {name: main, image: registry.example/llm:7}
"""
MADE = {
    "of a set": (cluster(), ("train.py",), LIKE_SET),
    "of GPUs": (cluster(hcas=("mlx5_0",)), ("train.py",), ""),
    "without GPUs": (cluster(gpus=0), ("train.py",), ""),
    "of one node": (cluster(1), ("train.py",), ""),
    "like a user's": (cluster(), ("pretrain_llm.py", "--cfg", "$(x)"), LIKE),
}


def made(case, **more):
    """The text of the one file that is written."""
    nodes, program, like = MADE[case]
    ((name, text),) = write_files("k8s", nodes, folder="/x", program=program, like=like, **more).items()
    assert name == f"{program[0].removesuffix('.py').replace('_', '-')}.yaml"
    return text


@pytest.mark.parametrize("case", MADE)
def test_what_is_written_is_a_manifest_and_read_back_as_the_same_job(case):
    """By the published schemas, and by our own rules without a finding."""
    validate(made(case))
    findings, files = check_texts({"job.yaml": made(case)}, None)
    assert [(found.check, found.message) for found in findings] == []
    (plan,) = files.plans
    nodes, program, _ = MADE[case]
    assert (plan.launcher.name, value_of(plan.nodes), value_of(plan.program)) == ("torchrun", len(nodes), program[0])


def test_a_pod_may_do_no_more_than_it_must():
    """No token of the API server, no capability but to lock memory for RDMA, no way to more."""
    _, job = validate(made("of GPUs"))
    pod = job["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    for container in pod["initContainers"] + pod["containers"]:
        rights = container["securityContext"]
        assert rights["capabilities"] == {"drop": ["ALL"], "add": ["IPC_LOCK"]}
        assert rights["allowPrivilegeEscalation"] is False
        assert container["resources"]["limits"] == {"nvidia.com/gpu": 8}


def test_the_pods_meet_before_they_train_and_rank_0_is_found_by_name():
    """The service's selector and name are the job's; names resolve before a pod is ready, and no port is used twice."""
    service, job = validate(made("of GPUs", python="/opt/py"))
    name = job["metadata"]["name"]
    assert service["spec"] == {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"job-name": name}}
    pod = job["spec"]["template"]["spec"]
    (first,), (then,) = pod["initContainers"], pod["containers"]
    env, *variables = first["command"][: first["command"].index("/opt/py")]
    variables = dict(word.split("=", 1) for word in variables)
    assert (env, variables["RANK"], variables["WORLD_SIZE"]) == ("env", "$(JOB_COMPLETION_INDEX)", "2")
    assert variables["MASTER_ADDR"] == f"{name}-0.{name}"
    assert f"--master-port={variables['MASTER_PORT']}" not in then["command"]
    assert {"-m", "preflight", "run", "--hosts=torchrun"} < set(first["command"])
    assert {f"--master-addr={name}-0.{name}", "--node-rank=$(JOB_COMPLETION_INDEX)"} < set(then["command"])
    assert pod["subdomain"] == service["metadata"]["name"]
    (secret,) = (each for each in first["env"] if each["name"] == "PREFLIGHT_SECRET")
    assert secret["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.labels['controller-uid']"
    assert "PREFLIGHT_SECRET" not in [each["name"] for each in then.get("env", ())]


def test_a_failed_look_fails_the_job():
    """No pod is started again alone, in vain: the others have left with the same verdict."""
    _, job = validate(made("of GPUs"))
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never"
    assert job["spec"]["backoffLimit"] == 0


def test_one_pod_looks_at_itself():
    """It has nobody to meet."""
    _, job = validate(made("of one node"))
    assert job["spec"]["template"]["spec"]["initContainers"][0]["command"][0] != "env"
    assert "--hosts=local" in job["spec"]["template"]["spec"]["initContainers"][0]["command"]


def test_a_manifest_of_the_users_lends_what_ours_does_not_say():
    """Image, place, variables, volumes and other devices; counts of GPUs and /dev/shm are ours."""
    text = made("like a user's")
    service, job = validate(text)
    pod = job["spec"]["template"]["spec"]
    assert "IMAGE" not in text
    assert service["metadata"] == {"name": "pretrain-llm", "namespace": "ml"}
    assert job["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "gpus"}
    assert (pod["nodeSelector"], pod["tolerations"][0]["key"]) == ({"pool": "h100"}, "gpu")
    (container,) = pod["containers"]
    assert container["image"] == "registry.example/llm:7"
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 8, "rdma/hca": 1, "memory": "64Gi"}
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/dev/shm", "/data"]
    assert container["env"] == [{"name": "HF_HOME", "value": "/data/hf"}]
    assert container["command"][-1] == "$$(x)"  # which Kubernetes hands over as $(x)


def test_a_set_of_the_users_becomes_a_set():
    """Its pods find the first by the set's own names; the queue it waits in is kept, and its sidecar is not trained."""
    text = made("of a set")
    (job_set,) = yaml.safe_load_all(text)
    (job,) = validate(text)
    assert job_set["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "gpus"}
    assert job_set["spec"]["network"]["enableDNSHostnames"] is True
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example/llm:7"
    assert "--master-addr=train-workers-0-0.train" in container["command"]


@pytest.mark.parametrize(
    "like",
    [
        "a: 1\n",
        "- x\n",
        "containers: 5\n",
        "containers: [5]\n",
        "containers: [{env: 3}]\n",
        "containers: [{resources: 3}]\n",
    ],
)
def test_a_manifest_without_pods_is_refused(like):
    """It would lend nothing."""
    with pytest.raises(UsageError, match="--like"):
        write_files("k8s", cluster(), folder="/x", like=like)


def test_interfaces_are_named_only_as_pods_see_them():
    """Facts of machines tell nothing of a pod's network; facts of its pods do."""
    assert "NCCL_SOCKET_IFNAME" not in made("of GPUs")
    pods = [as_a_pod(node) for node in cluster(hcas=("mlx5_0",))]
    (text,) = write_files("k8s", cluster_of(*pods), folder="/x").values()
    variables = validate(text)[1]["spec"]["template"]["spec"]["containers"][0]["env"]
    assert {"name": "NCCL_SOCKET_IFNAME", "value": "=eth0"} in variables


def as_a_pod(node):
    """The node as a pod tells of itself."""
    identity = structs.replace(node.identity, context="container")
    return replace(node, subjects={**node.subjects, "identity": identity})


def test_the_example_is_a_manifest_too():
    """With the Role that --hosts k8s needs: to see pods and to run in them, and nothing else."""
    text = (Path(__file__).parents[3] / "examples" / "kubernetes.yaml").read_text()
    role = next(document for document in validate(text) if document["kind"] == "Role")
    allowed = {(resource, verb) for rule in role["rules"] for resource in rule["resources"] for verb in rule["verbs"]}
    assert allowed == {("pods", "get"), ("pods", "list"), ("pods/exec", "create"), ("pods/exec", "get")}
