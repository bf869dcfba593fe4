"""Is a program told of that puts several processes on one device, and no other?"""

from __future__ import annotations

import pytest

from preflight.launch.rules.check import check_texts

ONE_NODE = "torchrun --nproc_per_node={} train.py\n"
TASKS = (
    "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --ntasks-per-node=8\nexport MASTER_ADDR=localhost MASTER_PORT=29500\n"
    "srun bash -c 'RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=8 {}python train.py'\n"
)


def told(script, program):
    """The rules that name the program."""
    found, _ = check_texts({"a.sh": script, "train.py": f"import os, torch\n{program}\n"})
    return [one.check.partition(".")[2] for one in found if any(where.file == "train.py" for where in one.where)]


@pytest.mark.parametrize(
    ("program", "count", "is_told"),
    [
        ("os.environ['CUDA_VISIBLE_DEVICES'] = '0'", 2, True),
        ("os.environ['CUDA_VISIBLE_DEVICES'] = '0,1'", 2, False),
        ("os.environ['CUDA_VISIBLE_DEVICES'] = '0'", 1, False),
        ("if args.debug:\n    os.environ['CUDA_VISIBLE_DEVICES'] = '0'", 2, False),
        ("torch.cuda.set_device('cuda:1')", 2, True),
        ("torch.cuda.set_device(local)", 2, False),
    ],
)
def test_a_constant_device_is_told_where_several_processes_start(program, count, is_told):
    """As many devices as processes are enough; a branch may be for another way to start."""
    rules = [rule for rule in told(ONE_NODE.format(count), program) if rule != "file_is_judged"]
    assert rules == ["program_keeps_what_it_is_given"] * is_told


OPTION = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--gpu-id', type=int, default={})\n"
TAKEN = "args = p.parse_args()\n{}torch.cuda.set_device(args.gpu_id)"


@pytest.mark.parametrize(
    ("default", "replaced", "words", "is_told"),
    [
        ("3", "", "", True),
        ("3", "", " --gpu-id=$LOCAL_RANK", False),
        ("3", "", " --gpu_id 1", False),
        ("3", "args.gpu_id = int(os.environ['LOCAL_RANK'])\n", "", False),
        ("None", "", "", False),
    ],
)
def test_a_default_of_an_option_is_a_constant_where_the_option_is_not_given(default, replaced, words, is_told):
    """Left from the day when one GPU was free."""
    start = ONE_NODE.format(2).replace("train.py", f"train.py{words}")
    assert ("program_keeps_what_it_is_given" in told(start, OPTION.format(default) + TAKEN.format(replaced))) is is_told


@pytest.mark.parametrize(
    ("shown", "device", "is_told"),
    [
        ("CUDA_VISIBLE_DEVICES=$SLURM_LOCALID ", "int(os.environ['LOCAL_RANK'])", True),
        ("CUDA_VISIBLE_DEVICES=$SLURM_LOCALID ", "int(os.environ['SLURM_LOCALID'])", True),
        ("CUDA_VISIBLE_DEVICES=$SLURM_LOCALID ", "0", False),
        ("", "int(os.environ['LOCAL_RANK'])", False),
    ],
)
def test_the_local_rank_is_no_device_where_one_is_visible(shown, device, is_told):
    """That one is device 0 in every process."""
    rules = told(TASKS.format(shown), f"rank = {device}\ntorch.cuda.set_device(rank)")
    assert ("slurm_tasks_see_their_gpus" in rules) is is_told
