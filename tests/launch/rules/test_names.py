"""Is a name told that is read or exported otherwise than it is set?"""

from __future__ import annotations

import pytest

from preflight.judge.ledger.findings import Verdict
from preflight.launch.rules.check import check_texts

START = "torchrun --nproc_per_node=8 train.py\n"


def told(text, name="a.sh"):
    """What is said of a script, and how it is to be put right."""
    return [(one.message, one.fix) for one in check_texts({name: text})[0] if one.verdict is not Verdict.SKIP]


@pytest.mark.parametrize(
    ("before", "read", "meant"),
    [
        ("train_hosts=(a b)", "${train_host[0]}", "train_hosts"),
        ("export model_name=x", "$model_nane", "model_name"),
        ("", "$SLURM_JOB_NODELITS", "SLURM_JOB_NODELIST"),
    ],
)
def test_a_name_one_slip_away_from_one_that_is_set_is_empty(before, read, meant):
    """The fix has the name that is set, and holds."""
    (found,) = told(f"{before}\necho {read}\n{START}")
    assert found[1] == f"${meant}"
    assert told(f"{before}\necho ${meant}\n{START}") == []


@pytest.mark.parametrize(
    "text",
    [
        "model_name=x\necho $model_name2",  # two names that are numbered
        "model_name=x\necho ${model_nane:-y}",  # with a default
        'model_name=x\n[ -z "$model_nane" ] || echo $model_nane',  # asked for
        "source mine.sh\nmodel_name=x\necho $model_nane",  # another file may set it
        "model_name=x\nread -r model_nane\necho $model_nane",
        "model_name=x\n# $model_nane",
        "echo $SLURM_JOB_NODELIST $SLURM_CLUSTER_NAME $HOSTNAMES",
    ],
)
def test_names_that_something_may_set_are_left_alone(text):
    """Nothing is said where the word need not be empty."""
    assert told(f"{text}\n{START}") == []


@pytest.mark.parametrize(
    ("line", "fix"),
    [("export LOGLEVEL_INFO", "export LOGLEVEL=INFO"), ("export NCCL_DEBUG_INFO", "export NCCL_DEBUG=INFO")],
)
def test_an_export_without_a_value_names_what_was_meant(line, fix):
    """A variable that the script sets above is exported so, and one that nobody can know is left alone."""
    assert [found[1] for found in told(f"{line}\n{START}")] == [fix]
    assert told(f"LOGLEVEL_INFO=1\nexport LOGLEVEL_INFO\n{START}") == []
    assert told(f"export MY_SETTING\n{START}") == []


def test_of_an_option_that_stands_twice_the_last_counts():
    """Two equal values, the program's own options and a default that a variable holds are left alone."""
    (found,) = told("torchrun --nproc_per_node=2 --max_restarts=1 --nproc-per-node 8 train.py\n")
    assert "8 counts" in found[0]
    assert told("torchrun --nproc_per_node=8 --nproc_per_node=8 train.py --seed 1 --seed 2\n") == []
    assert told("MORE=--nproc_per_node=2\ntorchrun $MORE --nproc_per_node=8 train.py\n") == []


@pytest.mark.parametrize(
    ("line", "told_of"),
    [
        ("export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK", "SLURM_CPUS_PER_TASK"),
        ("export N=${SLURM_GPUS_PER_NODE}", "SLURM_GPUS_PER_NODE"),
        ("export OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-8}", ""),
        ("#SBATCH -c 8\nexport OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK", ""),
        ("export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK\nsrun --cpus-per-task=8 hostname", ""),
        ("# $SLURM_CPUS_PER_TASK is what Slurm gives", ""),
        ("echo $SLURM_CPUS_ON_NODE", ""),
    ],
)
def test_slurm_sets_some_variables_only_where_their_option_is_given(line, told_of):
    """Those of --cpus-per-task and its like are empty elsewhere; the fix is the line that is missing."""
    text = f"#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --gres=gpu:8\n{line}\n{START}"
    found = [one for one in check_texts({"a.sbatch": text})[0] if one.check == "launch.variables_are_set"]
    assert [one.message.split(" ")[0] for one in found] == ([told_of] if told_of else [])


@pytest.mark.parametrize(
    ("line", "fix"),
    [
        ("export NCCL_IB_HCA=mlx5_0 mlx5_1", "export NCCL_IB_HCA=mlx5_0,mlx5_1"),
        ("export RUN_TAG=first try", 'export RUN_TAG="first try"'),
        ("export NCCL_IB_HCA=mlx5_0,mlx5_1", ""),
        ("export NCCL_DEBUG=INFO PATH", ""),
        ("tag=one\nexport NCCL_DEBUG=INFO tag", ""),
    ],
)
def test_what_stands_behind_a_blank_is_no_part_of_the_value(line, fix):
    """bash takes it for the name of a variable that is handed on as well."""
    found = check_texts({"run.sh": f"{line}\ntorchrun --nproc_per_node=2 train.py\n"})[0]
    assert [one.fix for one in found if one.check == "launch.variables_are_assigned"] == ([fix] if fix else [])
