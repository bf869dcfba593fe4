"""A task of dstack."""

from __future__ import annotations

import pytest

from tests.launch.plans import launch, values
from tests.launch.samples import failed, rules

TASK = """type: task
nodes: 2
commands:
- |
  torchrun --nnodes=$DSTACK_NODES_NUM --nproc_per_node=$DSTACK_GPUS_PER_NODE --node_rank=$DSTACK_NODE_RANK \\
    --master_addr=$DSTACK_MASTER_NODE_IP --master_port=29500 train.py
resources:
  gpu: H100:8
"""


def test_a_task_knows_its_nodes_and_gpus():
    """dstack gives both to the commands, which run on every node."""
    found = launch(TASK, name="task.dstack.yml")
    assert (values(found)["nodes"], values(found)["processes_per_node"]) == (2, 8)
    assert rules({"task.dstack.yml": TASK}) == []


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("$DSTACK_NODES_NUM", "4", "nodes_are_counted_right"),
        ("$DSTACK_GPUS_PER_NODE", "16", "processes_match_devices"),
        ("$DSTACK_NODE_RANK", "0", "static_rendezvous_has_node_ranks"),
    ],
)
def test_a_task_that_does_not_fit_itself_fails(old, new, rule):
    """Other nodes than dstack starts, more processes than GPUs, one rank for all."""
    assert failed({"task.dstack.yml": TASK.replace(old, new)}) == [rule]
