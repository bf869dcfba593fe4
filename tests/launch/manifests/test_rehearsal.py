"""Is a manifest that rehearses accepted as the job is, with the same pods, names of its own, and a short life?"""

from __future__ import annotations

import copy

import pytest
import yaml

from preflight.judge.ledger.findings import Verdict
from preflight.launch.manifests.dump import yaml_of
from preflight.launch.manifests.rehearsal import LABEL, new, rehearsing, templates
from preflight.launch.rules.check import check_texts
from preflight.said.errors import UsageError

FILES = {"sitecustomize.py": "hook", "settings.json": "{}", "trainee.py": "program"}
POD = """
          serviceAccountName: trainer
          containers:
          - name: pytorch
            image: pytorch/pytorch:2.5.1
            command: [torchrun]
            args: [ARGUMENTS, --nproc_per_node=8, /data/train.py]
            env: [{name: NCCL_DEBUG, value: INFO}]
            envFrom: [{configMapRef: {name: settings}}]
            resources: {limits: {nvidia.com/gpu: 8}}
            volumeMounts: [{name: data, mountPath: /data}, {name: shm, mountPath: /dev/shm}]
            livenessProbe: {httpGet: {path: /, port: 80}}
          volumes: [{name: data, persistentVolumeClaim: {claimName: data}}, {name: shm, emptyDir: {medium: Memory}}]
"""
JOB = """
apiVersion: v1
kind: Service
metadata: {name: llama, namespace: train}
spec: {clusterIP: None, selector: {app: llama, job-name: llama}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: train}
data: {NCCL_SOCKET_IFNAME: eth0}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: train}
spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 1Ti}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: llama, namespace: train, labels: {kueue.x-k8s.io/queue-name: gpus}}
spec:
  completions: 2
  parallelism: 2
  completionMode: Indexed
  backoffLimit: 6
  template:
        metadata: {labels: {app: llama}}
        spec:
          subdomain: llama
          restartPolicy: OnFailure
""" + POD.replace("ARGUMENTS", "--nnodes=2, --node_rank=$(JOB_COMPLETION_INDEX), --master_addr=llama-0.llama")
JOBSET = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: llama, namespace: train}
spec:
  failurePolicy: {maxRestarts: 4}
  replicatedJobs:
  - name: workers
    replicas: 1
    template:
      spec:
        completions: 2
        parallelism: 2
        completionMode: Indexed
        template:
         spec:
          restartPolicy: OnFailure
""" + POD.replace("ARGUMENTS", "--nnodes=2, --node_rank=$(JOB_COMPLETION_INDEX), --master_addr=llama-workers-0-0.llama")
PYTORCHJOB = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: llama, namespace: train}
spec:
  runPolicy: {cleanPodPolicy: All}
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      restartPolicy: OnFailure
      template:
        spec:
SPEC
    Worker:
      replicas: 1
      restartPolicy: OnFailure
      template:
        spec:
SPEC
""".replace("SPEC", POD.replace("ARGUMENTS", "--nnodes=2, --node_rank=$(RANK), --master_addr=$(MASTER_ADDR)"))
MANIFESTS = {"Job": JOB, "JobSet": JOBSET, "PyTorchJob": PYTORCHJOB}
every = pytest.mark.parametrize("kind", MANIFESTS)


def made(kind, text=None):
    """What rehearses."""
    documents = list(yaml.safe_load_all(text or MANIFESTS[kind]))
    before = copy.deepcopy(documents)
    found = rehearsing(documents, FILES, seconds=120, name="job.yaml")
    assert documents == before
    return found


def job_in(found, kind):
    """The job of that kind."""
    (job,) = [document for document in found.documents if document["kind"] == kind]
    return job


def bad(text):
    """What launch check says of a manifest."""
    found, files = check_texts({"job.yaml": text})
    return {f.check for f in found if f.verdict in (Verdict.FAIL, Verdict.WARN)}, len(files.plans)


@every
def test_it_is_accepted_as_the_job_is(kind):
    """launch check reads a start in it, and finds nothing that it does not find in the job."""
    before, starts = bad(MANIFESTS[kind])
    after, now = bad(yaml_of(made(kind).documents))
    assert after - before == set()
    assert min(starts, now) > 0


