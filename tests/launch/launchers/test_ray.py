"""Are `ray start` and `ray job submit` read and judged, and is the reference job started on a cluster of Ray's?"""

from __future__ import annotations

import json

import pytest

from preflight.launch.job import ALL_RANKS
from preflight.launch.launchers import start_job
from preflight.launch.launchers.ray import RAY
from tests.launch.plans import launch, values
from tests.launch.samples import failed, rules
from tests.launch.test_job import job

HEAD = "ray start --head --node-ip-address=10.0.0.1 --port=6380 --num-gpus 8\n"


def test_the_head_and_a_node_that_joins_it_are_read():
    """Where the head listens, and where the others look for it; 6379 where nothing is said."""
    assert values(launch(HEAD))["master_address"] == "10.0.0.1"
    assert values(launch("ray start --head\n"))["master_port"] == 6379
    found = values(launch("ray start --address=10.0.0.1:6380 --block\n"))
    assert (found["master_address"], found["master_port"]) == ("10.0.0.1", 6380)


def test_a_submitted_program_is_read_with_its_arguments():
    """Behind --, whatever interpreter stands there."""
    text = "ray job submit --address=http://127.0.0.1:8265 --runtime-env-json='{}' -- python3 train.py --nodes 2\n"
    assert values(launch(text))["program"] == "train.py"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("ray start --head --address=10.0.0.1:6379", "ray_start_is_accepted"),
        ("ray start --num-gpus 8", "ray_start_is_accepted"),
        ("ray start --address=10.0.0.1", "ray_start_is_accepted"),
        ("ray start --address=localhost:6379", "ray_nodes_meet"),
        ("ray job submit --address http://10.0.0.1:6379 -- python t.py", "ray_jobs_reach_the_dashboard"),
    ],
)
def test_what_ray_refuses_or_never_finds(text, rule):
    """Each alone, in one file."""
    assert failed({"n.sh": text + "\n"}) == [rule]


@pytest.mark.parametrize(
    ("head", "worker", "found"),
    [
        (HEAD, "ray start --address=10.0.0.1:6380", []),
        (HEAD, "ray start --address=10.0.0.1:6379", ["ray_nodes_meet"]),
        ("ray start --head --node-ip-address 127.0.0.1\n", "ray start --address=10.0.0.1:6379", ["ray_nodes_meet"]),
        ("ray start --head --node-ip-address ${MASTER_ADDR:-127.0.0.1}\n", "ray start --address=$MASTER_ADDR:6379", []),
        ("ray start --head\nray job submit --address=http://127.0.0.1:8265 -- python t.py\n", "", []),
        (
            "C=(ray start)\nif [ $N = 0 ]; then C+=(--head); else C+=(--block --address=n1:1); fi\n${C[@]}\n",
            "",
            ["file_is_judged"],
        ),
    ],
)
def test_the_nodes_of_a_cluster_meet(head, worker, found):
    """At the head's own port, and at an address that leads to it."""
    assert rules({"head.sh": head} | ({"worker.sh": worker + "\n"} if worker else {})) == found


SLURM = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gpus-per-node=8\n"
STEPS = f"""{SLURM}srun -N1 -n1 -w $A ray start --head --node-ip-address=$A --port=6379 --block &
srun -N1 -n1 -w $B ray start --address $A:6379 --block &
ray job submit --address=http://127.0.0.1:8265 -- vllm serve m --tensor-parallel-size 8 --pipeline-parallel-size 2
"""


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("", "", []),
        ("--port=6379 --block &", "--port=6379 --block", ["every_node_is_started"]),
        ("--port=6379 --block &", "--port=6379", []),
        ("--address $A:6379", "--address 127.0.0.1:6379", ["ray_nodes_meet"]),
        ("--pipeline-parallel-size 2", "--pipeline-parallel-size 4", ["processes_match_devices"]),
    ],
)
def test_a_cluster_in_steps_of_slurm(old, new, found):
    """Each step runs as long as its node of Ray; all GPUs together are those of the allocation."""
    assert rules({"job.sh": STEPS.replace(old, new)}) == found


def test_the_reference_job_is_a_task_for_each_rank():
    """ray start on every node, which serves; a driver on the first, which knows every rank's node and number."""
    started = start_job("ray", job("a", "a", "b"), 29501)
    assert [process["name"] for process in started["a"]] == ["a: ray", ALL_RANKS]
    assert "--head" in started["a"][0]["argv"]
    assert "--address=10.0.0.1:29501" in started["b"][0]["argv"]
    assert all(started[node][0]["serves"] for node in ("a", "b"))
    plan = json.loads(started["a"][1]["environment"]["PREFLIGHT_RANKS"])
    assert [(node, own["RANK"], own["LOCAL_RANK"]) for node, own in plan["ranks"]] == [
        ("a", "0", "0"),
        ("a", "1", "1"),
        ("b", "2", "0"),
    ]


def test_it_blames_the_rank_that_the_driver_names():
    """Its number and how it ended."""
    (found,) = RAY.blames.failed.finditer("[1] Traceback\nrank 1 ended with -9\n")
    assert (found["rank"], found["exit"]) == ("1", "-9")
