"""Is a node found among those of its job by the variables that each cloud documents?"""

from __future__ import annotations

import json

import pytest

from preflight.cli.clouds import CLOUDS, PORT, rank_of_cloud
from preflight.cli.together import rank_variables
from preflight.said.errors import UsageError

NAMES = ("node1", "node2", "node3")


def variables(cloud, place, names=NAMES):
    """What a cloud gives its node at this place."""
    listed = "\n".join(names)
    main = {"AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS": names[0]} if place else {}
    pools = {"workerpool0": [f"{names[0]}:2222"], "workerpool1": [f"{name}:2222" for name in names[1:]]}
    task = {"type": "workerpool1" if place else "workerpool0", "index": max(0, place - 1), "trial": ""}
    return {
        "SageMaker": {"SM_HOSTS": json.dumps(names[::-1]), "SM_CURRENT_HOST": names[place]},
        "Vertex AI": {
            "CLUSTER_SPEC": json.dumps(
                {"cluster": {**pools, "workerpool3": ["judge:2222"]}, "environment": "cloud", "task": task}
            )
        },
        "AWS Batch": {
            "AWS_BATCH_JOB_NUM_NODES": str(len(names)),
            "AWS_BATCH_JOB_NODE_INDEX": str((place + 1) % len(names)),
            "AWS_BATCH_JOB_MAIN_NODE_INDEX": "1",
            **main,
        },
        "SkyPilot": {"SKYPILOT_NODE_IPS": listed, "SKYPILOT_NODE_RANK": str(place)},
        "dstack": {"DSTACK_NODES_IPS": listed, "DSTACK_NODE_RANK": str(place)},
    }[cloud]


@pytest.mark.parametrize("cloud", CLOUDS)
def test_every_node_has_a_rank_of_its_own_and_all_meet_at_the_first(cloud, monkeypatch):
    """AWS Batch tells the main node nothing of itself: its own name leads to it."""
    monkeypatch.setattr("socket.gethostname", lambda: "node1")
    monkeypatch.setattr("socket.gethostbyname", lambda name: name)
    found = [rank_variables(variables(cloud, place)) for place in range(3)]
    assert [(each["RANK"], each["WORLD_SIZE"]) for each in found] == [("0", "3"), ("1", "3"), ("2", "3")]
    assert {(each["MASTER_ADDR"], each["MASTER_PORT"]) for each in found} == {("node1", str(PORT))}


def test_what_a_job_exports_itself_goes_first():
    """Its own address and port, and the variables of a rank."""
    given = variables("SkyPilot", 1)
    assert rank_variables({**given, "MASTER_PORT": "4000"})["MASTER_PORT"] == "4000"
    assert rank_variables({**given, "MASTER_ADDR": "other"})["MASTER_ADDR"] == "other"
    rank = {"RANK": "7", "WORLD_SIZE": "8", "MASTER_ADDR": "a", "MASTER_PORT": "1"}
    assert rank_variables({**given, **rank})["RANK"] == "7"


def test_outside_of_a_cloud_there_is_no_rank():
    """An empty variable is none."""
    assert rank_of_cloud({"SM_HOSTS": "", "PATH": "/bin"}) == {}


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"SM_HOSTS": "algo-1", "SM_CURRENT_HOST": "algo-1"}, "SM_HOSTS is not as SageMaker documents it"),
        ({"SM_HOSTS": '["algo-1"]', "SM_CURRENT_HOST": "algo-9"}, "ValueError"),
        ({"CLUSTER_SPEC": "{}"}, "KeyError: 'cluster'"),
        (
            {**variables("Vertex AI", 1), "CLUSTER_SPEC": '{"cluster": {}, "task": {"type": "x", "index": 0}}'},
            "ValueError",
        ),
        (
            {"AWS_BATCH_JOB_NUM_NODES": "2", "AWS_BATCH_JOB_NODE_INDEX": "1", "AWS_BATCH_JOB_MAIN_NODE_INDEX": "0"},
            "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS",
        ),
        ({"SKYPILOT_NODE_IPS": "10.0.0.1", "SKYPILOT_NODE_RANK": "1"}, "SKYPILOT_NODE_IPS: node 1 of 1"),
        ({"DSTACK_NODES_IPS": "10.0.0.1"}, "DSTACK_NODE_RANK"),
    ],
)
def test_variables_that_contradict_each_other_are_said(environment, words):
    """In one line, with the variable."""
    with pytest.raises(UsageError, match=words):
        rank_variables(environment)
