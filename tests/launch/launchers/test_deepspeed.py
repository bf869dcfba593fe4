"""Hostfiles, filters and environment files of DeepSpeed."""

from __future__ import annotations

import pytest

from preflight.errors import UsageError
from preflight.launch.rules.check import check_texts
from tests.launch.samples import BATCHES, DEEPSPEED, HOSTFILE, failed, judged, rules

FILES = {"hostfile": HOSTFILE, "run.sh": DEEPSPEED, "ds.json": BATCHES}


def test_the_plan_takes_nodes_and_slots_from_the_hostfile():
    """Two hosts of eight slots; --exclude takes one away."""
    plan = check_texts(FILES)[1].plans[0]
    assert (plan.nodes.value, plan.processes_per_node.value, plan.world_size.value) == (2, 8, 16)
    fewer = DEEPSPEED.replace("--hostfile=hostfile", "--hostfile=hostfile --exclude=worker-2")
    assert check_texts({"hostfile": HOSTFILE, "run.sh": fewer})[1].plans[0].nodes.value == 1


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (HOSTFILE + "worker-1 slots=8\n", "hostfile_names_a_host_once"),
        (HOSTFILE + "worker-3 slot=8\n", "hostfile_lines_are_read"),
        (HOSTFILE + "worker-3\n", "hostfile_lines_are_read"),
        (HOSTFILE + "worker-3 slots=0\n", "hostfile_lines_are_read"),
    ],
)
def test_lines_that_deepspeed_refuses(text, rule):
    """A host twice, a misspelt or missing slots."""
    assert rule in failed({"hostfile": text})
    assert rules({"hostfile": HOSTFILE + "# a comment\n\n"}) == []


def test_a_host_twice_leaves_the_number_of_nodes_open():
    """One mistake is one finding: no batch is judged by hosts that were not meant."""
    files = {"hostfile": HOSTFILE + "worker-1 slots=8\n", "run.sh": DEEPSPEED}
    assert check_texts(files)[1].plans[0].nodes is None


@pytest.mark.parametrize(
    "option", ["--include=worker-9", "--include=worker-1:0,8", "--include=worker-1 --exclude=worker-2"]
)
def test_filters_name_what_the_hostfile_has(option):
    """Unknown hosts, slots beyond, and both filters at once."""
    script = DEEPSPEED.replace("--hostfile=hostfile", f"--hostfile=hostfile {option}")
    assert failed({"hostfile": HOSTFILE, "run.sh": script}) == ["hostfile_and_filters_agree"]


def test_export_has_no_place_in_deepspeed_env():
    """DeepSpeed takes all before the = for the name."""
    (found,) = judged({".deepspeed_env": "export NCCL_DEBUG=INFO\n"})
    assert found.fix == "NCCL_DEBUG=INFO"


def test_broken_json_is_one_line_with_its_place():
    """A comma that is missing before line 3."""
    with pytest.raises(UsageError, match=r"ds\.json:3: not JSON"):
        check_texts({"ds.json": '{\n  "fp16": {}\n  "bf16": {}\n}'})


def test_num_gpus_counts_on_every_host():
    """Whatever its slots say: a host with fewer gets as many processes as the others."""
    files = {"hostfile": HOSTFILE.replace("2 slots=8", "2 slots=4"), "run.sh": DEEPSPEED}
    assert "hostfile_and_filters_agree" not in rules(files)
    files["run.sh"] = DEEPSPEED.replace("--hostfile", "--num_gpus=8 --hostfile")
    assert "hostfile_and_filters_agree" in failed(files)


@pytest.mark.parametrize(("address", "found"), [("10.0.0.1", []), ("10.0.1.1", ["master_address_is_rank_0s"])])
def test_a_number_is_one_of_the_hostfile(address, found):
    """Where all of them are numbers; it may be another address of the first host."""
    run = DEEPSPEED.replace("10.0.0.1", address).replace(" --deepspeed ds.json", "")
    assert rules({"hostfile": "10.0.0.1 slots=8\n10.0.0.2 slots=8\n", "run.sh": run}) == found


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("worker-1", []),
        ("worker-1.lan", []),
        ("worker-1-ib0", []),
        ("127.0.0.1", ["master_address_leads_to_rank_0"]),
        ("head", ["master_address_is_rank_0s"]),
    ],
)
def test_a_name_is_one_of_the_hostfile(address, found):
    """With a domain, or for another network of the same host."""
    run = DEEPSPEED.replace("10.0.0.1", address).replace(" --deepspeed ds.json", "")
    assert rules({"hostfile": HOSTFILE, "run.sh": run}) == found
