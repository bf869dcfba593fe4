"""Is what accelerate starts otherwise than its file says, or refuses, found before it is started?"""

from __future__ import annotations

import pytest

from tests.launch.samples import config, failed, judged, torchrun


@pytest.mark.parametrize(
    ("fields", "rules"),
    [
        ({}, []),
        ({"num_processes": "15"}, ["num_processes_divides"]),
        ({"main_process_ip": None}, ["master_address_is_given"]),
        ({"num_machines": None}, ["num_machines_is_given"]),
        ({"use_cpu": "true"}, ["cpu_ranks_form_one_world"]),
        ({"distributed_type": "DEEPSPEED"}, ["deepspeed_reaches_every_machine"]),
    ],
)
def test_a_file_that_accelerate_takes_for_something_else(fields, rules):
    """One rule for each of its surprises, and none for a right file."""
    assert failed({"n.yaml": config(1, **fields)}) == rules


def test_a_command_without_a_number_of_processes_is_refused():
    """Where neither the file nor the command has one."""
    files = {"c.yaml": config(0, num_processes=None), "n.sh": "accelerate launch --config_file c.yaml t.py\n"}
    assert "num_processes_is_given" in failed(files)
    assert failed({**files, "n.sh": files["n.sh"].replace(" t.py", " --num_processes 16 t.py")}) == []


def test_a_network_that_is_said_to_be_the_same_leaves_c10d_without_an_endpoint():
    """accelerate hands the address over as --master_addr then, which c10d does not read."""
    words = "--num_machines 2 --num_processes 16 --machine_rank 0 --main_process_ip n1 --rdzv_backend c10d"
    assert "same_network_fits_the_rendezvous" in failed({"n.sh": f"accelerate launch {words} --same_network t.py\n"})
    assert "same_network_fits_the_rendezvous" not in failed({"n.sh": f"accelerate launch {words} t.py\n"})


@pytest.mark.parametrize(
    ("stage", "line", "is_idle"),
    [
        (2, "offload_param_device: cpu", True),
        (2, "zero3_init_flag: true", True),
        (2, "offload_param_device: none\n  zero3_init_flag: false", False),
        (3, "offload_param_device: cpu\n  zero3_init_flag: true", False),
    ],
)
def test_what_stage_3_alone_does_is_told_where_the_stage_is_another(stage, line, is_idle):
    """A guide promises less memory by them; nothing happens, and nothing keeps the job from starting."""
    text = config(0).replace("MULTI_GPU", "DEEPSPEED")
    text += f"deepspeed_config:\n  deepspeed_multinode_launcher: standard\n  zero_stage: {stage}\n  {line}\n"
    found = [f for f in judged({"n.yaml": text}) if f.check == "launch.settings_fit_the_zero_stage"]
    assert [(str(f.verdict), "zero_stage: 3" in f.fix) for f in found] == [("warn", True)] * is_idle


def test_these_rules_are_accelerates_alone():
    """torchrun's world size need not divide, and it has no file that could lack a number."""
    assert failed({"n0.sh": torchrun(), "n1.sh": torchrun().replace("--node_rank=0", "--node_rank=1")}) == []
