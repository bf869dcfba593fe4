"""Does the job count on what its script asks Slurm for?"""

from __future__ import annotations

import pytest

from preflight.launch.rules.check import check_texts
from tests.launch.samples import SBATCH, failed, rules

HEAD = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node={tasks}\n"


def test_tasks_and_processes_counted_twice():
    """Eight tasks that start eight processes each."""
    assert failed({"job.sbatch": SBATCH.replace("--ntasks-per-node=1", "--ntasks-per-node=8")}) == [
        "slurm_tasks_are_counted_once"
    ]
    step = SBATCH.replace("--ntasks-per-node=1", "--ntasks-per-node=8").replace("srun ", "srun --ntasks-per-node=1 ")
    assert rules({"job.sbatch": step}) == []


def test_one_cpu_for_eight_processes_warns():
    """cpus-per-task below the processes of a node."""
    assert rules({"job.sbatch": SBATCH.replace("=64", "=1")}) == ["slurm_tasks_have_cpus"]


def test_nodes_asked_for_and_counted_on():
    """--nnodes 4 in a job of two, and srun over nodes that torchrun does not count."""
    assert failed({"job.sbatch": SBATCH.replace("$SLURM_NNODES", "4")}) == ["slurm_nodes_fit_the_job"]
    assert failed({"job.sbatch": SBATCH.replace("--nnodes=$SLURM_NNODES ", "")}) == ["slurm_nodes_fit_the_job"]


def test_more_processes_than_slurm_gives_gpus():
    """Four GPUs a node and eight processes."""
    assert failed({"job.sbatch": SBATCH.replace("--gpus-per-node=8", "--gres=gpu:a100:4")}) == [
        "processes_match_devices"
    ]


@pytest.mark.parametrize(
    "program", ["train.py --devices 8 --num_nodes 2", "train.py --trainer.devices=8 trainer.num_nodes=2"]
)
def test_lightning_counts_what_slurm_starts(program):
    """Trainer(num_nodes, devices) against --nodes and --ntasks-per-node."""
    assert rules({"job.sh": HEAD.format(tasks=8) + f"srun python {program}\n"}) == []
    assert failed({"job.sh": HEAD.format(tasks=1) + f"srun python {program}\n"}) == ["slurm_tasks_fit_the_job"]
    without = HEAD.format(tasks=8).replace("#SBATCH --nodes=2\n", "")
    assert failed({"job.sh": without + f"srun python {program}\n"}) == ["slurm_nodes_fit_the_job"]


def test_gpus_per_task_hides_the_others():
    """A program that takes its local rank as the device finds device 0 only."""
    head = HEAD.format(tasks=8) + "#SBATCH --gpus-per-task=1\n"
    assert rules({"job.sh": head + "srun python train.py\n"}) == ["slurm_tasks_see_their_gpus"]
    assert failed({"job.sh": head + "srun python train.py\n"}) == []  # it may take device 0
    assert failed({"job.sh": head + "srun python train.py --devices 8\n"}) == ["slurm_tasks_see_their_gpus"]
    assert rules({"job.sh": head + "#SBATCH --gpu-bind=none\nsrun python train.py\n"}) == []
    assert rules({"job.sh": head.replace("--gpus-per-task=1", "--gpus-per-node=8") + "srun python train.py\n"}) == []


TASKS = "#!/bin/bash\n#SBATCH --nodes=2\n{}srun python t.py --num_nodes 2 --devices 4\n"


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ("#SBATCH --ntasks-per-node=4\n", []),
        ("#SBATCH --ntasks=8\n", []),
        ("#SBATCH -n 8\n#SBATCH --ntasks-per-node=4\n", []),
        ("#SBATCH --ntasks=2\n", ["slurm_tasks_fit_the_job"]),
        ("#SBATCH --ntasks=16\n#SBATCH --ntasks-per-node=4\n", ["slurm_numbers_multiply"]),
        ("#SBATCH --ntasks=4\n#SBATCH --ntasks-per-node=4\n", ["slurm_numbers_multiply"]),
        ("#SBATCH --ntasks-per-node=4\n#SBATCH --gres=gpu:4\n#SBATCH --gpus-per-task=2\n", ["slurm_numbers_multiply"]),
    ],
)
def test_the_numbers_of_a_batch_script_multiply(lines, found):
    """Tasks are nodes x tasks of a node; GPUs of a node are tasks x GPUs of a task."""
    told = rules({"job.sbatch": TASKS.format(lines)})
    assert [rule for rule in told if rule != "slurm_tasks_see_their_gpus"] == found


def test_srun_counts_its_tasks_itself():
    """srun -n 8 -N 2 is four tasks on each of two nodes."""
    text = "#!/bin/bash\nsrun -n {} -N 2 python t.py --num_nodes 2 --devices 4\n"
    assert rules({"n.sh": text.format(8)}) == []
    assert rules({"n.sh": text.format(4)}) == ["slurm_tasks_fit_the_job"]


def test_every_node_has_a_task():
    """One agent for a job of two nodes; steps of one node each, beside one another, are as many as there are nodes."""
    text = (
        "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gpus-per-node=8\n{} torchrun --nnodes=2 --nproc_per_node=8"
        " --rdzv_backend=c10d --rdzv_endpoint=10.0.0.1:29500 --rdzv_id=7 train.py\n"
    )
    assert failed({"n.sh": text.format("srun")}) == []
    assert failed({"n.sh": text.format("srun --ntasks=1")}) == ["slurm_tasks_fit_the_job"]
    assert failed({"n.sh": text.format("srun -N2 -n1 -w n1")}) == []
    tasks = text.replace("--nodes=2\n", "--nodes=2\n#SBATCH --ntasks-per-node=1\n")
    assert rules({"n.sh": tasks.format("srun -n1 -w n1")}) == []


def test_a_step_that_takes_fewer_nodes_than_the_script_has():
    """The script asks for enough of them: what is short is the step."""
    line = "srun -N1 -n1 torchrun --nnodes=2 --nproc_per_node=8 --rdzv_backend=c10d --rdzv_endpoint=$H:29500 t.py\n"
    head = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gpus-per-node=8\nH=$(scontrol show hostnames | head -1)\n"
    (found,) = check_texts({"job.sh": head + line})[0]
    assert "and srun takes 1" in str(found.message)
