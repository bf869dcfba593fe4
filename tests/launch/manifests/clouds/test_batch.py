"""What is read from a multi-node job definition of AWS Batch?"""

from __future__ import annotations

import json

import pytest

from preflight.launch.rules.check import check_texts

COMMAND = (
    "torchrun --nnodes={} --nproc_per_node={} --node_rank=$AWS_BATCH_JOB_NODE_INDEX "
    "--master_addr=$AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS --master_port=29500 train.py"
)


def definition(nodes, processes, *targets, gpus=8):
    """A definition for two nodes of eight GPUs."""
    container = {
        "image": "a/b:1",
        "command": ["bash", "-c", COMMAND.format(nodes, processes)],
        "environment": [{"name": "NCCL_DEBUG", "value": "WARN"}],
        "resourceRequirements": [{"type": "GPU", "value": str(gpus)}],
    }
    ranges = [{"targetNodes": target, "container": container} for target in targets or ("0:",)]
    properties = {"mainNode": 0, "numNodes": 2, "nodeRangeProperties": ranges}
    return json.dumps({"type": "multinode", "nodeProperties": properties}, indent=1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (definition(2, 8), []),
        (definition(2, 8, "0", "1:"), []),
        (definition(2, 8, "0:1"), []),
        (definition("$AWS_BATCH_JOB_NUM_NODES", 8), []),
        (definition(4, 8), ["nodes_are_counted_right"]),
        (definition(2, 16), ["processes_match_devices"]),
        (definition(2, 8, gpus=4), ["processes_match_devices"]),
    ],
)
def test_nodes_and_gpus_are_those_of_the_definition(text, expected):
    """Of all its ranges together."""
    assert [one.check.removeprefix("launch.") for one in check_texts({"job.json": text})[0]] == expected


def test_one_without_a_launcher_is_skipped():
    """It is named for what it is."""
    text = definition(2, 8).replace("torchrun", "./train")
    assert [one.message for one in check_texts({"job.json": text})[0]] == [
        "job.json: a job definition of AWS Batch with no command of a known launcher"
    ]
