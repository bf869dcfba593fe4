"""Are values told that accelerate refuses, and are those the ones that its own code refuses?"""

from __future__ import annotations

import pytest

from preflight.launch.launchers.accelerate.schema import ALLOWED, KEYS_OF_FSDP, OF_VERSION_2
from preflight.launch.rules.check import check_texts

FSDP = "distributed_type: FSDP\nnum_machines: 1\nnum_processes: 8\nmachine_rank: 0\nfsdp_config:\n  fsdp_version: {}\n"


def told(text):
    """Rule and verdict of every finding about a file."""
    return [(one.check.removeprefix("launch."), str(one.verdict)) for one in check_texts({"a.yaml": text})[0]]


@pytest.mark.parametrize(
    ("version", "line", "is_refused"),
    [
        (2, "fsdp_reshard_after_forward: FULL_SHARD", True),
        (2, "fsdp_reshard_after_forward: true", False),
        (2, "reshard_after_forward: SHARD_GRAD_OP", True),
        (2, "fsdp_state_dict_type: LOCAL_STATE_DICT", True),
        (1, "fsdp_state_dict_type: LOCAL_STATE_DICT", False),
        (1, "fsdp_auto_wrap_policy: TRANSFORMER_WRAP", True),
        (1, "fsdp_auto_wrap_policy: transformer_based_wrap", False),
        (1, "fsdp_backward_prefetch: BACKWARD_PRE", False),
        (3, "fsdp_offload_params: false", True),
    ],
)
def test_a_value_that_its_version_does_not_know_is_refused(version, line, is_refused):
    """In capitals or not, with the prefix or without."""
    assert told(f"{FSDP.format(version)}  {line}\n") == ([("values_are_allowed", "fail")] if is_refused else [])


def test_the_fix_is_accepted():
    """What is proposed is a value that the same rule lets pass."""
    text = f"{FSDP.format(2)}  fsdp_reshard_after_forward: FULL_SHARD\n"
    (found,) = check_texts({"a.yaml": text})[0]
    assert told(f"{FSDP.format(2)}  {found.fix}\n") == []


def test_the_rows_are_accelerates_own():
    """Whatever its constants list is allowed here."""
    constants = pytest.importorskip("accelerate.utils.constants")
    listed = {
        "fsdp_config.fsdp_auto_wrap_policy": constants.FSDP_AUTO_WRAP_POLICY,
        "fsdp_config.fsdp_state_dict_type": constants.FSDP_STATE_DICT_TYPE,
        "fsdp_config.fsdp_backward_prefetch": constants.FSDP_BACKWARD_PREFETCH,
        "fsdp_config.fsdp_sharding_strategy": constants.FSDP_SHARDING_STRATEGY,
        "deepspeed_config.deepspeed_multinode_launcher": constants.DEEPSPEED_MULTINODE_LAUNCHERS,
    }
    assert {name for name, values in listed.items() if not set(values) <= set(ALLOWED[name])} == set()


@pytest.mark.parametrize("key", ["reshard_after_forward", "state_dict_type"])
def test_accelerate_itself_refuses_what_the_second_version_does_not_have(key):
    """Its plugin raises for the values that the row of version 2 leaves out."""
    plugin = pytest.importorskip("accelerate.utils").FullyShardedDataParallelPlugin
    value = {"reshard_after_forward": "FULL_SHARD", "state_dict_type": "LOCAL_STATE_DICT"}[key]
    assert value not in OF_VERSION_2[f"fsdp_config.fsdp_{key}"]
    with pytest.raises(ValueError, match=r"(?i)full_shard|local_state_dict"):
        plugin(fsdp_version=2, **{key: value})


@pytest.mark.parametrize(
    ("line", "is_told"),
    [
        ("fsdp_offload_parms: true", True),
        ("cpu_offload: true", True),
        ("fsdp_offload_params: true", False),
        ("offload_params: true", False),
    ],
)
def test_a_key_of_fsdp_config_that_nobody_reads_is_told(line, is_told):
    """accelerate takes it without a word; one without the prefix is read."""
    assert (("keys_are_known", "warn") in told(f"{FSDP.format(2)}  {line}\n")) is is_told


def test_the_keys_of_fsdp_config_are_the_options_of_accelerate():
    """Each that its own parser has is known here."""
    launch = pytest.importorskip("accelerate.commands.launch")
    options = {word for action in launch.launch_command_parser()._actions for word in action.option_strings}
    theirs = {word.removeprefix("--") for word in options if word.startswith("--fsdp_")}
    assert theirs <= {*KEYS_OF_FSDP}
