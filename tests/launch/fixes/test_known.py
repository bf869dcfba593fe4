"""Are the words that a fix leaves open filled in where the files or the nodes tell them?"""

from __future__ import annotations

import pytest

from preflight.judge.ledger.findings import Finding, Verdict, Where
from preflight.launch.fixes.known import ways
from preflight.launch.read import read_texts
from preflight.said import knowing, said
from tests.launch.nodes import cluster

HOLE = "--master_addr: <address of rank 0's node>"


def of(text, fix, line, *, message="m", check="launch.master_address_is_given", nodes=None):
    """The fixes that may be meant for a line of a script."""
    files = read_texts({"a.sh": text})
    found = Finding(check, Verdict.FAIL, (), message, fix, (Where("a.sh", line),))
    return list(ways(found, files, nodes))


@pytest.mark.parametrize(
    ("line", "first"),
    [
        ("head_node_ip=$(hostname -I)", "--master_addr=$head_node_ip"),
        ("export MASTER_ADDR=$(scontrol show hostnames | head -n 1)", "--master_addr=$MASTER_ADDR"),
        ('master_host="${nodes[0]}"', "--master_addr=$master_host"),
        ("MASTER_ADDR=localhost", HOLE),
        ("MASTER_PORT=$((29000 + 1))", HOLE),
        ("nodes_ip=( $LIST )", HOLE),
    ],
)
def test_a_variable_above_that_leads_to_rank_0(line, first):
    """By its name, and where it holds something that is worked out."""
    assert of(f"{line}\ntorchrun t.py\n", HOLE, 2)[0] == first


def test_the_first_of_the_nodes():
    """With --hosts its address is known; a port of the endpoint stays."""
    nodes = cluster()
    address = nodes.at(0).address_for_peers()
    text = "torchrun --rdzv_endpoint=localhost:1234 t.py\n"
    assert of(text, HOLE, 1, nodes=nodes)[0] == f"--master_addr={address}"
    endpoint = "the address of --rdzv_endpoint: <address of rank 0's node>"
    assert of(text, endpoint, 1, nodes=nodes)[0] == f"--rdzv_endpoint={address}:1234"
    assert of(text, HOLE, 1) == [HOLE]


def test_values_that_differ_are_all_meant_in_turn():
    """The one of most files first."""
    message = knowing("they differ", held={"1": [Where("a.sh", 1)], "2": [Where("b.sh", 1)]})
    fix = said("{name}: {strip} in every file", "--nnodes", 1)
    assert of("torchrun t.py\n", fix, 1, message=message) == [
        "--nnodes: 1 in every file", "--nnodes: 1 in every file", "--nnodes: 2 in every file"
    ]  # fmt: skip


def test_the_command_that_starts_every_node_is_the_users_own():
    """As it stands there, over all of its lines; what has a number of a task is left to the task's shell."""
    message = said("the batch script runs on the first of {value} nodes only", 2)
    text = 'A=1 torchrun --node_rank=$SLURM_NODEID \\\n  t.py --name "a b"\n'
    found = of(text, "srun torchrun t.py", 1, message=message, check="launch.every_node_is_started")
    assert found[0] == 'A=1 srun bash -c "torchrun --node_rank=\\$SLURM_NODEID t.py --name \\"a b\\""'
    plain = of("torchrun t.py\n", "srun torchrun t.py", 1, message=message, check="launch.every_node_is_started")
    assert plain == ["srun torchrun t.py", "srun --ntasks=2 --ntasks-per-node=1 torchrun t.py"]
