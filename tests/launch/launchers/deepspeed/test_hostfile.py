"""The hosts of a hostfile, and those that the filters leave."""

from __future__ import annotations

import pytest

from preflight.launch.rules.check import check_texts
from tests.launch.samples import DEEPSPEED, HOSTFILE, failed, rules


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
