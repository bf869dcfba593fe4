"""Is a variable judged alike where the nodes of a run have it and where a launch file sets it?"""

from __future__ import annotations

import shlex

import pytest

from preflight.knowledge.variables.interfaces import GLOO, NAMES, NCCL
from preflight.knowledge.variables.leftovers import LEFTOVERS
from preflight.knowledge.variables.names import ROWS
from preflight.testing import healthy, roce
from tests.checks.samples import judge
from tests.launch.samples import judged
from tests.shares import shares

CHECKS = (
    "environment.variables_exist",
    "environment.values_are_possible",
    "environment.nothing_is_left_from_debugging",
    "network.interface_variables_match_an_interface",
)
RULES = (
    "nccl_variables_are_known",
    "nccl_variables_are_safe",
    "cuda_launches_do_not_block",
    "variables_have_values_that_count",
    "interface_leads_to_other_nodes",
)
TORCHRUN = "torchrun --nnodes=2 --nproc_per_node=8 --node_rank=0 --master_addr=10.0.0.1 --master_port=29500 train.py\n"
VALUES = [
    (row.name, value)
    for row in ROWS.values()
    if row.name not in NAMES
    for value in (row.kind.taken, row.kind.refused)
    if value
]
HELD = [(row.name, value) for row in LEFTOVERS for value in (row.example, row.neighbour)]
# Addresses, what leads home, and what leads to others; the nodes have lo and eth0.
INTERFACES = ("10.0.0.1", "lo", "=lo", "docker0", "^docker0", "^docker", "lo,eth0", "eth0", "^docker,lo")
SLIPS = ("NCCL_IFNAME", "NCCL_FOO", "NCC_DEBUG", "TORCH_DISTRIBUTED_DEBUGG", "TORCH_MY_OWN", "GLOO_IFNAME", "FOO")


def on_nodes(run, name, value):
    """The verdicts of the checks other than a pass, where every node has the variable by --env."""
    run = run.with_variables(*run.names, **{name: value})
    return {str(found.verdict) for check in CHECKS for found in judge(check, run)} & {"warn", "fail", "error"}


def in_file(name, value, *, cluster=None, more=""):
    """The verdicts of the same rules about a script that exports it before torchrun."""
    text = f"{more}export {name}={shlex.quote(value)}\n{TORCHRUN}"
    rules = {f"launch.{rule}" for rule in RULES}
    return {str(found.verdict) for found in judged({"node0.sh": text}, cluster) if found.check in rules}


SET = dict.fromkeys(
    [*VALUES, *HELD, *((name, value) for name in (NCCL, GLOO) for value in INTERFACES)]
    + [(name, "1") for name in SLIPS]
)


@pytest.mark.parametrize("share", shares(4))
def test_a_value_gets_one_verdict_in_both_places(share):
    """Every row of variables and of leftovers, at what it takes and what it does not."""
    verdicts = {pair: (in_file(*pair), on_nodes(healthy(2), *pair)) for pair in share.of(SET)}
    assert {pair: both for pair, both in verdicts.items() if both[0] != both[1]} == {}


@pytest.mark.parametrize("row", [row for row in LEFTOVERS if row.needs_rdma], ids=lambda row: row.name)
def test_what_harms_rdma_alone_is_reported_where_there_is_some(row):
    """The nodes show it, or another variable of the file does; a cluster without RDMA is left alone."""
    assert on_nodes(roce(2), row.name, row.example) == {"warn"}
    assert in_file(row.name, row.example, cluster=roce(2).cluster) == {"warn"}
    assert in_file(row.name, row.example, more="export NCCL_IB_HCA=mlx5_0\n") == {"warn"}
    assert in_file(row.name, row.example, cluster=healthy(2).cluster) == set()
    assert in_file(row.name, row.neighbour, cluster=roce(2).cluster) == set()
