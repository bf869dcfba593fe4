"""Do the pods of a job find rank 0 by its name?"""

from __future__ import annotations

import pytest

from tests.launch.samples import INDEXED, judged, rules


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("value: train-0.train", "value: train-0.trains", "the pods stand under train"),
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
