"""Is a group of pods whose command is not known a job of its own, which only the cluster's controller starts?"""

from __future__ import annotations

import yaml

from preflight.launch.read import read_texts
from preflight.launch.start import starting_of
from tests.launch.plans import launch, values

GPUS = {"limits": {"nvidia.com/gpu": 1}}
POD = {"spec": {"containers": [{"name": "a", "image": "b", "resources": GPUS}]}}
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
