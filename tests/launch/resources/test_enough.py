"""Is it told where more nodes or GPUs are counted on than there are?"""

from __future__ import annotations

import pytest

from preflight.launch.rules.check import check_texts
from tests.launch.nodes import cluster

VERL = "python -m verl.trainer.main_ppo trainer.nnodes={} trainer.n_gpus_per_node={}\n"


def told(text, nodes=None):
    """The findings about resources."""
    found, _ = check_texts({"a.sh": text}, nodes)
    return [one for one in found if one.check in ("launch.resources_are_enough", "launch.model_parallelism_fits")]


@pytest.mark.parametrize(("nodes", "gpus", "is_enough"), [(2, 8, True), (1, 8, True), (4, 8, False), (2, 16, False)])
def test_a_program_takes_no_more_than_the_batch_system_gives(nodes, gpus, is_enough):
    """One finding for one cause."""
    head = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gpus-per-node=8\n"
    assert len(told(head + VERL.format(nodes, gpus))) == (not is_enough)


@pytest.mark.parametrize(("nodes", "gpus", "blamed"), [(2, 8, []), (3, 8, [()]), (2, 16, [("node1", "node2")])])
def test_a_program_takes_no_more_than_the_nodes_have(nodes, gpus, blamed):
    """Hosts that are too few are nobody's fault; GPUs that are too few are."""
    assert [one.nodes for one in told(VERL.format(nodes, gpus), cluster())] == blamed


@pytest.mark.parametrize(
    ("line", "start", "is_enough"),
    [
        ('for n in $NODES; do echo "$n slots=8" >> hosts; done', "deepspeed", True),
        ('for n in $NODES; do echo "$n slots=16" >> hosts; done', "deepspeed", False),
        ("scontrol show hostnames | sed 's/$/ slots=16/' > hosts", "deepspeed", False),
        ("scontrol show hostnames | sed 's/$/ slots=16/' > hosts", "mpirun", True),
    ],
)
def test_a_hostfile_of_the_script_counts_on_gpus(line, start, is_enough):
    """A slot of DeepSpeed is a GPU, one of MPI a place for any process."""
    head = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gpus-per-node=8\n"
    found = [str(one.message) for one in told(f"{head}{line}\n{start} --hostfile hosts train.py\n")]
    assert any("slots=16" in message for message in found) is not is_enough


@pytest.mark.parametrize(
    ("starter", "is_told"),
    [
        ("jsrun -n 2 -r 1 -a 1 -g 6", False),
        ("jsrun -n 4 -r 1 -g 6", True),
        ("jsrun -n 4 -r 2 -g 6", False),
    ],
)
def test_a_launcher_is_started_as_often_as_it_waits_for_nodes(starter, is_told):
    """One launcher for each resource set, of which a host has one."""
    line = f"{starter} torchrun --nnodes=2 --nproc_per_node=6 --rdzv_backend=c10d --rdzv_endpoint=a:29500 t.py\n"
    assert bool(told(line)) is is_told


def test_what_is_shared_out_divides_the_whole():
    """The sizes of verl's rollout, of torchtitan and of Megatron."""
    assert told(
        "python -m verl.trainer.main_ppo trainer.nnodes=1 actor_rollout_ref.rollout.tensor_model_parallel_size=3\n"
    )
    assert told("torchrun --nproc_per_node=8 -m torchtitan.train --parallelism.tensor_parallel_degree=3\n")
    assert told("torchrun --nproc_per_node=8 p.py --tensor-model-parallel-size 8 --num-attention-heads 12\n")
    assert not told("torchrun --nproc_per_node=8 -m torchtitan.train --parallelism.tensor_parallel_degree=4\n")


@pytest.mark.parametrize(
    ("words", "is_told"),
    [
        ("data.train_batch_size=500", True),
        ("data.train_batch_size=512", False),
        ("data.train_batch_size=500 actor_rollout_ref.rollout.n=4", False),
        ("data.train_batch_size=500 actor_rollout_ref.rollout.n=$N", False),
        ("data.train_batch_size=$B", False),
        ("data.train_batch_size=500 actor_rollout_ref.actor.strategy=megatron", False),
        ("data.train_batch_size=500 actor_rollout_ref.actor.megatron.tensor_model_parallel_size=2", False),
        ("data.train_batch_size=500 --config-name=ppo_megatron_trainer", False),
        ("data.train_batch_size=500 --config-path=conf --config-name=own", False),
    ],
)
def test_a_batch_of_verl_is_shared_out_over_its_gpus(words, is_told):
    """The batch times the answers to each prompt; Megatron's GPUs share one part, and a file may say anything."""
    found = check_texts({"a.sh": f"{VERL.format(2, 8).strip()} {words}\n"})[0]
    assert ("launch.batch_sizes_multiply" in {one.check for one in found}) is is_told


@pytest.mark.parametrize(
    ("words", "is_told"),
    [
        ("actor_rollout_ref.actor.ppo_mini_batch_size=128", True),
        ("actor_rollout_ref.actor.ppo_mini_batch_size=64", False),
        ("actor_rollout_ref.actor.ppo_mini_batch_size=$M", False),
        ("actor_rollout_ref.actor.ppo_mini_batch_size=128 actor_rollout_ref.actor.use_dynamic_bsz=True", False),
        ("actor_rollout_ref.actor.ppo_mini_batch_size=128 --config-name=own", False),
    ],
)
def test_a_batch_of_verl_holds_a_mini_batch(words, is_told):
    """verl checks that before it loads anything, unless texts are packed by length."""
    found = check_texts({"a.sh": f"{VERL.format(1, 8).strip()} data.train_batch_size=64 {words}\n"})[0]
    assert ("launch.batch_sizes_multiply" in {one.check for one in found}) is is_told
