"""Are llamafactory-cli's variables read as it reads them?"""

from __future__ import annotations

import pytest

from preflight.errors import UsageError
from preflight.launch.write import write_files
from tests.launch.nodes import cluster
from tests.launch.plans import launch, launches, values
from tests.launch.samples import failed

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
    assert (found["nodes"]["value"], found["nodes"]["origin"], found["node_rank"]["value"]) == (1, "tool", 0)
    assert "processes_per_node" not in values(found)


@pytest.mark.parametrize("words", ["webui", "chat x.yaml", "version", ""])
def test_only_train_is_a_start_of_a_job(words):
    """Its other commands serve or show something."""
    assert launches({"n.sh": f"llamafactory-cli {words}\n"}) == []


def test_two_nodes_of_one_rank_are_found():
    """As with any other launcher whose nodes are numbered by hand."""
    assert failed({"n0.sh": LINE.format(0), "n1.sh": LINE.format(1)}) == []
    assert failed({"n0.sh": LINE.format(0), "n1.sh": LINE.format(0)}) == ["ranks_are_distinct"]


def test_no_files_are_written_for_it():
    """Its settings stand in a file of the user's own."""
    with pytest.raises(UsageError, match="--launcher llamafactory"):
        write_files("llamafactory", cluster(), folder="/x")
