"""accelerate's YAML, with the traps of YAML 1.1."""

from __future__ import annotations

import pytest

from preflight.launch.diff import fixed
from preflight.said import value_in
from tests.launch.samples import config, failed, judged, rules


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"distributed_type": "NO"}, "yaml_values_are_as_meant"),
        ({"distributed_type": "multi_gpu"}, "yaml_values_are_as_meant"),
        ({"mixed_precision": "fp17"}, "yaml_values_are_as_meant"),
        ({"main_process_port": "7:30"}, "yaml_values_are_as_meant"),
        ({"num_processes": "020"}, "yaml_values_are_as_meant"),
        ({"main_process_ip": "10"}, "yaml_values_are_as_meant"),
        ({"num_machines": "'2'"}, "numbers_are_numbers"),
        ({"num_processes": "总进程数"}, "numbers_are_numbers"),
        ({"num_process": "16"}, "keys_are_known"),
        ({"zero_stage": "2"}, "keys_are_known"),
    ],
)
def test_a_value_that_accelerate_reads_otherwise(change, rule):
    """What looks like one thing and is another to YAML or accelerate."""
    assert rule in failed({"n.yaml": config(**change)})


def test_an_unquoted_no_of_mixed_precision_is_fine():
    """accelerate's own files write it so, and the old ones without quotes work."""
    assert rules({"n.yaml": config(mixed_precision="no")}) == []


def test_keys_that_stand_twice_warn_with_both_lines():
    """PyYAML takes the last one."""
    (found,) = judged({"n.yaml": config() + "main_process_port: 29501\n"})
    assert [where.line for where in found.where] == [8, 16]


def test_a_section_that_lost_its_indentation():
    """The fix shows where the key belongs."""
    found = [f for f in judged({"n.yaml": "deepspeed_config:\nzero_stage: 2\n" + config()}) if "keys_are" in f.check]
    assert found[0].fix == "deepspeed_config: {zero_stage: 2}"


def test_a_key_of_another_version_warns():
    """It may be one that the installed accelerate knows."""
    assert [str(found.verdict) for found in judged({"n.yaml": config(brand_new="1")})] == ["warn"]


LOST = ["deepspeed_multinode_launcher: standard", "gradient_clipping: 1.0", "zero_stage: 2"]


def test_a_section_that_a_web_page_left_without_indentation_is_one_finding():
    """The lines are named, the patch indents them, and the settings are judged as if they were."""
    text = config(distributed_type="DEEPSPEED").replace("downcast", "\n".join(["deepspeed_config:", *LOST, "downcast"]))
    (found,) = judged({"n.yaml": text})
    assert (found.check, found.fix) == ("launch.keys_are_indented", "Indent lines 5 to 7 by two blanks.")
    (right,) = fixed({"n.yaml": text}).texts.values()
    assert right.split("\n")[3:7] == ["deepspeed_config:", *(f"  {line}" for line in LOST)]
    assert rules({"n.yaml": right}) == []


@pytest.mark.parametrize(
    ("section", "keys"),
    [
        ("deepspeed_config", ("deepspeed_multinode_launcher: standard", "zero_stage: 3", "zero3_init_flag: true")),
        ("deepspeed_config", ("offload_optimizer_device: cpu", "gradient_accumulation_steps: 2")),
        ("fsdp_config", ("fsdp_version: 2", "fsdp_offload_params: false")),
        ("megatron_lm_config", ("megatron_lm_tp_degree: 2", "megatron_lm_pp_degree: 2")),
        ("parallelism_config", ("parallelism_config_dp_shard_size: 2", "parallelism_config_tp_size: 2")),
        ("dynamo_config", ("dynamo_backend: INDUCTOR", "dynamo_mode: default")),
        ("mpirun_config", ("mpirun_ccl: '1'", "mpirun_hostfile: hosts")),
        ("fp8_config", ("fp8_format: HYBRID", "amax_history_len: 1024")),
        ("ipex_config", ("ipex: true", "ipex_fusion_enabled: false")),
    ],
)
def test_every_section_is_known_by_its_keys(section, keys):
    """Without indentation they are found from the first to the last; one alone may be at home there."""
    head = config()
    first = len(head.splitlines()) + 2
    found = judged({"n.yaml": f"{head}{section}:\n" + "\n".join(keys) + "\n"})
    (one,) = [held for held in found if held.check == "launch.keys_are_indented"]
    assert value_in(one.message, "section") == section
    assert [where.line for where in one.where] == [first, first + len(keys) - 1]
    assert [edit.lines for edit in one.edits] == [(f"  {key.replace(chr(39), '')}",) for key in keys]
    alone = judged({"n.yaml": f"{head}{section}:\n{keys[0]}\n"})
    assert "launch.keys_are_indented" not in [held.check for held in alone]
