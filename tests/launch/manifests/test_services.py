"""Do the pods of a job find rank 0 by its name?"""

from __future__ import annotations

import pytest

from preflight.said import value_in
from tests.launch.samples import INDEXED, judged, rules


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("value: train-0.train", "value: train-0.trains", "the pods belong to train"),
        ("    job-name: train", "    app: other", "the Service selects pods with app: other"),
        ("kind: Service", "kind: ConfigMap", "no Service train in this file"),
        ("value: train-0.train", "value: trains-0.train", "is not a pod of train; the first one is train-0"),
    ],
)
def test_a_name_that_leads_to_no_pod_is_told(old, new, words):
    """A pod stands under one Service only, which must be there and select it."""
    (found,) = judged({"job.yaml": INDEXED.replace(old, new)})
    assert found.check == "launch.headless_service_is_there"
    assert words in found.message


@pytest.mark.parametrize("address", ["train-0.train.ml.svc.cluster.local", "head-0.heads", "10.0.0.1", "head.example"])
def test_a_name_that_may_lead_there_is_left_alone(address):
    """Pods of another job, of which this file says nothing, have names and a Service of their own."""
    assert "headless_service_is_there" not in rules({"job.yaml": INDEXED.replace("train-0.train", address)})


VOLCANO = """apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: train}
spec:
  minAvailable: 2
  plugins: {svc: [], env: []}
  tasks:
  - name: worker
    replicas: 2
    template:
      spec:
        containers:
        - name: w
          command: [bash, -c]
          args:
          - torchrun --nnodes=2 --node_rank=$VC_TASK_INDEX --master_addr=${VC_WORKER_HOSTS%%,*} --master_port=29500 t.py
"""


def test_volcanos_names_come_from_its_svc_plugin():
    """The pytorch plugin brings it along."""
    name = "headless_service_is_there"
    assert rules({"job.yaml": VOLCANO}) == []
    assert rules({"job.yaml": VOLCANO.replace("svc: [], ", "")}) == [name]
    assert name not in rules({"job.yaml": VOLCANO.replace("svc: [], ", "pytorch: [], ")})


RUNS = "      restartPolicy: Never\n"
READY = (
    "      initContainers:\n      - {name: w, command: [sh, -c, 'until nslookup train-0.train; do sleep 1; done']}\n"
)
PROBE = "        image: pytorch/pytorch\n        readinessProbe: {tcpSocket: {port: 29500}}\n"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("job-name: train", "job-name: trains", "and those of this job have job-name: train:"),
        ("value: train-0.train", "value: train-1.train", "train-1.train as the address of rank 0"),
        ("value: train-0.train", "value: train", "train is the headless Service of all 2 pods"),
        ("value: train-0.train", "value: train-0.train.web.svc", "a name in the namespace web, and the pods are in ml"),
        (RUNS, RUNS + READY, "an init container asks for train-0.train"),
        ("        image: pytorch/pytorch\n", PROBE, "rank 0 has no name until it passes"),
    ],
)
def test_a_name_that_is_not_there_when_it_is_asked_for_is_told(old, new, words):
    """Of another pod, of all pods, of another namespace, or of a pod that is not ready."""
    job = INDEXED.replace("kind: Job\nmetadata:\n", "kind: Job\nmetadata:\n  namespace: ml\n")
    assert old in job
    assert rules({"job.yaml": job}) == []
    (found,) = judged({"job.yaml": job.replace(old, new)})
    assert words in found.message
    published = job.replace(old, new).replace("  clusterIP", "  publishNotReadyAddresses: true\n  clusterIP")
    assert bool(rules({"job.yaml": published})) == (
        "ready" not in words and "init" not in words and "until" not in words
    )


GROUPS = """apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: train}
spec:
  replicas: 1
  leaderWorkerTemplate:
    size: 2
    workerTemplate:
      spec:
        containers:
        - name: t
          command: [bash, -c]
          args: [torchrun --nnodes=2 --node_rank=$LWS_WORKER_INDEX --master_addr=ADDRESS --master_port=29500 t.py]
"""


@pytest.mark.parametrize(
    "address", ["$(LWS_LEADER_ADDRESS)", "train-0.train", "train-0.train.ml", "10.0.0.1", "head-0.hpc"]
)
def test_an_address_of_the_groups_leader_is_silent(address):
    """The variable, its own name, or what is no name of such a pod."""
    assert rules({"lws.yaml": GROUPS.replace("ADDRESS", address, 1).replace("ADDRESS", "ADDRESS")}) == []


@pytest.mark.parametrize(
    ("address", "groups", "words"),
    [
        ("train-0.train", 2, "2 groups would all meet there"),
        ("train-1.train", 1, "there is only group 0"),
        ("train-0-1.train", 1, "is a worker"),
        ("train-0.trains", 1, "the names of the pods end in .train"),
        ("other-0.other", 1, "the leader of a LeaderWorkerSet other"),
    ],
)
def test_an_address_of_a_leader_that_was_written_by_hand_is_held_against_the_set(address, groups, words):
    """Each group has a leader of its own."""
    text = GROUPS.replace("ADDRESS", address).replace("replicas: 1", f"replicas: {groups}")
    (found,) = judged({"lws.yaml": text})
    assert words in found.message


@pytest.mark.parametrize(
    ("address", "is_told"),
    [("train", True), ("train.ml.svc", True), ("train.ml.svc.cluster.local", True), ("train.example.org", False)],
)
def test_the_service_itself_leads_to_any_pod(address, is_told):
    """With or without the domain of the cluster; a name of another domain is none of its names."""
    found = judged({"job.yaml": INDEXED.replace("value: train-0.train", f"value: {address}")})
    warned = [one for one in found if str(one.verdict) == "warn" and one.check == "launch.headless_service_is_there"]
    assert [(value_in(one.message, "value"), value_in(one.message, "value_of")) for one in warned] == [
        (address, 2)
    ] * is_told
    balanced = INDEXED.replace("value: train-0.train", "value: train").replace("  clusterIP: None\n", "")
    assert not [one for one in judged({"job.yaml": balanced}) if value_is_of_all_pods(one)]


def value_is_of_all_pods(finding) -> bool:
    """Whether it says that an address leads to any of the pods."""
    return str(finding.verdict) == "warn" and finding.check == "launch.headless_service_is_there"
