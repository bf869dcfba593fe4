"""The port of rank 0."""

from __future__ import annotations

import pytest

from preflight.launch.rules.ports import lowest_and_highest
from tests.launch.samples import config, failed, judged, pair, rules, torchrun


@pytest.mark.parametrize("port", [0, 22, 65536, 99999])
def test_ports_that_cannot_be(port):
    """Out of range, ssh's, or chosen by each node alone."""
    assert failed({"n.sh": torchrun(port=port)}) == ["master_port_is_valid"]
    assert failed({"n.yaml": config(main_process_port=str(port))}) == ["master_port_is_valid"]


def test_ports_that_are_fragile():
    """Privileged and ephemeral ports warn, 29500 is silent."""
    assert [str(found.verdict) for found in judged({"n.sh": torchrun(port=80)})] == ["warn"]
    assert rules({"n.sh": torchrun(port=40000)}) == ["master_port_is_not_ephemeral"]
    assert rules({"n.sh": torchrun(port=29500)}) == []


def test_a_port_worked_out_on_every_node_fails():
    """$((RANDOM % 1000 + 20000)) in the script of every node."""
    script = torchrun().replace("--master_port=29500", "--master_port=$((RANDOM % 1000 + 20000))")
    assert failed({"n.sh": script}) == ["master_port_is_the_same_everywhere"]


@pytest.mark.parametrize(
    ("expression", "bounds"),
    [
        ("$((12000 + RANDOM % 20000))", (12000, 31999)),
        ("$((12000 + $RANDOM % 20000))", (12000, 31999)),
        ("$(($RANDOM + 40000))", (40000, 72767)),
        ("$((RANDOM % (65535 - 49152) + 49152))", (49152, 65534)),
        ("1${SLURM_JOB_ID:0-4}", (10000, 19999)),
        ("7${SLURM_JOB_ID: -4}", (70000, 79999)),
        ("$(expr 10000 + $(echo -n $SLURM_JOBID | tail -c 4))", (10000, 19999)),
        ("$((29500 + SLURM_JOB_ID % 1000))", (29500, 30499)),
        ("$((29500 + SLURM_JOB_ID))", (29500, 29500 + 10**9)),
        ("$(shuf -n 1 -i 10000-65535)", (10000, 65535)),
        ("`expr 60000 + 7`", (60007, 60007)),
        ("$((29500 + SLURM_ARRAY_TASK_ID))", None),
        ("$(get_free_port)", None),
        ("$((2 ** 9 ** 9 ** 9))", None),
        ("$((1 +))", None),
    ],
)
def test_the_range_of_a_port_is_read(expression, bounds):
    """By chance, or of a job's number; of anything else nothing is said."""
    assert lowest_and_highest(expression) == bounds


@pytest.mark.parametrize(
    ("expression", "verdicts"),
    [
        ("$((10000 + SLURM_JOB_ID % 20000))", []),
        ("$((10000 + SLURM_JOB_ID))", ["warn"]),
        ("7${SLURM_JOB_ID: -4}", ["fail"]),
        ("6${SLURM_JOB_ID: -4}", ["warn"]),
    ],
)
def test_a_port_that_may_be_too_large_is_told(expression, verdicts):
    """A sure one fails, a possible one warns."""
    text = "#!/bin/bash\n#SBATCH --nodes=2\nsrun " + torchrun().split("torchrun ")[1].replace("29500", expression)
    text = text.replace("srun ", "srun torchrun ").replace("--node_rank=0", "--node_rank=$SLURM_NODEID")
    found = [str(found.verdict) for found in judged({"n.sh": text}) if found.check == "launch.master_port_is_valid"]
    assert found == verdicts


@pytest.mark.parametrize("port", [0, 22, 80, 70000])
def test_a_port_that_cannot_be_listened_on_is_replaced(port):
    """By the one that torch has by itself."""
    found = [one for one in judged(pair(torchrun, port=port)) if one.check == "launch.master_port_is_valid"]
    assert found
    assert all("--master_port=29500 " in one.fix for one in found)
