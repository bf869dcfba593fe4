"""An experiment of Beaker."""

from __future__ import annotations

import pytest

from tests.launch.plans import launch, values
from tests.launch.samples import failed, rules

BEAKER = """version: v2
tasks:
- name: train
  replicas: 4
  leaderSelection: true
  hostNetworking: true
  image: {beaker: trainer}
  command: [/bin/sh, -c]
  arguments: ['accelerate launch --num_machines 4 --num_processes 32 --machine_rank $BEAKER_REPLICA_RANK
    --main_process_ip $BEAKER_LEADER_REPLICA_HOSTNAME --main_process_port 29400 t.py']
  envVars:
  - {name: WANDB_WATCH, value: false}
  resources: {gpuCount: 8}
"""


def test_an_experiment_of_beaker_is_read():
    """Replicas are the nodes, and Beaker gives each its rank and the leader's name."""
    found = launch(BEAKER, name="experiment.yaml")
    assert (found["launcher"], values(found)["nodes"]) == ("accelerate", 4)
    assert rules({"experiment.yaml": BEAKER}) == []


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("replicas: 4", "replicas: 2", "nodes_are_counted_right"),
        ("  leaderSelection: true\n", "", "variables_are_set"),
        ("  hostNetworking: true\n", "", "containers_share_the_network"),
        ("--machine_rank $BEAKER_REPLICA_RANK\n", "--machine_rank 0\n", "static_rendezvous_has_node_ranks"),
    ],
)
def test_an_experiment_that_does_not_fit_itself_fails(old, new, rule):
    """Other replicas than the command counts, and a leader that nobody chooses or reaches."""
    assert old in BEAKER
    assert rule in failed({"experiment.yaml": BEAKER.replace(old, new)})
