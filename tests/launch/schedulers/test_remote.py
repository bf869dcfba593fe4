"""Are variables told that a login to another node, or sudo, leaves behind?"""

from __future__ import annotations

import pytest

from tests.launch.samples import judged

RUN = "torchrun --nnodes=2 --nproc_per_node=8 --node_rank={} --master_addr=n0 --master_port=29500 t.py"
LOOP = 'export {}\nfor i in 0 1; do\n  ssh n$i "{}{}" &\ndone\nwait\n'


@pytest.mark.parametrize(
    ("exported", "inside", "is_told"),
    [
        ("NCCL_SOCKET_IFNAME=eth0", "", True),
        ("NCCL_SOCKET_IFNAME=eth0", "source ~/venv/bin/activate; ", True),
        ("NCCL_SOCKET_IFNAME=eth0", "NCCL_SOCKET_IFNAME=eth0 ", False),
        ("NCCL_SOCKET_IFNAME=eth0", "export NCCL_SOCKET_IFNAME=eth0; ", False),
        ("NCCL_SOCKET_IFNAME=eth0", "source /opt/env.sh; ", False),
        ("NCCL_DEBUG=INFO", "", False),
        ("OMP_NUM_THREADS=4", "", False),
    ],
)
def test_what_ssh_leaves_behind_is_told(exported, inside, is_told):
    """Not what the other side sets itself, or may read from a file, nor what steers nothing."""
    found = judged({"go.sh": LOOP.format(exported, inside, RUN.format("$i"))})
    assert ("launch.variables_are_exported" in [finding.check for finding in found]) is is_told


@pytest.mark.parametrize(
    ("given", "is_told"),
    [("sudo", True), ("sudo -E", False), ("sudo --preserve-env", False), ("sudo NCCL_SOCKET_IFNAME=eth0", False)],
)
def test_what_sudo_leaves_behind_is_told(given, is_told):
    """It clears the variables unless it is told to keep them."""
    found = judged({"n0.sh": f"export NCCL_SOCKET_IFNAME=eth0\n{given} {RUN.format(0)}\n"})
    assert ("launch.variables_are_exported" in [finding.check for finding in found]) is is_told


STEP = """#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1) MASTER_PORT=29500 RANK=0
{}
"""
OWN = "RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS LOCAL_RANK=$SLURM_LOCALID"


@pytest.mark.parametrize(
    ("step", "lost"),
    [
        ("srun --export=ALL python t.py", None),
        ("srun --export=NONE python t.py", "MASTER_ADDR, MASTER_PORT, RANK"),
        ("srun --export=MASTER_ADDR,MASTER_PORT python t.py", "RANK"),
        ("NCCL_DEBUG=INFO srun --export=RANK,MASTER_ADDR,MASTER_PORT python t.py", "NCCL_DEBUG"),
        (f"srun --export=PATH bash -c '{OWN} python t.py'", "MASTER_ADDR, MASTER_PORT"),
        (f"srun --export=PATH bash -c 'export {OWN}; python t.py'", "MASTER_ADDR, MASTER_PORT"),
        (f"srun --export=PATH bash -c '\nexport {OWN}\npython t.py'", "MASTER_ADDR, MASTER_PORT"),
        (f"srun --export=MASTER_ADDR,MASTER_PORT bash -c '{OWN} python t.py'", None),
        ("srun --export=MASTER_ADDR,MASTER_PORT bash -c 'WORLD_SIZE=16 python t.py'", "RANK"),
        (f"export NCCL_DEBUG=INFO; srun --export=MASTER_ADDR bash -c 'MASTER_PORT=1 {OWN} python t.py'", "NCCL_DEBUG"),
    ],
)
def test_what_a_step_does_not_take_along_is_told(step, lost):
    """Of what the script exports, and not what the shell that srun starts sets itself."""
    found = [one for one in judged({"j.sbatch": STEP.format(step)}) if one.check == "launch.variables_are_exported"]
    assert [one.message.values["names"] for one in found] == ([lost] if lost else [])
