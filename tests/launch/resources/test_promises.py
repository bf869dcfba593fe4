"""Is it read who gives nodes and GPUs, and who counts on them?"""

from __future__ import annotations

import pytest

from preflight.launch.read import read_texts
from preflight.launch.resources.promises import given, number, taken

HEAD = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gres=gpu:h100:8\n"


def read(text, reader):
    """What a reader finds in the last command of a script."""
    (script,) = read_texts({"a.sh": text}).scripts
    return {(one.quantity, one.count) for one in reader(script, script.commands[-1])}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (f"{HEAD}python t.py\n", {("nodes", 2), ("GPUs on a node", 8), ("GPUs", 16)}),
        ("flux run -N4 -n4 torchrun t.py\n", {("nodes", 4)}),
        ("flux run --nodes=4 torchrun t.py\n", {("nodes", 4)}),
        ("docker run --gpus=4 i torchrun t.py\n", {("GPUs on a node", 4)}),
        ("docker run --gpus all i torchrun t.py\n", set()),
        ("podman run --gpus '\"device=0,1,2\"' i torchrun t.py\n", {("GPUs on a node", 3)}),
        ("sbatch -N 3 --gres=gpu:4 ray.sub\n", {("nodes", 3), ("GPUs on a node", 4), ("GPUs", 12)}),
        ("sbatch -N $N ray.sub\n", set()),
    ],
)
def test_who_gives(text, wanted):
    """A number that is not known is no promise."""
    assert read(text, given) == wanted


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("-m verl.trainer.main_ppo trainer.nnodes=2", {("nodes", 2), ("GPUs", 16)}),
        ("grpo.py ++cluster.num_nodes=2 cluster.gpus_per_node=4", {("nodes", 2), ("GPUs on a node", 4), ("GPUs", 8)}),
        (
            "-m openrlhf.cli.train_ppo_ray --actor_num_nodes 1 --actor_num_gpus_per_node 4 --vllm_num_engines 2",
            {("GPUs", 6)},
        ),
        ("train.py --nnodes 2", set()),
    ],
)
def test_who_takes(words, wanted):
    """Each by the names of its own configuration."""
    assert read(f"python {words}\n", taken) == wanted


def test_the_last_of_a_key_counts():
    """As in every reader of command lines; what is no number is not known."""
    assert number(["a.b=2", "+a.b=3"], "a.b") == 3
    assert number(["--tensor-size", "4"], "tensor_size") == 4
    assert number(["a.b=$X"], "a.b") is None
