"""Are `composer` and `fabric run` read as they read their own words?"""

from __future__ import annotations

import pytest

from tests.launch.plans import launch, values
from tests.launch.samples import failed, rules

COMPOSER = "composer -n 8 --world_size 16 --node_rank {} --master_addr n1 --master_port 7501 train.py x.yaml\n"
FABRIC = "fabric run --devices=8 --num-nodes=2 --node-rank={} --main-address=n1 --accelerator=cuda train.py\n"


def test_composer_counts_ranks_and_fabric_nodes():
    """Both of them as two nodes of eight processes."""
    expected = {"nodes": 2, "node_rank": 1, "processes_per_node": 8, "world_size": 16, "master_address": "n1"}
    for text, name, port in ((COMPOSER, "composer", 7501), (FABRIC, "fabric", 29400)):
        found = launch(text.format(1))
        assert found["launcher"] == name
        assert {field: values(found)[field] for field in expected} == expected
        assert values(found)["master_port"] == port


def test_composer_takes_variables_and_the_first_rank_of_a_node():
    """LOCAL_WORLD_SIZE and the others of its own names stand in for options; rank 8 of 16 is node 1."""
    shared = "export WORLD_SIZE=16 LOCAL_WORLD_SIZE=8 MASTER_ADDR=n1 MASTER_PORT=7501\n"
    found = values(launch(f"{shared}composer --base_rank 8 train.py\n"))
    assert (found["nodes"], found["node_rank"], found["master_port"]) == (2, 1, 7501)


def test_the_older_word_of_lightning():
    """`lightning run model` is what `fabric run` was called before."""
    assert values(launch(FABRIC.format(0).replace("fabric run", "lightning run model")))["program"] == "train.py"


@pytest.mark.parametrize("text", [COMPOSER, FABRIC])
def test_right_ones_are_silent(text):
    """A file for each node."""
    assert rules({"n0.sh": text.format(0), "n1.sh": text.format(1)}) == []


@pytest.mark.parametrize(
    ("text", "old", "new", "rule"),
    [
        (COMPOSER, "--node_rank 0 ", "", "static_rendezvous_has_node_ranks"),
        (COMPOSER, "--master_addr n1 ", "", "master_address_is_given"),
        (COMPOSER, "--master_port 7501 ", "", "master_port_is_the_same_everywhere"),
        (COMPOSER, "--node_rank 0", "--node_rank 2", "rank_is_in_range"),
        (FABRIC, "--node-rank=0 ", "", "static_rendezvous_has_node_ranks"),
        (FABRIC, "--main-address=n1 ", "", "master_address_is_given"),
        (FABRIC, "--main-address=n1", "--main-address=n1 --main-port=70000", "master_port_is_valid"),
    ],
)
def test_what_is_missing_is_told(text, old, new, rule):
    """Each by its rule."""
    right = text.format(0)
    assert old in right
    assert failed({"n.sh": right.replace(old, new)}) == [rule]
