"""What a `deepspeed` command asks for."""

from __future__ import annotations

from preflight.launch.rules.check import check_texts
from tests.launch.samples import BATCHES, DEEPSPEED, HOSTFILE, failed, rules

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
