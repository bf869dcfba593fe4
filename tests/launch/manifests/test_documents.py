"""Are the jobs found that a list, a wrapper or a schedule holds?"""

from __future__ import annotations

import json

import pytest
import yaml

from tests.launch.samples import INDEXED, failed, rules

HELD = list(yaml.safe_load_all(INDEXED))
JOB = HELD[-1]
LIST = {"apiVersion": "v1", "kind": "List", "items": HELD}
WRAPPED = {
    "apiVersion": "workload.codeflare.dev/v1beta2",
    "kind": "AppWrapper",
    "spec": {"components": [{"template": held} for held in HELD]},
}
SCHEDULE = {
    "apiVersion": "batch/v1",
    "kind": "CronJob",
    "metadata": JOB["metadata"],
    "spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": JOB["spec"]}},
}


@pytest.mark.parametrize("held", [LIST, WRAPPED], ids=["list", "AppWrapper"])
def test_a_job_inside_another_document_is_judged(held):
    """As `kubectl get -o yaml` prints jobs, and as AppWrapper queues them."""
    text = yaml.safe_dump(held, sort_keys=False)
    assert rules({"job.yaml": text}) == []
    assert failed({"job.yaml": text.replace("completionMode: Indexed", "completionMode: NonIndexed")}) == [
        "pods_know_their_rank"
    ]


def test_a_job_of_a_schedule_is_judged():
    """A CronJob's template is a Job's; its headless Service stands beside it."""
    text = yaml.safe_dump_all([HELD[0], SCHEDULE])
    assert "pods_know_their_rank" in failed({"job.yaml": text.replace("Indexed", "NonIndexed")})


def test_a_manifest_may_be_json():
    """As `kubectl get -o json` prints it."""
    text = json.dumps(LIST, indent=2)
    assert rules({"job.json": text}) == []
    assert failed({"job.json": text.replace('"Indexed"', '"NonIndexed"')}) == ["pods_know_their_rank"]


@pytest.mark.parametrize("text", ["kind: List\napiVersion: v1\nitems: []\n", "kind: AppWrapper\napiVersion: v1\n"])
def test_a_list_of_nothing_is_not_judged(text):
    """It says so."""
    assert rules({"job.yaml": text}) == ["file_is_judged"]