@every
def test_pods_are_the_same_but_for_the_hook(kind):
    """Resources, variables, volumes and the account stay; the command is the last words of ours."""
    own = [template["spec"] for d in yaml.safe_load_all(MANIFESTS[kind]) for template in templates(d)]
    pods = [template["spec"] for template in templates(job_in(made(kind), kind))]
    assert len(own) == len(pods)
    for before, after in zip(own, pods, strict=True):
        (old,), (container,) = before["containers"], after["containers"]
        assert container["command"][:2] == ["/bin/sh", "-c"]
        assert container["command"][4:] == old["command"]
        for name in ("image", "resources", "env"):
            assert container[name] == old[name]
        assert after["serviceAccountName"] == "trainer"
        assert after["volumes"][:2] == before["volumes"]
        assert container["volumeMounts"][:2] == old["volumeMounts"]
        assert "livenessProbe" not in container


@every
def test_it_ends_by_itself_and_is_not_tried_again(kind):
    """Whatever the job says of restarts."""
    job = job_in(made(kind), kind)
    pods = [template["spec"] for template in templates(job)]
    assert {pod["restartPolicy"] for pod in pods} == {"Never"}
    assert {pod["activeDeadlineSeconds"] for pod in pods} == {420}
    spec = job["spec"]
    wanted = {
        "Job": lambda: spec["backoffLimit"] == 0 and spec["activeDeadlineSeconds"] == 420,
        "JobSet": lambda: (
            spec["failurePolicy"] == {"maxRestarts": 0}
            and spec["replicatedJobs"][0]["template"]["spec"]["backoffLimit"] == 0
        ),
        "PyTorchJob": lambda: (
            spec["runPolicy"]["cleanPodPolicy"] == "None"
            and {role["restartPolicy"] for role in spec["pytorchReplicaSpecs"].values()} == {"Never"}
        ),
    }
    assert wanted[kind]()


def test_names_do_not_collide_with_those_of_the_job():
    """Job, service, ConfigMap and the labels that the service chooses by; the pods call each other by the new ones."""
    found = made("Job")
    names = {(document["kind"], document["metadata"]["name"]) for document in found.documents}
    assert names == {
        ("ConfigMap", "llama-rehearsal-hook"),
        ("Service", "llama-rehearsal"),
        ("ConfigMap", "settings-rehearsal"),
        ("Job", "llama-rehearsal"),
    }
    template = job_in(found, "Job")["spec"]["template"]
    assert template["metadata"]["labels"] == {"app": "llama-rehearsal", LABEL: "llama"}
    assert job_in(found, "Service")["spec"]["selector"] == {"app": "llama-rehearsal", "job-name": "llama-rehearsal"}
    (container,) = template["spec"]["containers"]
    assert template["spec"]["subdomain"] == "llama-rehearsal"
    assert "--master_addr=llama-rehearsal-0.llama-rehearsal" in container["args"]
    assert "/data/train.py" in container["args"]
    assert container["envFrom"] == [{"configMapRef": {"name": "settings-rehearsal"}}]
    assert found.left_out == ("PersistentVolumeClaim data",)


def test_a_pod_of_a_jobset_is_called_by_its_new_name():
    """The JobSet makes the service itself."""
    ((container,),) = [t["spec"]["containers"] for t in templates(job_in(made("JobSet"), "JobSet"))]
    assert "--master_addr=llama-rehearsal-workers-0-0.llama-rehearsal" in container["args"]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("llama-0.llama.train.svc", "llama-rehearsal-0.llama-rehearsal.train.svc"),
        ("llama-0:29500", "llama-rehearsal-0:29500"),
        ("tcp://llama:29500", "tcp://llama-rehearsal:29500"),
        ("python llama.py --model llama-7b.yaml", "python llama.py --model llama-7b.yaml"),
        ("llama-$(RANK).llama", "llama-rehearsal-$(RANK).llama-rehearsal"),
        ("/data/llama-0", "/data/llama-0"),
    ],
)
def test_hosts_are_renamed_and_files_are_not(given, wanted):
    """A job is often called as its program or its data is."""
    text = JOB.replace("[torchrun]", f"[bash, -c, '{given}']")
    (container,) = job_in(made("Job", text), "Job")["spec"]["template"]["spec"]["containers"]
    assert container["command"][-1] == wanted


def test_a_container_without_a_command_is_refused():
    """Nobody here knows what its image starts."""
    with pytest.raises(UsageError, match=r"container pytorch of job.yaml has no command"):
        made("Job", JOB.replace("command: [torchrun]", "tty: false"))


