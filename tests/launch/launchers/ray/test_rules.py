"""Nodes of a Ray cluster that meet."""

from __future__ import annotations

import pytest

from tests.launch.launchers.ray.test_command import HEAD
from tests.launch.samples import failed, rules


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


@pytest.mark.parametrize(
    ("step", "found"),
    [
        ("srun ray start --head --block &", ["ray_nodes_meet"]),
        ("srun -n2 --ntasks-per-node=1 ray start --head --block &", ["ray_nodes_meet"]),
        ("srun -n1 ray start --head --block &", []),
        ("srun -N1 -n1 ray start --head --block &", []),
        ("srun -w $A ray start --head --block &", []),
        ("srun bash -c 'if [ $SLURM_PROCID = 0 ]; then ray start --head --block; fi' &", []),
    ],
)
def test_a_head_on_every_node_is_told(step, found):
    """Each would be a cluster of one node; on one of the nodes it is the head of all."""
    assert rules({"job.sh": f"{SLURM}{step}\nsleep 9\npython train.py\n"}) == found
