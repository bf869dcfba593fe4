"""Volcano's Job."""

from __future__ import annotations

import pytest

from preflight.said import value_in
from tests.launch.manifests.kinds.pods import AGENT, pod
from tests.launch.samples import failed, judged, rules

BY_PLUGIN = AGENT.format(nodes=2, rank="$(RANK)", address="$(MASTER_ADDR)")
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


def test_a_right_one_is_silent():
    """The pytorch plugin gives ranks and an address."""
    assert rules({"job.yaml": VOLCANO}) == []


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("minAvailable: 2", "minAvailable: 3", "gang_is_the_whole_job"),
    ],
)
def test_one_thing_broken_fails(old, new, rule):
    """Each with its rule."""
    assert old in VOLCANO
    assert rule in failed({"job.yaml": VOLCANO.replace(old, new)})


@pytest.mark.parametrize(
    ("option", "task"), [("master", "leader"), ("worker", "helper"), ("worker", "w")], ids=["master", "worker", "part"]
)
def test_the_plugin_is_told_of_tasks_that_there_are(option, task):
    """The wrong name is told at its line, with all that there are."""
    wrong = VOLCANO.replace(f"--{option}={option}", f"--{option}={task}")
    (found,) = [one for one in judged({"job.yaml": wrong}) if one.check == "launch.pods_know_their_rank"]
    assert (str(found.verdict), found.where[0].line) == ("fail", 6)
    assert [value_in(found.message, name) for name in ("option", "name", "names")] == [option, task, "master, worker"]


def test_without_options_the_plugin_takes_its_usual_names():
    """master and worker; a job of one task has no worker to name."""
    silent = VOLCANO.replace('["--master=master", "--worker=worker"]', "[]")
    assert "pods_know_their_rank" not in rules({"job.yaml": silent})
    named = silent.replace("name: worker", "name: rest")
    (found,) = [one for one in judged({"job.yaml": named}) if one.check == "launch.pods_know_their_rank"]
    assert value_in(found.message, "option") == "worker"
    alone = "\n".join(line for line in silent.splitlines() if "name: worker" not in line)
    assert "pods_know_their_rank" not in rules({"job.yaml": alone})
