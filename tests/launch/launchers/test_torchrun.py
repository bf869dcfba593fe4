"""Are torchrun's command lines read as torchrun reads them, and are those that are written right?"""

from __future__ import annotations

import pytest

from preflight.launch.write import write_files
from tests.launch.nodes import cluster
from tests.launch.plans import launch, launches, values
from tests.launch.samples import judged


def test_a_command_without_options_has_torchruns_own_defaults():
    """One node, one process and the static rendezvous, told as the tool's and not as the file's."""
    found = launch("torchrun t.py\n")
    assert values(found) == {
        "nodes": 1,
        "fewest_nodes": 1,
        "processes_per_node": 1,
        "world_size": 1,
        "master_port": 29500,
        "rendezvous": "static",
        "program": "t.py",
    }
    assert {found[name]["origin"] for name in ("nodes", "processes_per_node", "master_port")} == {"tool"}


@pytest.mark.parametrize("program", ["torchrun", "python -m torch.distributed.run"])
def test_options_in_either_spelling_and_the_program_behind_them(program):
    """With dashes or underscores, with = or a blank; the program's own options are not torchrun's."""
    text = (
        f"{program} --nnodes=2 --nproc-per-node 8 --node_rank=1 --master_addr n1 --master-port=29511 t.py --nnodes 9\n"
    )
    found = values(launch(text))
    assert found == {
        "nodes": 2,
        "fewest_nodes": 2,
        "node_rank": 1,
        "processes_per_node": 8,
        "world_size": 16,
        "master_address": "n1",
        "master_port": 29511,
        "rendezvous": "static",
        "program": "t.py",
    }


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--nnodes=1:4", {"fewest_nodes": 1, "nodes": 4}),
        ("--nproc-per-node=gpu", {"processes_per_node": "gpu", "world_size": None}),
        ("--rdzv-backend=c10d --rdzv-endpoint=n1", {"master_address": "n1", "master_port": 29400}),
        ("--rdzv-endpoint=[fd00::1]:29511", {"master_address": "[fd00::1]", "master_port": 29511}),
        ("--rdzv-backend=c10d --rdzv-endpoint=n1:1 --master-addr=n2", {"master_address": "n1"}),
        ("--rdzv-backend=c10d --master-addr=n2", {"master_address": None}),
        ("--rdzv-id=$SLURM_JOB_ID", {"rendezvous_id": "$SLURM_JOB_ID"}),
    ],
)
def test_where_the_agents_meet(words, expected):
    """The endpoint's own port and address; --master-addr is for the static rendezvous only."""
    found = values(launch(f"torchrun {words} t.py\n"))
    assert {name: found.get(name) for name in expected} == expected


def test_its_variables_stand_in_for_options():
    """PET_... where they are exported; the option of the command wins."""
    found = launch("export PET_NNODES=2 PET_NODE_RANK=1\nPET_NPROC_PER_NODE=4\nPET_MASTER_ADDR=n1 torchrun t.py\n")
    expected = {"nodes": 2, "node_rank": 1, "processes_per_node": 1, "master_address": "n1"}
    assert {name: values(found)[name] for name in expected} == expected
    assert values(launch("PET_NNODES=2 torchrun --nnodes=3 t.py\n"))["nodes"] == 3


def test_a_bundle_of_options_from_outside_leaves_everything_open():
    """No default is taken for what the variable may say."""
    assert values(launch("torchrun $ARGS t.py\n")) == {"program": "t.py"}


def test_a_number_that_is_none_is_told_with_its_option():
    """And is unknown from there on."""
    messages = [found.message for found in judged({"n.sh": "torchrun --nnodes=two --master-port= t.py\n"})]
    assert "--nnodes is 'two'; wanted a number" in messages
    assert "--master_port is ''; wanted a number" in messages


def test_what_is_written_is_read_as_it_was_meant():
    """A file for each node, with its rank, the address of the first and every process."""
    texts = write_files("torchrun", cluster(3), folder="/x", program=("train.py", "--name", "it's a run"))
    found = [values(start) for start in launches(texts)]
    assert [start["node_rank"] for start in found] == [0, 1, 2]
    assert {(start["nodes"], start["processes_per_node"], start["world_size"]) for start in found} == {(3, 8, 24)}
    assert {(start["master_address"], start["master_port"]) for start in found} == {("10.0.0.1", 29500)}
    assert all("--name" in text and "it's a run" not in text.replace("'\"'\"'", "") for text in texts.values())


@pytest.mark.parametrize(
    ("command", "is_told"),
    [
        ("torchrun train.py --nproc_per_node=2 --nnodes=2 --node_rank=1", True),
        ("torchrun train.py --nnodes 2 --rdzv-id 1", True),
        ("torchrun --nnodes 1 train.py --nnodes 2 --node_rank=1", False),
        ("torchrun train.py --node_rank 1 --lr 2", False),
        ("torchrun $ARGS train.py --nnodes 2 --node_rank=1", False),
    ],
)
def test_options_behind_the_program_are_not_torchruns(command, is_told):
    """Each node then trains alone, without a word; a program may have one such option of its own."""
    found = [one.check for one in judged({"n.sh": f"{command}\n"})]
    assert ("launch.options_stand_before_the_program" in found) == is_told


@pytest.mark.parametrize(
    ("option", "meant"),
    [("--nproc_per_nodes=2", "--nproc_per_node"), ("-nnodes=2", "--nnodes"), ("--rdvz_backend=c10d", "--rdzv_backend")],
)
def test_a_misspelt_option_is_told_with_what_was_meant(option, meant):
    """torchrun stops; what is like nothing of its own is the program's."""
    found = [one for one in judged({"n.sh": f"torchrun {option} t.py\n"}) if one.check == "launch.options_are_known"]
    assert [one.fix for one in found] == [meant]
    (other,) = judged({"n.sh": "torchrun --brand_new=1 t.py\n"})
    assert other.fix == "--brand_new behind the program, if it is the program's"
