"""Do pods that are made alike learn which ranks they are?"""

from __future__ import annotations

import pytest

from tests.launch.samples import INDEXED, judged, rules

BY_INDEX = "--node_rank=$JOB_COMPLETION_INDEX"
FROM = """        env:
        - name: NODE_RANK
          valueFrom:
            fieldRef:
              fieldPath: {path}
"""


def from_field(path):
    """The job whose rank is a field of its pod."""
    return INDEXED.replace("        env:\n", FROM.format(path=path)).replace(BY_INDEX, "--node_rank=$NODE_RANK")


@pytest.mark.parametrize("rank", ["$((JOB_COMPLETION_INDEX+1))", "$(( ${HOSTNAME##*-} + 1 ))", "$((1 + POD_INDEX))"])
def test_a_rank_that_begins_at_one_fails(rank):
    """No pod is then rank 0, which all others wait for."""
    assert "pods_know_their_rank" in rules({"job.yaml": INDEXED.replace(BY_INDEX, f"--node_rank={rank}")})


def test_a_rank_moved_by_the_pods_of_another_template_is_left_alone():
    """Workers after a leader of its own begin at 1."""
    text = INDEXED.replace(BY_INDEX, "--node_rank=$((JOB_COMPLETION_INDEX+1))").replace("nnodes=2", "nnodes=3")
    assert "pods_know_their_rank" not in rules({"job.yaml": text})


@pytest.mark.parametrize(
    ("path", "is_right"),
    [
        ("metadata.annotations['batch.kubernetes.io/job-completion-index']", True),
        ("metadata.labels['batch.kubernetes.io/job-completion-index']", True),
        ("metadata.annotations['example.com/rank']", True),
        ("metadata.annotations['batch.kubernetes.io/completion-index']", False),
        ("metadata.name", False),
        ("status.podIP", False),
    ],
)
def test_a_field_of_the_pod_is_its_index(path, is_right):
    """A name is no number, and an annotation that no controller gives is empty."""
    assert (rules({"job.yaml": from_field(path)}) == []) == is_right


def test_a_variable_that_nothing_sets_is_told():
    """One of another controller's; a file of variables may hold it, and the command may work it out."""
    text = INDEXED.replace(BY_INDEX, "--node_rank=$LWS_WORKER_INDEX")
    (found,) = judged({"job.yaml": text})
    assert (found.check, str(found.verdict)) == ("launch.variables_are_set", "warn")
    assert (
        rules(
            {"job.yaml": text.replace("        env:\n", "        envFrom: [{configMapRef: {name: a}}]\n        env:\n")}
        )
        == []
    )
    assert (
        rules({"job.yaml": text.replace("          torchrun", "          source /opt/env\n          torchrun")}) == []
    )


def test_a_part_of_a_variable_that_nothing_sets_is_told():
    """The end of a pod's name, which the manifest hands to nobody."""
    text = INDEXED.replace(BY_INDEX, "--node_rank=${POD_NAME##*-}")
    assert rules({"job.yaml": text}) == ["variables_are_set"]


def test_on_the_hosts_network_a_pod_has_its_hosts_name():
    """The number at the end of its own name is not there."""
    text = INDEXED.replace(BY_INDEX, "--node_rank=${HOSTNAME##*-}")
    assert rules({"job.yaml": text}) == []
    host = text.replace(
        "      subdomain", "      hostNetwork: true\n      dnsPolicy: ClusterFirstWithHostNet\n      subdomain"
    )
    (found,) = judged({"job.yaml": host})
    assert found.check == "launch.pods_know_their_rank"
    assert found.fix == "fieldPath: metadata.annotations['batch.kubernetes.io/job-completion-index']"


JOBSET = """apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train}
spec:
  replicatedJobs:
  - name: w
    replicas: 4
    template:
      spec:
        parallelism: 1
        completions: 1
        template:
          spec:
            containers:
            - name: t
              command: [bash, -c]
              args: [torchrun --nnodes=4 --node_rank=RANK --master_addr=train-w-0-0.train --master_port=29500 t.py]
"""


def test_the_index_begins_anew_in_each_job_of_a_set():
    """Four Jobs of one pod have four pods of index 0; one Job of four pods has one."""
    text = JOBSET.replace("RANK", "$JOB_COMPLETION_INDEX")
    assert rules({"set.yaml": text}) == ["pods_know_their_rank"]
    one = text.replace("replicas: 4", "replicas: 1").replace("parallelism: 1", "parallelism: 4")
    assert rules({"set.yaml": one.replace("completions: 1", "completions: 4")}) == []
    assert rules({"set.yaml": JOBSET.replace("RANK", "$((JOB_INDEX*1+JOB_COMPLETION_INDEX))")}) == []
