"""Slurm and the start of all nodes."""

from __future__ import annotations

import pytest

from tests.launch.samples import SBATCH, failed, judged, rules, torchrun

HEAD = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node={tasks}\n"


def test_a_right_batch_script_is_silent():
    """One task a node, all of its GPUs and CPUs."""
    assert rules({"job.sbatch": SBATCH}) == []


def test_scontrol_in_a_container():
    """Inside srun's container there is none; in the batch script there is."""
    inner = (
        "export MASTER_ADDR=$(scontrol show hostnames | head -n 1); torchrun --nnodes=2"
        " --node_rank=$SLURM_NODEID --master_addr=$MASTER_ADDR t.py"
    )
    script = HEAD.format(tasks=1) + f"srun --container-image=x.sqsh bash -c '{inner}'\n"
    assert failed({"job.sh": script}) == ["scontrol_runs_outside_the_container"]
    assert rules({"job.sh": script.replace("--container-image=x.sqsh ", "")}) == []


def test_a_batch_script_without_srun_starts_one_node():
    """torchrun --nnodes=2 on the first node waits for the second."""
    assert failed({"job.sbatch": SBATCH.replace("srun ", "")}) == ["every_node_is_started"]


def test_downloads_before_the_start_warn():
    """pip install on every node; in a batch script it runs once."""
    assert rules({"n.sh": "pip install -r requirements.txt\n" + torchrun()}) == ["nodes_start_together"]
    assert rules({"n.sh": "pip install -e .\n" + torchrun()}) == []
    assert rules({"job.sbatch": SBATCH.replace("export MASTER", "pip install x\nexport MASTER")}) == []


def test_actor_batches_of_openrlhf():
    """256 does not divide by 1 x 3."""
    line = (
        "python3 -m openrlhf.cli.train_ppo_ray --actor_num_nodes {} --actor_num_gpus_per_node 1"
        " --micro_train_batch_size 1 --train_batch_size 256\n"
    )
    (found, *_) = judged({"n.sh": line.format(3)})
    assert found.check == "launch.batch_sizes_multiply"
    assert failed({"n.sh": line.format(4)}) == []


def test_a_line_of_options_in_a_variable_is_continued():
    """Without the backslash above, bash takes the first option for a program."""
    text = 'ARGS="--layers 24 --hidden 1024"\n' + torchrun().rstrip() + " \\\n    $ARGS\n"
    assert rules({"n.sh": text}) == []
    assert failed({"n.sh": text.replace(" \\\n    $ARGS", "\n    $ARGS")}) == ["commands_are_continued"]


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("torchrun --standalone --nproc_per_node=8", ["program_is_given"]),
        ("python -m torch.distributed.run --standalone --standalone", ["program_is_given"]),
        ("accelerate launch --num_processes 8", ["program_is_given"]),
        ("deepspeed --num_gpus 8", ["program_is_given"]),
        ("torchrun --standalone t.py", []),
        ("torchrun --standalone -m package.train", []),
        ("torchrun $ARGS", []),
        ('torchrun --standalone "$@"', []),
        ("torchrun --help", []),
        ("axolotl train t.yaml --launcher torchrun -- --nproc_per_node=8", []),
    ],
)
def test_a_launcher_is_given_a_program(command, found):
    """With options alone it prints its usage and ends."""
    assert failed({"a.sh": f"#!/bin/bash\n{command}\n"}) == found


@pytest.mark.parametrize(
    ("command", "is_told"),
    [
        ("pip install -r requirements.txt", True),
        ("python -m pip install --requirement=r.txt", True),
        ("/opt/bin/pip3 install a b c", True),
        ("pip install a b", False),
        ("pip install -U a b", False),
        ("pip install torch", True),
        ("pip install flash-attn", True),
        ("pip install --no-index a b c", False),
        ("pip download a b c", False),
        ("conda install -y numpy", True),
        ("sudo apt-get install -y git", True),
        ("apt install -y git", True),
        ("huggingface-cli download x/y", True),
        ("hf download x/y", True),
        ("modelscope download x/y", True),
        ("wget https://x/y", True),
        ("curl -O https://x/y", True),
        ("echo wget https://x/y", False),
        ("[ -e x ] || wget https://x/y", False),
    ],
)
def test_what_takes_minutes_on_every_node_is_told(command, is_told):
    """A package or two of those that are small, and what one node alone does now and then, are not."""
    found = [one for one in judged({"n.sh": f"{command}\n{torchrun()}"}) if one.check == "launch.nodes_start_together"]
    assert [(str(one.verdict), one.where[0].line) for one in found] == [("warn", 1)] * is_told
    assert "nodes_start_together" not in rules({"n.sh": f"{torchrun()}{command}\n"})
    assert "nodes_start_together" not in rules({"n.sh": f"{command}\n{torchrun(nodes=1)}"})