def test_kinds_whose_pods_always_restart_are_refused():
    """And a file without a job."""
    with pytest.raises(UsageError, match=r"job.yaml has StatefulSet: wanted one of Job, JobSet, PyTorchJob, Pod"):
        made("Job", "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: x}\n")


def test_long_names_leave_room_for_those_of_pods():
    """A host has 63 characters."""
    assert len(new("x" * 63)) < 58


def test_documents_are_those_of_kubernetes():
    """Its own schemas take them; those of operators are not in them."""
    validate = pytest.importorskip("kubernetes_validate").validate
    for document in made("Job").documents:
        validate(document, "1.31", strict=True)


SCHEDULED = """
kind: List
items:
- apiVersion: v1
  kind: Service
  metadata: {name: door}
  spec:
    type: NodePort
    clusterIP: 10.1.2.3
    selector: {app: nightly}
    ports: [{port: 29500, nodePort: 31000}]
- {apiVersion: v1, kind: Secret, metadata: {name: keys}, stringData: {TOKEN: x}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {A: "1"}}
- apiVersion: batch/v1
  kind: CronJob
  metadata: {name: nightly, labels: {team: a}}
  spec:
    schedule: "0 1 * * *"
    jobTemplate:
      metadata: {annotations: {note: b}, name: inner}
      spec:
        backoffLimitPerIndex: 1
        maxFailedIndexes: 2
        podReplacementPolicy: Failed
        podFailurePolicy: {rules: []}
        completions: 2
        parallelism: 2
        completionMode: Indexed
        template:
          metadata: {labels: {app: nightly}}
          spec:
            subdomain: door
            affinity: {podAntiAffinity: {required: [{labelSelector: {matchLabels: {app: nightly, other: x}}}]}}
            containers:
            - name: train
              image: x
              command: [torchrun, --nnodes=2, --master_addr=nightly-0.door, t.py]
              startupProbe: {exec: {command: ["true"]}}
              readinessProbe: {exec: {command: ["true"]}}
              lifecycle: {preStop: {exec: {command: ["true"]}}}
              env:
              - {name: T, valueFrom: {secretKeyRef: {name: keys, key: TOKEN}}}
              - {name: A, valueFrom: {configMapKeyRef: {name: settings, key: A}}}
              - {name: B, valueFrom: {configMapKeyRef: {name: of-others, key: B}}}
              envFrom: [{secretRef: {name: keys}}]
            volumes:
            - {name: keys, secret: {secretName: keys}}
            - {name: settings, configMap: {name: settings}}
"""


def test_a_job_of_a_schedule_takes_along_all_that_it_refers_to():
    """One Job of now, with copies of the Secret, ConfigMap and Service beside it; what others own stays as it is."""
    found = made("", SCHEDULED)
    names = {document["kind"]: document["metadata"]["name"] for document in found.documents}
    assert {"Job": "nightly-rehearsal", "Secret": "keys-rehearsal"}.items() <= names.items()
    (service,) = [document for document in found.documents if document["kind"] == "Service"]
    assert service["spec"] == {"type": "NodePort", "selector": {"app": "nightly-rehearsal"}, "ports": [{"port": 29500}]}
    job = job_in(found, "Job")
    assert (job["metadata"]["labels"], job["metadata"]["annotations"]) == ({"team": "a"}, {"note": "b"})
    assert {"completions", "parallelism", "completionMode", "backoffLimit"} <= set(job["spec"])
    assert not any(key.startswith(("podFailure", "maxFailed", "podReplacement")) for key in job["spec"])
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert not any("Probe" in key or key == "lifecycle" for key in container)
    referred = [next(iter(entry["valueFrom"].values()))["name"] for entry in container["env"] if "valueFrom" in entry]
    assert referred == ["keys-rehearsal", "settings-rehearsal", "of-others"]


def test_a_name_is_made_for_a_job_that_leaves_its_own_to_the_cluster():
    """From the beginning that it gives; names stay short enough for those of pods, and end in a letter."""
    text = JOB.replace("kind: Job\nmetadata: {name: llama", "kind: Job\nmetadata: {generateName: llama-")
    assert job_in(made("Job", text), "Job")["metadata"]["name"] == "llama-rehearsal"
    assert new("a" * 44 + "-.b") == "a" * 44 + "-rehearsal"
