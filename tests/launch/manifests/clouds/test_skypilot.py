"""A task of SkyPilot."""

from __future__ import annotations

import pytest

from tests.launch.plans import launch, values
from tests.launch.samples import failed, rules

SKY = """resources:
  accelerators: {gpus}
num_nodes: 2
envs:
  NCCL_SOCKET_IFNAME: eth0
run: |
  HEAD=$(echo "$SKYPILOT_NODE_IPS" | head -n1)
  torchrun --nnodes={nodes} --nproc_per_node={each} {rank} \\
    --master_addr=$HEAD --master_port=8008 train.py
"""


RANK = "--node_rank=$SKYPILOT_NODE_RANK"


def sky(gpus="H100:8", nodes="$SKYPILOT_NUM_NODES", each="$SKYPILOT_NUM_GPUS_PER_NODE", rank=RANK):
    """A SkyPilot task."""
    return SKY.format(gpus=gpus, nodes=nodes, each=each, rank=rank)


def test_a_task_of_skypilot_knows_its_nodes_and_gpus():
    """The counts that SkyPilot gives are those of the task; envs are the job's variables."""
    found = launch(sky(), name="task.yaml")
    assert (values(found)["nodes"], values(found)["processes_per_node"]) == (2, 8)
    assert found["environment"]["NCCL_SOCKET_IFNAME"] == "eth0"
    assert rules({"task.yaml": sky()}) == []


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"nodes": "4"}, "nodes_are_counted_right"),
        ({"rank": ""}, "static_rendezvous_has_node_ranks"),
        ({"each": "16"}, "processes_match_devices"),
        ({"gpus": "{H100: 4}", "each": "8"}, "processes_match_devices"),
    ],
)
def test_a_task_that_does_not_fit_itself_fails(changes, rule):
    """Other nodes than SkyPilot starts, no rank, more processes than GPUs."""
    assert failed({"task.yaml": sky(**changes)}) == [rule]
