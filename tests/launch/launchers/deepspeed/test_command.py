"""What a `deepspeed` command asks for."""

from __future__ import annotations

import pytest

from preflight.launch.rules.check import check_texts
from tests.launch.samples import BATCHES, DEEPSPEED, HOSTFILE, failed, judged, rules

FILES = {"hostfile": HOSTFILE, "run.sh": DEEPSPEED, "ds.json": BATCHES}


def test_the_plan_takes_nodes_and_slots_from_the_hostfile():
    """Two hosts of eight slots; --exclude takes one away."""
    plan = check_texts(FILES)[1].plans[0]
    assert (plan.nodes.value, plan.processes_per_node.value, plan.world_size.value) == (2, 8, 16)
    fewer = DEEPSPEED.replace("--hostfile=hostfile", "--hostfile=hostfile --exclude=worker-2")
    assert check_texts({"hostfile": HOSTFILE, "run.sh": fewer})[1].plans[0].nodes.value == 1


def test_num_gpus_counts_on_every_host():
    """Whatever its slots say: a host with fewer gets as many processes as the others."""
    files = {"hostfile": HOSTFILE.replace("2 slots=8", "2 slots=4"), "run.sh": DEEPSPEED}
    assert "hostfile_and_filters_agree" not in rules(files)
    files["run.sh"] = DEEPSPEED.replace("--hostfile", "--num_gpus=8 --hostfile")
    assert "hostfile_and_filters_agree" in failed(files)


HOSTS = "w1 slots=8\nw2 slots=8\n"
EXPORTS = "export OMP_NUM_THREADS=8 CUDA_VISIBLE_DEVICES=0,1 HF_HOME=/x NCCL_DEBUG=INFO\n"


@pytest.mark.parametrize(
    ("hosts", "options", "is_told"),
    [
        (HOSTS, "--hostfile=hostfile", True),
        (HOSTS, "--hostfile=hostfile --num_gpus 8", True),
        ("w1 slots=8\n", "--hostfile=hostfile --force_multi", True),
        ("w1 slots=8\n", "--hostfile=hostfile", False),
        (HOSTS, "--hostfile=hostfile --num_nodes 1", False),
        (HOSTS, "--hostfile=hostfile --include w1:0,1", False),
        (HOSTS, "--hostfile=hostfile --launcher slurm", False),
        (HOSTS, "--num_gpus 8", False),
    ],
)
def test_variables_stay_behind_only_where_the_runner_goes_to_other_nodes(hosts, options, is_told):
    """One warning for all of them; CUDA_VISIBLE_DEVICES is set by DeepSpeed itself, whatever the shell says."""
    found = judged({"run.sh": f"{EXPORTS}deepspeed {options} t.py\n", "hostfile": hosts})
    assert [one.check for one in found] == ["launch.deepspeed_hands_variables_on"] * is_told
    assert all(one.message.startswith("OMP_NUM_THREADS, HF_HOME are exported on this node only") for one in found)


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("--num_gpus 4", []),
        ("--include localhost:0,1,2,3", []),
        ("--num_gpus 4 --include localhost:0,1,2,3", ["hostfile_and_filters_agree"]),
        ("--num_nodes 1 --exclude localhost:7", ["hostfile_and_filters_agree"]),
    ],
)
def test_devices_are_counted_or_named(options, found):
    """DeepSpeed refuses both together."""
    assert failed({"run.sh": f"deepspeed {options} train.py\n"}) == found
