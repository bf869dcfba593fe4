"""Are llamafactory-cli's variables read as it reads them?"""

from __future__ import annotations

import pytest

from preflight.launch.write import write_files
from tests.launch.nodes import cluster
from tests.launch.plans import launch, launches, values
from tests.launch.samples import failed, rules

LINE = "NNODES=2 NODE_RANK={} NPROC_PER_NODE=8 MASTER_ADDR=n1 MASTER_PORT=29511 llamafactory-cli train x.yaml\n"


def test_nodes_and_ranks_come_from_variables():
    """It starts torchrun with them, static."""
    found = launch(LINE.format(1))
    assert found["launcher"] == "llamafactory"
    expected = {
        "nodes": 2,
        "node_rank": 1,
        "processes_per_node": 8,
        "master_address": "n1",
        "master_port": 29511,
        "rendezvous": "static",
    }
    assert {name: values(found)[name] for name in expected} == expected


def test_without_variables_it_is_one_node():
    """By its own defaults, told as such; how many processes there are is not told."""
    found = launch("llamafactory-cli train x.yaml\n")
    assert (found["nodes"]["value"], found["nodes"]["origin"], "node_rank" in found) == (1, "tool", False)
    assert "processes_per_node" not in values(found)


@pytest.mark.parametrize("words", ["webui", "chat x.yaml", "version", ""])
def test_only_train_is_a_start_of_a_job(words):
    """Its other commands serve or show something."""
    assert launches({"n.sh": f"llamafactory-cli {words}\n"}) == []


def test_two_nodes_of_one_rank_are_found():
    """As with any other launcher whose nodes are numbered by hand."""
    assert failed({"n0.sh": LINE.format(0), "n1.sh": LINE.format(1)}) == []
    assert failed({"n0.sh": LINE.format(0), "n1.sh": LINE.format(0)}) == ["ranks_are_distinct"]


def test_the_files_that_are_written_start_one_configuration_on_every_node():
    """By the variables that it reads."""
    files = write_files("llamafactory", cluster(), folder="/x", program=("sft.yaml",))
    assert sorted(files) == ["node1.sh", "node2.sh"]
    found = launch(files["node2.sh"])
    assert (values(found)["nodes"], values(found)["node_rank"], values(found)["processes_per_node"]) == (2, 1, 8)
    assert "llamafactory-cli train sft.yaml" in files["node1.sh"]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (
            "NNODES=2 MASTER_ADDR=a MASTER_PORT=2900 FORCE_TORCHRUN=1 lmf train x.yaml",
            "static_rendezvous_has_node_ranks",
        ),
        ("NNODES=2 NODE_RANK=0 MASTER_PORT=2900 FORCE_TORCHRUN=1 lmf train x.yaml", "master_address_is_given"),
        ("NNODES=2 NODE_RANK=0 MASTER_ADDR=a MASTER_PORT=2900 llamafactory-cli train x.yaml", "torchrun_is_forced"),
        ("NNODES=2 NODE_RANK=0 MASTER_ADDR=a FORCE_TORCHRUN=1 lmf train x.yaml", "master_port_is_the_same_everywhere"),
        ("NNODES=2 MASTER_ADDR=a NPROC_PER_NODE=8 swift sft --model m", "static_rendezvous_has_node_ranks"),
    ],
)
def test_what_a_node_of_several_needs(text, rule):
    """Its number, the address of rank 0, and torchrun where it has one GPU; ms-swift reads the same variables."""
    assert rules({"n.sh": text + "\n"}) == [rule]


def test_one_node_needs_nothing():
    """Neither a number nor an address."""
    for text in (
        "llamafactory-cli train x.yaml",
        "NPROC_PER_NODE=8 swift sft --model m",
        "FORCE_TORCHRUN=1 lmf train x",
    ):
        assert rules({"n.sh": text + "\n"}) == []


@pytest.mark.parametrize(
    "text",
    [
        "RDZV_ID=x NNODES=2 MASTER_ADDR=a MASTER_PORT=2900 FORCE_TORCHRUN=1 lmf train x.yaml\n",
        "RDZV_ID=x MIN_NNODES=1 MAX_NNODES=3 MASTER_ADDR=a MASTER_PORT=2900 FORCE_TORCHRUN=1 lmf train x.yaml\n",
        "USE_MCA=1 NNODES=2 NODE_RANK=0 MASTER_ADDR=a MASTER_PORT=2900 lmf train x.yaml\n",
    ],
)
def test_what_makes_it_start_torchrun_otherwise(text):
    """RDZV_ID lets the nodes agree on their ranks; Megatron's backends force torchrun."""
    assert rules({"n.sh": text}) == []
