"""Has our step all of the job on a node, and the step of the ranks what the job's own srun would have?"""

from __future__ import annotations

import pytest

from preflight.reach.transport import share

EIGHT = {"SLURM_TASKS_PER_NODE": "8(x2)"}


@pytest.mark.parametrize(
    ("left", "handed_on"),
    [
        ({}, {}),
        (EIGHT, {}),
        (
            {**EIGHT, "SLURM_GPUS_PER_TASK": "h100:1", "SLURM_CPUS_PER_TASK": "12"},
            {
                "TASKS": "8",
                "OF_A_TASK": "--gpus-per-task=h100:1 --cpus-per-task=12",
                "OF_A_NODE": "--gpus-per-node=h100:8",
            },
        ),
        (
            {"SLURM_TASKS_PER_NODE": "1", "SRUN_CPUS_PER_TASK": "12", "SLURM_CPUS_PER_TASK": "6"},
            {"TASKS": "1", "OF_A_TASK": "--cpus-per-task=12"},
        ),
        ({"SLURM_TASKS_PER_NODE": "8,4", "SLURM_CPUS_PER_TASK": "12"}, {}),
        ({"SLURM_TASKS_PER_NODE": "8", "SLURM_GPU_BIND": "a $(b)"}, {}),
        ({"SLURM_GPUS": "a100:16", "SLURM_JOB_NUM_NODES": "2"}, {"OF_A_NODE": "--gpus-per-node=a100:8"}),
        ({"SLURM_GPUS": "15", "SLURM_JOB_NUM_NODES": "2"}, {}),
        (
            {"SLURM_NETWORK": "job_vni,def_tles=1", "SLURM_MEM_PER_CPU": "4000", "SLURM_HINT": "a; b"},
            {"OF_A_STEP": "SLURM_MEM_PER_CPU=4000 SLURM_NETWORK=job_vni,def_tles=1"},
        ),
        ({"SLURM_CPU_BIND": "cores", "SLURM_STEP_ID": "4294967290"}, {"OF_A_STEP": "SLURM_CPU_BIND=cores"}),
        ({"SLURM_CPU_BIND": "quiet,mask_cpu:0x1", "SLURM_MEM_BIND": "local", "SLURM_STEP_ID": "0"}, {}),
    ],
    ids=[
        *("nothing", "tasks alone", "GPUs and CPUs", "CPUs", "uneven", "no word", "GPUs in all", "uneven GPUs"),
        *("of any step", "a shell of salloc", "within a step"),
    ],
)
def test_what_the_jobs_own_step_would_have_is_handed_on_for_the_ranks(left, handed_on):
    """By task, where as many stand on a node; what a step around us got is not handed on as a wish."""
    assert share.of_ranks(left) == {f"PREFLIGHT_{name}": value for name, value in handed_on.items()}


@pytest.mark.parametrize(
    ("left", "options"),
    [
        ({}, ["--mem=0"]),
        ({**EIGHT, "SLURM_GPUS_PER_TASK": "1"}, ["--mem=0", "--gpus-per-node=8"]),
        ({"SLURM_GPUS": "16", "SLURM_JOB_NUM_NODES": "2"}, ["--mem=0", "--gpus-per-node=8"]),
        ({"SLURM_GPUS": "16", "SLURM_JOB_NUM_NODES": "0"}, ["--mem=0"]),
    ],
)
def test_our_step_has_all_of_the_job_on_a_node(left, options):
    """Not one task's part of it; what says otherwise is taken out of its environment."""
    assert share.of_ours(left) == options
    assert set(left) - set(share.unset_for_ours()) <= {"SLURM_TASKS_PER_NODE", "SLURM_JOB_NUM_NODES"}
