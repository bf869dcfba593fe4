"""Volcano's Job."""

from __future__ import annotations

import pytest

from tests.launch.manifests.kinds.pods import AGENT, pod
from tests.launch.samples import failed, rules

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
